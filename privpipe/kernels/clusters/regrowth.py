"""A few groups at a time, grown anew of what they held: what one step of the search does."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.clusters.labels import climbed

__all__ = ["COST", "NONE", "Freed", "Made", "allowed", "moved", "passes", "put", "regrown"]

U = np.uint64
NONE = -1
ROUNDS = 3
"""Rounds of single moves."""
RECORDS, VALUES, COST, SIZE = 0, 1, 2, 3


class Freed(NamedTuple):
    """What a step has to group.

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
    held: NDArray[np.int64]
    own: NDArray[np.int64]


class Made(NamedTuple):
    """Groups: the nodes that label them; their records, values, cost and size."""

    nodes: NDArray[np.int32]
    held: NDArray[np.int64]


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
    """What a record loses under the labels above some nodes and leaves."""
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
    """Put a combination into a group, a new one where it is empty."""
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
    """Add what loses least until the group passes; whether it does."""
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
    """Groups of what is freed, at most as many as wanted besides combinations that pass alone; how many, 0: none."""
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
    """The group, but for its own, in which a combination adds least to the cost, and how much."""
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
    """Single moves that lose less, in the order of the combinations, while the donor still passes."""
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
    """Whether no group has a label that may not be given."""
    for g in range(many):  # noqa: SIM110 (compiled)
        if made.held[g, COST] >= labels.forbidden * made.held[g, RECORDS]:
            return False
    return True
