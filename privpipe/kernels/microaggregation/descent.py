"""The compiled part of descent: moves and swaps between groups, and splits of those that have become large.

Groups are kept as linked lists of their members, with the sums of their points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Floats, Ints
from privpipe.compiled import njit
from privpipe.kernels.microaggregation.groups import GroupCondition, meets, value_counts
from privpipe.kernels.microaggregation.nearest import farthest, nearest

__all__ = ["descend_groups", "split_large"]

LEAST_GAIN = 1e-9
PASSES = 100


@njit(nogil=True, cache=True)
def _link(i: int, g: int, heads: Ints, links: Ints) -> None:
    """Put record i in front of the list of group g; links hold the next (0) and the previous (1) member."""
    links[i, 0] = heads[g]
    links[i, 1] = -1
    if heads[g] >= 0:
        links[heads[g], 1] = i
    heads[g] = i


@njit(nogil=True, cache=True)
def _unlink(i: int, g: int, heads: Ints, links: Ints) -> None:
    after, before = links[i, 0], links[i, 1]
    if before >= 0:
        links[before, 0] = after
    else:
        heads[g] = after
    if after >= 0:
        links[after, 1] = before


@njit(nogil=True, cache=True)
def _add_members(
    g: int,
    points: Floats,
    heads: Ints,
    links: Ints,
    sums: Floats,
) -> None:
    """The sums of a group, recomputed from its members: running sums would drift."""
    sums[g] = 0.0
    i = heads[g]
    while i >= 0:
        for j in range(sums.shape[1]):
            sums[g, j] += points[i, j]
        i = links[i, 0]


@njit(nogil=True, cache=True)
def _move_gain(i: int, a: int, b: int, points: Floats, sums: Floats, sizes: Ints) -> float:
    """Change of the SSE when record i goes from group a to b."""
    to_a, to_b = 0.0, 0.0
    for j in range(sums.shape[1]):
        x = points[i, j]
        to_a += (x - sums[a, j] / sizes[a]) ** 2
        to_b += (x - sums[b, j] / sizes[b]) ** 2
    change: float = sizes[b] / (sizes[b] + 1.0) * to_b - sizes[a] / (sizes[a] - 1.0) * to_a
    return change


@njit(nogil=True, cache=True)
def _swap_gain(
    i: int,
    u: int,
    a: int,
    b: int,
    points: Floats,
    sums: Floats,
    sizes: Ints,
) -> float:
    """Change of the SSE when record i of group a and record u of group b are exchanged."""
    in_a, in_b = 0.0, 0.0
    for j in range(sums.shape[1]):
        v = points[u, j] - points[i, j]
        in_a += (2.0 * sums[a, j] + v) * v
        in_b += (2.0 * sums[b, j] - v) * v
    change: float = in_b / sizes[b] - in_a / sizes[a]
    return change


@njit(nogil=True, cache=True)
def _exchange(i: int, u: int, a: int, b: int, counts: Ints, codes: Ints) -> None:
    """Count record i in group b instead of a and, unless it is -1, record u in a instead of b."""
    counts[a, codes[i]] -= 1
    counts[b, codes[i]] += 1
    if u >= 0:
        counts[b, codes[u]] -= 1
        counts[a, codes[u]] += 1


@njit(nogil=True, cache=True)
def _allowed(
    i: int,
    u: int,
    a: int,
    b: int,
    counts: Ints,
    sizes: Ints,
    condition: GroupCondition,
) -> bool:
    """Whether both groups still meet the condition after a step."""
    codes, shares = condition.codes, condition.shares
    moved = 1 if u < 0 else 0
    _exchange(i, u, a, b, counts, codes)
    fine: bool = meets(counts[a], sizes[a] - moved, shares, condition.l, condition.t) and meets(
        counts[b], sizes[b] + moved, shares, condition.l, condition.t
    )
    _exchange(i, u, b, a, counts, codes)
    return fine


@njit(nogil=True, cache=True)
def _packed(points: Floats) -> Floats:
    """The points, each with its square and an entry for its product with the sum of its group: all that a step reads,
    in one cache line.
    """
    n, s = points.shape
    rows = np.empty((n, s + 2), np.float64)
    for i in range(n):
        rows[i, s] = 0.0
        for j in range(s):
            rows[i, j] = points[i, j]
            rows[i, s] += points[i, j] * points[i, j]
    return rows


@njit(nogil=True, cache=True)
def _own_products(
    g: int,
    rows: Floats,
    heads: Ints,
    links: Ints,
    sums: Floats,
) -> None:
    """Product of each member and the sum of its group: a term in the gain of every swap with it."""
    i, s = heads[g], sums.shape[1]
    while i >= 0:
        total = 0.0
        for j in range(s):
            total += sums[g, j] * rows[i, j]
        rows[i, s + 1] = total
        i = links[i, 0]


class _Groups(NamedTuple):
    """The current groups: members as linked lists, sums, sizes, and records of each value of a condition."""

    labels: Ints
    heads: Ints
    links: Ints
    sums: Floats
    sizes: Ints
    counts: Ints


@njit(nogil=True, cache=True)
def _best_step(
    i: int,
    k: int,
    candidates: Ints,
    rows: Floats,
    groups: _Groups,
    weights: Floats,
    condition: GroupCondition,
) -> tuple[int, int]:
    """Group that record i should go to (-1: none) and the record that should come back (-1: none).

    The gain of a swap is a linear function of the other record except for its square, so that the terms of one pair of
    groups are computed once; the best step is checked by the plain formula, which loses no digits.
    """
    labels, heads, links, sums, sizes, counts = groups
    a, s = labels[i], sums.shape[1]
    bound = len(condition.codes) > 0
    gain, best_group, best_record = -LEAST_GAIN, -1, -1
    for b in candidates:
        if sizes[a] > k:
            delta = _move_gain(i, a, b, rows, sums, sizes)
            if delta < gain and (not bound or _allowed(i, -1, a, b, counts, sizes, condition)):
                gain, best_group, best_record = delta, b, -1
        of_a, of_b = 1.0 / sizes[a], 1.0 / sizes[b]
        both = of_a + of_b
        fixed = 2.0 * rows[i, s + 1] * of_a - rows[i, s] * both
        across = 0.0
        for j in range(s):
            across += sums[b, j] * rows[i, j]
            weights[j] = 2.0 * (rows[i, j] * both - sums[a, j] * of_a)
        fixed -= 2.0 * across * of_b
        u = heads[b]
        while u >= 0:
            delta = fixed - rows[u, s] * both + 2.0 * rows[u, s + 1] * of_b
            for j in range(s):
                delta += rows[u, j] * weights[j]
            if delta < gain and (not bound or _allowed(i, u, a, b, counts, sizes, condition)):
                gain, best_group, best_record = delta, b, u
            u = links[u, 0]
    if best_record >= 0 and not _swap_gain(i, best_record, a, best_group, rows, sums, sizes) < -LEAST_GAIN:
        return -1, -1
    return best_group, best_record


@njit(nogil=True, cache=True)
def _candidates(
    i: int,
    visit: int,
    around: NDArray[np.int32],
    labels: Ints,
    changed: Ints,
    looked: Ints,
    seen: Ints,
    room: Ints,
) -> int:
    """Write the groups around record i into `room`, except those examined since they last changed; how many."""
    count = 0
    for other in around[i]:
        b = labels[other]
        if b != labels[i] and seen[b] != visit:
            seen[b] = visit
            if max(changed[labels[i]], changed[b]) > looked[i]:
                room[count] = b
                count += 1
    return count


@njit(nogil=True, cache=True)
def descend_groups(
    points: Floats,
    start: Ints,
    k: int,
    around: NDArray[np.int32],
    visits: Ints,
    condition: GroupCondition,
) -> Ints:
    """Take the best move or swap of each record in turn until a pass over all changes nothing.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
    start : ndarray of int64, shape (n,)
        Groups 0 .. groups - 1 of at least k records.
    around : ndarray of int32, shape (n, m)
        Records whose groups are the candidates of each record.
    visits : ndarray of int64, shape (n,)
        The records in the order in which they are visited. Fastest where the rows of a group are contiguous.
    condition : GroupCondition
        No step is taken that breaks it.
    """
    n, s = points.shape
    labels = start.copy()
    groups = labels.max() + 1
    heads, links = np.full(groups, -1, np.int64), np.empty((n, 2), np.int64)
    sizes, sums = np.zeros(groups, np.int64), np.empty((groups, s), np.float64)
    for i in range(n - 1, -1, -1):
        _link(i, labels[i], heads, links)
        sizes[labels[i]] += 1
    rows, weights = _packed(points), np.empty(s, np.float64)
    for g in range(groups):
        _add_members(g, rows, heads, links, sums)
        _own_products(g, rows, heads, links, sums)
    counts = value_counts(labels, groups, condition.codes, len(condition.shares))
    now = _Groups(labels, heads, links, sums, sizes, counts)
    changed, looked = np.zeros(groups, np.int64), np.full(n, -1, np.int64)  # times counted in changes
    seen, room = np.full(groups, -1, np.int64), np.empty(around.shape[1], np.int64)
    clock = 0
    for turn in range(PASSES):
        before = clock
        for i in visits:
            count = _candidates(i, turn * n + i, around, labels, changed, looked, seen, room)
            a = labels[i]
            b, back = _best_step(i, k, room[:count], rows, now, weights, condition)
            looked[i] = clock
            if b < 0:
                continue
            if len(condition.codes) > 0:
                _exchange(i, back, a, b, counts, condition.codes)
            clock += 1
            _unlink(i, a, heads, links)
            if back >= 0:
                _unlink(back, b, heads, links)
                _link(back, a, heads, links)
                labels[back] = a
            else:
                sizes[a] -= 1
                sizes[b] += 1
            _link(i, b, heads, links)
            labels[i] = b
            for g in (a, b):
                _add_members(g, rows, heads, links, sums)
                _own_products(g, rows, heads, links, sums)
            changed[a] = changed[b] = clock
        if clock == before:
            break
    return labels


@njit(nogil=True, cache=True)
def _distances(
    members: Ints,
    count: int,
    points: Floats,
    point: Floats,
    out: Floats,
) -> None:
    for m in range(count):
        out[m] = 0.0
        for j in range(points.shape[1]):
            out[m] += (points[members[m], j] - point[j]) ** 2


@njit(nogil=True, cache=True)
def _halves_meet(heap: Ints, members: Ints, count: int, condition: GroupCondition) -> bool:
    """Whether the members at these places, and those at the others, each meet the condition."""
    codes, shares = condition.codes, condition.shares
    if len(codes) == 0:
        return True
    off, left = np.zeros(len(shares), np.int64), np.zeros(len(shares), np.int64)
    for place in range(count):
        left[codes[members[place]]] += 1
    for place in heap:
        off[codes[members[place]]] += 1
        left[codes[members[place]]] -= 1
    fine: bool = meets(off, len(heap), shares, condition.l, condition.t) and meets(
        left, count - len(heap), shares, condition.l, condition.t
    )
    return fine


@njit(nogil=True, cache=True)
def split_large(points: Floats, start: Ints, k: int, condition: GroupCondition) -> Ints:
    """Split groups of 2k or more: the member farthest from the mean and its k - 1 nearest leave, repeatedly.

    Under a condition a group stays whole unless both parts meet it.
    """
    labels = start.copy()
    n, given = len(labels), labels.max() + 1
    groups = given
    sizes = np.zeros(given, np.int64)
    for i in range(n):
        sizes[labels[i]] += 1
    members, distances = np.empty(n, np.int64), np.empty(n, np.float64)
    middle, heap = np.empty(points.shape[1], np.float64), np.empty(k, np.int64)
    for g in range(given):
        while sizes[g] >= 2 * k:
            count = 0
            middle[:] = 0.0
            for i in range(n):
                if labels[i] == g:
                    members[count] = i
                    count += 1
                    middle += points[i]
            _distances(members, count, points, middle / count, distances)
            far = farthest(distances, members, count)
            _distances(members, count, points, points[members[far]], distances)
            heap[nearest(distances, members, count, k - 1, far, heap)] = far
            if not _halves_meet(heap, members, count, condition):
                break
            for place in heap:
                labels[members[place]] = groups
            groups += 1
            sizes[g] -= k
    return labels
