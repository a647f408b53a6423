"""The nearest other records of each record, exactly or among those of a few cells.

Records are arranged in cells of near ones, and a cell whose box is farther than the neighbours found so far is skipped.
In few dimensions only a small share of the distances is then computed; in many dimensions the test costs little.

For a few neighbours, a mispredicted branch costs as much as twenty comparisons, so candidates are collected, and the
distances of the nearest kept, without branches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.grouping.sorting import sort_integers, sort_places
from privpipe.kernels.microaggregation.nearest import offer

__all__ = ["LANES", "few_neighbours", "lay_out", "look_into", "nearest_neighbours", "tiles_of"]


CELL, LANES = 64, 8


@njit(nogil=True, cache=True)
def _part(order: Ints, first: int, stop: int, middle: int, keys: Floats) -> None:
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
def lay_out(points: Floats) -> tuple[Ints, Ints]:
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
def tiles_of(points: Floats, order: Ints, starts: Ints) -> Floats:
    """The points of each cell by column, contiguous, padded to a multiple of `LANES`."""
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
def look_into(tiles: Floats, cell: int, point: Floats, out: Floats) -> None:
    """Squared distances to the points of a cell, summed column by column; two at a time save memory traffic."""
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


class _Cells(NamedTuple):
    """Records in an order that puts near ones together, by cell: points, ends of the box, numbers, starts."""

    tiles: Floats
    corners: Floats
    order: Ints
    starts: Ints


class _Room(NamedTuple):
    """Buffers that are reused for each record: its point, distances of a cell, the least ones, and the candidates."""

    point: Floats
    distances: Floats
    inside: Ints
    least: Floats
    far: Floats
    names: Ints


@njit(nogil=True, cache=True)
def _corners(tiles: Floats, starts: Ints) -> Floats:
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
def _fill_box_distances(corners: Floats, own: int, out: Floats) -> None:
    """Squared distance of each box to one of them, never above that between two of their points."""
    for c in range(corners.shape[1]):
        out[c] = 0.0
        for j in range(corners.shape[2]):
            gap = max(corners[0, c, j] - corners[1, own, j], corners[0, own, j] - corners[1, c, j], 0.0)
            out[c] += gap * gap


@njit(nogil=True, cache=True)
def _box_beyond(corners: Floats, cell: int, point: Floats, reach: float) -> bool:
    """Whether a box is farther from a point than `reach`, squared."""
    total = 0.0
    for j in range(len(point)):
        gap = max(corners[0, cell, j] - point[j], point[j] - corners[1, cell, j], 0.0)
        total += gap * gap
    return total > reach


@njit(nogil=True, cache=True)
def _keep(least: Floats, distance: float) -> None:
    """Insert a distance into the ascending list of the least ones, whose first entry is below all distances."""
    for p in range(len(least) - 1, 0, -1):
        least[p] = min(least[p], max(least[p - 1], distance))


@njit(nogil=True, cache=True)
def _chosen(distances: Floats, names: Ints, count: int, worst: float, out: Ints) -> None:
    """Write the numbers of all candidates nearer than `worst`, then the smallest numbers of those equally far."""
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
    nearby: Ints,
    apart: Floats,
    all_cells: _Cells,
    cells: int,
    wanted: int,
    room: _Room,
) -> tuple[int, float]:
    """Write distance and number of all that may be among the nearest; how many, and the distance of the last wanted."""
    tiles, corners, order, starts = all_cells
    point, distances, inside, least, far, names = room
    least[:] = np.inf
    least[0] = -1.0
    held, looked, worst = 0, 0, np.inf
    for cell in nearby:
        if held >= wanted:
            if apart[cell] > worst or looked >= cells:
                break
            if _box_beyond(corners, cell, point, worst):
                continue
        looked += 1
        look_into(tiles, cell, point, distances)
        if cell == own:
            distances[place - starts[own]] = np.nan  # a record is not its own neighbour
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
def _write(chosen: Ints, row: NDArray[np.int32]) -> None:
    """Write the chosen numbers in ascending order: each goes to the place given by its rank."""
    for a in range(len(chosen)):
        rank = 0
        for b in range(len(chosen)):
            rank += 1 if chosen[b] < chosen[a] else 0
        row[rank] = chosen[a]


@njit(nogil=True, cache=True)
def _equals(tiles: Floats, cell: int, at: int, point: Floats, first: int, out: Ints) -> int:
    """Write the places of records at this point in a cell, from `first` on; how many there are."""
    count = 0
    for place in range(first, at):
        same = True
        for j in range(len(point)):
            same = same and tiles[cell, j, place] == point[j]
        out[count] = place
        count += 1 if same else 0
    return count


@njit(nogil=True, cache=True)
def few_neighbours(points: Floats, order: Ints, starts: Ints, wanted: int, cells: int) -> NDArray[np.int32]:
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
        Most cells to search that may hold a neighbour; more only until there are enough records.
    """
    n, s = points.shape
    tiles = tiles_of(points, order, starts)
    corners = _corners(tiles, starts)
    distances, apart = np.empty(tiles.shape[2], np.float64), np.empty(len(starts) - 1, np.float64)
    inside, equal = np.empty(len(distances), np.int64), np.empty(len(distances), np.int64)
    # One entry below all, then the least distances; entries beyond the wanted ones are never read.
    least = np.empty((wanted + LANES - 1) // LANES * LANES + 1, np.float64)
    far, names, done = np.empty(n, np.float64), np.empty(n, np.int64), np.zeros(n, np.bool_)
    chosen, point = np.empty(wanted, np.int64), np.empty(s, np.float64)
    out = np.empty((n, wanted), np.int32)
    all_cells = _Cells(tiles, corners, order, starts)
    room = _Room(point, distances, inside, least, far, names)
    for own in range(len(apart)):
        _fill_box_distances(corners, own, apart)
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
            # A record at the same point has the same candidates, except for this record instead of itself.
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


FEW = 64


def nearest_neighbours(points: Floats, wanted: int, *, cells: int | None = None) -> NDArray[np.int32]:
    """The nearest other records of each record by Euclidean distance; ties go to the earlier row.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Finite.
    wanted : int
        Neighbours of each record.
    cells : int, optional
        Search only this many of the nearest cells, in half the time; some neighbours then are not the nearest.
        Default: all cells that may hold one.

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
def _in_order(points: Floats, order: Ints) -> Floats:
    """The points by column, in the order of the layout."""
    columns = np.empty((points.shape[1], len(points)), np.float64)
    for j in range(len(columns)):
        for place in range(len(order)):
            columns[j, place] = points[order[place], j]
    return columns


@njit(nogil=True, cache=True)
def _boxes(columns: Floats, starts: Ints) -> tuple[Floats, Floats]:
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
def _between_boxes(low: Floats, high: Floats, own: int) -> Floats:
    """Squared distance of each box to one of them, never above that between two of their points."""
    out = np.zeros(low.shape[1], np.float64)
    for j in range(len(low)):
        for c in range(len(out)):
            gap = max(low[j, c] - high[j, own], low[j, own] - high[j, c], 0.0)
            out[c] += gap * gap
    return out


@njit(nogil=True, cache=True)
def _beyond(low: Floats, high: Floats, point: Floats, reach: float) -> bool:
    """Whether a box is farther from a point than `reach`, squared."""
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
    columns: Floats,
    point: Floats,
    distances: Floats,
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
    bits = out.view(np.int64)  # non-negative numbers have the order of their bits, whose minimum is vectorised
    least = bits[0]
    for i in range(len(bits)):
        value = bits[i]
        least = value if value < least else least
    smallest: float = np.int64(least).view(np.float64)
    return smallest


@njit(nogil=True, cache=True)
def _neighbours(points: Floats, wanted: int, cells: int) -> NDArray[np.int32]:
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
