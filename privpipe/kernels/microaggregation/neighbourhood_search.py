"""Refinement of groups by rebuilding neighbourhoods of them under a budget of steps, with simulated annealing.

Source of the cooling: Kirkpatrick, Gelatt, Vecchi, Optimization by simulated annealing, Science 220, 1983. Draws and
cooling use sums, products and halvings, no library functions, which round differently from machine to machine.

A step frees the records of a few neighbouring groups, grows new groups from them, descends inside, and keeps the result
if its SSE is smaller, or only slightly larger while the search is warm. Inner products of the freed records are
computed once, so that every later sum is a look-up. Draws belong to the number of the step, and the budget is not a
time: the groups are a function of records, order and key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.kernels.microaggregation.groups import GroupCondition, meets
from privpipe.kernels.microaggregation.neighbourhood_descent import (
    LEAST_GAIN,
    Inside,
    descend_inside,
    grow,
    inner_products,
    padded,
)

__all__ = ["FEWEST_STEPS", "Cooling", "allowed_rise", "cooling_of", "nearest_first", "search_groups"]


U = np.uint64
FRACTION = 1 << 40
HALVINGS, WARM = 9, 0.95
"""How often the heat is halved, and the share of the steps after which no rise is allowed."""

FEWEST_STEPS = 20
"""Steps per record from which on a warm start pays off; with fewer, every step must lower the SSE."""


class Cooling(NamedTuple):
    """Steps of a search, and how warm they are.

    Parameters
    ----------
    iterations : int
    heat : float
        Heat of the first step: the average rise of the SSE that a step may cause.
    stretch : int
        Steps in which the heat is halved; 0: there is no heat.
    """

    iterations: int
    heat: float
    stretch: int


def cooling_of(iterations: int, records: int, group_loss: float) -> Cooling:
    """Start with the mean loss of a group and halve it `HALVINGS` times; a search of few steps starts cold.

    Examples
    --------
    >>> cooling_of(9_000, 100, 0.5), cooling_of(900, 100, 0.5)
    (Cooling(iterations=9000, heat=0.5, stretch=950), Cooling(iterations=900, heat=0.0, stretch=0))
    """
    if iterations < FEWEST_STEPS * records or not group_loss > 0.0:
        return Cooling(iterations, 0.0, 0)
    return Cooling(iterations, group_loss, max(int(WARM * iterations) // HALVINGS, 1))


@njit(nogil=True, cache=True)
def allowed_rise(key: tuple[U, U], step: int, cooling: Cooling) -> float:
    """The rise of the SSE that this step may cause: heat times a nearly exponential draw from word 3 of the step.

    Parameters
    ----------
    key : tuple of uint64
    step : int
    cooling : Cooling

    Examples
    --------
    >>> allowed_rise((np.uint64(1), np.uint64(2)), 99, Cooling(100, 1.0, 10))
    0.0
    """
    if cooling.stretch == 0 or step >= HALVINGS * cooling.stretch:
        return 0.0
    drawn = float(high_product(word_of_2(key[0], key[1], U(step), U(3)), U(FRACTION)))
    share, rise = (drawn + 1.0) / FRACTION, 0.0
    while share < 0.5:
        share *= 2.0
        rise += 1.0
    heat = cooling.heat
    for _ in range(step // cooling.stretch):
        heat *= 0.5
    # Linear within each halving, not stepwise.
    heat *= 1.0 - 0.5 * (step % cooling.stretch) / cooling.stretch
    allowed: float = 0.6931471805599453 * heat * (rise + 2.0 * (1.0 - share))
    return allowed


FEWEST, MOST = 2, 6
"""Least and most groups of a neighbourhood."""


@njit(nogil=True, cache=True)
def nearest_first(points: Floats, around: NDArray[np.int32]) -> NDArray[np.int32]:
    """The neighbours of each record, nearest first; ties by row, the order in which they come."""
    out = np.empty_like(around)
    apart = np.empty(around.shape[1], np.float64)
    for i in range(len(around)):
        for at in range(around.shape[1]):
            distance = 0.0
            for j in range(points.shape[1]):
                distance += (points[around[i, at], j] - points[i, j]) ** 2
            place = at
            while place > 0 and apart[place - 1] > distance:
                apart[place] = apart[place - 1]
                out[i, place] = out[i, place - 1]
                place -= 1
            apart[place] = distance
            out[i, place] = around[i, at]
    return out


@njit(nogil=True, cache=True)
def _bounded(k0: U, k1: U, step: int, word: int, bound: int) -> int:
    """Word number `word` of a step as an integer below `bound`."""
    drawn: int = np.int64(high_product(word_of_2(k0, k1, U(step), U(word)), U(bound)))  # type: ignore[assignment]
    return drawn


@njit(nogil=True, cache=True)
def _neighbourhood(
    k0: U,
    k1: U,
    step: int,
    labels: Ints,
    around: NDArray[np.int32],
    chosen: Ints,
) -> int:
    """Write a few neighbouring groups into `chosen`; how many. Each neighbour is skipped with odds 1 to 3."""
    first = _bounded(k0, k1, step, 0, len(labels))
    wanted = FEWEST + _bounded(k0, k1, step, 1, MOST - FEWEST + 1)
    chosen[0] = labels[first]
    count = 1
    coins, left, word = U(0), 0, 4
    for other in around[first]:
        if left == 0:  # two bits per neighbour
            coins, left = word_of_2(k0, k1, U(step), U(word)), 32
            word += 1
        skipped = (coins & U(3)) == U(0)
        coins, left = coins >> U(2), left - 1
        if skipped:
            continue
        known = False
        for g in range(count):
            known = known or chosen[g] == labels[other]
        if not known:
            chosen[count] = labels[other]
            count += 1
            if count == wanted:
                break
    return count


@njit(nogil=True, cache=True)
def _spread_between(labels: Ints, m: int, gram: Floats) -> float:
    """Sum over groups of |sum of members|^2 / size: the sum of squares minus the SSE.

    The members of a group are contiguous.
    """
    total, first = 0.0, 0
    while first < m:
        stop = first + 1
        while stop < m and labels[stop] == labels[first]:
            stop += 1
        squares = 0.0
        for i in range(first, stop):
            for u in range(first, stop):
                squares += gram[i, u]
        total += squares / (stop - first)
        first = stop
    return total


@njit(nogil=True, cache=True)
def _all_meet(members: Ints, m: int, labels: Ints, t: int, condition: GroupCondition) -> bool:
    counts = np.empty(len(condition.shares), np.int64)
    for g in range(t):
        counts[:] = 0
        size = 0
        for i in range(m):
            if labels[i] == g:
                counts[condition.codes[members[i]]] += 1
                size += 1
        if not meets(counts, size, condition.shares, condition.l, condition.t):
            return False
    return True


@njit(nogil=True, cache=True)
def _link(i: int, g: int, heads: Ints, links: Ints, sizes: Ints) -> None:
    links[i] = heads[g]
    heads[g] = i
    sizes[g] += 1


@njit(nogil=True, cache=True)
def _list_members(
    chosen: Ints,
    heads: Ints,
    links: Ints,
    members: Ints,
    labels: Ints,
) -> None:
    """Write the members of some groups, and the place of each member's group among these."""
    at = 0
    for g in range(len(chosen)):
        i = heads[chosen[g]]
        while i >= 0:
            members[at], labels[at] = i, g
            at += 1
            i = links[i]


