"""Records in cells of near ones, side by side in memory, so that distances are computed in vector registers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit

__all__ = ["LANES", "lay_out", "look_into", "tiles_of"]

CELL, LANES = 64, 8


@njit(nogil=True, cache=True)
def _part(order: NDArray[np.int64], first: int, stop: int, middle: int, keys: NDArray[np.float64]) -> None:
    """Rearrange order[first:stop] so that no key before `middle` exceeds one from it on (Hoare's selection)."""
    low, high = first, stop - 1
    while low < high:
        pivot = keys[order[(low + high) // 2]]
        i, j = low, high
        while i <= j:
            while keys[order[i]] < pivot:
                i += 1
            while keys[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@njit(nogil=True, cache=True)
def lay_out(points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Records in an order that puts near ones together, and where each cell of at most CELL of them begins."""
    n, s = points.shape
    order = np.arange(n)
    starts = np.empty(2 * (n // CELL + 1) + 2, np.int64)
    cells = 0
    stack = np.empty((64, 2), np.int64)
    stack[0, 0], stack[0, 1] = 0, n
    depth = 1
    while depth > 0:
        depth -= 1
        first, stop = stack[depth, 0], stack[depth, 1]
        if stop - first <= CELL:
            starts[cells] = first
            cells += 1
            continue
        widest, width = 0, -1.0
        for j in range(s):
            low, high = np.inf, -np.inf
            for at in range(first, stop):
                low, high = min(low, points[order[at], j]), max(high, points[order[at], j])
            if high - low > width:
                widest, width = j, high - low
        middle = (first + stop) // 2
        _part(order, first, stop, middle, points[:, widest])
        stack[depth, 0], stack[depth, 1] = middle, stop
        stack[depth + 1, 0], stack[depth + 1, 1] = first, middle
        depth += 2
    starts[cells] = n
    return order, starts[: cells + 1]


@njit(nogil=True, cache=True)
def tiles_of(points: NDArray[np.float64], order: NDArray[np.int64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The points of each cell by column, side by side, with room up to a multiple of `LANES`."""
    width = 0
    for c in range(len(starts) - 1):
        width = max(width, starts[c + 1] - starts[c])
    tiles = np.zeros((len(starts) - 1, points.shape[1], (width + LANES - 1) // LANES * LANES), np.float64)
    for c in range(len(starts) - 1):
        for place in range(starts[c], starts[c + 1]):
            for j in range(points.shape[1]):
                tiles[c, j, place - starts[c]] = points[order[place], j]
    return tiles


@njit(nogil=True, cache=True)
def look_into(tiles: NDArray[np.float64], cell: int, point: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Squared distances to the points of a cell, summed column by column; two columns at a time spare memory."""
    s = tiles.shape[1]
    column, x = tiles[cell, 0], point[0]
    for i in range(len(out)):
        difference = column[i] - x
        out[i] = difference * difference
    for j in range(1, s - 1, 2):
        column, other, x, y = tiles[cell, j], tiles[cell, j + 1], point[j], point[j + 1]
        for i in range(len(out)):
            difference, second = column[i] - x, other[i] - y
            out[i] = (out[i] + difference * difference) + second * second
    if s % 2 == 0:
        column, x = tiles[cell, s - 1], point[s - 1]
        for i in range(len(out)):
            difference = column[i] - x
            out[i] += difference * difference
