"""MDAV over mixed types by Gower's distance, and descent by moves and swaps between its groups.

Sources: Gower, A general coefficient of similarity and some of its properties, Biometrics 27, 1971; Domingo-Ferrer,
Torra, Ordinal, continuous and heterogeneous k-anonymity through microaggregation, Data Mining and Knowledge Discovery
11, 2005.

For descent, the loss of a group is the sum of the distances of its pairs divided by its size, which for squared
Euclidean distances is its SSE. Records are visited, and ties broken, in their given order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.nearest import farthest, nearest

__all__ = ["MixedRecords", "descend_by_gower", "distances_to", "gower_groups", "gower_loss"]


class MixedRecords(NamedTuple):
    """Records of several types, by column; compiled code takes it unchanged.

    Parameters
    ----------
    scales : ndarray of float64, shape (p, n)
        Numbers over their range, and ranks over levels - 1; NaN: missing.
    ranked : ndarray of bool, shape (p,)
        Which of them are ranks: their centre is the mode, not the mean.
    scale_weights : ndarray of float64, shape (p,)
    codes : ndarray of int64, shape (q, n)
        Nominal values, 0 .. values - 1; -1: missing.
    paths : ndarray of int64, shape (q, levels, values)
        Label of each value at each level of the column's hierarchy below its root; one level without a hierarchy.
    heights : ndarray of int64, shape (q,)
        Levels below the root: this many levels of `paths` are used.
    code_weights : ndarray of float64, shape (q,)
    """

    scales: Floats
    ranked: Bools
    scale_weights: Floats
    codes: Ints
    paths: Ints
    heights: Ints
    code_weights: Floats


def gower_groups(records: MixedRecords, k: int) -> Ints:
    """Partition records into groups of k, the last of k to 2k - 1, as MDAV does.

    The distance of two records is the weighted mean over columns of |a - b| for scales, and for nominal values of the
    level of their lowest common ancestor over the height; of a missing value to another 0, to any other 1.

    Parameters
    ----------
    records : MixedRecords
        n >= k of them. Ties go to the earlier one.
    k : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> flat = np.arange(2).reshape(1, 1, 2)
    >>> codes = np.array([[0, 1, 0, 1]])
    >>> empty = np.empty((0, 4))
    >>> mixed = MixedRecords(empty, np.empty(0, bool), np.empty(0), codes, flat, np.array([1]), np.ones(1))
    >>> gower_groups(mixed, 2).tolist()
    [1, 0, 1, 0]
    """
    n = records.scales.shape[1]
    if k < 1 or n < k or records.codes.shape[1] != n:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {n}")
    return np.asarray(_groups(records, k))


@njit(nogil=True, cache=True)
def distances_to(records: MixedRecords, scales: Floats, codes: Ints, out: Floats) -> None:
    """Sum of weighted distances of each record to a point, in the order of the columns."""
    out[:] = 0.0
    for j in range(len(records.scales)):
        column, at, weight = records.scales[j], scales[j], records.scale_weights[j]
        for i in range(len(out)):
            if np.isnan(column[i]) or np.isnan(at):
                out[i] += 0.0 if np.isnan(column[i]) and np.isnan(at) else weight
            else:
                out[i] += weight * abs(column[i] - at)
    for j in range(len(records.codes)):
        values, code, weight = records.codes[j], codes[j], records.code_weights[j]
        height, paths = records.heights[j], records.paths[j]
        for i in range(len(out)):
            if values[i] == code:
                continue
            level = height
            if values[i] >= 0 and code >= 0:
                level = 0
                while level < height and paths[level, values[i]] != paths[level, code]:
                    level += 1
            out[i] += weight * level / height


@njit(nogil=True, cache=True)
def _mode(values: Floats) -> float:
    """The most frequent number, the smallest of equally frequent ones; NaN without any."""
    ordered = np.sort(values)
    best, most, start = np.nan, 0, 0
    for i in range(len(ordered)):
        if np.isnan(ordered[i]):
            break
        if ordered[i] != ordered[start]:
            start = i
        if i - start + 1 > most:
            best, most = ordered[i], i - start + 1
    return best


@njit(nogil=True, cache=True)
def _centre(records: MixedRecords, live: Ints, scales: Floats, codes: Ints) -> None:
    room = np.empty(len(live), np.float64)
    for j in range(len(records.scales)):
        total, known = 0.0, 0
        for at in range(len(live)):
            room[at] = records.scales[j, live[at]]
            if not np.isnan(room[at]):
                total += room[at]
                known += 1
        scales[j] = _mode(room) if records.ranked[j] else (total / known if known > 0 else np.nan)
    for j in range(len(records.codes)):
        counts = np.zeros(records.paths.shape[2] + 1, np.int64)
        for i in live:
            counts[records.codes[j, i] + 1] += 1
        codes[j] = np.argmax(counts[1:]) if counts[1:].sum() > 0 else -1


@njit(nogil=True, cache=True)
def _without(live: Ints, labels: Ints) -> Ints:
    return live[labels[live] < 0]


@njit(nogil=True, cache=True)
def _around(records: MixedRecords, start: int, live: Ints, k: int, distances: Floats) -> Ints:
    """The record and its k - 1 nearest among the remaining ones."""
    distances_to(records, records.scales[:, start].copy(), records.codes[:, start].copy(), distances)
    heap = np.empty(k, np.int64)
    near = distances[live]
    at = np.searchsorted(live, start)
    found = nearest(near, live, len(live), k - 1, at, heap)
    heap[found] = at
    return live[heap[: found + 1]]


@njit(nogil=True, cache=True)
def _groups(records: MixedRecords, k: int) -> Ints:
    n = records.scales.shape[1]
    labels, live = np.full(n, -1, np.int64), np.arange(n)
    distances = np.empty(n, np.float64)
    scales, codes = np.empty(len(records.scales), np.float64), np.empty(len(records.codes), np.int64)
    label = 0
    while len(live) >= 2 * k:
        _centre(records, live, scales, codes)
        distances_to(records, scales, codes, distances)
        first = live[farthest(distances[live], live, len(live))]
        distances_to(records, records.scales[:, first].copy(), records.codes[:, first].copy(), distances)
        second = live[farthest(distances[live], live, len(live))]
        pairs = len(live) >= 3 * k
        labels[_around(records, first, live, k, distances)] = label
        label += 1
        live = _without(live, labels)
        if pairs and labels[second] < 0:
            labels[_around(records, second, live, k, distances)] = label
            label += 1
            live = _without(live, labels)
    labels[live] = label
    return labels


LEAST_GAIN = 1e-9
PASSES = 30
CANDIDATES = 10
"""Groups that a record may go to: those of the nearest medoids."""


def gower_loss(records: MixedRecords, labels: Ints) -> float:
    """Sum over groups of the distances of their pairs, each as in `gower_groups`, over the size of the group.

    Parameters
    ----------
    records : MixedRecords
    labels : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1, every one in use.

    Examples
    --------
    >>> column = np.array([[0.0, 0.5, 1.0]])
    >>> none = np.empty((0, 3), np.int64)
    >>> mixed = MixedRecords(column, np.array([False]), np.ones(1), none, np.empty((0, 1, 1), np.int64),
    ...                      np.empty(0, np.int64), np.empty(0))
    >>> gower_loss(mixed, np.array([0, 0, 1])), gower_loss(mixed, np.array([0, 1, 0]))
    (0.25, 0.5)
    """
    members, sizes = _members(labels, int(np.bincount(labels).max()))
    own = np.zeros(len(labels))
    return float(sum(_within(records, members[g, : sizes[g]], own) / sizes[g] for g in range(len(sizes)))) / _weight(
        records
    )


def descend_by_gower(records: MixedRecords, labels: Ints, k: int) -> Ints:
    """Move records to near groups and swap them with their members while `gower_loss` falls.

    Parameters
    ----------
    records : MixedRecords
    labels : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1 of k .. 2k - 1 records.
    k : int

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups of k .. 2k - 1 records, the loss no higher than before.

    Examples
    --------
    >>> column = np.array([[0.0, 0.1, 0.9, 0.2, 0.8, 1.0]])
    >>> none = np.empty((0, 6), np.int64)
    >>> mixed = MixedRecords(column, np.array([False]), np.ones(1), none, np.empty((0, 1, 1), np.int64),
    ...                      np.empty(0, np.int64), np.empty(0))
    >>> groups = descend_by_gower(mixed, np.array([0, 0, 0, 1, 1, 1]), 3)
    >>> (groups == groups[0]).tolist()
    [True, True, False, True, False, False]
    """
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        return labels
    if sizes.min() < k or sizes.max() >= 2 * k:
        raise UsageError(f"descent needs groups of {k} to {2 * k - 1} records, got {sizes.min()} to {sizes.max()}")
    members, counts = _members(labels, 2 * k - 1)
    near = _nearest_groups(records, members, counts, min(CANDIDATES, len(sizes)))
    least = LEAST_GAIN * _weight(records)
    return np.asarray(_descended(records, labels.astype(np.int64), members, counts, near, (k, least)))


def _weight(records: MixedRecords) -> float:
    """The total weight of all columns, by which sums of distances are divided."""
    return float(records.scale_weights.sum() + records.code_weights.sum()) or 1.0


@njit(nogil=True, cache=True)
def _members(labels: Ints, most: int) -> tuple[Ints, Ints]:
    """Members of each group, in order, and how many they are."""
    groups = labels.max() + 1
    members, sizes = np.full((groups, most), -1, np.int64), np.zeros(groups, np.int64)
    for i in range(len(labels)):
        members[labels[i], sizes[labels[i]]] = i
        sizes[labels[i]] += 1
    return members, sizes


@njit(nogil=True, cache=True)
def _apart(records: MixedRecords, a: int, b: int) -> float:
    """Sum of the weighted distances of two records, over columns."""
    total = 0.0
    for j in range(len(records.scales)):
        x, y = records.scales[j, a], records.scales[j, b]
        if np.isnan(x) or np.isnan(y):
            total += 0.0 if np.isnan(x) and np.isnan(y) else records.scale_weights[j]
        else:
            total += records.scale_weights[j] * abs(x - y)
    for j in range(len(records.codes)):
        x, y = records.codes[j, a], records.codes[j, b]
        if x == y:
            continue
        height = records.heights[j]
        level = height
        if x >= 0 and y >= 0:
            level = 0
            while level < height and records.paths[j, level, x] != records.paths[j, level, y]:
                level += 1
        total += records.code_weights[j] * level / height
    return total


@njit(nogil=True, cache=True)
def _to_group(records: MixedRecords, i: int, group: Ints) -> float:
    """Sum of the distances of a record to some others."""
    total = 0.0
    for u in group:
        total += _apart(records, i, u)
    return total


@njit(nogil=True, cache=True)
def _within(records: MixedRecords, group: Ints, own: Floats) -> float:
    """Sum of the distances of the pairs of a group; fills in the sum of each member."""
    total = 0.0
    for i in group:
        own[i] = _to_group(records, i, group)
        total += own[i]
    return 0.5 * total


@njit(nogil=True, cache=True)
def _nearest_groups(records: MixedRecords, members: Ints, sizes: Ints, many: int) -> Ints:
    """The groups whose medoids are nearest to each record; ties by number."""
    n = records.scales.shape[1]
    near, apart = np.full((n, many), -1, np.int64), np.full((n, many), np.inf)
    own, distances = np.zeros(n, np.float64), np.empty(n, np.float64)
    for g in range(len(sizes)):
        group = members[g, : sizes[g]]
        _within(records, group, own)
        medoid = group[np.argmin(own[group])]
        distances_to(records, records.scales[:, medoid].copy(), records.codes[:, medoid].copy(), distances)
        for i in range(n):
            if distances[i] >= apart[i, many - 1]:
                continue
            place = many - 1
            while place > 0 and apart[i, place - 1] > distances[i]:
                apart[i, place], near[i, place] = apart[i, place - 1], near[i, place - 1]
                place -= 1
            apart[i, place], near[i, place] = distances[i], g
    return near


@njit(nogil=True, cache=True)
def _best_step(
    records: MixedRecords,
    i: int,
    here: Ints,
    there: Ints,
    k: int,
    within: tuple[float, float],
    own: Floats,
    gain: float,
) -> tuple[float, int]:
    """Change of the loss when a record goes to another group, and the place of the record that comes back; -1: none.

    A change not below `gain` is returned as `gain`.
    """
    size, more = np.float64(len(here)), np.float64(len(there))
    joined, partner = _to_group(records, i, there), -1
    if len(here) > k and len(there) < 2 * k - 1:
        moved = (within[0] - own[i]) / (size - 1.0) - within[0] / size
        moved += (within[1] + joined) / (more + 1.0) - within[1] / more
        gain = min(gain, moved)
    for at in range(len(there)):
        u = there[at]
        apart = _apart(records, i, u)
        rest = (joined - own[u] - apart) / more - (own[i] + apart) / size
        if rest >= gain:
            continue
        swapped = rest + _to_group(records, u, here) / size
        if swapped < gain:
            gain, partner = swapped, at
    return gain, partner


@njit(nogil=True, cache=True)
def _descended(
    records: MixedRecords,
    start: Ints,
    members: Ints,
    sizes: Ints,
    near: Ints,
    limits: tuple[int, float],
) -> Ints:
    (k, least), labels = limits, start.copy()
    own, within = np.zeros(len(labels), np.float64), np.zeros(len(sizes), np.float64)
    for g in range(len(sizes)):
        within[g] = _within(records, members[g, : sizes[g]], own)
    for _ in range(PASSES):
        changed = False
        for i in range(len(labels)):
            a = labels[i]
            best, target, partner = -least, -1, -1
            for b in near[i]:
                if b == a:
                    continue
                here, there = members[a, : sizes[a]], members[b, : sizes[b]]
                gain, at = _best_step(records, i, here, there, k, (within[a], within[b]), own, best)
                if gain < best:
                    best, target, partner = gain, b, at
            if target < 0:
                continue
            changed = True
            _exchange(i, a, target, partner, labels, members, sizes)
            for g in (a, target):
                within[g] = _within(records, members[g, : sizes[g]], own)
        if not changed:
            break
    return labels


@njit(nogil=True, cache=True)
def _exchange(
    i: int,
    a: int,
    b: int,
    partner: int,
    labels: Ints,
    members: Ints,
    sizes: Ints,
) -> None:
    """Record i goes from a to b; the partner, if any, comes back."""
    place = 0
    while members[a, place] != i:
        place += 1
    labels[i] = b
    if partner >= 0:
        u = members[b, partner]
        members[a, place], members[b, partner] = u, i
        labels[u] = a
        return
    sizes[a] -= 1
    members[a, place] = members[a, sizes[a]]
    members[b, sizes[b]] = i
    sizes[b] += 1
