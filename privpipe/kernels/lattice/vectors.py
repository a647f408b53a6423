"""Vectors of levels: which lie below one, a record's class at all of them, witnesses, and what leaves cost at some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, read_only
from privpipe.compiled import SMALL, njit

__all__ = [
    "LeafCosts",
    "added_up",
    "below",
    "chosen_witnesses",
    "class_everywhere",
    "products",
    "raise_bounds",
    "smallest_below",
    "still_alive",
    "under_any",
]


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
FUSED = 3
NEVER = -(1 << 40)
"""Below minus any place in a lattice that is held."""


def raise_bounds(bounds: Floats, chosen: Longs, figures: Floats) -> bool:
    """Raise the bounds of some vectors to these figures where that is higher, in place; whether any was.

    Parameters
    ----------
    bounds, figures : ndarray of float64, shapes (M, 1) and (n, 1)
    chosen : ndarray of int64, shape (n,)
        Distinct rows of `bounds`.

    Examples
    --------
    >>> bounds = np.array([[0.1], [0.5]])
    >>> raise_bounds(bounds, np.array([1, 0]), np.array([[0.4], [0.2]])), bounds.tolist()
    (True, [[0.2], [0.5]])
    """
    higher = figures[:, 0] > bounds[chosen, 0]
    bounds[chosen[higher], 0] = figures[higher, 0]
    return bool(higher.any())


def still_alive(bounds: Floats, alive: Longs, most: float, least: float, winner: int) -> Longs:
    """Vectors whose bound is at most `most`, those of at least `least` only up to the winner in order.

    Parameters
    ----------
    bounds : ndarray of float64, shape (M, 1)

    Examples
    --------
    >>> still_alive(np.array([[0.1], [0.5], [0.5], [0.9]]), np.array([3, 2, 1, 0]), 0.6, 0.5, 1).tolist()
    [1, 0]
    """
    own = bounds[alive, 0]
    left: Longs = alive[~((own > most) | ((own >= least) & (alive > winner)))]
    return left


def below(nodes: NDArray[np.int16], chosen: Longs, top: NDArray[np.int16]) -> Bools:
    """Which of the chosen vectors are at most `top` in every column.

    Parameters
    ----------
    nodes : ndarray of int16, shape (M, m)
    chosen : ndarray of int64, shape (n,)
        Rows of `nodes`.

    Examples
    --------
    >>> nodes = np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int16)
    >>> below(nodes, np.array([0, 1, 2]), np.array([0, 1], dtype=np.int16)).tolist()
    [True, True, False]
    """
    return np.asarray(_below(read_only(nodes, np.int16), read_only(chosen, np.int64), read_only(top, np.int16)))


def smallest_below(nodes: NDArray[np.int16], sizes: Longs, held: int, top: NDArray[np.int16]) -> int:
    """Of the first `held` vectors that are at most `top` in every column, the first of least size; -1: there is none.

    Examples
    --------
    >>> nodes = np.array([[0, 0], [0, 1], [1, 0]], dtype=np.int16)
    >>> smallest_below(nodes, np.array([9, 4, 3]), 3, np.array([0, 1], dtype=np.int16))
    1
    """
    return int(_smallest_below(read_only(nodes, np.int16), read_only(sizes, np.int64), held, read_only(top, np.int16)))


def under_any(tops: NDArray[np.int16], node: Sequence[int]) -> bool:
    """Whether a vector is at most any of some vectors in every column.

    Examples
    --------
    >>> tops = np.array([[0, 2], [1, 1]], dtype=np.int16)
    >>> under_any(tops, (1, 0)), under_any(tops, (1, 2))
    (True, False)
    """
    return bool(_under_any(read_only(tops, np.int16), read_only(node, np.int16)))


def class_everywhere(
    codes: Sequence[NDArray[Any]],
    tables: Sequence[Longs],
    values: NDArray[np.int32],
    counts: Longs,
    shape: tuple[int, ...],
    width: int,
) -> Longs:
    """Records of one combination's class at every vector of levels, by sensitive value.

    One pass adds each combination where its labels first meet; sums along every axis do the rest.

    Parameters
    ----------
    codes : sequence of ndarray of uint16 or int32, shape (t,)
        Packed code of each combination in each group of columns, at least one group.
    tables : sequence of ndarray of int64
        Of each group, by packed code: what its columns add to the place of the lowest vector at which both agree;
        negative where they never do.
    values : ndarray of int32, shape (t,)
        Sensitive value, below `width`.
    shape : tuple of int
        Levels of each column; their product is M.

    Returns
    -------
    ndarray of int64, shape (M, width)

    Examples
    --------
    A column of three levels; the second record joins the first at level 1, the third at level 2.

    >>> class_everywhere([np.array([0, 1, 2], dtype=np.uint16)], [np.array([0, 1, 2])],
    ...     np.zeros(3, dtype=np.int32), np.array([4, 1, 1]), (3,), 1).ravel().tolist()
    [4, 5, 6]
    """
    size = int(np.prod(shape, dtype=np.int64))
    rows, parts = list(codes), list(tables)
    while len(rows) < FUSED:
        rows.append(np.zeros(len(counts), dtype=rows[0].dtype))
        parts.append(np.zeros(1, dtype=np.int64))
    # Further groups are added to the first: what is never met stays negative whatever is added.
    far = np.zeros(len(counts) if len(rows) > FUSED else 0, dtype=np.int64)
    for row, part in zip(rows[FUSED:], parts[FUSED:], strict=True):
        far += np.where(part < 0, NEVER, part)[row]
    found: Longs = _first_met(
        tuple(read_only(row, row.dtype) for row in rows[:FUSED]),
        tuple(read_only(np.where(part < 0, NEVER, part), np.int64) for part in parts[:FUSED]),
        read_only(far, np.int64),
        read_only(values, np.int32),
        read_only(counts, np.int64),
        size,
        width,
    )
    _summed(found, np.array(shape, dtype=np.int64), width)
    return found.reshape(size, width)


@njit(small=SMALL, nogil=True, cache=True)
def _below(nodes: NDArray[np.int16], chosen: Longs, top: NDArray[np.int16]) -> Bools:
    out = np.ones(len(chosen), np.bool_)
    for i in range(len(chosen)):
        for j in range(len(top)):
            if nodes[chosen[i], j] > top[j]:
                out[i] = False
                break
    return out


@njit(small=SMALL, nogil=True, cache=True)
def _smallest_below(nodes: NDArray[np.int16], sizes: Longs, held: int, top: NDArray[np.int16]) -> int:
    best = -1
    for i in range(held):
        if best < 0 or sizes[i] < sizes[best]:
            under = True
            for j in range(len(top)):
                if nodes[i, j] > top[j]:
                    under = False
                    break
            if under:
                best = i
    return best


@njit(small=SMALL, nogil=True, cache=True)
def _under_any(tops: NDArray[np.int16], node: NDArray[np.int16]) -> bool:
    for i in range(len(tops)):
        under = True
        for j in range(len(node)):
            if node[j] > tops[i, j]:
                under = False
                break
        if under:
            return True
    return False


@njit(small=SMALL, nogil=True, cache=True)
def _first_met(
    codes: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    tables: tuple[Longs, Longs, Longs],
    far: Longs,
    values: NDArray[np.int32],
    counts: Longs,
    size: int,
    width: int,
) -> Longs:
    (c0, c1, c2), (t0, t1, t2) = codes, tables
    out = np.zeros(size * width, np.int64)
    for i in range(len(counts)):
        place = t0[c0[i]] + t1[c1[i]] + t2[c2[i]]
        if len(far):
            place += far[i]
        if place >= 0:
            out[place * width + values[i]] += counts[i]
    return out


@njit(small=SMALL, nogil=True, cache=True)
def _summed(out: Longs, shape: Longs, width: int) -> None:
    stride = np.int64(width)
    for axis in range(len(shape) - 1, -1, -1):
        block = stride * shape[axis]
        for start in range(0, len(out), block):
            for i in range(start + stride, start + block):
                out[i] += out[i - stride]
        stride = block


def chosen_witnesses(asked: Bools, numbers: Ints, sizes: Longs, rarity: Floats, codes: Ints, most: int) -> Longs:
    """Up to `most` of some rows: the first by size, rarity and place, then those that differ most from all before.

    Parameters
    ----------
    asked : ndarray of bool, shape (t,)
        Rows to choose from.
    numbers : ndarray of int32, shape (t,)
        Class of each row.
    sizes : ndarray of int64, shape (classes,)
    rarity : ndarray of float64, shape (t,)
        The least is rarest.
    codes : ndarray of int32, shape (t, m)
        Two rows are as far apart as the columns in which they differ; of equally far ones the first in order.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [1, 1]], dtype=np.int32)
    >>> chosen_witnesses(
    ...     np.ones(3, dtype=bool), np.array([0, 1, 1], dtype=np.int32), np.array([1, 2]), np.zeros(3), codes, 2
    ... ).tolist()
    [0, 2]
    """
    found: Longs = _chosen_witnesses(
        read_only(asked, np.bool_),
        read_only(numbers, np.int32),
        read_only(sizes, np.int64),
        read_only(rarity, np.float64),
        read_only(codes, np.int32),
        most,
    )
    return found


def added_up(codes: Ints, figures: Floats, starts: Longs) -> Floats:
    """Sum of one figure per column over the columns of each row, column by column.

    Parameters
    ----------
    codes : ndarray of int32, shape (t, m)
    figures : ndarray of float64
        Figure of each code, the codes of all columns after one another.
    starts : ndarray of int64, shape (m,)
        Where each column's begin.

    Examples
    --------
    >>> added_up(np.array([[1, 0]], dtype=np.int32), np.array([0.5, 1.0, 0.25]), np.array([0, 2])).tolist()
    [1.25]
    """
    return np.asarray(
        _added_up(read_only(codes, np.int32), read_only(figures, np.float64), read_only(starts, np.int64))
    )


@njit(small=SMALL, nogil=True, cache=True)
def _chosen_witnesses(asked: Bools, numbers: Ints, sizes: Longs, rarity: Floats, codes: Ints, most: int) -> Longs:
    count = 0
    for i in range(len(asked)):
        count += asked[i]
    rows = np.empty(count, np.int64)
    count = 0
    for i in range(len(asked)):
        if asked[i]:
            rows[count] = i
            count += 1
    chosen = np.empty(min(most, len(rows)), np.int64)
    apart = np.full(len(rows), codes.shape[1] + 1, np.int64)
    for step in range(len(chosen)):
        best = -1
        for place in range(len(rows)):
            if best >= 0 and apart[place] < apart[best]:
                continue
            row, rival = rows[place], rows[best]
            size, size_of_rival = sizes[numbers[row]], sizes[numbers[rival]]
            sooner = size < size_of_rival or (size == size_of_rival and rarity[row] < rarity[rival])
            if best < 0 or apart[place] > apart[best] or sooner:  # rows ascend: of equal ones the first stays
                best = place
        chosen[step] = rows[best]
        for place in range(len(rows)):
            differ = 0
            for j in range(codes.shape[1]):
                differ += codes[rows[place], j] != codes[rows[best], j]
            apart[place] = min(apart[place], differ)
        apart[best] = -1  # no record is called twice, though others may have the same codes
    return chosen


@njit(small=SMALL, nogil=True, cache=True)
def _added_up(codes: Ints, figures: Floats, starts: Longs) -> Floats:
    out = np.zeros(len(codes), np.float64)
    for i in range(len(codes)):
        total = 0.0
        for j in range(len(starts)):
            total += figures[starts[j] + codes[i, j]]
        out[i] = total
    return out


class _Arrays(NamedTuple):
    """`LeafCosts` as compiled code takes them."""

    records: Floats
    shares: Floats
    kept: Floats
    gone: Floats
    leaves: Longs
    spans: Longs
    first: Longs
    scales: Floats
    unknown: float


@dataclass(frozen=True)
class LeafCosts:
    """Costs of every leaf at every level of every column.

    Parameters
    ----------
    records : ndarray of float64, shape (leaves,)
        Records of each leaf, the leaves of all columns after one another.
    shares, kept, gone : ndarray of float64, shape (n,)
        Share of its domain that a leaf's label at a level stands for, and what a kept and a suppressed record of it
        cost: level after level, column after column.
    leaves : ndarray of int64, shape (n,)
        Leaf of each entry of `kept` and `gone`.
    spans : ndarray of int64, shape (levels of all columns, 2)
        First entry and end of each level.
    first : ndarray of int64, shape (m,)
        Place of each column's first level among `spans`.
    scales : ndarray of float64, shape (m, 2)
        The least cost a column can have, and how far the greatest lies above it.
    unknown : float
        Records that cost 1 at every level.

    Examples
    --------
    One column of two leaves at one level; the first record of three is suppressed.

    >>> costs = LeafCosts(
    ...     np.array([3.0, 1.0]), np.array([0.5, 0.5]), np.array([0.5, 0.5]), np.array([1.0, 1.0]),
    ...     np.array([0, 1]), np.array([[0, 2]]), np.array([0]), np.array([[2.0, 2.0]]), 0.0
    ... )
    >>> costs.units(np.array([1.0, 0.0]), np.array([0])).tolist()
    [0.25]
    """

    records: Floats = field(repr=False)
    shares: Floats = field(repr=False)
    kept: Floats = field(repr=False)
    gone: Floats = field(repr=False)
    leaves: Longs = field(repr=False)
    spans: Longs = field(repr=False)
    first: Longs = field(repr=False)
    scales: Floats = field(repr=False)
    unknown: float

    def units(self, lost: Floats, levels: Longs) -> Floats:
        """Cost of each column at a level with so many records of each leaf suppressed, on its scale, shape (m,)."""
        found: Floats = _units(self._arrays, lost, levels)
        return found

    def raised(
        self,
        least: Floats,
        lost: Floats,
        levels: Longs,
        parts: tuple[Ints, Longs, Longs, Floats],
        base: float,
        slope: float,
    ) -> Floats:
        """Lower bounds by column and level, raised up to the levels of a node by what surely goes, shape (m, L).

        Parameters
        ----------
        least : ndarray of float64, shape (m, L)
            Bounds so far.
        lost : ndarray of float64, shape (leaves,)
            Records of each leaf that surely go.
        levels : ndarray of int64, shape (m,)
        parts : (ndarray of int32, shape (t, at least m), ndarray of int64, ndarray of int64, ndarray of float64)
            Codes of all combinations; those of classes that go in part, class after class; where each class ends;
            its records that surely go.
        base, slope : float
            Such a record costs max(0, base + slope x share) more than a kept one.
        """
        found: Floats = _raised(
            self._arrays, least, lost, levels, (read_only(parts[0], np.int32), *parts[1:]), base, slope
        )
        return found

    @cached_property
    def _arrays(self) -> _Arrays:
        return _Arrays(*(getattr(self, name) for name in _Arrays._fields))


def products(nodes: NDArray[np.int16], figures: Floats) -> Floats:
    """Product of 1 + figure over the columns of each vector of levels, column by column, shape (n,).

    Examples
    --------
    >>> products(np.array([[0, 1]], dtype=np.int16), np.array([[0.5, 0.0], [0.0, 1.0]])).tolist()
    [3.0]
    """
    return np.asarray(_products(read_only(nodes, np.int16), read_only(figures, np.float64)))


@njit(small=SMALL, nogil=True, cache=True)
def _cost(records: Floats, kept: Floats, gone: Floats, leaves: Longs, start: int, end: int, lost: Floats) -> float:
    stays = 0.0
    goes = 0.0
    for i in range(start, end):
        leaf = leaves[i]
        stays += kept[i] * (records[leaf] - lost[leaf])
        goes += gone[i] * lost[leaf]
    return stays + goes


@njit(small=SMALL, nogil=True, cache=True)
def _units(costs: _Arrays, lost: Floats, levels: Longs) -> Floats:
    records, _, kept, gone, leaves, spans, first, scales, unknown = costs
    out = np.zeros(len(levels), np.float64)
    for j in range(len(levels)):
        start, end = spans[first[j] + levels[j]]
        cost = _cost(records, kept, gone, leaves, start, end, lost) + unknown
        if scales[j, 1] != 0.0:
            out[j] = max(0.0, (cost - scales[j, 0]) / scales[j, 1])
    return out


@njit(small=SMALL, nogil=True, cache=True)
def _raised(
    costs: _Arrays,
    least: Floats,
    lost: Floats,
    levels: Longs,
    parts: tuple[Ints, Longs, Longs, Floats],
    base: float,
    slope: float,
) -> Floats:
    records, shares, kept, gone, leaves, spans, first, scales, unknown = costs
    codes, rows, ends, sure = parts
    out = least.copy()
    for j in range(len(levels)):
        if scales[j, 1] == 0.0:
            continue
        more = 0.0
        at = 0
        top = spans[first[j] + levels[j], 0]
        for part in range(len(ends)):
            share = shares[top + codes[rows[at], j]]
            while at < ends[part]:
                share = max(share, shares[top + codes[rows[at], j]])
                at += 1
            more += sure[part] * max(0.0, base + slope * share)
        for level in range(levels[j] + 1):
            start, end = spans[first[j] + level]
            cost = _cost(records, kept, gone, leaves, start, end, lost) + more + unknown
            out[j, level] = max(out[j, level], (cost - scales[j, 0]) / scales[j, 1])
    return out


@njit(small=SMALL, nogil=True, cache=True)
def _products(nodes: NDArray[np.int16], figures: Floats) -> Floats:
    out = np.ones(len(nodes), np.float64)
    for i in range(len(nodes)):
        product = 1.0
        for j in range(len(figures)):
            product *= 1.0 + figures[j, nodes[i, j]]
        out[i] = product
    return out
