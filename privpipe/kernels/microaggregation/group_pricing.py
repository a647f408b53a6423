"""All groups of one size that cost less than the prices of their records: the exact pricing of column generation.

A group is looked for from its medoid, the member with the least sum of distances to the others. Half of `size` times
that sum is at most the sum over all pairs, which bounds what the members still to come add.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit

__all__ = ["Cuts", "PricedGroups", "price_groups"]


class Cuts(NamedTuple):
    """Triples of records of which two or three in one group cost extra.

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
    """What pricing fills in.

    Parameters
    ----------
    least : ndarray of float64, shape (n,)
        Least reduced cost of the groups found that hold a record; 0: of none below 0.
    unseen : ndarray of float64, shape (n,)
        A lower bound on that of the groups around a medoid whose work ran out; 0: all were looked at.
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
    """What the triples add to a group's cost."""
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
    """Least reduced cost of what a partial group can become; remembers all but the last member's part."""
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
    """Take the next member that may lead below 0; the new depth."""
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
    """Look at every last member after a first one; how many groups are kept of it, and written at all."""
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
        What counts as nothing below 0; most candidates looked at around one medoid; most groups kept of each.
    found : PricedGroups
        Filled in; what stands there stays where it is less.

    Returns
    -------
    int
        Groups written.
    int
        Candidates looked at.

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
