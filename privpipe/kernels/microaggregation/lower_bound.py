"""A lower bound of the SSE by column generation, and partitions recombined from the groups found.

The cheapest partition among many groups, which hold each record once, is a set partitioning. Its relaxation over the
groups known so far gives every record a price; groups below their members' prices are added until there are none.
Triples of records that the relaxation splits by halves are cut off (subset-row cuts). Any prices give a bound: where
exact pricing finds groups below their prices, the difference is subtracted from the prices of their members.

The relaxation also shows which groups of different runs and steps fit together; it is integral except for a few
regions, which a short search resolves.

Sources: Aloise, Hansen, Rocha, Santi, Column generation bounds for numerical microaggregation, Journal of Global
Optimization 60, 2014; Jepsen, Petersen, Spoorendonk, Pisinger, Operations Research 56(2), 2008, for the cuts.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.draws import Stream
from privpipe.kernels.microaggregation.group_pool import (
    GAP,
    Pool,
    PricedGroups,
    Prices,
    price_groups,
    squared_distances,
)
from privpipe.kernels.microaggregation.groups import ANYTHING, GroupCondition
from privpipe.kernels.microaggregation.neighbourhood_search import FEWEST_STEPS
from privpipe.kernels.microaggregation.refine import FEW, SMALL_K, descend, search_budget, searched

__all__ = [
    "LARGEST_K",
    "MOST_PROVED",
    "PROVED",
    "PROVED_K",
    "Proof",
    "provable",
    "proved_groups",
    "proved_search",
    "recombined_search",
    "rounded_search",
]


LARGEST_K, ROUNDED, AGAIN = 20, 2, 10
"""k above which relaxations take too long; how many are rounded; search steps per record from each of these."""

FEW_RUNS_K, RUNS = 5, (2, 4)
"""k up to which two runs of the search agree well enough by default; number of runs up to this k, and above."""


def rounded_search(pool: Pool, points: Floats, stream: Stream | None) -> None:
    """Round the last relaxation of a pool, then descend and search from there; the pool keeps the result.

    Parameters
    ----------
    pool : Pool
    points : ndarray of float64, shape (n, s)
    stream : Stream, optional
        Draws of the search; without it, only descent.

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
    points: Floats,
    labels: Ints,
    k: int,
    stream: Stream,
    *,
    iterations: int | None = None,
    condition: GroupCondition = ANYTHING,
) -> Ints:
    """As `search`; a warm search over up to 2,000 records continues from the combined groups of its runs.

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
    for number in range(ROUNDED):
        if pool.relaxed() is None:
            break
        rounded_search(pool, points, stream.child(f"rounded/{number}"))
        pool.cut_off()
    return pool.labels()


PROVED, PROVED_K = 2_000, 5
"""Largest number of records of a block, and largest k, for which a bound is computed."""

REMEMBERED = 16

MOST_PROVED = REMEMBERED * PROVED
"""Most records whose proofs are combined."""

ROUNDS, LAST_ROUNDS, NEAR_ENOUGH, TINY = 40, 6, 2e-4, 1e-9
SETTLED, STALLED, FEW_CUTS = 0.01, 1e-4, 0.03
"""Groups per record that a round adds, relative fall of the relaxation, and cuts per record at which a phase ends."""

PROVABLE, KEPT_OF_FEW = 200, 200
"""Records up to which groups above their prices are added, since the best partition may use them; most per medoid."""

KEPT_OF_EACH, GLANCE, LOOKED_AT = 6, 20_000, 4_000_000
"""Groups kept per medoid and size in a round; candidates examined for them, at first and for the bound."""


class Proof(NamedTuple):
    """Groups, and the least SSE that any groups of k records or more can have.

    Parameters
    ----------
    labels : ndarray of int64, shape (n,)
    bound : float
        Lower bound of the SSE, at least 0.
    """

    labels: Ints
    bound: float


def provable(n: int, k: int) -> bool:
    """Whether a bound is computed for n records.

    Examples
    --------
    >>> provable(2_000, 3), provable(3_000, 3), provable(100, 10)
    (True, False, False)
    """
    return 2 * k <= n <= PROVED and 2 <= k <= PROVED_K


_proofs: OrderedDict[bytes, Proof] = OrderedDict()
_lock = threading.Lock()


def proved_search(
    points: Floats,
    labels: Ints,
    k: int,
    stream: Stream,
    *,
    iterations: int | None = None,
) -> Proof:
    """`searched`, then `proved_groups` over all groups that the search found.

    The last few results are cached, since recording the bound requires the same block a second time.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]])
    >>> proved_search(points, np.array([0, 0, 0, 1, 1, 1]), 3, Stream(bytes(16))).labels.tolist()
    [0, 0, 1, 0, 1, 1]
    """
    request = hashlib.sha256(repr((points.shape, k, iterations, [int(word) for word in stream.key_words])).encode())
    request.update(np.ascontiguousarray(points).tobytes() + np.ascontiguousarray(labels).tobytes())
    with _lock:
        known = _proofs.get(request.digest())
    if known is None:
        found, groups = searched(points, labels, k, stream, iterations=iterations)
        known = proved_groups(points, found, k, known=groups, stream=stream.child("rounded"))
        with _lock:
            _proofs[request.digest()] = known
            while len(_proofs) > REMEMBERED:
                _proofs.popitem(last=False)
    return known


def proved_groups(
    points: Floats,
    labels: Ints,
    k: int,
    *,
    known: Sequence[NDArray[np.int32]] = (),
    stream: Stream | None = None,
    looked_at: int = LOOKED_AT,
) -> Proof:
    """A lower bound of the SSE of any groups of k records or more, and groups at least as good as the given ones.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        n at least k.
    labels : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1 of k records or more.
    k : int
        At least 2.
    known : sequence of ndarray of int32, shape (groups, 2k - 1)
        Further groups to choose from: members, -1 after the last.
    stream : Stream, optional
        Draws of a short search from the rounded relaxation; without it, only descent from there.
    looked_at : int
        Most candidates that pricing examines around one record, not a time: where this runs out, the bound is lower.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [9.0], [2.0], [8.0], [7.0]])
    >>> found = proved_groups(points, np.array([0, 0, 0, 1, 1, 1]), 3)
    >>> found.labels.tolist(), round(found.bound, 6)
    ([0, 0, 1, 0, 1, 1], 4.0)
    """
    apart = squared_distances(points)
    pool = Pool(apart, k)
    pool.add_partition(labels)
    for groups in known:
        pool.add(groups)
    pool.add_neighbourhoods()
    where = _settled(pool, min(GLANCE, looked_at))
    if where is None:
        return Proof(pool.labels(), 0.0)
    rounded_search(pool, points, stream)
    # For larger tables, rounding and searching usually gets closer to the relaxation than an integer program would.
    if len(points) <= PROVABLE or pool.best_cost - where.total > GAP * pool.best_cost:
        pool.recombine(where)
    bound = _bound(pool, where, looked_at)
    if len(points) <= PROVABLE and pool.best_cost - bound > NEAR_ENOUGH * pool.best_cost:
        _priced(pool, where, GLANCE, pool.best_cost - bound)
        pool.recombine(where)
    return Proof(pool.labels(), min(bound, pool.best_cost))


def _settled(pool: Pool, looked_at: int) -> Prices | None:
    """Prices at which a short pricing finds few groups that are too cheap, and no triple is split by halves."""
    where, last = None, np.inf
    for _ in range(ROUNDS):
        prices = pool.relaxed()
        if prices is None:
            break
        where = prices if where is None else _between(where, prices)
        added = _priced(pool, where, looked_at)[1]
        if added <= SETTLED * len(pool.apart) or abs(last - prices.total) <= STALLED * prices.total:
            if pool.cut_off() <= FEW_CUTS * len(pool.apart):
                return prices
            last = np.inf
        else:
            last = prices.total
    return where


def _bound(pool: Pool, where: Prices, looked_at: int) -> float:
    """The best bound from prices when every group is examined, after a few rounds of adding missed groups."""
    bound = 0.0
    for _ in range(LAST_ROUNDS):
        value, added = _priced(pool, where, looked_at)
        bound = max(bound, value)
        prices = pool.relaxed() if added else None
        if prices is None or pool.best_cost - bound <= NEAR_ENOUGH * pool.best_cost:
            break
        where = _between(where, prices)
    return bound


def _between(left: Prices, right: Prices) -> Prices:
    """Prices half way, at which fewer groups are found that become too expensive at the next prices."""
    extra = np.zeros(len(right.extra))
    extra[: len(left.extra)] = left.extra
    return Prices((left.records + right.records) / 2.0, (extra + right.extra) / 2.0, right.total)


def _priced(pool: Pool, prices: Prices, looked_at: int, above: float = 0.0) -> tuple[float, int]:
    """The bound from prices, and how many groups below them, or at most `above` above, are new to the pool."""
    n, k = len(prices.records), pool.k
    scale = pool.best_cost / n
    cuts = pool.cuts(prices)
    least, unseen, added = np.zeros(n), np.zeros(n), 0
    for size in range(k, min(2 * k, n + 1)):
        keep = KEPT_OF_EACH if above == 0 else KEPT_OF_FEW
        room = n * keep
        found = PricedGroups(least, unseen, np.empty((room, size), np.int64), np.empty(room))
        written, _ = price_groups(
            pool.apart, prices.records, size, cuts, (TINY * scale - above, looked_at, keep), found
        )
        added += pool.add(found.members[:written])
    # A group below its prices holds k or more records, each of which is reduced by a k-th of the least found around it;
    # a medoid not fully examined by all of it. What rounding and `TINY` may hide is subtracted at the end.
    value = prices.records.sum() - prices.extra.sum() + least.sum() / k + unseen.sum()
    margin = 2.0 * TINY * pool.best_cost + 1e-12 * (np.abs(prices.records).sum() + prices.extra.sum())
    return float(value - margin), added
