"""Refinement of groups: the best groups along a tour, descent by moves and swaps, search over neighbourhoods.

Sources: Domingo-Ferrer, Martinez-Balleste, Mateo-Sanz, Sebe, Efficient multivariate data-oriented
microaggregation, VLDB Journal 15, 2006, for the path; descent and search are our own. Rows come in keyed order:
records are visited, ties broken and sums added in the order of the rows, so the groups are a function of the records.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.draws import Stream
from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.descent import descend_groups, split_large
from privpipe.kernels.microaggregation.groups import ANYTHING, GroupCondition
from privpipe.kernels.microaggregation.nearest import PART, farthest_part, nearest_part, parts_of
from privpipe.kernels.microaggregation.neighbourhood_search import cooling_of, nearest_first, search_groups
from privpipe.kernels.microaggregation.neighbours import nearest_neighbours
from privpipe.kernels.microaggregation.univariate import path_ends

__all__ = ["FEW", "SMALL_K", "descend", "group_sse", "path_step", "search", "search_budget", "searched"]

SMALL_K, FEW = 3, 2_000
"""Largest k for which the search stays cold, and records of a block up to which it takes more steps."""

POOLED = 4
"""Most groups per record that a run of the search remembers."""


def group_sse(points: Floats, labels: Ints) -> float:
    """Sum of squared distances of each record to the mean of its group.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    labels : ndarray of int64, shape (n,)
        Group numbers 0 .. groups - 1, every one in use.

    Examples
    --------
    >>> group_sse(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
    2.0
    """
    array, groups = _checked(points, labels)
    return float(_sse(array, groups, _centroids(array, groups)))


def path_step(points: Floats, labels: Ints, k: int) -> Ints:
    """The best groups along a tour of the given ones, if they have a smaller SSE; else the given ones.

    The tour starts at the group farthest from the mean and always continues to the nearest remaining group; inside a
    group, members are ordered by their projection on the line from the previous group to the next one.

    Parameters
    ----------
    points, labels
        As in `group_sse`.
    k : int
        Smallest size of a group; the given ones have at least that.

    Returns
    -------
    ndarray of int64, shape (n,)
        New groups have k .. 2k - 1 records.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [2.0], [3.0], [10.0], [11.0], [12.0]])
    >>> path_step(points, np.array([0, 0, 0, 1, 1, 1, 1]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 1]
    """
    array, groups = _checked(points, labels)
    centroids = _centroids(array, groups)
    if len(centroids) < 2:
        return groups
    path = _path(array, groups, centroids)
    ends = path_ends(array[path], k)
    better = np.empty(len(groups), np.int64)
    better[path] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return better if group_sse(array, better) < group_sse(array, groups) else groups


def descend(
    points: Floats,
    labels: Ints,
    k: int,
    *,
    neighbours: int | None = None,
    cells: int | None = None,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """Move records to neighbouring groups and swap them with their members while the SSE falls.

    Every step keeps all sizes at k or more; groups of 2k or more are split in two at the end.

    Parameters
    ----------
    points, labels
        As in `group_sse`.
    k : int
        Smallest size of a group; the given ones have at least that.
    neighbours : int, optional
        The groups of this many nearest records are the candidates of a record. Default: 20; 10 above 20,000
        records.
    cells : int, optional
        Search for them in only this many of the nearest cells (see `nearest_neighbours`).
    condition : GroupCondition
        A condition that the given groups meet and no step breaks; a group that meets it only whole may stay larger.

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups of k .. 2k - 1 records, SSE no higher than before.

    Examples
    --------
    >>> descend(np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]]), np.array([0, 0, 0, 1, 1, 1]), 3).tolist()
    [1, 1, 0, 1, 0, 0]
    """
    array, groups = _checked(points, labels)
    if neighbours is None:
        neighbours = 20 if len(array) <= 20_000 else 10
    if len(array) < 2 * k or groups.max(initial=0) == 0:
        return groups
    around = nearest_neighbours(array, neighbours, cells=cells)
    # Members of a group are contiguous, since a step reads whole groups.
    together, place = _together(groups, int(groups.max()) + 1)
    nearby = read_only(_renamed(around, together, place), np.int32)
    bound = condition.of(together)
    found = descend_groups(
        read_only(array[together], np.float64), read_only(groups[together], np.int64), k, nearby, place, bound
    )[place]
    return np.asarray(split_large(array, found, k, condition))


@njit(nogil=True, cache=True)
def _together(labels: Ints, groups: int) -> tuple[Ints, Ints]:
    """Records by group, each group's in their order, and the place of each record there."""
    starts = np.zeros(groups + 1, np.int64)
    for label in labels:
        starts[label + 1] += 1
    for group in range(groups):
        starts[group + 1] += starts[group]
    together, place = np.empty(len(labels), np.int64), np.empty(len(labels), np.int64)
    for i in range(len(labels)):
        place[i] = starts[labels[i]]
        together[place[i]] = i
        starts[labels[i]] += 1
    return together, place


