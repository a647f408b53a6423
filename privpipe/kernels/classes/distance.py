"""Earth mover's distance of the sensitive values of each class to a base distribution: equal, ordered, hierarchical."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from privpipe.blocks.arrays import Floats, Ints, read_only, require_codes
from privpipe.compiled import SMALL, njit

__all__ = ["cells_by_rank", "emd_equal_by_class", "emd_hierarchical_by_class", "emd_ordered_by_class"]


Longs = Ints
FEW = 32
"""Most cells of a class that are sorted by insertion."""


def cells_by_rank(offsets: Longs, codes: Longs, counts: Longs, rank: Longs) -> tuple[Longs, Longs]:
    """Ranks of each class's values, ascending within the class, with their counts.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    codes, counts : ndarray of int64, shape (n_cells,)
        Codes are distinct within a class.
    rank : ndarray of int64, shape (m,)
        Rank of each code; a permutation.

    Examples
    --------
    >>> found = cells_by_rank(np.array([0, 2]), np.array([0, 1]), np.array([5, 7]), np.array([1, 0]))
    >>> [part.tolist() for part in found]
    [[0, 1], [7, 5]]
    """
    require_codes(codes, len(rank), "the order of values")
    ints = (read_only(part, np.int64) for part in (offsets, codes, counts, rank))
    found: tuple[Longs, Longs] = _by_rank(*ints)
    return found


@njit(nogil=True, cache=True)
def _by_rank(offsets: Longs, codes: Longs, counts: Longs, rank: Longs) -> tuple[Longs, Longs]:
    ranked, held = np.empty(len(codes), np.int64), np.empty(len(codes), np.int64)
    for c in range(len(offsets) - 1):
        start, end = offsets[c], offsets[c + 1]
        if end - start > FEW:
            own = rank[codes[start:end]]
            order = np.argsort(own)
            ranked[start:end] = own[order]
            held[start:end] = counts[start:end][order]
            continue
        for i in range(start, end):
            own_rank, own_count = rank[codes[i]], counts[i]
            at = i
            while at > start and ranked[at - 1] > own_rank:
                ranked[at], held[at] = ranked[at - 1], held[at - 1]
                at -= 1
            ranked[at], held[at] = own_rank, own_count
    return ranked, held


def emd_equal_by_class(offsets: Ints, codes: Ints, counts: Ints, p: ArrayLike) -> Floats:
    """Distance 1/2 sum_s |q_s - p_s| of each class, all values equally far apart.

    Computed as the sum of q_s - p_s over the values with q_s > p_s, which is the same, costs one step per cell, and
    subtracts nothing from the sum. Source: Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    codes : ndarray of int64, shape (n_cells,)
        Positions in `p`, strictly ascending within a class: the order of the sum, hence its last bits.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1; a class's size is their sum.
    p : array_like of float64, shape (m,)
        Base distribution, summing to 1. Values absent from a class count (q = 0).

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1].

    Raises
    ------
    ValueError
        Codes that do not ascend within a class or are outside `p`: a bug of the caller.

    Examples
    --------
    >>> emd_equal_by_class(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 1, 2]), [0.25, 0.75]).tolist()
    [0.25, 0.25]
    """
    return np.asarray(_emd_equal(*_cells(offsets, codes, counts), read_only(p, np.float64)))


def emd_ordered_by_class(offsets: Ints, codes: Ints, counts: Ints, p: ArrayLike) -> Floats:
    """Distance of each class where values are on a line, one step apart, and m - 1 steps count as 1.

    EMD = 1/(m - 1) sum_{i < m} |sum_{j <= i} (q_j - p_j)|. Between two cells of a class its cumulative share is
    constant while that of `p` rises, so the sum over this interval follows from prefix sums of the cumulative `p` and
    one bisection: O(cells log m) time, O(m) memory. Source: Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007.

    Parameters
    ----------
    offsets, codes, counts, p
        As in `emd_equal_by_class`; codes follow the order of the values.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1]; 0 when m = 1.

    Raises
    ------
    ValueError
        As in `emd_equal_by_class`.

    Examples
    --------
    >>> emd_ordered_by_class(np.array([0, 1, 3]), np.array([0, 0, 2]), np.array([4, 1, 1]), [0.25, 0.5, 0.25]).tolist()
    [0.5, 0.25]
    """
    base = read_only(p, np.float64)
    rise, area = _prefix_sums(base)
    return np.asarray(_emd_ordered(*_cells(offsets, codes, counts), rise, area))


def _cells(offsets: Ints, codes: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    return read_only(offsets, np.int64), read_only(codes, np.int64), read_only(counts, np.int64)


@njit(small=SMALL, nogil=True, cache=True)
def _size_of_class(offsets: Ints, codes: Ints, counts: Ints, c: int, m: int) -> int:
    """Records of class c, its codes checked on the way."""
    size = 0
    last = -1
    for i in range(offsets[c], offsets[c + 1]):
        if codes[i] <= last or codes[i] >= m:
            raise ValueError("value codes must ascend within a class and be inside the base distribution")
        last = codes[i]
        size += counts[i]
    return size


@njit(small=SMALL, nogil=True, cache=True)
def _emd_equal(offsets: Ints, codes: Ints, counts: Ints, p: Floats) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    for c in range(len(out)):
        size = np.float64(_size_of_class(offsets, codes, counts, c, len(p)))
        distance = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            distance += max(counts[i] / size - p[codes[i]], 0.0)
        out[c] = min(distance, 1.0)
    return out


@njit(nogil=True, cache=True)
def _prefix_sums(p: Floats) -> tuple[Floats, Floats]:
    """Cumulative p and the prefix sums of that (entry i: the sum over the first i), with compensated additions."""
    rise = np.empty(len(p), np.float64)
    area = np.empty(len(p) + 1, np.float64)
    total = 0.0
    lost = 0.0
    surface = 0.0
    surface_lost = 0.0
    area[0] = 0.0
    for i in range(len(p)):
        added = total + p[i]  # Knuth's two-sum: `lost` keeps the rounding error
        back = added - total
        lost += (total - (added - back)) + (p[i] - back)
        total = added
        rise[i] = total + lost
        added = surface + rise[i]
        back = added - surface
        surface_lost += (surface - (added - back)) + (rise[i] - back)
        surface = added
        area[i + 1] = surface + surface_lost
    return rise, area


@njit(nogil=True, cache=True)
def _between(level: float, first: int, stop: int, rise: Floats, area: Floats) -> float:
    """Sum of |level - rise[i]| over first <= i < stop; `rise` ascends."""
    low, high = first, stop
    while low < high:
        middle = (low + high) // 2
        if rise[middle] < level:
            low = middle + 1
        else:
            high = middle
    under = level * (low - first) - (area[low] - area[first])
    over = (area[stop] - area[low]) - level * (stop - low)
    total: float = max(under, 0.0) + max(over, 0.0)
    return total


@njit(nogil=True, cache=True)
def _emd_ordered(
    offsets: Ints,
    codes: Ints,
    counts: Ints,
    rise: Floats,
    area: Floats,
) -> Floats:
    out = np.zeros(len(offsets) - 1, np.float64)
    last = len(rise) - 1  # the last cumulative shares are both 1
    for c in range(len(out)):
        size = np.float64(_size_of_class(offsets, codes, counts, c, len(rise)))
        seen = 0
        first = 0
        total = 0.0
        for i in range(offsets[c], offsets[c + 1]):
            total += _between(seen / size, first, min(codes[i], last), rise, area)
            first = codes[i]
            seen += counts[i]
        total += _between(1.0, min(first, last), last, rise, area)
        if last > 0:
            out[c] = min(total / last, 1.0)
    return out


def emd_hierarchical_by_class(
    offsets: Ints,
    leaves: Ints,
    counts: Ints,
    base: Ints,
    nodes: Ints,
) -> Floats:
    """Distance of each class where moving a record to a value under a node of level v costs v/h.

    Each inner node of level v moves the lesser of its children's total surplus and total deficit. Below a node without
    a value of the class there is no surplus, so only the nodes above a class's own cells are visited:
    O(cells x levels) time, and no memory beyond the largest class. Source: Li, Li, Venkatasubramanian, t-Closeness,
    ICDE 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    leaves : ndarray of int64, shape (n_cells,)
        Places of the values in leaf order, strictly ascending within a class.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1; a class's size is their sum.
    base : ndarray of int64, shape (m,)
        Records of each value in the base, in leaf order.
    nodes : ndarray of int64, shape (h + 1, m)
        The node of each value at each level, leaves first; in leaf order the values of a node are contiguous. One
        node at the last level.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        In [0, 1]; exactly 0 for a class with the shares of the base.

    Examples
    --------
    Two values under one node, a third next to it; a class with only the first value moves 1/3 near and 1/3 far.

    >>> nodes = np.array([[0, 1, 2], [0, 0, 1], [0, 0, 0]])
    >>> emd_hierarchical_by_class(
    ...     np.array([0, 1]), np.array([0]), np.array([4]), np.array([1, 1, 1]), nodes
    ... ).tolist()
    [0.5]
    """
    require_codes(leaves, min(len(base), nodes.shape[1]), "the tree of values")
    arrays = (read_only(part, np.int64) for part in (offsets, leaves, counts, base, nodes))
    return np.asarray(_emd(*arrays))


@njit(nogil=True, cache=True)
def _emd(
    offsets: Ints,
    leaves: Ints,
    counts: Ints,
    base: Ints,
    nodes: Ints,
) -> Floats:
    whole = np.zeros(nodes.shape, np.int64)  # records of the base under each node, at the node's number
    for level in range(len(nodes)):
        for leaf in range(len(base)):
            whole[level, nodes[level, leaf]] += base[leaf]
    out = np.zeros(len(offsets) - 1, np.float64)
    height = len(nodes) - 1
    total = np.float64(whole[height, 0])
    room = 64
    place = np.empty(room, np.int64)
    held = np.empty(room, np.int64)
    for c in range(len(out)):
        start, left = offsets[c], offsets[c + 1] - offsets[c]
        if left > room:
            room = 2 * left
            place = np.empty(room, np.int64)
            held = np.empty(room, np.int64)
        size = 0.0
        for i in range(left):
            place[i] = leaves[start + i]
            held[i] = counts[start + i]
            size += held[i]
        for level in range(1, height + 1):
            merged = 0
            i = 0
            while i < left:
                node = nodes[level, place[i]]
                first = place[i]
                records = 0
                surplus = 0.0
                while i < left and nodes[level, place[i]] == node:
                    share = held[i] / size - whole[level - 1, nodes[level - 1, place[i]]] / total
                    surplus += max(share, 0.0)
                    records += held[i]
                    i += 1
                own = records / size - whole[level, node] / total
                out[c] += level / height * max(min(surplus, surplus - own), 0.0)
                place[merged] = first
                held[merged] = records
                merged += 1
            left = merged
        out[c] = min(out[c], 1.0)
    return out
