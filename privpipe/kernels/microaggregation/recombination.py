"""Better partitions from the groups that a search came across: their relaxation is rounded, and searched on from there.

The cheapest partition among many groups is a set partitioning. Its relaxation tells which groups of different runs and
times go together; it is whole but for a few regions, which a short search puts in order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.draws import Stream
from privpipe.kernels.microaggregation.cooling import FEWEST_STEPS
from privpipe.kernels.microaggregation.group_condition import ANYTHING, GroupCondition
from privpipe.kernels.microaggregation.group_pool import Pool, squared_distances
from privpipe.kernels.microaggregation.refine import FEW, SMALL_K, descend, search_budget, searched

__all__ = ["LARGEST_K", "recombined_search", "rounded_search"]

LARGEST_K, ROUNDS, AGAIN = 20, 2, 10
"""k above which relaxations take too long; how many are rounded; steps a record of the search on from each."""

FEW_RUNS_K, RUNS = 5, (2, 4)
"""k up to which two runs of the search agree well enough by default; runs up to there, and above."""


def rounded_search(pool: Pool, points: NDArray[np.float64], stream: Stream | None) -> None:
    """Round the last relaxation of a pool, descend and search on from there; the pool keeps what comes out.

    Parameters
    ----------
    pool : Pool
    points : ndarray of float64, shape (n, s)
    stream : Stream, optional
        Draws of the search; without it, only descend.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [5.0], [6.0]])
    >>> pool = Pool(squared_distances(points), 2)
    >>> pool.add_partition(np.array([0, 1, 0, 1]))
    >>> _ = pool.add(np.array([[0, 1], [2, 3]])), pool.relaxed()
    >>> rounded_search(pool, points, None)
    >>> pool.labels().tolist()
    [0, 0, 1, 1]
    """
    rounded = pool.rounded()
    if rounded is None:
        return
    found = descend(points, rounded, pool.k)
    if stream is not None:
        found, groups = searched(points, found, pool.k, stream, iterations=AGAIN * len(points))
        for each in groups:
            pool.add(each)
    pool.add_partition(found)


def recombined_search(
    points: NDArray[np.float64],
    labels: NDArray[np.int64],
    k: int,
    stream: Stream,
    *,
    iterations: int | None = None,
    condition: GroupCondition = ANYTHING,
) -> NDArray[np.int64]:
    """As `search`; a warm one over up to 2,000 records goes on from what its runs came across, put together.

    Two runs; four with k above 5 and the default number of steps, where the better of two still depends on the seed.

    Parameters
    ----------
    points, labels, k, stream, iterations, condition
        As in `search`.

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups of k or more records, SSE no higher than after `search`.

    Examples
    --------
    >>> points = np.array([[float(i)] for i in (0, 1, 2, 3, 20, 21, 22, 23)])
    >>> recombined_search(points, np.array([0, 1, 0, 1, 0, 1, 0, 1]), 4, Stream(bytes(16))).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    steps = search_budget(len(points), k) if iterations is None else iterations
    few = len(points) <= FEW and SMALL_K < k <= LARGEST_K and not len(condition.codes)
    runs = RUNS[few and iterations is None and k > FEW_RUNS_K]
    found, groups = searched(points, labels, k, stream, iterations=iterations, condition=condition, runs=runs)
    if not groups or not few or steps < FEWEST_STEPS * len(points):
        return found
    pool = Pool(squared_distances(points), k)
    pool.add_partition(found)
    for each in groups:
        pool.add(each)
    for number in range(ROUNDS):
        if pool.relaxed() is None:
            break
        rounded_search(pool, points, stream.child(f"rounded/{number}"))
        pool.cut_off()
    return pool.labels()
