"""Groups that a search came across: the cheapest partition of the records among them, and what it could cost."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_matrix, vstack

from privpipe.blocks.arrays import Floats, Ints
from privpipe.kernels.integer_programs import Limits, minimum
from privpipe.kernels.microaggregation.group_pricing import Cuts
from privpipe.kernels.microaggregation.groups import by_first_member

__all__ = ["GAP", "Pool", "Prices", "squared_distances"]

NODES, COLUMNS_A_RECORD, FEWEST, GAP = 10, (2.0, 1.3), 500, 1e-3
"""Nodes of an integer program, groups a record and at the least that each chooses from, and the gap that ends it."""

CUTS_A_ROUND, CUTS_OF_A_RECORD, LEAST_VIOLATION = 300, 4, 0.02
SMALLEST_SHARE = 1e-6


def squared_distances(points: Floats) -> Floats:
    """Squared distances between all records, by differences, which lose no digits.

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
    """What records are worth, what triples cost extra, and what the relaxation costs at them."""

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
        """Add groups that hold each record once; the best such are kept."""
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
        """Add each record with k - 1 of its nearest, so that prices have something to go by."""
        n, k = len(self.apart), self.k
        many = min(n, k + (3 if k <= 3 else 1))
        near = np.argsort(self.apart, axis=1, kind="stable")[:, : many + 1]
        near = np.array([[i, *(j for j in row if j != i)][:many] for i, row in enumerate(near)])
        for others in combinations(range(1, near.shape[1]), k - 1):
            self.add(near[:, [0, *others]])

    def relaxed(self) -> Prices | None:
        """Prices at which no group of the pool is too cheap and the records are worth most; None: not found."""
        every, cut = np.arange(len(self)), len(self._triples) > 0
        holding: list[Any] = [self._holding(every), self._cutting(every)]  # sparse, which the stubs know nothing of
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
        """The last relaxation made whole: groups by their share, and each record left over to the nearest of them.

        Groups may be larger than 2k - 1. None: there was no relaxation.
        """
        labels, taken = np.full(len(self.apart), -1, np.int64), list[int]()
        for at in np.argsort(-np.round(self._shares, 9), kind="stable"):  # not by what a solver's rounding says
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
        # Squared distance to a mean: the mean one to the members, less what these are apart from it.
        to_means = (own.T @ self.apart[:, rest]).T / sizes - self._costs[taken] / sizes
        labels[rest] = np.argmin(to_means, axis=1)
        return labels

    def _reduced_at(self, prices: Prices) -> Floats:
        """What each group costs above the prices of its members."""
        every = np.arange(len(self))
        reduced = self._costs - self._holding(every).T @ prices.records
        if len(prices.extra):
            reduced += self._cutting(every)[: len(prices.extra)].T @ prices.extra
        return np.asarray(reduced)

    def cut_off(self) -> int:
        """Cut off triples of records that the last relaxation shares out by halves; how many."""
        used = np.flatnonzero(self._shares > SMALLEST_SHARE)
        pairs: dict[tuple[int, int], float] = {}
        triples: dict[tuple[int, int, int], float] = {}
        beside: dict[int, set[int]] = {}
        for at in used:
            members = sorted(int(i) for i in self._members[at] if i >= 0)
            share = float(self._shares[at])
            for pair in combinations(members, 2):
                pairs[pair] = pairs.get(pair, 0.0) + share
                beside.setdefault(pair[0], set()).add(pair[1])
                beside.setdefault(pair[1], set()).add(pair[0])
            for triple in combinations(members, 3):
                triples[triple] = triples.get(triple, 0.0) + share
        found: dict[tuple[int, int, int], float] = {}
        for a, b in pairs:
            for c in (beside[a] | beside[b]) - {a, b}:
                x, y, z = sorted((a, b, c))
                if (x, y, z) not in found:
                    shared = pairs.get((x, y), 0.0) + pairs.get((x, z), 0.0) + pairs.get((y, z), 0.0)
                    found[x, y, z] = shared - 2.0 * triples.get((x, y, z), 0.0) - 1.0
        known = set(map(tuple, self._triples.tolist()))
        return self._cut({each: by for each, by in found.items() if by > LEAST_VIOLATION and each not in known})

    def _cut(self, violated: dict[tuple[int, int, int], float]) -> int:
        """Take the triples that are violated most, few of each record."""
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
        """The triples that cost extra, as pricing looks them up."""
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
        for share in COLUMNS_A_RECORD:  # the second where the first finds none
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
        """SSE of each group: the squared distances of its pairs by its size."""
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
