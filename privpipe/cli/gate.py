"""``privpipe assess`` and ``privpipe validate``: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from privpipe.cli import arguments
from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import outcome_stands, say
from privpipe.cli.verdicts import passed_with, show_assessment, tell_where
from privpipe.errors import Refused, UsageError

if TYPE_CHECKING:
    from privpipe.judging import Assessment
    from privpipe.policy import Policy

__all__ = ["assess", "validate"]


OF_DELTA = ("version", "timestamp")
OF_ICEBERG = ("catalog", "snapshot", "branch", "tag")
NUMBERS = ("version", "snapshot")


def assess(
    policy: PolicyArgument,
    engine: EngineOption = None,
    show_records: Annotated[
        str | None,
        typer.Option(
            "--show-records",
            metavar="FILE",
            help="Also write the risk of every single record, by its record_id, to a new .csv or .parquet file.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Judge the policy's source without changing it.

    Nothing is transformed or published. Exit code 5 when a guarantee fails.
    """
    from privpipe.running.verbs import assess as judge

    rules = loaded(policy)
    if show_records is not None:
        from privpipe.running.kept_records import write_record_risks

        records = write_record_risks(rules, show_records, engine=engine)
        say(f"risks of {records:,} single records written; they are data about people: keep them like the source")
    _end(rules, judge(None, rules, engine=engine), json=json)


def validate(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A finished table: a file or a folder of files.")],
    policy: PolicyArgument,
    original: Annotated[
        str | None,
        typer.Option("--original", metavar="PATH", help="The table it was made from.", show_default=False),
    ] = None,
    align: Annotated[
        str, typer.Option("--align", metavar="HOW", help="How records pair with the original: record_id or position.")
    ] = "record_id",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="Format of DATA; left out, taken from its name.",
            show_default=False,
            autocompletion=arguments.formats,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option("--delimiter", metavar="C", help="Between the fields of a CSV file.", show_default=False),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="KEY=VALUE",
            help="version or timestamp of a Delta table; catalog, snapshot, branch or tag of an Iceberg table, "
            "whose name DATA then is. May be given several times.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="NAME",
            help="Table of a database: DATA is a DuckDB or SQLite file, a URL or `postgresql`.",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a finished table, whatever made it.

    The gate alone, for tables of other pipelines. Exit code 5 when a guarantee fails.
    """
    from privpipe.running.verbs import validate as judge

    rules, how = loaded(policy), _alignment(align)
    if at and table is not None:
        raise UsageError("--at names a table of a table format and --table one of a database: leave one of them out")
    named = _table_at(data, at, format=format, delimiter=delimiter) if at else data
    said = None if at else format
    judged = judge(
        named, rules, original=original, align=how, format=said, delimiter=delimiter, table=table, engine=engine
    )
    _end(rules, judged, json=json)


def _table_at(data: str, at: list[str], *, format: str | None, delimiter: str | None) -> dict[str, Any]:
    """What DATA and the `--at` options name, as a mapping of the keys of `source:`."""
    if delimiter is not None or format not in (None, "delta"):
        raise UsageError("--at names a table of a table format: leave --format and --delimiter out")
    found: dict[str, Any] = {}
    for each in at:
        key, equals, value = each.partition("=")
        if not equals or key not in (*OF_DELTA, *OF_ICEBERG):
            raise UsageError(f"--at takes KEY=VALUE with one of {', '.join((*OF_DELTA, *OF_ICEBERG))}, not {each!r}")
        if key in found:
            raise UsageError(f"--at gives {key} twice")
        if key in NUMBERS and not value.isdecimal():
            raise UsageError(f"--at {key} must be a whole number, not {value!r}")
        found[key] = int(value) if key in NUMBERS else value
    return {"iceberg" if set(found) & set(OF_ICEBERG) else "path": data, **found}


def _end(policy: Policy, assessment: Assessment, *, json: bool) -> None:
    outcome = "the verdict stands"
    with outcome_stands(outcome):
        show_assessment(assessment, json=json)
    if assessment.passed:
        say(f"{passed_with(assessment)}.")
        return
    with outcome_stands(outcome):
        tell_where(policy, assessment)
    say("FAILED: a guarantee does not hold.")
    raise typer.Exit(Refused.exit_code)


def _alignment(how: str) -> Literal["record_id", "position"]:
    if how == "position":
        return "position"
    if how == "record_id":
        return "record_id"
    raise UsageError(f"--align must be record_id or position, not {how!r}")
