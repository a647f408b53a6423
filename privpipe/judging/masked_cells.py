"""Counts of a table for people, joined until none of them rests on fewer records than may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Cell", "joined_bins", "pooled_cells"]

Counts = tuple[int, ...]
"""Records of a cell in each of the tables that are shown side by side."""


@dataclass(frozen=True)
class Cell:
    """One line of a distribution.

    Parameters
    ----------
    labels : tuple of int
        Positions of what it counts: of bins that lie beside each other, or of labels.
    counts : tuple of int
        Records in each table: none, or at least as many as may be shown.
    """

    labels: tuple[int, ...]
    counts: Counts


def _fits(counts: Counts, least: int) -> bool:
    return all(not count or count >= least for count in counts)


def _sum(left: Counts, right: Counts) -> Counts:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def joined_bins(counts: Sequence[Counts], least: int) -> list[Cell]:
    """Bins in their order, each joined with the next ones until it may be shown; the last with those before it.

    Nothing where all of them together are too few.

    Examples
    --------
    >>> [(cell.labels, cell.counts) for cell in joined_bins([(3, 0), (9, 0), (6, 20), (1, 2)], 5)]
    [((0, 1), (12, 0)), ((2, 3), (7, 22))]
    >>> joined_bins([(3, 0)], 5)
    []
    """
    cells: list[Cell] = []
    open_cell: Cell | None = None
    for at, found in enumerate(counts):
        labels, so_far = (open_cell.labels, open_cell.counts) if open_cell else ((), (0,) * len(found))
        open_cell = Cell((*labels, at), _sum(so_far, tuple(found)))
        if any(open_cell.counts) and _fits(open_cell.counts, least):
            cells.append(open_cell)
            open_cell = None
    while open_cell is not None and any(open_cell.counts):
        if not cells:
            return []
        before = cells.pop()
        open_cell = Cell((*before.labels, *open_cell.labels), _sum(before.counts, open_cell.counts))
        if _fits(open_cell.counts, least):
            cells.append(open_cell)
            open_cell = None
    return cells


def pooled_cells(counts: Sequence[Counts], least: int, most: int) -> tuple[list[int], Cell | None]:
    """Labels that may be shown, largest first and `most` of them at the most, and the others as one cell.

    Where the others together are too few, shown labels join them, smallest first: no count follows from the rest of
    the table. None for the others where there are none; no label and no cell where all together are too few.

    Examples
    --------
    >>> shown, others = pooled_cells([(9, 8), (30, 28), (3, 0), (50, 50)], 5, 10)
    >>> shown, others
    ([3, 1], Cell(labels=(0, 2), counts=(12, 8)))
    """
    order = sorted(range(len(counts)), key=lambda at: (-sum(counts[at]), at))
    shown = [at for at in order if _fits(counts[at], least)][:most]
    rest = [at for at in order if at not in set(shown)]
    if not rest:
        return shown, None
    pooled = Cell(tuple(sorted(rest)), _total(counts, rest))
    while not _fits(pooled.counts, least):
        if not shown:
            return [], None
        rest.append(shown.pop())
        pooled = Cell(tuple(sorted(rest)), _total(counts, rest))
    return shown, pooled


def _total(counts: Sequence[Counts], places: Sequence[int]) -> Counts:
    return tuple(sum(column) for column in zip(*(counts[at] for at in places), strict=True))
