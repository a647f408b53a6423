"""``privpipe assess`` and ``privpipe validate``: the gate alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import say
from privpipe.cli.verdicts import show_assessment
from privpipe.errors import Refused, UsageError, did_you_mean

if TYPE_CHECKING:
    from privpipe.assess import Assessment
    from privpipe.release import Policy

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
    from privpipe.release.facade import assess as judge

    rules = loaded(policy)
    if show_records is not None:
        from privpipe.release.record_list import write_record_risks

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
        str | None, typer.Option("--format", help="Format of DATA; left out, told by its name.", show_default=False)
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Between the fields of a CSV file.", show_default=False)
    ] = None,
    engine: EngineOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a finished table, whoever made it.

    The gate alone, for tables of other pipelines. Exit code 5 when a guarantee fails.
    """
    from privpipe.release.facade import assess as judge

    rules = loaded(policy)
    how = _alignment(align)
    table = _finished(data, rules, format, delimiter)
    first: Any = original
    if original is None and rules.original is not None:
        first = rules.original.to_source(rules.types, rules.base_dir)
    _end(judge(table, rules, original=first, align=how, engine=engine), json=json)


def _end(assessment: Assessment, *, json: bool) -> None:
    show_assessment(assessment, json=json)
    if assessment.passed:
        say("PASSED: every guarantee holds.")
        return
    say("FAILED: a guarantee does not hold.")
    raise typer.Exit(Refused.exit_code)


def _alignment(how: str) -> Literal["record_id", "position"]:
    if how == "position":
        return "position"
    if how == "record_id":
        return "record_id"
    raise UsageError(f"--align must be record_id or position, not {how!r}")


def _finished(data: str, policy: Policy, format: str | None, delimiter: str | None) -> Any:
    """The table to judge: read as our own sink writes it, else as the policy's source is.

    Only sensitive columns, weights and households keep their declared type: quasi-identifiers may have become labels,
    and a column that no guarantee counts may be gone.
    """
    from privpipe.engines import Source

    entries = (*policy.guarantees, *policy.measures)
    weighing = [column for entry in entries for column in entry.record_columns()]
    types = {name: policy.types[name] for name in (*policy.roles.sensitive, *weighing) if name in policy.types}
    chosen: dict[str, Any] = {}
    own = policy.sink is not None and Path(policy.sink.target(policy.base_dir)) == Path(data).absolute()
    if own and policy.sink is not None:
        chosen = {"format": policy.sink.format, "quoted_nulls": False}
    elif policy.source is not None and policy.source.resolved_format == "csv":
        source = policy.source.to_source(types, policy.base_dir)
        chosen = {name: getattr(source, name) for name in ("delimiter", "header", "columns", "null_values")}
    if format is not None:
        chosen["format"] = _format(format)
    if delimiter is not None:
        chosen["delimiter"] = delimiter
    return Source(data=data, types=types, **chosen)


def _format(name: str) -> str:
    from privpipe.release.policy.grammar import SOURCE

    formats = SOURCE["format"].choices
    if name not in formats:
        raise UsageError(f"--format must be one of {', '.join(formats)}, not {name!r}{did_you_mean(name, formats)}")
    return name
