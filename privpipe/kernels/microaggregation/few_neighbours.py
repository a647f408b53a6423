"""A few nearest neighbours of each record: the kernel of `nearest_neighbours` for the numbers that refinement asks for.

A wrong guess of the processor costs as much as twenty comparisons, so that candidates are taken in, and the distances
of the nearest kept, without branches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.grouping.sorting import sort_places
from privpipe.kernels.microaggregation.near_cells import LANES, look_into, tiles_of

__all__ = ["few_neighbours"]


class _Cells(NamedTuple):
    """Records in an order that puts near ones together, by cell: points, ends of the box, names, where each begins."""

    tiles: NDArray[np.float64]
    corners: NDArray[np.float64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]


class _Room(NamedTuple):
    """What is written anew for each record: its point, distances of a cell, the least ones, and the candidates."""

    point: NDArray[np.float64]
    distances: NDArray[np.float64]
    inside: NDArray[np.int64]
    least: NDArray[np.float64]
    far: NDArray[np.float64]
    names: NDArray[np.int64]


@njit(nogil=True, cache=True)
def _corners(tiles: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Least and largest value of each column in each cell, shape (2, cells, s)."""
    cells, s = tiles.shape[0], tiles.shape[1]
    out = np.empty((2, cells, s), np.float64)
    for c in range(cells):
        for j in range(s):
            low, high = tiles[c, j, 0], tiles[c, j, 0]
            for at in range(starts[c + 1] - starts[c]):
                low, high = min(low, tiles[c, j, at]), max(high, tiles[c, j, at])
            out[0, c, j], out[1, c, j] = low, high
    return out


@njit(nogil=True, cache=True)
def _between_boxes(corners: NDArray[np.float64], own: int, out: NDArray[np.float64]) -> None:
    """Squared distance of each box to one of them, never above that between two of their points."""
    for c in range(corners.shape[1]):
        out[c] = 0.0
        for j in range(corners.shape[2]):
            gap = max(corners[0, c, j] - corners[1, own, j], corners[0, own, j] - corners[1, c, j], 0.0)
            out[c] += gap * gap


@njit(nogil=True, cache=True)
def _beyond(corners: NDArray[np.float64], cell: int, point: NDArray[np.float64], reach: float) -> bool:
    """Whether a box lies farther from a point than `reach`, squared."""
    total = 0.0
    for j in range(len(point)):
        gap = max(corners[0, cell, j] - point[j], point[j] - corners[1, cell, j], 0.0)
        total += gap * gap
    return total > reach


@njit(nogil=True, cache=True)
def _keep(least: NDArray[np.float64], distance: float) -> None:
    """Take a distance into the ascending list of the least ones, whose first entry lies below all."""
    for p in range(len(least) - 1, 0, -1):
        least[p] = min(least[p], max(least[p - 1], distance))


@njit(nogil=True, cache=True)
def _chosen(
    distances: NDArray[np.float64], names: NDArray[np.int64], count: int, worst: float, out: NDArray[np.int64]
) -> None:
    """Write the names of all candidates nearer than `worst`, then the smallest names of those as far."""
    wanted, nearer = len(out), 0
    for at in range(count):
        if distances[at] < worst:
            out[nearer] = names[at]
            nearer += 1
    last = nearer
    for at in range(count):
        if distances[at] == worst and (last < wanted or names[at] < out[wanted - 1]):
            place = min(last, wanted - 1)
            last = place + 1
            while place > nearer and out[place - 1] > names[at]:
                out[place] = out[place - 1]
                place -= 1
            out[place] = names[at]


