"""What the leaves of columns cost at some levels, added one by one in their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats
from privpipe.compiled import SMALL, njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["LeafCosts", "products"]

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


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
