"""MDAV and V-MDAV: groups grown from the records farthest from the centre, of k records or of a variable size.

Where many records are equal, distances are computed to the distinct points (`mdav_of_ties`). The groups are the same:
records at one point are removed in the order of their rows, and sums run over the same records in the same order.

Sources: Domingo-Ferrer, Torra, Ordinal, continuous and heterogeneous k-anonymity through microaggregation, Data Mining
and Knowledge Discovery 11, 2005 (generic form); Solanas, Martinez-Balleste, V-MDAV: a multivariate microaggregation
with variable group size, COMPSTAT 2006.
"""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.grouping.sorting import sort_integers
from privpipe.kernels.microaggregation.nearest import (
    PART,
    farthest,
    farthest_part,
    nearest,
    nearest_parts,
    parts_of,
    squared_distances,
)

__all__ = ["distinct_points", "mdav_groups", "mdav_of_ties", "v_mdav_groups"]


U = np.uint64
RECOMPUTED_EVERY = 1000
TIED = 2
"""Average number of records per point from which on distances to the distinct points cost less."""


def mdav_groups(points: Floats, k: int) -> Ints:
    """Partition records into groups of k, the last of k to 2k - 1.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised columns, finite, n >= k. Ties of distance go to the earlier row, and sums run in the order of
        the rows: rows in keyed order (`Stream.arrange`) make the groups a function of the records.
    k : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record, 0 .. groups - 1. Takes O(n^2 s / k) time, O(n s) memory.

    Examples
    --------
    >>> mdav_groups(np.array([[0.0], [9.0], [0.1], [9.1], [0.2], [9.2], [0.3]]), 3).tolist()
    [1, 0, 1, 0, 1, 0, 1]
    """
    array = read_only(points, np.float64)
    if k < 1 or array.ndim != 2 or len(array) < k:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {array.shape}")
    codes, firsts = distinct_points(array, max(len(array) // TIED, 1))
    if len(firsts):
        return np.asarray(mdav_of_ties(array, codes, firsts, k, RECOMPUTED_EVERY))
    return np.asarray(_mdav(np.array(array.T, order="C"), k))


@njit(nogil=True, cache=True)
def _centre(columns: Floats, count: int, sums: Floats) -> None:
    for j in range(len(columns)):
        sums[j] = 0.0
        for i in range(count):
            sums[j] += columns[j, i]


@njit(nogil=True, cache=True)
def _remove(
    columns: Floats,
    names: Ints,
    places: Ints,
    count: int,
    gone: Ints,
    sums: Floats,
    labels: Ints,
    label: int,
) -> int:
    """Label the rows at these places and swap them behind the remaining ones; returns how many remain."""
    sort_integers(gone, len(gone))
    for at in range(len(gone) - 1, -1, -1):  # from the end, so that no row still to be removed is moved
        place = gone[at]
        labels[names[place]] = label
        count -= 1
        for j in range(len(columns)):
            sums[j] -= columns[j, place]
            columns[j, place], columns[j, count] = columns[j, count], columns[j, place]
        names[place], names[count] = names[count], names[place]
        places[names[place]] = place
        places[names[count]] = count
    return count


@njit(nogil=True, cache=True)
def _mdav(columns: Floats, k: int) -> Ints:
    s, n = columns.shape
    labels = np.zeros(n, np.int64)
    names = np.arange(n)  # the record at each place
    places = np.arange(n)  # the place of each record
    distances = np.empty(n, np.float64)
    heap = np.empty(k, np.int64)
    sums = np.empty(s, np.float64)
    ends = np.empty((2, n // PART + 1), np.float64)
    _centre(columns, n, sums)
    count, label, since = n, 0, 0
    while count >= 2 * k:
        if since >= RECOMPUTED_EVERY:  # drift would change which record is farthest
            _centre(columns, count, sums)
            since = 0
        parts_of(columns, count, sums / count, distances, ends)
        first = farthest_part(distances, names, places, count, ends)
        parts_of(columns, count, columns[:, first].copy(), distances, ends)
        second = names[farthest_part(distances, names, places, count, ends)]
        heap[nearest_parts(distances, names, count, k - 1, first, heap, ends)] = first
        pairs = count >= 3 * k
        count = _remove(columns, names, places, count, heap, sums, labels, label)
        label += 1
        since += 1
        if pairs and places[second] < count:  # it may have gone with the first
            start = places[second]
            parts_of(columns, count, columns[:, start].copy(), distances, ends)
            heap[nearest_parts(distances, names, count, k - 1, start, heap, ends)] = start
            count = _remove(columns, names, places, count, heap, sums, labels, label)
            label += 1
            since += 1
    for place in range(count):
        labels[names[place]] = label
    return labels


@njit(nogil=True, cache=True)
def _same(points: Floats, a: int, b: int) -> bool:
    same = True
    for j in range(points.shape[1]):
        same = same and points[a, j] == points[b, j]
    return same


@njit(nogil=True, cache=True)
def distinct_points(points: Floats, most: int) -> tuple[Ints, Ints]:
    """The number of each record's point, by first occurrence, and the first record of each; empty above `most` points.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Finite. -0.0 equals 0.0.
    most : int
        At most n.
    """
    n, s = points.shape
    bits = 1
    while 1 << bits < 2 * most:
        bits += 1
    table = np.full(1 << bits, -1, np.int64)
    codes, firsts = np.empty(n, np.int64), np.empty(most, np.int64)
    count = 0
    for i in range(n):
        word = U(0)
        for j in range(s):
            # A multiplicative hash (Knuth, volume 3, 6.4): nothing secret depends on it.
            word = (word ^ np.float64(points[i, j] + 0.0).view(np.uint64)) * U(0x9E3779B97F4A7C15)
            word ^= word >> U(29)
        at = np.int64((word * U(0x9E3779B97F4A7C15)) >> U(64 - bits))
        while table[at] >= 0 and not _same(points, firsts[table[at]], i):
            at = (at + 1) % len(table)
        if table[at] < 0:
            if count == most:
                return codes[:0], firsts[:0]
            table[at] = count
            firsts[count] = i
            count += 1
        codes[i] = table[at]
    return codes, firsts[:count]


@njit(nogil=True, cache=True)
def _by_point(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Records by point, in their order within a point, and where the records of each point begin."""
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(count):
        starts[code + 1] += starts[code]
    records, at = np.empty(len(codes), np.int64), starts[:-1].copy()
    for i in range(len(codes)):
        records[at[codes[i]]] = i
        at[codes[i]] += 1
    return records, starts


@njit(nogil=True, cache=True)
def _sums(points: Floats, names: Ints, out: Floats) -> None:
    for j in range(len(out)):
        out[j] = 0.0
        for name in names:
            out[j] += points[name, j]


@njit(nogil=True, cache=True)
def _leave(points: Floats, names: Ints, places: Ints, count: int, gone: Ints, sums: Floats) -> int:
    """Swap these records behind the remaining ones, in whose order sums run; returns how many remain."""
    for at in range(len(gone)):
        gone[at] = places[gone[at]]
    sort_integers(gone, len(gone))
    for at in range(len(gone) - 1, -1, -1):  # from the end, so that no record still to be removed is moved
        place = gone[at]
        count -= 1
        for j in range(len(sums)):
            sums[j] -= points[names[place], j]
        names[place], names[count] = names[count], names[place]
        places[names[place]] = place
        places[names[count]] = count
    return count


@njit(nogil=True, cache=True)
def _among(place: int, places: Ints) -> bool:
    found = False
    for other in places:
        found = found or other == place
    return found


@njit(nogil=True, cache=True)
def _nearest_left(points: Ints, distances: Floats, records: Ints, heads: Ints, stops: Ints) -> int:
    """The nearest of some points with a remaining record; among equals, that of the first record."""
    best = -1
    for place in points:
        if heads[place] < stops[place] and (
            best < 0
            or distances[place] < distances[best]
            or (distances[place] == distances[best] and records[heads[place]] < records[heads[best]])
        ):
            best = place
    return best


@njit(nogil=True, cache=True)
def mdav_of_ties(points: Floats, codes: Ints, firsts: Ints, k: int, recomputed_every: int) -> Ints:
    """Group number of each record (see `mdav_groups`).

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    codes, firsts : ndarray of int64
        From `distinct_points`.
    recomputed_every : int
        Groups after which the running sums are added up again.
    """
    n, s = points.shape
    records, starts = _by_point(codes, len(firsts))
    heads, stops = starts[:-1].copy(), starts[1:].copy()  # remaining records of each point
    columns = np.ascontiguousarray(points[firsts].T)
    live = len(firsts)  # points with a remaining record stay in front
    leaders, homes = firsts.copy(), np.zeros(n, np.int64)  # the first remaining record of each point, and its point
    homes[leaders] = np.arange(live)
    labels, names, places = np.zeros(n, np.int64), np.arange(n), np.arange(n)
    distances, ends = np.empty(live, np.float64), np.empty((2, live // PART + 1), np.float64)
    heap, gone, sums = np.empty(k + 1, np.int64), np.empty(k, np.int64), np.empty(s, np.float64)
    _sums(points, names, sums)
    count, label, since = n, 0, 0
    while count >= 2 * k:
        if since >= recomputed_every:
            _sums(points, names[:count], sums)
            since = 0
        parts_of(columns, live, sums / count, distances, ends)
        first = leaders[farthest_part(distances, leaders, homes, live, ends)]
        parts_of(columns, live, points[first], distances, ends)
        second = leaders[farthest_part(distances, leaders, homes, live, ends)]
        pairs = count >= 3 * k
        for half in range(2):
            if half == 1:
                if not (pairs and places[second] < count):  # it may have gone with the first
                    break
                parts_of(columns, live, points[second], distances, ends)
            # The record and its nearest ones: these are at the points whose first records are nearest.
            start = second if half == 1 else first
            home = homes[start]
            found = nearest_parts(distances, leaders, live, min(k, live), np.int64(-1), heap, ends)
            if not _among(home, heap[:found]):  # points closer than a square can resolve
                heap[found] = home
                found += 1
            gone[0] = start
            labels[start] = label
            heads[home] += 1
            for at in range(1, k):
                best = _nearest_left(heap[:found], distances, records, heads, stops)
                gone[at] = records[heads[best]]
                heads[best] += 1
                labels[gone[at]] = label
            sort_integers(heap, found)
            for at in range(found - 1, -1, -1):  # from the end, so that no point still to be visited is moved
                place = heap[at]
                if heads[place] == stops[place]:
                    live -= 1
                    heads[place], stops[place], leaders[place] = heads[live], stops[live], leaders[live]
                    for j in range(s):
                        columns[j, place] = columns[j, live]
                    if place < live:
                        homes[leaders[place]] = place
                else:
                    leaders[place] = records[heads[place]]
                    homes[leaders[place]] = place
            count = _leave(points, names, places, count, gone, sums)
            label += 1
            since += 1
    for place in range(count):
        labels[names[place]] = label
    return labels


def v_mdav_groups(points: Floats, k: int, gamma: float = 0.2) -> Ints:
    """Partition records into groups of k .. 2k - 1; the last few join the nearest group.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised, finite, n >= k. Ties go to the earlier row.
    k : int
        At least 1.
    gamma : float
        A record joins while its distance to the group is below `gamma` times that to its nearest other record
        outside; 0: all groups have k.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record.

    Examples
    --------
    >>> points = np.array([[0.0], [0.1], [0.2], [0.3], [9.0], [9.1], [9.2]])
    >>> v_mdav_groups(points, 3, gamma=1.1).tolist()
    [1, 1, 1, 1, 0, 0, 0]
    """
    array = read_only(points, np.float64)
    if k < 1 or array.ndim != 2 or len(array) < k or not gamma >= 0:
        raise UsageError(f"V-MDAV needs k >= 1, at least k records and gamma >= 0, got k = {k} and {array.shape}")
    return np.asarray(_v_mdav(np.array(array.T, order="C"), k, float(gamma)))


@njit(nogil=True, cache=True)
def _take(
    place: int,
    label: int,
    count: int,
    columns: Floats,
    names: Ints,
    far: Floats,
    inside: Floats,
    labels: Ints,
) -> int:
    """Label the record at a place and move the last remaining one there; returns how many remain."""
    labels[names[place]] = label
    count -= 1
    for j in range(len(columns)):
        columns[j, place], columns[j, count] = columns[j, count], columns[j, place]
    names[place], names[count] = names[count], names[place]
    far[place] = far[count]
    inside[place] = inside[count]
    return count


@njit(nogil=True, cache=True)
def _closest(distances: Floats, names: Ints, count: int, left_out: int) -> int:
    best = -1
    for i in range(count):
        if i != left_out and (
            best < 0 or distances[i] < distances[best] or (distances[i] == distances[best] and names[i] < names[best])
        ):
            best = i
    return best


@njit(nogil=True, cache=True)
def _nearer(distances: Floats, inside: Floats, count: int) -> None:
    for i in range(count):
        inside[i] = min(inside[i], distances[i])


@njit(nogil=True, cache=True)
def _v_mdav(columns: Floats, k: int, gamma: float) -> Ints:
    s, n = columns.shape
    labels, names = np.zeros(n, np.int64), np.arange(n)
    whole, middle = columns.copy(), np.empty(s, np.float64)
    for j in range(s):
        total = 0.0
        for i in range(n):
            total += columns[j, i]
        middle[j] = total / n
    far, inside, distances = np.empty(n, np.float64), np.empty(n, np.float64), np.empty(n, np.float64)
    squared_distances(columns, n, middle, far)
    heap, gone = np.empty(max(k - 1, 1), np.int64), np.empty(k, np.int64)
    count, label = n, 0
    while count >= k:
        first = farthest(far, names, count)
        squared_distances(columns, count, columns[:, first].copy(), distances)
        held = nearest(distances, names, count, k - 1, first, heap)
        gone[0] = names[first]
        for at in range(held):
            gone[at + 1] = names[heap[at]]
        inside[:count] = np.inf
        for at in range(held + 1):
            member = gone[at]
            place = 0
            while names[place] != member:
                place += 1
            count = _take(place, label, count, columns, names, far, inside, labels)
            squared_distances(columns, count, whole[:, member].copy(), distances)
            _nearer(distances, inside, count)
        size = k
        while gamma > 0.0 and size < 2 * k - 1 and count > 0:
            u = _closest(inside, names, count, -1)
            point = columns[:, u].copy()
            squared_distances(columns, count, point, distances)
            other = _closest(distances, names, count, u)
            if other >= 0 and not np.sqrt(inside[u]) < gamma * np.sqrt(distances[other]):
                break
            count = _take(u, label, count, columns, names, far, inside, labels)
            squared_distances(columns, count, point, distances)
            _nearer(distances, inside, count)
            size += 1
        label += 1
    _join_nearest(whole, names[:count], label, labels)
    return labels


@njit(nogil=True, cache=True)
def _join_nearest(columns: Floats, left: Ints, groups: int, labels: Ints) -> None:
    """The last records, fewer than k, join the group of nearest centroid, with the centroids before they join."""
    s, n = columns.shape
    sums, sizes = np.zeros((s, groups), np.float64), np.zeros(groups, np.int64)
    outside = np.zeros(n, np.bool_)
    for i in left:
        outside[i] = True
    for i in range(n):
        if not outside[i]:
            sizes[labels[i]] += 1
            for j in range(s):
                sums[j, labels[i]] += columns[j, i]
    for g in range(groups):
        for j in range(s):
            sums[j, g] /= sizes[g]
    distances = np.empty(groups, np.float64)
    for i in left:
        squared_distances(sums, groups, columns[:, i].copy(), distances)
        labels[i] = _closest(distances, np.arange(groups), groups, -1)
