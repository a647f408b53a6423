"""Assessments and information loss for a person: tables on a terminal, a line per guarantee elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from privpipe.cli.console import plain_cell, print_json, print_table, put, say
from privpipe.html_tables import figure

if TYPE_CHECKING:
    from privpipe.blocks import Verdict
    from privpipe.judging import Assessment
    from privpipe.judging.column_loss import LossTable
    from privpipe.policy import Policy

__all__ = ["passed_with", "show_alarms", "show_assessment", "show_lost", "tell_where"]


TEXTS = 3
"""Columns of the table that are texts; the others are figures, but for the last two."""


def show_alarms(lost: LossTable | None) -> None:
    """Columns that lost all, before anything else is printed."""
    from privpipe.reporting.release_report import alarm_lines

    for line in alarm_lines({} if lost is None else lost.documents()):
        put(line)


def show_lost(lost: LossTable | None) -> None:
    """The table."""
    if lost is None or not lost.columns:
        return
    from rich.table import Table

    from privpipe.reporting.release_report import LOST_HEAD, lost_rows, lost_text

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
    for note in (*assessment.notes, *assessment.source_notes):
        put(f"note: {note}")
    show_lost(assessment.lost)
    sys.stdout.flush()  # before what is printed next on stderr


def tell_where(policy: Policy, assessment: Assessment) -> None:
    """On stderr, for logs: each guarantee that does not hold, without its figures, and where the policy asks for it."""
    for verdicts in (assessment.verdicts, assessment.whole.verdicts if assessment.whole is not None else ()):
        asked = dict(enumerate(policy.guarantees))
        for verdict in verdicts:
            at = next((at for at, guarantee in asked.items() if guarantee.name() == verdict.name), None)
            if at is not None:
                del asked[at]
            if verdict.blocks:
                place = "built in" if at is None else policy.located(f"guarantees[{at}].{verdict.name}")
                say(f"{place}: {verdict.entry!r} {'does not hold' if verdict.outcome == 'fail' else 'was not judged'}")


def _heading(assessment: Assessment) -> str:
    parts = [f"{assessment.records:,} records judged"]
    if assessment.classes is not None:
        parts.append(f"{assessment.classes:,} classes")
    parts.append(f"{assessment.suppressed_records:,} suppressed")
    engine = assessment.run.get("engine")
    return ", ".join(parts) + (f" (engine: {engine})" if engine else "")


def _print_on_terminal(assessment: Assessment) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_edge=False, pad_edge=False)
    for name in ("guarantee", "observed", "asked", "outcome", "failing records"):
        table.add_column(name, justify="right" if name in ("observed", "asked", "failing records") else "left")
    for verdict in (*assessment.built_in, *assessment.verdicts):
        outcome = Text(_outcome(verdict), style="bold yellow" if verdict.warns else f"bold {COLOURS[verdict.outcome]}")
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


def _outcome(verdict: Verdict) -> str:
    return f"WARNING ({verdict.outcome.upper()})" if verdict.warns else verdict.outcome.upper()


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
