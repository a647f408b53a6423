"""Search for clusters with less loss: a few groups are freed, grown again, and kept where they are not worse."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.compiled import njit
from privpipe.draws.siphash import high_product, word_of_2
from privpipe.kernels.cluster_labels import Labels, climbed

__all__ = ["COST", "NONE", "Combinations", "Freed", "Made", "allowed", "moved", "passes", "put", "regrown", "searched"]


U = np.uint64
NONE = -1
ROUNDS = 3
"""Rounds of single moves."""
RECORDS, VALUES, COST, SIZE = 0, 1, 2, 3


class Freed(NamedTuple):
    """The combinations that a step has to group.

    Parameters
    ----------
    leaves, nodes : ndarray of int32, shape (n, m)
    held : ndarray of int64, shape (n, 2)
        Records, and a bit for each sensitive value seen.
    own : ndarray of int64, shape (n,)
        Group of each, -1 where it is free.
    """

    leaves: NDArray[np.int32]
    nodes: NDArray[np.int32]
    held: Ints
    own: Ints


class Made(NamedTuple):
    """New groups: the nodes that label them; their records, values, cost and size."""

    nodes: NDArray[np.int32]
    held: Ints


@njit(nogil=True, cache=True, inline="always")
def passes(records, values, rule):  # type: ignore[no-untyped-def]
    """Whether a group holds enough records and sensitive values."""
    if records < rule[0]:
        return False
    many, mask = 0, U(values)
    while mask != U(0) and many < rule[1]:
        mask &= mask - U(1)
        many += 1
    return many >= rule[1]


@njit(nogil=True, cache=True, inline="always")
def _lost(labels, nodes, leaves):  # type: ignore[no-untyped-def]
    """The loss of a record under the labels above some nodes and leaves."""
    table, lost, _, _, firsts, widths, _ = labels
    found = np.int64(0)
    for j in range(len(nodes)):
        if widths[j] == 0:
            found += lost[nodes[j] + leaves[j]]
        else:
            found += lost[climbed(table, firsts[j], widths[j], nodes[j], leaves[j])]
    return found


@njit(nogil=True, cache=True)
def put(labels, freed, at, made, g):  # type: ignore[no-untyped-def]
    """Put a combination into a group, which may be empty."""
    table, lost, _, _, firsts, widths, _ = labels
    nodes, held = made.nodes[g], made.held[g]
    leaves = freed.leaves[at]
    found = np.int64(0)
    for j in range(len(nodes)):
        node = freed.nodes[at, j] if held[SIZE] == 0 else nodes[j]
        if widths[j] == 0:
            found += lost[node + leaves[j]]
            nodes[j] = table[node + leaves[j]]
        else:
            nodes[j] = climbed(table, firsts[j], widths[j], node, leaves[j])
            found += lost[nodes[j]]
    if held[SIZE] == 0:
        held[RECORDS] = held[VALUES] = 0
    held[RECORDS] += freed.held[at, 0]
    held[VALUES] |= freed.held[at, 1]
    held[COST] = found * held[RECORDS]
    held[SIZE] += 1
    freed.own[at] = g


@njit(nogil=True, cache=True)
def _seed(labels, freed, n, made, last, draw):  # type: ignore[no-untyped-def]
    """A free combination: drawn, or the farthest from the last group; -1 where none is free."""
    own, free = freed.own, 0
    for at in range(n):
        free += own[at] == NONE
    if free == 0:
        return NONE
    if last != NONE and draw & U(1):
        most, seed = np.int64(-1), NONE
        for at in range(n):
            if own[at] == NONE:
                lost = _lost(labels, made.nodes[last], freed.leaves[at])
                if lost > most:
                    most, seed = lost, at
        return seed
    wanted, at = np.int64((draw >> U(1)) % U(free)), 0
    while own[at] != NONE or wanted > 0:
        wanted -= own[at] == NONE
        at += 1
    return at


@njit(nogil=True, cache=True)
def _grown(labels, freed, n, made, g, rule):  # type: ignore[no-untyped-def]
    """Add the combinations with the least loss until the group passes; whether it does."""
    own, leaves, held = freed.own, freed.leaves, freed.held
    while not passes(made.held[g, RECORDS], made.held[g, VALUES], rule):
        least, best = np.int64(0), NONE
        for at in range(n):
            if own[at] == NONE:
                cost = _lost(labels, made.nodes[g], leaves[at]) * (made.held[g, RECORDS] + held[at, 0])
                if best == NONE or cost < least:
                    least, best = cost, at
        if best == NONE:
            return False
        put(labels, freed, best, made, g)
    return True


@njit(nogil=True, cache=True)
def regrown(labels, freed, n, made, rule, wanted, draws):  # type: ignore[no-untyped-def]
    """Groups of the freed combinations, at most `wanted` unless more pass by themselves; how many, or 0."""
    own, held = freed.own, freed.held
    many, last = 0, NONE
    own[:n] = NONE
    for at in range(n):
        if passes(held[at, 0], held[at, 1], rule):
            made.held[many, SIZE] = 0
            put(labels, freed, at, made, many)
            many += 1
    for draw in draws[: max(0, wanted - many)]:
        seed = _seed(labels, freed, n, made, last, draw)
        if seed == NONE:
            break
        made.held[many, SIZE] = 0
        put(labels, freed, seed, made, many)
        if not _grown(labels, freed, n, made, many, rule):
            for at in range(n):
                if own[at] == many:
                    own[at] = NONE
            break
        last = many
        many += 1
    if many > 0:
        for at in range(n):
            if own[at] == NONE:
                put(labels, freed, at, made, _cheapest(labels, freed, at, made, many)[0])
    return many


@njit(nogil=True, cache=True)
def _cheapest(labels, freed, at, made, many):  # type: ignore[no-untyped-def]
    """The other group to whose cost a combination adds least, and how much."""
    least, best = np.int64(0), NONE
    for g in range(many):
        if g != freed.own[at]:
            records = made.held[g, RECORDS] + freed.held[at, 0]
            cost = _lost(labels, made.nodes[g], freed.leaves[at]) * records - made.held[g, COST]
            if best == NONE or cost < least:
                least, best = cost, g
    return best, least


@njit(nogil=True, cache=True)
def moved(labels, freed, n, made, many, rule):  # type: ignore[no-untyped-def]
    """Single moves that reduce the loss, in the order of the combinations, while the donor still passes."""
    own, held = freed.own, made.held
    for _ in range(ROUNDS if many > 1 else 0):
        changed = False
        for at in range(n):
            g = own[at]
            if held[g, SIZE] == 1 or held[g, COST] == 0 or held[g, RECORDS] - freed.held[at, 0] < rule[0]:
                continue
            best, least = _cheapest(labels, freed, at, made, many)
            if least >= held[g, COST]:
                continue
            held[many, SIZE] = 0
            for other in range(n):
                if own[other] == g and other != at:
                    put(labels, freed, other, made, many)
                    own[other] = g
            if passes(held[many, RECORDS], held[many, VALUES], rule) and held[many, COST] + least < held[g, COST]:
                made.nodes[g] = made.nodes[many]
                held[g] = held[many]
                put(labels, freed, at, made, best)
                changed = True
        if not changed:
            break


@njit(nogil=True, cache=True)
def allowed(labels, made, many):  # type: ignore[no-untyped-def]
    """Whether no group has a forbidden label."""
    for g in range(many):  # noqa: SIM110 (compiled)
        if made.held[g, COST] >= labels.forbidden * made.held[g, RECORDS]:
            return False
    return True


FEWEST, MOST = 2, 6
"""Least and most groups that a step frees."""
MOST_FREED = 64
"""Most combinations that a step frees, apart from those of the first group."""
FIRST, MANY, SKIPS, FEWER, SEEDS = 0, 1, 2, 3, 4
"""Word numbers of the draws of a step."""


class Combinations(NamedTuple):
    """Distinct combinations, in the order of their codes.

    Parameters
    ----------
    leaves : ndarray of int32, shape (t, m)
    held : ndarray of int64, shape (t, 2)
        Records, and a bit for each sensitive value seen.
    around : ndarray of int32, shape (t, n)
        Neighbours, nearest first; -1 after the last.
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
        Numbers of the first step and of the one after the last: draws belong to step numbers.
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
    """The combinations of some groups, in their order within each; how many."""
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
    """Assign combinations to their new groups."""
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
