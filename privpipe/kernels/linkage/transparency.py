"""Candidates that remain for an intruder who knows the masking method and its parameters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import njit

__all__ = ["Constraint", "Left", "candidates_left", "centroid_constraint", "nearest_constraint", "window_constraint"]

CHUNK = 512
Integers = Ints


@dataclass(frozen=True)
class Constraint:
    """Constraint from one column (or group of columns): a released record fits a target within some intervals.

    Parameters
    ----------
    places : ndarray of int64, shape (n',)
        Place of each released record.
    low, high : ndarray of int64, shape (m, K)
        Ends, included, of the intervals in which the place of a target's record must be; empty where low > high.
    """

    places: Integers = field(repr=False)
    low: Integers = field(repr=False)
    high: Integers = field(repr=False)


@dataclass(frozen=True)
class Left:
    """The released records that remain as candidates for each target.

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Candidates.
    inside : ndarray of bool, shape (m,)
        Whether the true record is among them.
    scores : ndarray of float64, shape (m,)
        1 / t where the true record is among the t nearest candidates, else 0.
    """

    counts: Integers
    inside: Bools
    scores: Floats


def window_constraint(targets: Floats, released: Floats, window: int, bottom: int = 0, top: int = 0) -> Constraint:
    """Rank swapping by a window: the record's value is at most `window` ranks away from the target's, on both sides.

    With R the sorted released values, l and u the first and last position of the target's value (where it would be
    inserted if it does not occur), a record fits if its value is between R[max(l - w, 0)] and R[min(u + w, n - 1)]. A
    target in a tail has the whole tail group. A missing value stays with its record.

    Source: Nin, Herranz, Torra, DKE 64(1), 2008.

    Examples
    --------
    >>> found = window_constraint(np.array([3.0]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 1)
    >>> found.low.tolist(), found.high.tolist(), found.places.tolist()
    ([[1]], [[3]], [0, 1, 2, 3, 4])
    """
    order = np.argsort(released)
    n = int((~np.isnan(released)).sum())
    ranked = released[order[:n]]
    changes = np.append(True, ranked[1:] != ranked[:-1])[:n]
    # The first position of each position's value.
    begins = np.maximum.accumulate(np.where(changes, np.arange(n), 0))
    places = np.full(len(released), -1, dtype=np.int64)
    places[order[:n]] = begins
    low, high = np.full(len(targets), -1), np.full(len(targets), -1)
    known = np.flatnonzero(~np.isnan(targets))
    if n and len(known):
        # In the order of the values, so that successive look-ups are close in memory.
        known = known[np.argsort(targets[known])]
        x = targets[known]
        inner = ranked[bottom : n - top] if bottom + top < n else ranked
        first = np.searchsorted(ranked, x, side="left")
        last = np.maximum(np.searchsorted(ranked, x, side="right") - 1, first)
        begin, end = (bottom, n - 1 - top) if bottom + top < n else (0, n - 1)
        at = np.clip(first - window, begin, end), np.clip(last + window, begin, end)
        from_, to = (begins[ends] for ends in at)
        above, below = x > inner[-1], x < inner[0]
        if top:
            from_, to = np.where(above, n - top, from_), np.where(above, n - 1, to)
        if bottom:
            from_, to = np.where(below, 0, from_), np.where(below, bottom - 1, to)
        low[known], high[known] = from_, to
    return Constraint(places.astype(np.int64), low[:, None].astype(np.int64), high[:, None].astype(np.int64))


def centroid_constraint(targets: Floats, released: Floats) -> Constraint:
    """Microaggregation of one column: groups are intervals, so a target's group is next to its value.

    With centroids c_1 < c_2 < ... and c_a <= x <= c_(a+1) the group is a or a + 1; a value at a centroid may belong to
    that group or to a neighbour; equal centroids are one. Certain where every group is an interval.

    Examples
    --------
    >>> found = centroid_constraint(np.array([1.0, 4.0, 5.0]), np.array([2.0, 5.0, 8.0]))
    >>> list(zip(found.low[:, 0].tolist(), found.high[:, 0].tolist()))
    [(0, 0), (0, 1), (0, 2)]
    """
    centroids = np.unique(released[~np.isnan(released)])
    places = np.where(np.isnan(released), -1, np.searchsorted(centroids, released))
    low, high = np.full(len(targets), -1), np.full(len(targets), -1)
    known = ~np.isnan(targets)
    last = len(centroids) - 1
    if last >= 0 and known.any():
        x = targets[known]
        before = np.searchsorted(centroids, x, side="left") - 1
        after = np.searchsorted(centroids, x, side="right")
        low[known], high[known] = np.clip(before, 0, last), np.clip(after, 0, last)
    return Constraint(places.astype(np.int64), low[:, None].astype(np.int64), high[:, None].astype(np.int64))


def nearest_constraint(targets: Floats, released: Floats, nearest: int) -> Constraint:
    """Microaggregation of several columns: the groups of the nearest centroids, which need not hold the true one.

    Parameters
    ----------
    targets, released : ndarray of float64, shape (m, s) and (n', s)
        On one scale, no value missing.
    nearest : int

    Examples
    --------
    >>> found = nearest_constraint(np.array([[0.0]]), np.array([[1.0], [1.0], [5.0], [9.0]]), 2)
    >>> found.low.tolist()
    [[0, 1]]
    """
    from scipy.spatial import cKDTree

    centroids, places = np.unique(released, axis=0, return_inverse=True)
    count = min(nearest, len(centroids))
    _, found = cKDTree(centroids).query(targets, k=count)
    found = np.sort(np.asarray(found, dtype=np.int64).reshape(len(targets), count), axis=1)
    return Constraint(places.ravel().astype(np.int64), found, found)


def candidates_left(constraints: Sequence[Constraint], targets: Floats, released: Floats, partner: Integers) -> Left:
    """Intersect the constraints of the columns, and take the nearest of the remaining candidates.

    Parameters
    ----------
    constraints : sequence of Constraint
        At least one.
    targets, released : ndarray of float64, shape (m, s) and (n', s)
        Standardised, for the distance inside the candidates.
    partner : ndarray of int64, shape (m,)
        Place of each target's true record.
    """
    order = sorted(range(len(constraints)), key=lambda at: _width(constraints[at]))
    chosen = [constraints[at] for at in order]
    second = chosen[1] if len(chosen) > 1 else chosen[0]
    # Blocks of a quarter of the window, so that few places beyond its ends are visited.
    step = max((int(np.median(chosen[0].high - chosen[0].low)) + 1) // 4, 1)
    blocks = chosen[0].places // step + 1
    by = _in_order(blocks, second.places)
    counted = np.bincount(blocks, minlength=int(chosen[0].high.max(initial=0)) // step + 2)
    widest = max(constraint.low.shape[1] for constraint in chosen)
    low = np.stack([_padded(constraint.low, widest, 0) for constraint in chosen], axis=1)
    high = np.stack([_padded(constraint.high, widest, -1) for constraint in chosen], axis=1)
    at = np.empty(len(by), dtype=np.int64)
    at[by] = np.arange(len(by))
    arrays = (
        read_only(np.stack([constraint.places[by] for constraint in chosen]), np.int32),
        read_only(np.concatenate([[0], np.cumsum(counted)]), np.int64),
        read_only(released[by], np.float64),
    )
    # Targets that need the same places follow one another, so that these are in the cache.
    turns = _in_order(low[:, 0, 0] // step + 1, second.low[:, 0])

    def part(start: int) -> tuple[Integers, Bools, Floats]:
        rows = turns[start : start + CHUNK]
        found: tuple[Integers, Bools, Floats] = _left(
            *arrays,
            step,
            read_only(low[rows], np.int64),
            read_only(high[rows], np.int64),
            read_only(targets[rows], np.float64),
            read_only(at[partner[rows]], np.int64),
        )
        return found

    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with ThreadPoolExecutor(workers, thread_name_prefix="privpipe-attack") as pool:
        parts = list(pool.map(part, range(0, len(targets), CHUNK)))
    if not parts:
        return Left(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_), np.zeros(0))
    back = np.empty(len(turns), dtype=np.int64)
    back[turns] = np.arange(len(turns))
    counts, inside, scores = (np.concatenate(each)[back] for each in zip(*parts, strict=True))
    return Left(counts, inside, scores)


def _in_order(blocks: Integers, places: Integers) -> Integers:
    """Positions by block, then by place (from -1): one sort of one number."""
    span = int(places.max(initial=0)) + 2
    return np.argsort(blocks * span + places + 1)


def _width(constraint: Constraint) -> float:
    """Mean share of the places that a target's intervals hold."""
    spans = np.maximum(constraint.high - constraint.low + 1, 0).sum(axis=1)
    return float(spans.mean()) / (int(constraint.places.max(initial=0)) + 1)


def _padded(ends: Integers, width: int, empty: int) -> Integers:
    """Ends of intervals with empty ones added: low 0, high -1."""
    return np.pad(ends, ((0, 0), (0, width - ends.shape[1])), constant_values=empty)


@njit(nogil=True, cache=True)
def _fits(place: int, low: Integers, high: Integers) -> bool:
    found = False
    for k in range(len(low)):
        found = found or low[k] <= place <= high[k]
    return found


@njit(nogil=True, cache=True)
def _squared(one: Floats, other: Floats) -> float:
    total = 0.0
    for j in range(len(one)):
        difference = one[j] - other[j]
        total += difference * difference
    return total


@njit(nogil=True, cache=True)
def _fits_all(r: int, places: NDArray[np.int32], low: Integers, high: Integers) -> bool:
    """Whether a record is in the intervals of the third and all later constraints."""
    j = 2
    while j < len(low) and _fits(places[j, r], low[j], high[j]):
        j += 1
    return j >= len(low)


@njit(nogil=True, cache=True)
def _left(
    places: NDArray[np.int32],
    starts: Integers,
    released: Floats,
    step: int,
    low: Ints,
    high: Ints,
    targets: Floats,
    partner: Integers,
) -> tuple[Integers, Bools, Floats]:
    """Released records are ordered by (block of the first constraint, place in the second)."""
    m, constraints, intervals = low.shape
    second = places[1 if constraints > 1 else 0]
    # Most records fail the third constraint: its hull is tested first, along one array.
    sieve = 2 if constraints > 2 else 0
    sifted = places[sieve]
    counts = np.zeros(m, np.int64)
    inside = np.zeros(m, np.bool_)
    scores = np.zeros(m)
    for i in range(m):
        true = np.sqrt(_squared(targets[i], released[partner[i]]))
        least = np.inf
        ties = 0
        bottom, top = np.int32(low[i, sieve].min()), np.int32(high[i, sieve].max())
        for a in range(intervals):
            for block in range(low[i, 0, a] // step + 1, high[i, 0, a] // step + 2):
                begin, end = starts[block], starts[block + 1]
                for b in range(intervals):
                    first, last = low[i, min(1, constraints - 1), b], high[i, min(1, constraints - 1), b]
                    if first > last:
                        continue
                    from_ = begin + np.searchsorted(second[begin:end], first, side="left")
                    to = begin + np.searchsorted(second[begin:end], last, side="right")
                    for r in range(from_, to):
                        if sifted[r] < bottom or sifted[r] > top:
                            continue
                        fits = low[i, 0, a] <= places[0, r] <= high[i, 0, a]
                        if fits and _fits_all(r, places, low[i], high[i]):
                            counts[i] += 1
                            inside[i] = inside[i] or r == partner[i]
                            distance = np.sqrt(_squared(targets[i], released[r]))
                            least = min(least, distance)
                            if abs(distance - true) <= 1e-12 * (1.0 + max(distance, true)):
                                ties += 1
        if inside[i] and true - least <= 1e-12 * (1.0 + true):
            scores[i] = 1.0 / ties
    return counts, inside, scores
