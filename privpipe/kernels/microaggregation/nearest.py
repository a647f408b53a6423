"""Squared distances to a point, and the nearest and farthest of them, ties by position.

Points are stored by column, so that distances to one point are computed in vector registers.
"""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit

__all__ = [
    "PART",
    "farthest",
    "farthest_part",
    "nearest",
    "nearest_part",
    "nearest_parts",
    "offer",
    "parts_of",
    "squared_distances",
]

PART = 128
"""Distances in a part; the least and greatest of a part are stored, so that few distances are examined one by one."""


@njit(nogil=True, cache=True)
def squared_distances(columns: Floats, count: int, point: Floats, out: Floats) -> None:
    """Squared distance of each of the first `count` points to `point`.

    Parameters
    ----------
    columns : ndarray of float64, shape (s, n)
    """
    for i in range(count):
        out[i] = 0.0
    for j in range(len(columns)):
        column, at = columns[j], point[j]
        for i in range(count):
            difference = column[i] - at
            out[i] += difference * difference


@njit(nogil=True, cache=True)
def farthest(distances: Floats, names: Ints, count: int) -> int:
    """Place of the largest distance; among equals, of the smallest name."""
    best = 0
    for i in range(1, count):
        if distances[i] > distances[best] or (distances[i] == distances[best] and names[i] < names[best]):
            best = i
    return best


@njit(nogil=True, cache=True)
def _before(distance: float, name: int, other_distance: float, other_name: int) -> bool:
    return distance < other_distance or (distance == other_distance and name < other_name)


@njit(nogil=True, cache=True)
def _sink(heap: Ints, size: int, top: int, distances: Floats, names: Ints) -> None:
    """Restore the heap (the farthest on top) below one entry."""
    while True:
        child = 2 * top + 1
        if child >= size:
            return
        right = child + 1
        if right < size and _before(
            distances[heap[child]], names[heap[child]], distances[heap[right]], names[heap[right]]
        ):
            child = right
        if not _before(distances[heap[top]], names[heap[top]], distances[heap[child]], names[heap[child]]):
            return
        heap[top], heap[child] = heap[child], heap[top]
        top = child


@njit(nogil=True, cache=True)
def offer(
    distances: Floats,
    names: Ints,
    first: int,
    stop: int,
    wanted: int,
    left_out: int,
    heap: Ints,
    found: int,
) -> int:
    """Let the places first .. stop - 1 compete for the `wanted` smallest distances, ties by name.

    `heap` holds the places `found` so far, the farthest on top once it is full. Place `left_out` (-1: none) takes
    no part. Returns how many are held now.
    """
    worst = distances[heap[0]] if found == wanted and found > 0 else np.inf
    for i in range(first, stop):
        if distances[i] > worst or i == left_out:
            continue
        if found < wanted:
            heap[found] = i
            found += 1
            if found < wanted:
                continue
            for top in range(wanted // 2 - 1, -1, -1):
                _sink(heap, wanted, top, distances, names)
        elif wanted > 0 and _before(distances[i], names[i], worst, names[heap[0]]):
            heap[0] = i
            _sink(heap, wanted, 0, distances, names)
        else:
            continue
        worst = distances[heap[0]]
    return found


@njit(nogil=True, cache=True)
def nearest(
    distances: Floats,
    names: Ints,
    count: int,
    wanted: int,
    left_out: int,
    heap: Ints,
) -> int:
    """Write the places of the `wanted` smallest of `count` distances into `heap`, in no order; how many there are."""
    zero = np.int64(0)  # a literal would have another type and be compiled a second time
    found: int = offer(distances, names, zero, count, wanted, np.int64(left_out), heap, zero)
    return found


@njit(nogil=True, cache=True)
def parts_of(
    columns: Floats,
    count: int,
    point: Floats,
    out: Floats,
    ends: Floats,
) -> None:
    """As `squared_distances`; also the least and the greatest distance of each `PART`.

    Parameters
    ----------
    ends : ndarray of float64, shape (2, a PARTth of `out` and 1)
    """
    s = len(columns)
    for part in range((count + PART - 1) // PART):
        first, stop = part * PART, min((part + 1) * PART, count)
        inside = out[first:stop]
        for i in range(len(inside)):
            inside[i] = 0.0
        for j in range(0, s - 1, 2):
            column, other = columns[j, first:stop], columns[j + 1, first:stop]
            x, y = point[j], point[j + 1]
            for i in range(len(inside)):
                difference, second = column[i] - x, other[i] - y
                inside[i] = (inside[i] + difference * difference) + second * second
        if s % 2 == 1:
            column, x = columns[s - 1, first:stop], point[s - 1]
            for i in range(len(inside)):
                difference = column[i] - x
                inside[i] += difference * difference
        bits = inside.view(np.int64)  # non-negative numbers have the order of their bits, which are compared in vectors
        low, high = bits[0], bits[0]
        for i in range(len(bits)):
            value = bits[i]
            low = value if value < low else low
            high = value if value > high else high
        ends[0, part], ends[1, part] = np.int64(low).view(np.float64), np.int64(high).view(np.float64)


@njit(nogil=True, cache=True)
def _first_named(
    wanted: float,
    distances: Floats,
    names: Ints,
    places: Ints,
    count: int,
    ends: Floats,
) -> int:
    """Place of the smallest number at this distance, which is an extreme of a part."""
    best = np.int64(len(places))
    for part in range((count + PART - 1) // PART):
        if ends[part] == wanted:
            first, stop = part * PART, min((part + 1) * PART, count)
            inside, called = distances[first:stop], names[first:stop]
            for i in range(len(inside)):
                name = called[i] if inside[i] == wanted else best
                best = name if name < best else best
    return int(places[best])


@njit(nogil=True, cache=True)
def farthest_part(
    distances: Floats,
    names: Ints,
    places: Ints,
    count: int,
    ends: Floats,
) -> int:
    """As `farthest`, from the result of `parts_of`; count >= 1, and `places` are those of the names."""
    most = ends[1, 0]
    for part in range((count + PART - 1) // PART):
        most = max(most, ends[1, part])
    return int(_first_named(most, distances, names, places, count, ends[1]))


@njit(nogil=True, cache=True)
def nearest_part(
    distances: Floats,
    names: Ints,
    places: Ints,
    count: int,
    ends: Floats,
) -> int:
    """Place of the least distance, among equals the one with the smallest name; see `farthest_part`."""
    least = ends[0, 0]
    for part in range((count + PART - 1) // PART):
        least = min(least, ends[0, part])
    return int(_first_named(least, distances, names, places, count, ends[0]))


@njit(nogil=True, cache=True)
def nearest_parts(
    distances: Floats,
    names: Ints,
    count: int,
    wanted: int,
    left_out: int,
    heap: Ints,
    ends: Floats,
) -> int:
    """As `nearest`, from the result of `parts_of`."""
    found = 0
    for part in range((count + PART - 1) // PART):
        if found == wanted and (wanted == 0 or ends[0, part] > distances[heap[0]]):
            continue
        first, stop = part * PART, min((part + 1) * PART, count)
        found = offer(distances, names, first, stop, wanted, left_out, heap, found)
    return found
