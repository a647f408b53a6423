"""What a finished table must be before it is judged: whole, without doubles, and a table that adds up."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from math import prod

import numpy as np

from privpipe.errors import DataError
from privpipe.tables.audit_problem import product
from privpipe.tables.cells import Cells
from privpipe.tables.finished_tables import FinishedTable

__all__ = ["absent_note", "require_counts", "require_margins", "require_sums", "require_told_apart"]

PLACES = 3
"""Totals that a message names."""


def require_told_apart(name: str, labels: Sequence[str], total: str) -> None:
    """Refuse labels of a dimension that readers take for one, or for the total.

    Raises
    ------
    DataError

    Examples
    --------
    >>> require_told_apart("region", ["Total", "North", "South"], "Total")
    """
    alike = [label for label in labels if label != total and label.strip().casefold() == total.strip().casefold()]
    if alike:
        raise DataError(
            f"dimension {name!r}: {len(alike)} labels read as the label of the total ({total!r}), and are not it; "
            "rename them, or write `total:` as the table does"
        )
    doubled = len(labels) - len({label.strip() for label in labels})
    if doubled:
        raise DataError(f"dimension {name!r}: {doubled} labels differ from others by spaces alone; give each one text")


def require_margins(table: str, cells: Cells) -> None:
    """Refuse a table in which a cell has a row and a total above it has none.

    Raises
    ------
    DataError
    """
    missing = cells.missing_totals
    if missing:
        where = ", ".join(f"{number:,} along {name!r}" for name, number in missing.items())
        raise DataError(
            f"table {table!r}: totals have no row: {where}; give each total of its cells a row (label "
            f"{cells.dimensions[0].total!r} of all), blank where it is suppressed"
        )


def require_counts(table: str, counts: FinishedTable, *, weighted: bool) -> None:
    """Refuse counts below 0, and fractions where they are no sums of weights.

    Raises
    ------
    DataError
    """
    negative = int(((counts.values < 0) & ~counts.blank).sum())
    if negative:
        raise DataError(
            f"table {table!r}: {negative:,} counts of {counts.response!r} are negative; publish null, and no number, "
            "for a suppressed one"
        )
    if counts.decimals and not weighted:
        raise DataError(f"table {table!r}: counts of {counts.response!r} are no whole numbers")


def require_sums(table: str, figures: FinishedTable) -> None:
    """Refuse totals of which all parts are published and do not add up to it.

    Raises
    ------
    DataError
        It shows how many, and of the first ones where and by how much: all of these figures are published.
    """
    if figures.low is not None:
        return
    relations = figures.cells.relations
    rests = product(relations, np.where(figures.blank, 0, figures.values))
    hidden = product(abs(relations), figures.blank.astype(np.int64))
    wrong = np.flatnonzero((np.asarray(hidden) == 0) & (np.asarray(rests) != 0))
    if not len(wrong):
        return
    totals = [_described(figures, int(row), int(rests[row])) for row in wrong[:PLACES]]
    more = f"; and {len(wrong) - PLACES:,} more" if len(wrong) > PLACES else ""
    raise DataError(
        f"table {table!r}: the table does not add up: {len(wrong):,} totals of {figures.response!r} are not the sum of "
        f"their parts: {'; '.join(totals)}{more}"
    )


def _described(figures: FinishedTable, row: int, rest: int) -> str:
    cells, relations = figures.cells, figures.cells.relations
    entries = slice(relations.indptr[row], relations.indptr[row + 1])
    columns, values = relations.indices[entries], relations.data[entries]
    whole, part = int(columns[values > 0][0]), int(columns[values < 0][0]) if (values < 0).any() else -1
    along = ""
    if part >= 0:
        place = int(np.flatnonzero(cells.codes[whole] != cells.codes[part])[0])
        along = f" along {cells.dimensions[place].name!r}"
    labels = ", ".join(
        f"{dimension.name}={dimension.labels[code]}"
        for dimension, code in zip(cells.dimensions, cells.codes[whole], strict=True)
    )
    amount = format(abs(Decimal(rest).scaleb(-figures.decimals)), "f")
    return f"({labels}){along} is {amount} {'more' if rest > 0 else 'less'} than they"


def absent_note(table: str, cells: Cells) -> str | None:
    """What a verdict states about combinations of labels without a row."""
    absent = prod(cells.shape) - len(cells)
    return (
        f"table {table!r}: {absent:,} combinations of labels have no row and were taken for 0, as readers take them"
        if absent > 0
        else None
    )
