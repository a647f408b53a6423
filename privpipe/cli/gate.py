"""``privpipe assess`` and ``privpipe validate``: the gate alone, and how verdicts are shown."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from privpipe.cli import arguments
from privpipe.cli.arguments import EngineOption, JsonOption, PolicyArgument, loaded
from privpipe.cli.console import outcome_stands, plain_cell, print_json, print_table, put, say
from privpipe.errors import Refused, UsageError
from privpipe.html_tables import figure

if TYPE_CHECKING:
    from privpipe.blocks import Verdict
    from privpipe.judging import Assessment
    from privpipe.judging.column_loss import LossTable
    from privpipe.policy import Policy

__all__ = ["assess", "passed_with", "show_alarms", "show_assessment", "show_lost", "tell_where", "validate"]

MOST_NOTES = 5
"""On a terminal; all are in the record."""


TEXTS = 3
"""Columns of the table that are texts; the others are figures, but for the last two."""


def show_alarms(lost: LossTable | None) -> None:
    """Columns that lost all, before anything else is printed."""
    from privpipe.reporting.report import alarm_lines

    for line in alarm_lines({} if lost is None else lost.documents()):
        put(line)


def show_lost(lost: LossTable | None) -> None:
    """The table."""
    if lost is None or not lost.columns:
        return
    from rich.table import Table

    from privpipe.reporting.report import LOST_HEAD, lost_rows, lost_text

    document = lost.documents()["column_loss"]
    table = Table(show_edge=False, pad_edge=False, title="what was lost", title_justify="left")
    for at, name in enumerate(LOST_HEAD):
        table.add_column(name, justify="right" if TEXTS <= at < len(LOST_HEAD) - 2 else "left")
    for row in lost_rows(document):
        table.add_row(*map(plain_cell, row))
    put("")
    print_table(table)
    put(lost_text(document))


SIGNS = {"at_least": ">=", "at_most": "<=", "below": "<"}
COLOURS = {"pass": "green", "fail": "red", "error": "red"}


def show_assessment(assessment: Assessment, *, json: bool) -> None:
    """The verdict document on stdout, or the same for a person."""
    if json:
        print_json(assessment.to_dict())
        return
    from privpipe.reporting.officer.languages import by_gravity

    show_alarms(assessment.lost)
    for warning in assessment.warnings:
        put(f"WARNING {warning}")
    put(_heading(assessment))
    if sys.stdout.isatty():
        _print_on_terminal(assessment)
    else:
        for verdict in (*assessment.built_in, *assessment.verdicts):
            put(verdict)
        for verdict in assessment.measures:
            put(f"{'':5} {verdict.entry!r}: {verdict.reason}")
    if assessment.whole is not None:
        put(f"the whole table: {_heading(assessment.whole)}")
        for verdict in assessment.whole.verdicts:
            put(verdict)
    notes = by_gravity((*assessment.notes, *assessment.source_notes))
    for note in notes[:MOST_NOTES]:
        put(f"note: {note}")
    if more := len(notes[MOST_NOTES:]):
        put(f"note: {more} more: `--json` prints all, and the private record of a release holds them")
    show_lost(assessment.lost)
    sys.stdout.flush()  # before what is printed next on stderr


def tell_where(policy: Policy, assessment: Assessment) -> None:
    """On stderr, for logs: each guarantee that does not hold, without its figures, and where the policy asks for it."""
    for verdicts in (assessment.verdicts, assessment.whole.verdicts if assessment.whole is not None else ()):
        asked: dict[int, Any] = dict(enumerate(_asked_for(policy)))
        for verdict in verdicts:
            at = next((at for at, guarantee in asked.items() if guarantee.name() == verdict.name), None)
            if at is not None:
                del asked[at]
            if verdict.blocks:
                alone = "built in" if policy.related is None else "of one table"
                place = alone if at is None else policy.located(f"guarantees[{at}].{verdict.name}")
                say(f"{place}: {verdict.entry!r} {'does not hold' if verdict.outcome == 'fail' else 'was not judged'}")


def _asked_for(policy: Policy) -> Sequence[Any]:
    """The guarantees of a policy, in the order of its document; of related tables, those over the set."""
    if policy.related is not None:
        return policy.related.guarantees
    return policy.guarantees or (policy.tables.guarantees if policy.tables else ())


def _heading(assessment: Assessment) -> str:
    from privpipe.tables.entries import CellGuarantee

    of_cells = any(isinstance(verdict.entry, CellGuarantee) for verdict in assessment.verdicts)
    parts = [f"{assessment.records:,} {'cells' if of_cells else 'records'} judged"]
    if of_cells:
        return parts[0]
    if assessment.classes is not None:
        parts.append(f"{assessment.classes:,} classes")
    parts.append(f"{assessment.suppressed_records:,} suppressed")
    engine = assessment.run.get("engine")
    return ", ".join(parts) + (f" (engine: {engine})" if engine else "")


def _print_on_terminal(assessment: Assessment) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    for name in ("guarantee", "observed", "required", "outcome", "failing records"):
        table.add_column(name, justify="right" if name in ("observed", "asked", "failing records") else "left")
    for verdict in (*assessment.built_in, *assessment.verdicts):
        outcome = Text(
            f"WARNING ({verdict.outcome.upper()})" if verdict.warns else verdict.outcome.upper(),
            style="bold yellow" if verdict.warns else f"bold {COLOURS[verdict.outcome]}",
        )
        table.add_row(_title(verdict), figure(verdict.observed), _asked(verdict), outcome, _failing(verdict))
    for verdict in assessment.measures:
        table.add_row(_title(verdict), figure(verdict.observed), "", "measured", "")
    print_table(table)
    for verdict in (*assessment.failed, *assessment.warned):
        put(f"{verdict.name}: {verdict.reason}")


def passed_with(assessment: Assessment) -> str:
    """What is printed last of a table that passed: that all holds, or what the warnings leave of it."""
    warned = len(assessment.warned)
    if not warned:
        return "PASSED: every guarantee holds"
    return f"PASSED WITH {warned} WARNING{'S' if warned > 1 else ''}: every guarantee that can refuse holds"


def _title(verdict: Verdict) -> Any:
    """Name and parameters but the threshold; no markup, as column names may hold brackets."""
    threshold = getattr(verdict.entry, "threshold_field", None)
    shown = [
        f"{name}={', '.join(value) if isinstance(value, tuple) and all(isinstance(v, str) for v in value) else value}"
        for name, value in verdict.parameters.items()
        if name != threshold and value != getattr(type(verdict.entry), name, None)
    ]
    return plain_cell(f"{verdict.name}{' ' + ', '.join(shown) if shown else ''}")


def _asked(verdict: Verdict) -> str:
    if verdict.threshold is None:
        return ""
    direction = getattr(verdict.entry, "direction", None) or getattr(verdict.entry, "threshold_field", None)
    return f"{SIGNS.get(str(direction), '')} {figure(verdict.threshold)}".strip()


def _failing(verdict: Verdict) -> str:
    if verdict.failing_records is None:
        return ""
    share = f" ({verdict.failing_share:.2%})" if verdict.failing_share else ""
    return f"{verdict.failing_records:,}{share}"


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
    intervals: Annotated[
        str | None,
        typer.Option(
            "--intervals",
            metavar="FILE",
            help="For tables: write the interval an attacker can derive for each blank figure to a new .csv or .html.",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = None,
    json: JsonOption = False,
) -> None:
    """Judge a finished table, whatever made it.

    The gate alone, for tables of other pipelines: of records, or of cells where the policy has `aggregate`. Exit code 5
    when a guarantee fails.
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
    if intervals is not None:
        _keep_intervals(rules, named, judged, intervals, original, said, delimiter)
    _end(rules, judged, json=json)


def _keep_intervals(
    policy: Policy,
    data: Any,
    judged: Assessment,
    path: str,
    original: str | None,
    format: str | None,
    delimiter: str | None,
) -> None:
    if policy.tables is None:
        raise UsageError("--intervals is for tables of cells, and the policy judges records")
    from privpipe.running.kept_intervals import write_intervals

    how = {name: value for name, value in (("format", format), ("delimiter", delimiter)) if value is not None}
    figures = write_intervals(policy, data, judged, path, original, **how)
    say(f"intervals of {figures:,} blank figures written; only people who may see these figures may read them")


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
