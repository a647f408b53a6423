"""Minimal sample uniques: the smallest sets of columns on which a record is unique."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit

__all__ = ["MinimalUniques", "dis_scores", "minimal_uniques", "size_weights"]


@dataclass(frozen=True)
class MinimalUniques:
    """Every minimal sample unique of some rows.

    Parameters
    ----------
    rows : int
        t, the number of distinct combinations.
    columns : int
        m.
    owner : ndarray of int64, shape (k,)
        Row of each.
    masks : ndarray of int64, shape (k,)
        Its columns, as bits.
    """

    rows: int
    columns: int
    owner: Ints
    masks: Ints

    def sizes(self) -> Ints:
        """Columns of each, shape (k,)."""
        return np.bitwise_count(self.masks).astype(np.int64)

    def scores(self, weights: Floats) -> Floats:
        """Sum over the minimal uniques of each row of the weight of their size, shape (t,)."""
        table = np.zeros((self.rows, self.columns + 1))
        np.add.at(table, (self.owner, self.sizes()), 1.0)
        return _dot(table, weights)

    def shares(self, weights: Floats) -> Floats:
        """Share of the total score in minimal uniques that hold each column, shape (m,); NaN without a score."""
        sizes = self.sizes()
        held = [(self.masks >> at) & 1 for at in range(self.columns)]
        by_size = np.array(
            [np.bincount(sizes, weights=bits, minlength=self.columns + 1) for bits in (*held, sizes > 0)]
        )
        totals = _dot(by_size, weights)
        return totals[:-1] / totals[-1] if totals[-1] > 0 else np.full(self.columns, np.nan)


def minimal_uniques(codes: Ints, counts: Ints, max_size: int | None = None) -> MinimalUniques:
    """Every set S of columns on which a row is unique, and is not on any proper subset of S.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Distinct combinations, m at most 62; -1 is a blank, whose row takes no part in sets with that column.
    counts : ndarray of int64, shape (t,)
        Records of each.
    max_size : int, optional
        Columns of the largest sets.

    Notes
    -----
    A walk over the sets in which every subset of a set comes before it. Each step splits the groups of the previous set
    by one more column and drops rows that are unique, since none of their larger sets is minimal, and groups without a
    row of a single record; a row found to be unique is looked up among its own sets.

    Examples
    --------
    >>> found = minimal_uniques(np.array([[0, 0], [0, 1], [1, 0]]), np.array([2, 1, 1]))
    >>> found.owner.tolist(), found.masks.tolist()
    ([2, 1], [1, 2])
    """
    rows, columns = codes.shape
    # The column with most values comes first and is in most of the sets: its groups are the smallest.
    levels = [int(column.max(initial=-1)) + 1 for column in codes.T]
    by_levels = np.argsort(levels, kind="stable")
    sorted_codes = read_only(codes[:, by_levels].T, np.int32)
    most = columns if max_size is None else min(max_size, columns)
    owner, masks = _walk(sorted_codes, read_only(counts, np.int64), max(levels, default=0), most)
    real = np.zeros_like(masks)
    for bit, column in enumerate(by_levels.tolist()):
        real |= ((masks >> bit) & 1) << column
    order = np.lexsort((owner, real))
    return MinimalUniques(rows, columns, owner[order], real[order])


def size_weights(columns: int, weighted: bool) -> Floats:
    """The score that a minimal unique of each size 0 .. m adds: (m-s)!, or (2^(m-s)-1) s!(m-s)!/m!.

    Examples
    --------
    >>> size_weights(3, False).tolist(), size_weights(3, True).tolist()
    ([0.0, 2.0, 1.0, 1.0], [0.0, 1.0, 0.3333333333333333, 0.0])
    """
    one: Any = (
        (lambda s: (2 ** (columns - s) - 1) / math.comb(columns, s))
        if weighted
        else (lambda s: math.factorial(columns - s))
    )
    return np.array([0.0, *(float(one(s)) for s in range(1, columns + 1))])


def dis_scores(scores: Floats, paired: int, columns: int, fraction: float) -> Floats:
    """Probability that a match with a record is right, by Data Intrusion Simulation, spread by the scores.

    Parameters
    ----------
    scores : ndarray of float64, shape (n,)
    paired : int
        Records in classes of exactly two.
    columns : int
        m.
    fraction : float
        Sampling fraction of the simulation, in (0, 1).

    Returns
    -------
    ndarray of float64, shape (n,)
        In [0, 1]; 0 where the score is 0. Without pairs all others are 1.

    Examples
    --------
    >>> dis_scores(np.array([6.0, 0.0, 12.0]), 2, 4, 0.01).round(6).tolist()
    [0.007197, 0.0, 0.016381]
    """
    positive = scores > 0
    found = np.zeros(len(scores))
    power = 1.0 + (8 - columns) / 20
    raised = scores[positive] ** power
    inverse = math.fsum(1.0 / raised)  # exact, so independent of the order of the rows
    # U/d - U with d = U f / (U f + P (1 - f)), U unique records and P in pairs; the same for any U.
    others = paired * (1 - fraction) / fraction
    found[positive] = 1.0 / (1.0 + others / (raised * inverse))
    return found


def _dot(table: Floats, weights: Floats) -> Floats:
    """Rows times weights, added up column by column: a library's own order depends on the shape."""
    found = np.zeros(len(table))
    for column, weight in zip(table.T, weights.tolist(), strict=True):
        found += column * weight
    return found