@njit(nogil=True, cache=True)
def _renamed(around: NDArray[np.int32], together: Ints, place: Ints) -> NDArray[np.int32]:
    """Neighbours by place, for the records in the order of the places."""
    out = np.empty(around.shape, np.int32)
    for at in range(len(together)):
        for j in range(around.shape[1]):
            out[at, j] = place[around[together[at], j]]
    return out


def search_budget(n: int, k: int) -> int:
    """Default number of steps of a search: 200 per record for k up to 3; else 150 up to 2,000 records, 50 above.

    Examples
    --------
    >>> search_budget(100, 3), search_budget(100, 5), search_budget(3_000, 5)
    (20000, 15000, 150000)
    """
    return n * (200 if k <= SMALL_K else 150 if n <= FEW else 50)


def search(
    points: Floats,
    labels: Ints,
    k: int,
    stream: Stream,
    *,
    iterations: int | None = None,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """Rebuild neighbourhoods of groups, drawn by the number of the step, and keep changes that lower the final SSE.

    With k above 3 and at least 20 steps per record, it also accepts steps that raise the SSE, fewer and fewer of them.
    The result is the better of two independent parallel runs, or the given groups.

    Parameters
    ----------
    points, labels, k, condition
        As in `descend`.
    stream : Stream
        Its counter draws for each step, so the result is a function of records, order and key.
    iterations : int, optional
        Number of steps, not a time. Default: `search_budget`.

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups of k or more records, SSE no higher than before.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]])
    >>> found = search(points, np.array([0, 0, 0, 1, 1, 1]), 3, Stream(bytes(16)))
    >>> group_sse(points, found)
    4.0
    """
    return searched(points, labels, k, stream, iterations=iterations, condition=condition)[0]


def searched(
    points: Floats,
    labels: Ints,
    k: int,
    stream: Stream,
    *,
    iterations: int | None = None,
    condition: GroupCondition = ANYTHING,
    runs: int = 2,
) -> tuple[Ints, list[NDArray[np.int32]]]:
    """As `search`, by several independent runs, with all the groups that any of them kept on the way.

    Returns
    -------
    ndarray of int64, shape (n,)
    list of ndarray of int32, shape (groups, 2k - 1)
        For each run: members, -1 after the last; the last few thousand groups.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]])
    >>> searched(points, np.array([0, 0, 0, 1, 1, 1]), 3, Stream(bytes(16)))[1][0].shape[1]
    5
    """
    array, groups = _checked(points, labels)
    steps = search_budget(len(array), k) if iterations is None else iterations
    if steps < 1 or len(array) < 2 * k or groups.max(initial=0) == 0:
        return groups, []
    around = nearest_first(array, nearest_neighbours(array, 6 * k + 20))
    before = group_sse(array, groups)
    # Column generation continues from there for the smallest k; a warm start showed no clear gain (decision 0030).
    warm = before / (int(groups.max()) + 1) if k > SMALL_K else 0.0
    cooling = cooling_of(steps, len(array), warm)

    def run(number: int) -> tuple[Ints, NDArray[np.int32]]:
        words = stream.child(f"search/{number}").key_words
        room = np.empty((POOLED * len(array), 2 * k - 1), np.int32)
        found, written = search_groups(array, groups, k, around, cooling, words, condition, room)
        return np.unique(found, return_inverse=True)[1].astype(np.int64).reshape(-1), room[:written]

    with ThreadPoolExecutor(max_workers=2) as pool:  # the kernel releases the interpreter's lock
        outcomes = list(pool.map(run, range(runs)))
    best, lost = groups, before
    for found, _ in outcomes:
        if (loss := group_sse(array, found)) < lost:
            best, lost = found, loss
    return best, [kept for _, kept in outcomes]


def _checked(points: Floats, labels: Ints) -> tuple[Floats, Ints]:
    array, groups = read_only(points, np.float64), read_only(labels, np.int64)
    if array.ndim != 2 or groups.shape != array.shape[:1]:
        raise UsageError(f"groups of shape {groups.shape} do not fit records of shape {array.shape}")
    return array, groups


@njit(nogil=True, cache=True)
def _centroids(points: Floats, labels: Ints) -> Floats:
    groups = 0
    for label in labels:
        groups = max(groups, label + 1)
    sums = np.zeros((groups, points.shape[1]), np.float64)
    sizes = np.zeros(groups, np.int64)
    for i in range(len(points)):
        sizes[labels[i]] += 1
        for j in range(points.shape[1]):
            sums[labels[i], j] += points[i, j]
    for g in range(groups):
        sums[g] /= sizes[g]
    return sums


@njit(nogil=True, cache=True)
def _sse(points: Floats, labels: Ints, centroids: Floats) -> float:
    total = 0.0
    for i in range(len(points)):
        for j in range(points.shape[1]):
            difference = points[i, j] - centroids[labels[i], j]
            total += difference * difference
    return total


@njit(nogil=True, cache=True)
def _tour(centroids: Floats, middle: Floats) -> Ints:
    """The groups, each followed by the nearest of the remaining ones."""
    groups, s = centroids.shape
    columns = centroids.T.copy()
    names, places = np.arange(groups), np.arange(groups)
    distances = np.empty(groups, np.float64)
    tour = np.empty(groups, np.int64)
    ends = np.empty((2, groups // PART + 1), np.float64)
    parts_of(columns, groups, middle, distances, ends)
    at = farthest_part(distances, names, places, groups, ends)
    for step in range(groups):
        tour[step] = names[at]
        here = columns[:, at].copy()
        left = groups - step - 1  # the remaining ones stay in front
        for j in range(s):
            columns[j, at] = columns[j, left]
        names[at] = names[left]
        places[names[at]] = at
        if left > 0:
            parts_of(columns, left, here, distances, ends)
            at = nearest_part(distances, names, places, left, ends)
    return tour


@njit(nogil=True, cache=True)
def _projections(
    points: Floats,
    labels: Ints,
    centroids: Floats,
    tour: Ints,
) -> tuple[Ints, Floats]:
    """For each record: the step of its group on the tour, and its place along the line through that group."""
    groups = len(tour)
    step_of = np.empty(groups, np.int64)
    step_of[tour] = np.arange(groups)
    steps = step_of[labels]
    along = np.zeros(len(points), np.float64)
    for i in range(len(points)):
        before, after = tour[max(steps[i] - 1, 0)], tour[min(steps[i] + 1, groups - 1)]
        for j in range(points.shape[1]):
            along[i] += points[i, j] * (centroids[after, j] - centroids[before, j])
    return steps, along


def _path(points: Floats, labels: Ints, centroids: Floats) -> Ints:
    middle = np.array([np.sum(column) for column in points.T.copy()]) / len(points)
    steps, along = _projections(points, labels, centroids, _tour(centroids, middle))
    return np.lexsort((along, steps))
