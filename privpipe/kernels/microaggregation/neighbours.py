"""The nearest other records of each record, exactly or among those of a few cells.

Records are laid out in cells of near ones, and a cell whose box is farther than the neighbours found so far is
passed over. In few dimensions that leaves a small share of the distances; in many it costs little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.grouping.sorting import sort_integers, sort_places
from privpipe.kernels.microaggregation.few_neighbours import few_neighbours
from privpipe.kernels.microaggregation.near_cells import lay_out
from privpipe.kernels.microaggregation.nearest import offer

__all__ = ["nearest_neighbours"]

FEW = 64


def nearest_neighbours(points: NDArray[np.float64], wanted: int, *, cells: int | None = None) -> NDArray[np.int32]:
    """The nearest other records of each record by Euclidean distance; ties go to the earlier row.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Finite.
    wanted : int
        Neighbours of each record.
    cells : int, optional
        Look into so many of the nearest cells only, in half the time; some neighbours then are not the nearest.
        Default: into all that may hold one.

    Returns
    -------
    ndarray of int32, shape (n, min(wanted, n - 1))
        Ascending by row within a record.

    Examples
    --------
    >>> nearest_neighbours(np.array([[0.0], [1.0], [3.0]]), 1).tolist()
    [[1], [0], [1]]
    """
    array = read_only(points, np.float64)
    wanted = max(0, min(wanted, len(array) - 1))
    if wanted == 0:
        return np.empty((len(array), 0), np.int32)
    looked = len(array) if cells is None else cells
    if wanted <= FEW and array.shape[1]:
        return np.asarray(few_neighbours(array, *lay_out(array), wanted, looked))
    return np.asarray(_neighbours(array, wanted, looked))


@njit(nogil=True, cache=True)
def _in_order(points: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """The points by column, in the order of the layout."""
    columns = np.empty((points.shape[1], len(points)), np.float64)
    for j in range(len(columns)):
        for place in range(len(order)):
            columns[j, place] = points[order[place], j]
    return columns


@njit(nogil=True, cache=True)
def _boxes(columns: NDArray[np.float64], starts: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.empty((len(columns), len(starts) - 1), np.float64)
    high = np.empty((len(columns), len(starts) - 1), np.float64)
    for j in range(len(columns)):
        for c in range(len(starts) - 1):
            low[j, c], high[j, c] = np.inf, -np.inf
            for i in range(starts[c], starts[c + 1]):
                low[j, c] = min(low[j, c], columns[j, i])
                high[j, c] = max(high[j, c], columns[j, i])
    return low, high


@njit(nogil=True, cache=True)
def _between_boxes(low: NDArray[np.float64], high: NDArray[np.float64], own: int) -> NDArray[np.float64]:
    """Squared distance of each box to one of them, never above that between two of their points."""
    out = np.zeros(low.shape[1], np.float64)
    for j in range(len(low)):
        for c in range(len(out)):
            gap = max(low[j, c] - high[j, own], low[j, own] - high[j, c], 0.0)
            out[c] += gap * gap
    return out


@njit(nogil=True, cache=True)
def _beyond(low: NDArray[np.float64], high: NDArray[np.float64], point: NDArray[np.float64], reach: float) -> bool:
    """Whether a box lies farther from a point than `reach`, squared."""
    total = 0.0
    for j in range(len(point)):
        x = point[j]
        gap = low[j] - x if x < low[j] else (x - high[j] if x > high[j] else 0.0)
        total += gap * gap
    return total > reach


@njit(nogil=True, cache=True)
def _look(
    first: int,
    stop: int,
    columns: NDArray[np.float64],
    point: NDArray[np.float64],
    distances: NDArray[np.float64],
) -> float:
    """Squared distances to the points at first .. stop - 1; returns the least."""
    out = distances[first:stop]
    for i in range(len(out)):
        out[i] = 0.0
    for j in range(len(columns)):
        column, at = columns[j, first:stop], point[j]
        for i in range(len(out)):
            difference = column[i] - at
            out[i] += difference * difference
    bits = out.view(np.int64)  # numbers from 0 on are ordered as their bits, whose least is found in vectors
    least = bits[0]
    for i in range(len(bits)):
        value = bits[i]
        least = value if value < least else least
    smallest: float = np.int64(least).view(np.float64)
    return smallest


@njit(nogil=True, cache=True)
def _neighbours(points: NDArray[np.float64], wanted: int, cells: int) -> NDArray[np.int32]:
    n = len(points)
    order, starts = lay_out(points)
    columns = _in_order(points, order)
    low, high = _boxes(columns, starts)
    corners = np.empty((2, len(starts) - 1, len(columns)), np.float64)
    for c in range(len(starts) - 1):
        for j in range(len(columns)):
            corners[0, c, j], corners[1, c, j] = low[j, c], high[j, c]
    distances = np.empty(n, np.float64)
    point, heap = np.empty(len(columns), np.float64), np.empty(wanted, np.int64)
    out = np.empty((n, wanted), np.int32)
    for own in range(len(starts) - 1):
        apart = _between_boxes(low, high, own)
        apart[own] = -1.0  # its own cell comes first
        nearby = np.arange(len(apart))
        sort_places(nearby, apart)
        for place in range(starts[own], starts[own + 1]):
            for j in range(len(columns)):
                point[j] = columns[j, place]
            found, looked = 0, 0
            for cell in nearby:
                if found == wanted:
                    worst = distances[heap[0]]
                    if apart[cell] > worst or looked >= cells:
                        break
                    if _beyond(corners[0, cell], corners[1, cell], point, worst):
                        continue
                looked += 1
                least = _look(starts[cell], starts[cell + 1], columns, point, distances)
                if found == wanted and least > distances[heap[0]]:
                    continue
                found = offer(distances, order, starts[cell], starts[cell + 1], wanted, place, heap, found)
            for j in range(wanted):
                heap[j] = order[heap[j]]
            sort_integers(heap, wanted)
            for j in range(wanted):
                out[order[place], j] = heap[j]
    return out
