"""Squared distances to a point, and the nearest and farthest of them, ties by position.

Points are stored by column, so that distances to one point are computed in vector registers.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["farthest", "nearest", "offer", "squared_distances"]


@njit(nogil=True, cache=True)
def squared_distances(
    columns: NDArray[np.float64], count: int, point: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
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
def farthest(distances: NDArray[np.float64], names: NDArray[np.int64], count: int) -> int:
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
def _sink(
    heap: NDArray[np.int64], size: int, top: int, distances: NDArray[np.float64], names: NDArray[np.int64]
) -> None:
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
    distances: NDArray[np.float64],
    names: NDArray[np.int64],
    first: int,
    stop: int,
    wanted: int,
    left_out: int,
    heap: NDArray[np.int64],
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
    distances: NDArray[np.float64],
    names: NDArray[np.int64],
    count: int,
    wanted: int,
    left_out: int,
    heap: NDArray[np.int64],
) -> int:
    """Write the places of the `wanted` smallest of `count` distances into `heap`, in no order; how many there are."""
    zero = np.int64(0)  # a literal would be a type of its own, and compiled once more
    found: int = offer(distances, names, zero, count, wanted, np.int64(left_out), heap, zero)
    return found
