"""What was lost, for a person: alarms first, then a row a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.cli.console import plain_cell, print_table, put

if TYPE_CHECKING:
    from privpipe.judging.column_loss import LossTable

__all__ = ["show_alarms", "show_lost"]

TEXTS = 3
"""Columns of the table that are texts; the others are figures, but for the last two."""


def show_alarms(lost: LossTable | None) -> None:
    """Columns that lost all, before anything else is said."""
    from privpipe.reporting.lost_columns import alarm_lines

    for line in alarm_lines({} if lost is None else lost.documents()):
        put(line)


def show_lost(lost: LossTable | None) -> None:
    """The table."""
    if lost is None or not lost.columns:
        return
    from rich.table import Table

    from privpipe.reporting.lost_columns import LOST_HEAD, lost_rows, lost_text

    document = lost.documents()["column_loss"]
    table = Table(show_edge=False, pad_edge=False, title="what was lost", title_justify="left")
    for at, name in enumerate(LOST_HEAD):
        table.add_column(name, justify="right" if TEXTS <= at < len(LOST_HEAD) - 2 else "left")
    for row in lost_rows(document):
        table.add_row(*map(plain_cell, row))
    put("")
    print_table(table)
    put(lost_text(document))
