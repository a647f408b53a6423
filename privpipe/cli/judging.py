"""``privpipe assess`` and ``privpipe validate``: the gate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from privpipe.cli import completing
from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import say
from privpipe.cli.verdicts import passed_with, show_assessment
from privpipe.errors import Refused, UsageError

if TYPE_CHECKING:
    from privpipe.judging import Assessment

__all__ = ["assess", "validate"]


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
    """Judge the policy's source as it is.

    Nothing is transformed or published. Exit code 5 when a guarantee fails.
    """
    from privpipe.running.verbs import assess as judge

    rules = loaded(policy)
    if show_records is not None:
        from privpipe.running.record_list import write_record_risks

        records = write_record_risks(rules, show_records, engine=engine)
        say(f"risks of {records:,} single records written; they are data about people: keep them like the source")
    _end(judge(None, rules, engine=engine), json=json)


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
            help="Format of DATA; left out, taken from its name.",
            show_default=False,
            autocompletion=completing.formats,
        ),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Between the fields of a CSV file.", show_default=False)
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
    """Judge a finished table, whoever made it.

    The gate alone, for tables of other pipelines. Exit code 5 when a guarantee fails.
    """
    from privpipe.running.validating import validate as judge

    rules, how = loaded(policy), _alignment(align)
    judged = judge(
        data, rules, original=original, align=how, format=format, delimiter=delimiter, table=table, engine=engine
    )
    _end(judged, json=json)


def _end(assessment: Assessment, *, json: bool) -> None:
    show_assessment(assessment, json=json)
    if assessment.passed:
        say(f"{passed_with(assessment)}.")
        return
    say("FAILED: a guarantee does not hold.")
    raise typer.Exit(Refused.exit_code)


def _alignment(how: str) -> Literal["record_id", "position"]:
    if how == "position":
        return "position"
    if how == "record_id":
        return "record_id"
    raise UsageError(f"--align must be record_id or position, not {how!r}")
