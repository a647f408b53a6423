"""Groups found by a search, their cheapest partition of the records, and the pricing of further groups.

Column generation prices exactly all groups of one size that cost less than the prices of their records. Such a group
is searched for from its medoid, the member with the least sum of distances to the others. Half of `size` times that sum
is at most the sum over all pairs, which bounds the cost that further members add.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_matrix, vstack

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit
from privpipe.kernels.integer_programs import Limits, minimum
from privpipe.kernels.microaggregation.groups import by_first_member

__all__ = [
    "GAP",
    "Cuts",
    "Pool",
    "PricedGroups",
    "Prices",
    "price_groups",
    "squared_distances",
]


class Cuts(NamedTuple):
    """Triples of records; a group with two or three of them costs extra.

    Parameters
    ----------
    starts, names : ndarray of int64
        The triples that record i is in are names[starts[i]:starts[i + 1]].
    extra : ndarray of float64, shape (triples,)
        At least 0.
    between : ndarray of float64, shape (n, n)
        Sum of the extras of the triples that hold both records.
    """

    starts: Ints
    names: Ints
    extra: Floats
    between: Floats


class PricedGroups(NamedTuple):
    """Arrays that pricing fills in.

    Parameters
    ----------
    least : ndarray of float64, shape (n,)
        Least reduced cost of the groups found that hold a record; 0: none is below 0.
    unseen : ndarray of float64, shape (n,)
        A lower bound on that of the groups around a medoid whose budget ran out; 0: all were examined.
    members : ndarray of int64, shape (room, size)
    reduced : ndarray of float64, shape (room,)
    """

    least: Floats
    unseen: Floats
    members: Ints
    reduced: Floats


class _Around(NamedTuple):
    """The candidates around one medoid, most promising first, and the partial groups of each depth."""

    names: Ints
    prices: Floats
    apart: Floats
    own: Floats
    nearest: Floats
    sums: Floats
    inside: Floats
    spent: Floats
    of_medoid: Floats
    plain: Floats
    central: Floats
    chosen: Ints
    following: Ints


@njit(nogil=True, cache=True)
def _put(least: Floats, many: int, value: float) -> None:
    """Put a value among the `many` least, in order."""
    at = many - 1
    if value >= least[at]:
        return
    while at > 0 and least[at - 1] > value:
        least[at] = least[at - 1]
        at -= 1
    least[at] = value


@njit(nogil=True, cache=True)
def _extra(members: Ints, cuts: Cuts, counted: Ints) -> float:
    """The cost that the triples add to a group."""
    total = 0.0
    for i in members:
        for at in range(cuts.starts[i], cuts.starts[i + 1]):
            counted[cuts.names[at]] += 1
            if counted[cuts.names[at]] == 2:
                total += cuts.extra[cuts.names[at]]
    for i in members:
        for at in range(cuts.starts[i], cuts.starts[i + 1]):
            counted[cuts.names[at]] = 0
    return total


@njit(nogil=True, cache=True)
def _candidates(i: int, apart: Floats, prices: Floats, size: int, tiny: float) -> Ints:
    """Records that a group of reduced cost below 0 around medoid i may hold, most promising first."""
    n = len(prices)
    worth, least = np.empty(n, np.float64), np.full(size - 1, np.inf)
    for q in range(n):
        worth[q] = np.inf
        if q != i:
            worth[q] = 0.5 * apart[i, q] - prices[q]
            _put(least, size - 1, worth[q])
    rest = -prices[i]
    for at in range(size - 2):
        rest += least[at]
    if not rest + least[size - 2] < -tiny:
        return np.empty(0, np.int64)
    some = np.flatnonzero(worth + rest < -tiny)
    return some[np.argsort(worth[some])]


@njit(nogil=True, cache=True)
def _around(i: int, some: Ints, apart: Floats, prices: Floats, size: int) -> _Around:
    count = len(some)
    between, own = np.empty((count, count), np.float64), np.empty(count, np.float64)
    nearest = np.zeros((count, size), np.float64)
    least = np.empty(size, np.float64)
    for x in range(count):
        own[x] = apart[i, some[x]]
        least[:] = np.inf
        for y in range(count):
            between[x, y] = apart[some[x], some[y]]
            if y != x:
                _put(least, size, between[x, y])
        for at in range(1, size):
            nearest[x, at] = nearest[x, at - 1] + least[at - 1]
    sums = np.empty((size, count), np.float64)
    sums[0] = own
    inside, spent, of_medoid = np.zeros(size), np.zeros(size), np.zeros(size)
    spent[0] = -prices[i]
    depths = np.zeros(size, np.int64)
    return _Around(
        some, prices[some], between, own, nearest, sums, inside, spent, of_medoid,
        np.zeros(size), np.zeros(size), depths, depths.copy(),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def _bound(depth: int, size: int, here: _Around, plain: Floats, central: Floats) -> float:
    """Least reduced cost that a partial group can reach; stores the part of all but the last member."""
    left = size - 1 - depth
    plain[:], central[:] = np.inf, np.inf
    for x in range(here.following[depth], len(here.names)):
        total = here.sums[depth, x]
        _put(plain, left, (total + 0.5 * here.nearest[x, left - 1]) / size - here.prices[x])
        _put(central, left, 0.5 * (total + left * here.own[x]) / size - here.prices[x])
    one = here.spent[depth] + here.inside[depth] / size
    other = one + 0.5 * left * here.of_medoid[depth] / size
    for at in range(left - 1):
        one += plain[at]
        other += central[at]
    here.plain[depth], here.central[depth] = one, other
    bound: float = max(one + plain[left - 1], other + central[left - 1])
    return bound


@njit(nogil=True, cache=True)
def _deepen(depth: int, size: int, here: _Around, tiny: float) -> int:
    """Add the next member that may lead to a reduced cost below 0; the new depth."""
    left = size - 1 - depth
    x = here.following[depth]
    if x > len(here.names) - left:
        return depth - 1
    here.following[depth] += 1
    total = here.sums[depth, x]
    plain = (total + 0.5 * here.nearest[x, left - 1]) / size - here.prices[x]
    central = 0.5 * (total + left * here.own[x]) / size - here.prices[x]
    if max(here.plain[depth] + plain, here.central[depth] + central) >= -tiny:
        return depth
    deeper = depth + 1
    here.chosen[deeper], here.following[deeper] = x, x + 1
    here.spent[deeper] = here.spent[depth] - here.prices[x]
    here.inside[deeper] = here.inside[depth] + total
    here.of_medoid[deeper] = here.of_medoid[depth] + here.own[x]
    row, before, after = here.apart[x], here.sums[depth], here.sums[deeper]
    for y in range(x + 1, len(here.names)):
        after[y] = before[y] + row[y]
    return deeper


@njit(nogil=True, cache=True)
def _kept_at(reduced: float, places: Ints, kept: int, written: int, found: PricedGroups) -> int:
    """Where a group is written: a new place, that of the worst of its medoid, or none (-1)."""
    if kept < len(places):
        return written if written < len(found.members) else -1
    worst = 0
    for at in range(1, kept):
        if found.reduced[places[at]] > found.reduced[places[worst]]:
            worst = at
    return places[worst] if found.reduced[places[worst]] > reduced else -1


@njit(nogil=True, cache=True)
def _complete(
    group: Ints,
    here: _Around,
    tiny: float,
    cuts: Cuts,
    counted: Ints,
    places: Ints,
    at: tuple[int, int],
    found: PricedGroups,
) -> tuple[int, int]:
    """Try every last member of a group; how many groups around the medoid are kept, and written in total."""
    size, depth = len(group), len(group) - 2
    kept, written = at
    for level in range(1, size - 1):
        group[level] = here.names[here.chosen[level]]
    for x in range(here.following[depth], len(here.names)):
        reduced = here.spent[depth] + (here.inside[depth] + here.sums[depth, x]) / size - here.prices[x]
        if reduced >= -tiny:
            continue
        group[size - 1] = here.names[x]
        if len(cuts.extra) > 0:
            shared = 0.0
            for a in range(size):
                for b in range(a):
                    shared += cuts.between[group[a], group[b]]
            if shared > 0.0:
                reduced += _extra(group, cuts, counted) - shared / 3.0
        if reduced >= -tiny:
            continue
        for member in group:
            found.least[member] = min(found.least[member], reduced)
        place = _kept_at(reduced, places, kept, written, found)
        if place < 0:
            continue
        found.members[place], found.reduced[place] = group, reduced
        if place == written:
            places[kept] = place
            kept, written = kept + 1, written + 1
    return kept, written


@njit(nogil=True, cache=True)
def price_groups(
    apart: Floats, prices: Floats, size: int, cuts: Cuts, limits: tuple[float, int, int], found: PricedGroups
) -> tuple[int, int]:
    """Find the groups of one size whose cost, with the extras of cuts, is below the sum of their members' prices.

    Parameters
    ----------
    apart : ndarray of float64, shape (n, n)
        Squared distances; the cost of a group is their sum over its pairs, divided by its size.
    prices : ndarray of float64, shape (n,)
    size : int
        At least 2.
    cuts : Cuts
    limits : tuple
        Tolerance below 0; most candidates examined around one medoid; most groups kept of each medoid.
    found : PricedGroups
        Filled in; existing values are kept where they are less.

    Returns
    -------
    int
        Groups written.
    int
        Candidates examined.

    Examples
    --------
    >>> apart = np.array([[0.0, 1.0, 16.0], [1.0, 0.0, 9.0], [16.0, 9.0, 0.0]])
    >>> none = Cuts(np.zeros(4, np.int64), np.empty(0, np.int64), np.empty(0), np.empty((0, 0)))
    >>> found = PricedGroups(np.zeros(3), np.zeros(3), np.empty((9, 2), np.int64), np.empty(9))
    >>> price_groups(apart, np.ones(3), 2, none, (1e-9, 100, 5), found)[0], found.least.tolist()
    (2, [-1.5, -1.5, 0.0])
    """
    tiny, most, keep = limits
    n = len(prices)
    # A triple adds to three pairs when all of it is in the group and to one when two are: a third is at most its extra.
    weighed = apart if len(cuts.extra) == 0 else apart + (size / 3.0) * cuts.between
    counted, places = np.zeros(len(cuts.extra), np.int64), np.empty(keep, np.int64)
    plain, central = np.empty(size, np.float64), np.empty(size, np.float64)
    group, written, looked = np.empty(size, np.int64), 0, 0
    for i in range(n):
        some = _candidates(i, weighed, prices, size, tiny)
        if len(some) < size - 1:
            continue
        here, group[0] = _around(i, some, weighed, prices, size), i
        kept, work, depth, entering, whole = 0, 0, 0, True, 0.0
        while depth >= 0:
            if entering:
                work += len(some) - here.following[depth]
                if work > most and depth > 0:
                    found.unseen[i] = min(found.unseen[i], whole)
                    break
            if entering and depth == size - 2:
                kept, written = _complete(group, here, tiny, cuts, counted, places, (kept, written), found)
                depth, entering = depth - 1, False
                continue
            if entering:
                bound = _bound(depth, size, here, plain, central)
                whole = bound if depth == 0 else whole
                if bound >= -tiny:
                    depth, entering = depth - 1, False
                    continue
            deeper = _deepen(depth, size, here, tiny)
            entering, depth = deeper > depth, deeper
        looked += work
    return written, looked


NODES, COLUMNS_A_RECORD, FEWEST, GAP = 10, (2.0, 1.3), 500, 1e-3
"""Nodes of an integer program, groups per record and at least that each chooses from, and the gap that ends it."""

CUTS_A_ROUND, CUTS_OF_A_RECORD, LEAST_VIOLATION = 300, 4, 0.02
SMALLEST_SHARE = 1e-6


def squared_distances(points: Floats) -> Floats:
    """Squared distances between all records, from differences, which lose no digits.

    Examples
    --------
    >>> squared_distances(np.array([[0.0], [3.0]])).tolist()
    [[0.0, 9.0], [9.0, 0.0]]
    """
    total = np.zeros((len(points), len(points)))
    for column in points.T:
        gaps = column[:, None] - column[None, :]
        total += gaps * gaps
    return total


class Prices(NamedTuple):
    """The price of each record, the extra cost of each triple, and the cost of the relaxation at these."""

    records: Floats
    extra: Floats
    total: float


class Pool:
    """Groups of k to 2k - 1 records, each once, and triples of records that are cut off.

    Parameters
    ----------
    apart : ndarray of float64, shape (n, n)
        Squared distances.
    k : int

    Examples
    --------
    >>> apart = np.subtract.outer([0.0, 1.0, 5.0, 6.0], [0.0, 1.0, 5.0, 6.0]) ** 2
    >>> pool = Pool(apart, 2)
    >>> pool.add_partition(np.array([0, 1, 0, 1]))
    >>> pool.add(np.array([[0, 1], [2, 3]]))
    2
    >>> pool.recombine(pool.relaxed())
    >>> pool.labels().tolist(), pool.best_cost
    ([0, 0, 1, 1], 1.0)
    """

    def __init__(self, apart: Floats, k: int) -> None:
        self.apart, self.k = apart, k
        self.width = 2 * k - 1
        self._seen: dict[bytes, int] = {}
        self._members = np.empty((0, self.width), np.int32)
        self._costs = np.empty(0)
        self._triples = np.empty((0, 3), np.int64)
        self._shares = np.empty(0)
        self._best: list[int] = []
        self._given: Ints | None = None
        self.best_cost = np.inf

    def __len__(self) -> int:
        return len(self._costs)

    def add(self, groups: NDArray[np.integer]) -> int:
        """Add groups, one per row, -1 after the last member; how many are new."""
        padded = np.full((len(groups), self.width), -1, np.int32)
        padded[:, : groups.shape[1]] = groups
        padded = -np.sort(-padded, axis=1)
        fresh: list[int] = []
        for at, row in enumerate(padded):
            key = row.tobytes()
            if key not in self._seen:
                self._seen[key] = len(self._costs) + len(fresh)
                fresh.append(at)
        new = padded[fresh]
        self._members = np.concatenate([self._members, new])
        self._costs = np.concatenate([self._costs, self._costs_of(new)])
        return len(fresh)

    def add_partition(self, labels: Ints) -> None:
        """Add groups that hold each record once; the best partition is kept."""
        sizes = np.bincount(labels)
        order = np.argsort(labels, kind="stable")
        ends = np.cumsum(sizes)
        rows = np.full((len(sizes), max(int(sizes.max()), self.width)), -1, np.int32)
        for at, (end, size) in enumerate(zip(ends, sizes, strict=True)):
            rows[at, :size] = order[end - size : end]
        cost = float(self._costs_of(rows).sum())
        if cost < self.best_cost:
            self.best_cost, self._given, self._best = cost, labels, []
        if rows.shape[1] == self.width:
            self.add(rows)
            if self._given is labels:
                self._best = [self._seen[row.tobytes()] for row in -np.sort(-rows, axis=1)]

    def add_neighbourhoods(self) -> None:
        """Add each record with k - 1 of its nearest, as a start for prices."""
        n, k = len(self.apart), self.k
        many = min(n, k + (3 if k <= 3 else 1))
        near = np.argsort(self.apart, axis=1, kind="stable")[:, : many + 1]
        near = np.array([[i, *(j for j in row if j != i)][:many] for i, row in enumerate(near)])
        for others in combinations(range(1, near.shape[1]), k - 1):
            self.add(near[:, [0, *others]])

    def relaxed(self) -> Prices | None:
        """Prices at which no group of the pool is too cheap and the sum over records is largest; None: not found."""
        every, cut = np.arange(len(self)), len(self._triples) > 0
        holding: list[Any] = [self._holding(every), self._cutting(every)]  # sparse, which the stubs do not cover
        found = linprog(
            self._costs,
            A_ub=holding[1] if cut else None,
            b_ub=np.ones(len(self._triples)) if cut else None,
            A_eq=holding[0],
            b_eq=np.ones(len(self.apart)),
            method="highs-ds",
        )
        if found.status != 0:
            return None
        self._shares = np.asarray(found.x)
        extra = -np.asarray(found.ineqlin.marginals) if cut else np.empty(0)
        return Prices(np.asarray(found.eqlin.marginals), np.maximum(extra, 0.0), float(found.fun or 0.0))

    def rounded(self) -> Ints | None:
        """The last relaxation rounded: groups by their share, and each remaining record to the nearest of them.

        Groups may be larger than 2k - 1. None: there was no relaxation.
        """
        labels, taken = np.full(len(self.apart), -1, np.int64), list[int]()
        for at in np.argsort(-np.round(self._shares, 9), kind="stable"):  # independent of the solver's rounding
            if self._shares[at] <= SMALLEST_SHARE:
                break
            members = self._members[at]
            members = members[members >= 0]
            if (labels[members] < 0).all():
                labels[members] = len(taken)
                taken.append(int(at))
        if not taken:
            return None
        rest, own = np.flatnonzero(labels < 0), self._holding(np.array(taken))
        sizes = np.asarray(own.sum(axis=0)).ravel()
        # Squared distance to a mean: the mean squared distance to the members, minus theirs to the mean.
        to_means = (own.T @ self.apart[:, rest]).T / sizes - self._costs[taken] / sizes
        labels[rest] = np.argmin(to_means, axis=1)
        return labels

    def _reduced_at(self, prices: Prices) -> Floats:
        """The cost of each group minus the prices of its members."""
        every = np.arange(len(self))
        reduced = self._costs - self._holding(every).T @ prices.records
        if len(prices.extra):
            reduced += self._cutting(every)[: len(prices.extra)].T @ prices.extra
        return np.asarray(reduced)

    def cut_off(self) -> int:
        """Add cuts for triples of records that the last relaxation splits by halves; how many."""
        used = np.flatnonzero(self._shares > SMALLEST_SHARE)
        pairs: dict[tuple[int, int], float] = {}
        triples: dict[tuple[int, int, int], float] = {}
        adjacent: dict[int, set[int]] = {}
        for at in used:
            members = sorted(int(i) for i in self._members[at] if i >= 0)
            share = float(self._shares[at])
            for pair in combinations(members, 2):
                pairs[pair] = pairs.get(pair, 0.0) + share
                adjacent.setdefault(pair[0], set()).add(pair[1])
                adjacent.setdefault(pair[1], set()).add(pair[0])
            for triple in combinations(members, 3):
                triples[triple] = triples.get(triple, 0.0) + share
        found: dict[tuple[int, int, int], float] = {}
        for a, b in pairs:
            for c in (adjacent[a] | adjacent[b]) - {a, b}:
                x, y, z = sorted((a, b, c))
                if (x, y, z) not in found:
                    shared = pairs.get((x, y), 0.0) + pairs.get((x, z), 0.0) + pairs.get((y, z), 0.0)
                    found[x, y, z] = shared - 2.0 * triples.get((x, y, z), 0.0) - 1.0
        known = set(map(tuple, self._triples.tolist()))
        return self._cut({each: by for each, by in found.items() if by > LEAST_VIOLATION and each not in known})

    def _cut(self, violated: dict[tuple[int, int, int], float]) -> int:
        """Add the triples that are violated most, a few per record."""
        often: dict[int, int] = {}
        taken: list[tuple[int, int, int]] = []
        for triple, _ in sorted(violated.items(), key=lambda each: (-round(each[1], 6), each[0])):
            if len(taken) < CUTS_A_ROUND and max(often.get(i, 0) for i in triple) < CUTS_OF_A_RECORD:
                taken.append(triple)
                for i in triple:
                    often[i] = often.get(i, 0) + 1
        if taken:
            self._triples = np.concatenate([self._triples, np.array(taken, np.int64)])
        return len(taken)

    def cuts(self, prices: Prices) -> Cuts:
        """The triples that cost extra, in the form in which pricing looks them up."""
        n = len(self.apart)
        active = np.flatnonzero(prices.extra > 0)
        if not len(active):
            return Cuts(np.zeros(n + 1, np.int64), np.empty(0, np.int64), np.empty(0), np.empty((0, 0)))
        triples, extra = self._triples[active], prices.extra[active]
        flat = triples.ravel()
        names = np.repeat(np.arange(len(active)), 3)[np.argsort(flat, kind="stable")]
        starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=n))])
        between = np.zeros((n, n))
        for a, b in ((0, 1), (0, 2), (1, 2)):
            np.add.at(between, (triples[:, a], triples[:, b]), extra)
        return Cuts(starts, names, extra, between + between.T)

    def recombine(self, prices: Prices) -> None:
        """Choose the cheapest partition among the groups that are cheapest at these prices; keep it if it is better."""
        if len(self._best) == 0:
            return
        reduced = self._reduced_at(prices)
        reduced[self._best] = -np.inf
        order = np.argsort(reduced, kind="stable")
        for share in COLUMNS_A_RECORD:  # the second where the first finds no partition
            if self._chosen_from(np.sort(order[: max(int(share * len(self.apart)), len(self._best), FEWEST)])):
                return

    def _chosen_from(self, some: Ints) -> bool:
        """Whether a partition of some of the groups is better than the best so far; then it is kept."""
        n = len(self.apart)
        rows, low = self._holding(some), np.ones(n)
        if len(self._triples):
            cutting = self._cutting(some)
            rows = vstack([rows, cutting])
            low = np.append(low, np.full(cutting.shape[0], -np.inf))
        whole = np.ones(len(some), bool)
        found = minimum(self._costs[some], rows, (low, 1.0), (0.0, 1.0), whole, Limits(nodes=NODES, gap=GAP))
        if found.values is None:
            return False
        chosen = some[found.values > 0.5]
        members = self._members[chosen]
        once = np.sort(members[members >= 0])
        cost = float(self._costs[chosen].sum())
        if cost >= self.best_cost or not np.array_equal(once, np.arange(n)):
            return False
        self.best_cost, self._best, self._given = cost, chosen.tolist(), None
        return True

    def labels(self) -> Ints:
        """The best partition so far, numbered by first member."""
        if self._given is not None:
            return by_first_member(self._given)
        labels = np.empty(len(self.apart), np.int64)
        for group, at in enumerate(self._best):
            members = self._members[at]
            labels[members[members >= 0]] = group
        return by_first_member(labels)

    def _costs_of(self, rows: NDArray[np.int32]) -> Floats:
        """SSE of each group: the squared distances of its pairs divided by its size."""
        total, held = np.zeros(len(rows)), rows >= 0
        for a, b in combinations(range(rows.shape[1]), 2):
            both = held[:, a] & held[:, b]
            total[both] += self.apart[rows[both, a], rows[both, b]]
        return np.asarray(total / np.maximum(held.sum(axis=1), 1))

    def _holding(self, some: Ints) -> csc_matrix:
        """Which records each group holds, shape (n, groups)."""
        rows = self._members[some]
        held = rows >= 0
        starts = np.concatenate([[0], np.cumsum(held.sum(axis=1))])
        return csc_matrix((np.ones(int(starts[-1])), rows[held], starts), shape=(len(self.apart), len(some)))

    def _cutting(self, some: Ints) -> csc_matrix:
        """Which triples each group holds two or three of, shape (triples, groups)."""
        n, many = len(self.apart), len(self._triples)
        marks = csc_matrix((np.ones(3 * many), (np.repeat(np.arange(many), 3), self._triples.ravel())), shape=(many, n))
        shared = (marks @ self._holding(some)).tocoo()
        twice = shared.data >= 2.0
        return csc_matrix((np.ones(int(twice.sum())), (shared.row[twice], shared.col[twice])), shape=shared.shape)