@njit(nogil=True, cache=True)
def _how_many(k0: U, k1: U, step: int, m: int, k: int, before: int) -> int:
    """Groups to build from m records: as many as possible, one fewer, or as before; none exceeds 2k - 1."""
    t = m // k
    drawn = _bounded(k0, k1, step, 2, 10)
    if drawn < 3:
        t -= 1
    elif drawn < 6:
        t = before
    return max(min(t, m // k), (m + 2 * k - 2) // (2 * k - 1), 1)


@njit(nogil=True, cache=True)
def _keep(members: Ints, labels: Ints, t: int, written: int, pool: NDArray[np.int32]) -> None:
    """Write the members of each new group to the pool."""
    for g in range(t):
        row, size = pool[(written + g) % len(pool)], 0
        row[:] = -1
        for i in range(len(members)):
            if labels[i] == g:
                row[size] = members[i]
                size += 1


@njit(nogil=True, cache=True)
def search_groups(
    points: Floats,
    start: Ints,
    k: int,
    around: NDArray[np.int32],
    cooling: Cooling,
    words: tuple[U, U],
    condition: GroupCondition,
    pool: NDArray[np.int32],
) -> tuple[Ints, int]:
    """The groups after all steps; their SSE may be higher than that of the given ones where the search is warm.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    start : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1 of k or more records.
    around : ndarray of int32, shape (n, m)
        Neighbours, nearest first.
    cooling : Cooling
        Number of steps, and the rise of the SSE that they may cause.
    words : tuple of uint64
        The key of the draws.
    condition : GroupCondition
        A condition that the given groups meet; the resulting groups meet it too.
    pool : ndarray of int32, shape (room, 2k - 1)
        Every group that is kept is written here, -1 after its members; when full, writing restarts at the beginning.

    Returns
    -------
    ndarray of int64, shape (n,)
        Groups; new ones have at most 2k - 1 records. Numbers have gaps.
    int
        Groups written to the pool.
    """
    (k0, k1), n, written = words, len(points), 0
    labels = start.copy()
    slots = n // k + 1
    heads, links = np.full(slots, -1, np.int64), np.empty(n, np.int64)
    sizes = np.zeros(slots, np.int64)
    for i in range(n - 1, -1, -1):
        _link(i, labels[i], heads, links, sizes)
    free, spare = np.empty(slots, np.int64), 0
    for g in range(slots - 1, -1, -1):
        if sizes[g] == 0:
            free[spare] = g
            spare += 1
    most = MOST * (2 * k - 1)
    wide = padded(most)
    chosen, members = np.empty(MOST, np.int64), np.empty(most, np.int64)
    before, after = np.empty(most, np.int64), np.zeros(wide, np.int64)
    local, gram = np.zeros((points.shape[1], wide), np.float64), np.zeros((most, wide), np.float64)
    grown, dots = np.empty(MOST * 2, np.int64), np.zeros((MOST * 2, wide), np.float64)
    room = Inside(np.ones(wide), np.ones(wide), np.ones(wide), np.ones(wide), np.ones(wide))
    for step in range(cooling.iterations):
        count = _neighbourhood(k0, k1, step, labels, around, chosen)
        m = 0
        for g in range(count):
            m += sizes[chosen[g]]
        if count < FEWEST or m > most:
            continue
        _list_members(chosen[:count], heads, links, members, before)
        t = _how_many(k0, k1, step, m, k, count)
        inner_products(points, members, m, local, gram)
        grow(words, step, t, k, gram, after[:m], grown, dots)
        between = descend_inside(m, t, k, gram, after, grown, dots, room)
        gain = between - _spread_between(before, m, gram)
        if abs(gain) <= LEAST_GAIN or gain < -allowed_rise(words, step, cooling):
            continue
        if len(condition.codes) > 0 and not _all_meet(members, m, after, t, condition):
            continue
        for g in range(count):
            heads[chosen[g]], sizes[chosen[g]] = -1, 0
            free[spare] = chosen[g]
            spare += 1
        for g in range(t):
            spare -= 1
            grown[g] = free[spare]
        for i in range(m - 1, -1, -1):
            labels[members[i]] = grown[after[i]]
            _link(members[i], grown[after[i]], heads, links, sizes)
        if len(pool) > 0:
            _keep(members[:m], after, t, written, pool)
            written += t
    return labels, written