@njit(cache=True, nogil=True)
def _is_minimal(mask: int, entry: int, masks: Any, following: Any) -> bool:
    """Whether none of a record's sets so far, a list from `entry` on, is a subset of this one."""
    while entry >= 0:
        if masks[entry] & mask == masks[entry]:
            return False
        entry = following[entry]
    return True


@njit(cache=True, nogil=True)
def _twice(values: Any) -> Any:
    return np.concatenate((values, values))


@njit(cache=True, nogil=True)
def _give_places(
    levels: Any, records: Any, members: Any, places: Any, starts: Any, filled: int, made: int
) -> tuple[int, int]:
    """Where the rows of each level go: -1 unique, -2 nowhere; how many places they fill, and groups made so far."""
    for level in levels:
        if records[level] == 1:
            places[level] = -1
        elif places[level] == 0:
            places[level] = -2  # no record here can become unique
        else:
            places[level] = filled
            filled += members[level]
            made += 1
            starts[made] = filled
    return filled, made


@njit(cache=True, nogil=True)
def _walk(codes: Any, counts: Any, levels: int, most: int) -> tuple[Any, Any]:
    """Visit the sets in ascending order as binary numbers: each adds a lower column to an earlier one."""
    m, t = codes.shape
    rows = np.empty((most + 1, t), np.int32)
    starts = np.zeros((most + 1, t + 1), np.int64)
    groups = np.zeros(most + 1, np.int64)
    records, members = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    places, touched = np.zeros(levels, np.int64), np.empty(levels, np.int64)
    head, found = np.full(t, -1, np.int64), 0
    owner, masks, following = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    for row in range(t):
        rows[0, row] = row
    groups[0], starts[0, 1] = min(t, 1), t
    column, limit, depth = np.zeros(most + 1, np.int64), m, 0  # the next column to add at each depth
    chosen = np.zeros(most + 1, np.int64)
    while depth >= 0:
        limit = m if depth == 0 else column[depth - 1] - 1
        if depth == most or column[depth] >= limit or groups[depth] == 0:
            column[depth] = 0
            depth -= 1
            continue
        j = column[depth]
        column[depth] += 1
        mask = chosen[depth] | (np.int64(1) << j)
        filled = np.int64(0)
        made = np.int64(0)
        for g in range(groups[depth]):
            start, stop = starts[depth, g], starts[depth, g + 1]
            seen = 0
            for row in rows[depth, start:stop]:
                level = codes[j, row]
                if level < 0:
                    continue
                if members[level] == 0:
                    touched[seen] = level
                    seen += 1
                    places[level] = 0
                records[level] += counts[row]
                members[level] += 1
                places[level] |= counts[row] == 1
            filled, made = _give_places(touched[:seen], records, members, places, starts[depth + 1], filled, made)
            for row in rows[depth, start:stop]:
                level = codes[j, row]
                if level < 0 or places[level] == -2:
                    continue
                if places[level] >= 0:
                    rows[depth + 1, places[level]] = row
                    places[level] += 1
                    continue
                if not _is_minimal(mask, head[row], masks, following):
                    continue
                if found == len(owner):
                    owner, masks, following = _twice(owner), _twice(masks), _twice(following)
                owner[found], masks[found], following[found] = row, mask, head[row]
                head[row] = found
                found += 1
            for level in touched[:seen]:
                records[level] = members[level] = 0
        groups[depth + 1] = made
        chosen[depth + 1] = mask
        depth += 1
        column[depth] = 0
    return owner[:found].copy(), masks[:found].copy()
