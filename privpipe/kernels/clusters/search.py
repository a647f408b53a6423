"""Groups are freed a few at a time, grown anew, and kept where they lose no more than before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.kernels.clusters.labels import Labels
from privpipe.kernels.clusters.regrowth import COST, NONE, Freed, Made, allowed, moved, put, regrown

__all__ = ["Combinations", "searched"]

U = np.uint64
Ints = NDArray[np.int64]
FEWEST, MOST = 2, 6
"""Groups that a step frees."""
MOST_FREED = 64
"""Combinations that a step frees, but for those of the first group."""
FIRST, MANY, SKIPS, FEWER, SEEDS = 0, 1, 2, 3, 4
"""Words of a step."""


class Combinations(NamedTuple):
    """Distinct combinations, in the order of their codes.

    Parameters
    ----------
    leaves : ndarray of int32, shape (t, m)
    held : ndarray of int64, shape (t, 2)
        Records, and a bit for each sensitive value seen.
    around : ndarray of int32, shape (t, n)
        Neighbours, nearest first; -1 behind the last.
    """

    leaves: NDArray[np.int32]
    held: Ints
    around: NDArray[np.int32]


def searched(
    labels: Labels,
    rows: Combinations,
    groups: Ints,
    rule: tuple[int, int],
    steps: tuple[int, int],
    key: tuple[np.uint64, np.uint64],
) -> Ints:
    """The group of each combination after some steps.

    Parameters
    ----------
    groups : ndarray of int64, shape (t,)
        Numbers below t; every group meets the rule.
    rule : (int, int)
        Records, and distinct sensitive values, that a group must hold.
    steps : (int, int)
        Numbers of the first step and of the one behind the last: draws belong to them.
    key : (uint64, uint64)
    """
    found = groups.copy()
    if len(found) > 1 and rows.around.shape[1]:
        _search(labels, (*rows, labels.nodes(rows.leaves)), found, rule, steps, key)
    return found


@njit(nogil=True, cache=True, inline="always")
def _word(key, step, word):  # type: ignore[no-untyped-def]
    return word_of_2(key[0], key[1], U(step), U(word))


@njit(nogil=True, cache=True)
def _chosen(state, around, step, key, chosen):  # type: ignore[no-untyped-def]
    """Groups of a drawn combination and of its neighbours, each skipped with odds 1 to 3; how many."""
    groups, _, _, sizes = state
    c = np.int64(high_product(_word(key, step, FIRST), U(len(groups))))
    wanted = FEWEST + np.int64(high_product(_word(key, step, MANY), U(MOST - FEWEST + 1)))
    coins = _word(key, step, SKIPS)
    chosen[0], many, n = groups[c], 1, sizes[groups[c]]
    for at in range(around.shape[1]):
        if around[c, at] < 0 or many == wanted:
            break
        if (coins >> U(2 * (at % 32))) & U(3) == U(0):
            continue
        group = groups[around[c, at]]
        known = n + sizes[group] > MOST_FREED
        for g in range(many):
            known |= chosen[g] == group
        if not known:
            chosen[many] = group
            n += sizes[group]
            many += 1
    return many


@njit(nogil=True, cache=True)
def _free(state, rows, chosen, freed, names):  # type: ignore[no-untyped-def]
    """What is in some groups, in the order of the combinations of each; how many."""
    _, heads, following, _ = state
    leaves, held, _, nodes = rows
    n = 0
    for group in chosen:
        member = heads[group]
        while member != NONE:
            names[n] = member
            freed.leaves[n] = leaves[member]
            freed.nodes[n] = nodes[member]
            freed.held[n] = held[member]
            n += 1
            member = following[member]
    return n


@njit(nogil=True, cache=True)
def _state(groups):  # type: ignore[no-untyped-def]
    """First combination of each group, the next one of each combination, combinations of each group."""
    t = len(groups)
    heads, following, sizes = np.full(t, NONE), np.full(t, NONE), np.zeros(t, np.int64)
    for c in range(t - 1, -1, -1):
        following[c] = heads[groups[c]]
        heads[groups[c]] = c
        sizes[groups[c]] += 1
    return groups, heads, following, sizes


@njit(nogil=True, cache=True)
def _kept(state, names, n, freed, places):  # type: ignore[no-untyped-def]
    """Give combinations to the groups that were made of them."""
    groups, heads, following, sizes = state
    for at in range(n - 1, -1, -1):
        group, c = places[freed.own[at]], names[at]
        groups[c] = group
        following[c] = heads[group]
        heads[group] = c
        sizes[group] += 1


@njit(nogil=True, cache=True)
def _search(labels, rows, groups, rule, steps, key):  # type: ignore[no-untyped-def]
    t, m = rows[0].shape
    state = _state(groups)
    heads, sizes, costs = state[1], state[3], np.zeros(t, np.int64)
    empty, left = np.empty(t, np.int64), 0
    for g in range(t):
        if sizes[g] == 0:
            empty[left] = g
            left += 1
    room = max(MOST_FREED, sizes.max()) + 1
    freed = Freed(
        np.empty((room, m), np.int32),
        np.empty((room, m), np.int32),
        np.empty((room, 2), np.int64),
        np.empty(room, np.int64),
    )
    made = Made(np.empty((room, m), np.int32), np.zeros((room, 4), np.int64))
    names, places, chosen = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(MOST, np.int64)
    draws = np.empty(MOST + 1, np.uint64)
    for g in range(t):
        made.held[0] = 0
        chosen[0] = g
        for at in range(_free(state, rows, chosen[:1], freed, names)):
            put(labels, freed, at, made, 0)
        costs[g] = made.held[0, COST]
    for step in range(steps[0], steps[1]):
        many = _chosen(state, rows[2], step, key, chosen)
        before = costs[chosen[:many]].sum()
        if before == 0:
            continue
        n = _free(state, rows, chosen[:many], freed, names)
        fewer = high_product(_word(key, step, FEWER), U(20))
        for at in range(many + 1):
            draws[at] = _word(key, step, SEEDS + at)
        wanted = max(1, many - np.int64(fewer >= U(10)) - np.int64(fewer >= U(14)) + 3 * np.int64(fewer >= U(16)))
        new = regrown(labels, freed, n, made, rule, wanted, draws)
        if new == 0 or new > many + left:
            continue
        moved(labels, freed, n, made, new, rule)
        if made.held[:new, COST].sum() > before or not allowed(labels, made, new):
            continue
        for g in range(many):
            heads[chosen[g]], sizes[chosen[g]], costs[chosen[g]] = NONE, 0, 0
            empty[left] = chosen[g]
            left += 1
        for g in range(new):
            left -= 1
            places[g] = empty[left]
            costs[places[g]] = made.held[g, COST]
        _kept(state, names, n, freed, places)