@njit(nogil=True, cache=True)
def _candidates(
    place: int,
    own: int,
    nearby: NDArray[np.int64],
    apart: NDArray[np.float64],
    all_cells: _Cells,
    cells: int,
    wanted: int,
    room: _Room,
) -> tuple[int, float]:
    """Write distance and name of all that may be among the nearest; how many, and the distance of the last wanted."""
    tiles, corners, order, starts = all_cells
    point, distances, inside, least, far, names = room
    least[:] = np.inf
    least[0] = -1.0
    held, looked, worst = 0, 0, np.inf
    for cell in nearby:
        if held >= wanted:
            if apart[cell] > worst or looked >= cells:
                break
            if _beyond(corners, cell, point, worst):
                continue
        looked += 1
        look_into(tiles, cell, point, distances)
        if cell == own:
            distances[place - starts[own]] = np.nan  # a record is no neighbour of its own
        count = 0
        for at in range(starts[cell + 1] - starts[cell]):
            inside[count] = at
            count += 1 if distances[at] <= worst else 0
        for at in range(count):
            distance = distances[inside[at]]
            if distance <= worst:
                far[held] = distance
                names[held] = order[starts[cell] + inside[at]]
                held += 1
                if distance < worst:
                    _keep(least, distance)
                    worst = least[wanted]
    return held, worst


@njit(nogil=True, cache=True)
def _write(chosen: NDArray[np.int64], row: NDArray[np.int32]) -> None:
    """The chosen names in ascending order: each goes to the place that its rank is."""
    for a in range(len(chosen)):
        rank = 0
        for b in range(len(chosen)):
            rank += 1 if chosen[b] < chosen[a] else 0
        row[rank] = chosen[a]


@njit(nogil=True, cache=True)
def _equals(
    tiles: NDArray[np.float64], cell: int, at: int, point: NDArray[np.float64], first: int, out: NDArray[np.int64]
) -> int:
    """Write the places in a cell, from `first` on, of records at this point; how many there are."""
    count = 0
    for place in range(first, at):
        same = True
        for j in range(len(point)):
            same = same and tiles[cell, j, place] == point[j]
        out[count] = place
        count += 1 if same else 0
    return count


@njit(nogil=True, cache=True)
def few_neighbours(
    points: NDArray[np.float64], order: NDArray[np.int64], starts: NDArray[np.int64], wanted: int, cells: int
) -> NDArray[np.int32]:
    """The nearest other records of each record, ascending by row; ties go to the earlier row.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Finite, s >= 1.
    order, starts : ndarray of int64
        Records in an order that puts near ones together, and where each cell of them begins.
    wanted : int
        1 .. n - 1.
    cells : int
        Look into so many cells that may hold a neighbour at most, and more only until there are enough records.
    """
    n, s = points.shape
    tiles = tiles_of(points, order, starts)
    corners = _corners(tiles, starts)
    distances, apart = np.empty(tiles.shape[2], np.float64), np.empty(len(starts) - 1, np.float64)
    inside, equal = np.empty(len(distances), np.int64), np.empty(len(distances), np.int64)
    # One entry below all, then the least distances; what there is room for beyond the wanted ones is never read.
    least = np.empty((wanted + LANES - 1) // LANES * LANES + 1, np.float64)
    far, names, done = np.empty(n, np.float64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    chosen, point = np.empty(wanted, np.int64), np.empty(s, np.float64)
    out = np.empty((n, wanted), np.int32)
    all_cells = _Cells(tiles, corners, order, starts)
    room = _Room(point, distances, inside, least, far, names)
    for own in range(len(apart)):
        _between_boxes(corners, own, apart)
        apart[own] = -1.0  # its own cell comes first
        nearby = np.arange(len(apart))
        sort_places(nearby, apart)
        for place in range(starts[own], starts[own + 1]):
            if done[place]:
                continue
            record = order[place]
            for j in range(s):
                point[j] = points[record, j]
            held, worst = _candidates(place, own, nearby, apart, all_cells, cells, wanted, room)
            _chosen(far, names, held, worst, chosen)
            _write(chosen, out[record])
            if least[1] > 0.0:
                continue
            # A record at the same point sees the same, but this record in its own place.
            first = place - starts[own] + 1
            for twin in equal[: _equals(tiles, own, starts[own + 1] - starts[own], point, first, equal)]:
                other = order[starts[own] + twin]
                at = 0
                while names[at] != other:
                    at += 1
                names[at] = record
                _chosen(far, names, held, worst, chosen)
                _write(chosen, out[other])
                names[at] = other
                done[starts[own] + twin] = True
    return out
