"""Blanks under wildcard matching, where a record that is blank in every judged column hides no other record.

Nearly all records are covered by blanks in some columns. Those that are not go blank in all: they then match records
that are blank in all as well, of which there must be k, and no longer serve the others, which are covered anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.local_suppression.blank_dropping import BlankingTable, drop_blanks
from privpipe.kernels.local_suppression.covers import blank_costs, cheapest_covers, is_empty, matches
from privpipe.transforms.local_suppression.table import CellTable

__all__ = ["blanking_of", "informative_blanks", "with_few_alone"]

PASSES = 4


def blanking_of(table: CellTable, missing: NDArray[np.uint64] | None = None) -> BlankingTable:
    """What the kernels drop blanks from; with other cells taken for missing in the data, if given."""
    words, own, fields = table.packed
    hidden = own if missing is None else missing
    return BlankingTable(words, hidden, table.judged_bits, fields, table.counts, table.weights, table.sets[1])


def informative_blanks(table: CellTable) -> tuple[NDArray[np.int64], int]:
    """Columns to blank as bits, a combination each, and how many records no blanks help.

    Independent covers, and what became unnecessary dropped; then the lightest cell of records that would stay alone
    and complete beyond what is allowed.
    """
    alone = np.zeros(len(table), dtype=np.bool_)
    if table.columns == 1 and _blankable(table).any():
        # The only cell of such a record is all of it.
        spare = np.flatnonzero(table.exposed & _blankable(table))
        alone[spare[: table.alone_too_many(np.zeros(len(table), dtype=np.int64))]] = True
    covers, lost = _covers(table, alone)
    if lost:
        return covers, lost
    kept = table.packed[1].copy()
    kept[alone] |= table.packed[2][0]
    loose = np.where(alone, 0, covers)
    blanks = drop_blanks(blanking_of(table, kept), loose, table.k, passes=PASSES, most=table.sets[1][loose])
    blanks = with_few_alone(table, np.where(alone, covers, blanks))
    return blanks, table.alone_too_many(blanks)


def with_few_alone(table: CellTable, blanks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blank the lightest cell of as many records as must not stay alone and complete; then drop what that spares.

    A cell more adds matches, as long as its record does not become blank in every judged column.
    """
    excess = table.alone_too_many(blanks)
    if not excess:
        return blanks
    lightest = int(table.completing[np.argmin(table.weights[table.completing])])
    cell = np.int64(1) << lightest
    chosen = np.flatnonzero(table.left_alone(blanks))
    if table.columns == 1:
        chosen = chosen[~_blankable(table)[chosen]]
    chosen = chosen[:excess]
    found = blanks.copy()
    found[chosen] |= cell
    kept = table.packed[1].copy()
    kept[chosen] |= table.packed[2][lightest]
    dropped = drop_blanks(blanking_of(table, kept), np.where(found == blanks, blanks, 0), table.k)
    dropped[chosen] |= found[chosen]
    cost = table.sets[1]
    cheaper = blank_costs(dropped, table.counts, cost) < blank_costs(found, table.counts, cost)
    return dropped if cheaper and not table.alone_too_many(dropped) else found


def _blankable(table: CellTable) -> NDArray[np.bool_]:
    """Combinations that can become blank in every judged column: what must match is missing in them."""
    own = [at for at in table.judged if at >= table.columns]
    return np.asarray((table.codes[:, own] < 0).all(axis=1) & bool(table.judged), dtype=np.bool_)


def _covers(table: CellTable, alone: NDArray[np.bool_]) -> tuple[NDArray[np.int64], int]:
    """Feasible blanks of every combination, each by itself, and how many records have none.

    Parameters
    ----------
    alone : ndarray of bool, shape (t,)
        Combinations that are to be blank in every judged column.
    """
    words, missing, fields = table.packed
    order = table.sets[0]
    born = np.array([is_empty(missing, table.judged_bits, at) for at in range(len(table))], dtype=np.bool_)
    empty, may_be = born | alone, _blankable(table)
    covers = np.zeros(len(table), dtype=np.int64)
    while True:
        rest = np.flatnonzero(~empty)
        part = words[rest], missing[rest], table.judged_bits
        sizes = matches(*part, table.counts[rest])
        covers[rest] = cheapest_covers(*part, fields, table.counts[rest], sizes, order, table.k)
        uncovered = ~empty & (covers < 0)
        if (uncovered & ~may_be).any():
            return covers, int(table.counts[uncovered & ~may_be].sum())
        more = uncovered | _to_fill(table, empty | uncovered, may_be)
        if not more.any():
            break
        empty |= more
    short = _short(table, empty)
    if short.any():
        return covers, int(table.counts[short].sum())
    covers[empty] = (np.int64(1) << table.columns) - 1 & ~table.missing[empty]
    return covers, 0


def _strata(table: CellTable) -> NDArray[np.intp]:
    """Number of the stratum of each combination: who is blank in every judged column is like those in it alone."""
    others = [at for at in range(table.codes.shape[1]) if at not in table.judged]
    if not others or not len(table):
        return np.zeros(len(table), dtype=np.intp)
    return np.unique(table.codes[:, others], axis=0, return_inverse=True)[1].ravel()


def _short(table: CellTable, empty: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Combinations blank in every judged column of which there are fewer than k records."""
    strata = _strata(table)
    sizes = np.bincount(strata, weights=np.where(empty, table.counts, 0))
    return np.asarray(empty & (sizes[strata] < table.k), dtype=np.bool_)


def _to_fill(table: CellTable, empty: NDArray[np.bool_], may_be: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The rarest other combinations that bring those which are too few to k."""
    strata, found = _strata(table), np.zeros(len(table), dtype=np.bool_)
    for stratum in np.unique(strata[_short(table, empty)]).tolist():
        there = int(table.counts[empty & (strata == stratum)].sum())
        others = np.flatnonzero(may_be & ~empty & (strata == stratum))
        others = others[np.argsort(table.counts[others], kind="stable")]
        needed = int(np.searchsorted(there + np.cumsum(table.counts[others]), table.k)) + 1
        found[others[:needed]] = True
    return found
