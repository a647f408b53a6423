"""Class tables from the cells of an engine, sorted by class, and figures that are counts of cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import SMALL, njit
from privpipe.errors import UsageError

__all__ = [
    "boundaries",
    "counted_once",
    "distinct_by_class",
    "largest_by_class",
    "marginal_cells",
    "merged_cells",
    "ratio_of_tails",
    "recursive_ratio_by_class",
    "recursive_tail_by_class",
    "row_cells",
    "sum_by_class",
    "top_share_by_class",
]


SCANNED = 8  # codes scanned per row or cell of a class, instead of sorting the codes it has


@njit(small=SMALL, cache=True, nogil=True)
def sum_by_class(offsets: Any, counts: Any) -> Any:
    """Sum of the cells of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    counts : ndarray of int64 or float64, shape (n_cells,)

    Returns
    -------
    ndarray of the counts' type, shape (n_classes,)
        Added up in the order of the cells.

    Examples
    --------
    >>> sum_by_class(np.array([0, 2, 3]), np.array([4, 1, 2])).tolist()
    [5, 2]
    """
    sums = np.zeros(len(offsets) - 1, counts.dtype)
    for c in range(len(sums)):
        for i in range(offsets[c], offsets[c + 1]):
            sums[c] += counts[i]
    return sums


@njit(small=SMALL, cache=True, nogil=True)
def _sort_codes(codes: Any, start: int, stop: int) -> None:
    if stop - start > 24:
        codes[start:stop] = np.sort(codes[start:stop])
        return
    for i in range(start + 1, stop):
        code, j = codes[i], i - 1
        while j >= start and codes[j] > code:
            codes[j + 1] = codes[j]
            j -= 1
        codes[j + 1] = code


@njit(small=SMALL, cache=True, nogil=True)
def _sort_pairs(codes: Any, counts: Any, start: int, stop: int) -> None:
    """Shell sort: classes are usually small, and numpy's sorts take seconds to compile."""
    gap = stop - start if stop - start > 24 else 2
    while gap > 1:
        gap = max(1, 4 * gap // 9)
        for i in range(start + gap, stop):
            code, count, j = codes[i], counts[i], i - gap
            while j >= start and codes[j] > code:
                codes[j + gap], counts[j + gap] = codes[j], counts[j]
                j -= gap
            codes[j + gap], counts[j + gap] = code, count


@njit(small=SMALL, cache=True, nogil=True)
def marginal_cells(offsets: Any, codes: Any, counts: Any) -> tuple[Any, Any, Any]:
    """Cells of one column from joint cells: codes ascending in each class, counts of equal codes added up.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
    codes, counts : ndarray of int64, shape (n_cells,)
        In any order within a class; not changed.

    Returns
    -------
    (offsets, codes, counts)
        Of the marginal cells.

    Examples
    --------
    >>> found = marginal_cells(np.array([0, 3, 4]), np.array([2, 1, 2, 0]), np.array([1, 5, 3, 4]))
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [1, 2, 0], [5, 4, 4]]
    """
    sorted_codes, sorted_counts = codes.copy(), counts.copy()
    starts = np.empty_like(offsets)
    starts[0] = 0
    filled = 0
    for c in range(len(offsets) - 1):
        start, stop = offsets[c], offsets[c + 1]
        _sort_pairs(sorted_codes, sorted_counts, start, stop)
        for i in range(start, stop):
            if i > start and sorted_codes[i] == sorted_codes[filled - 1]:
                sorted_counts[filled - 1] += sorted_counts[i]
            else:
                sorted_codes[filled] = sorted_codes[i]
                sorted_counts[filled] = sorted_counts[i]
                filled += 1
        starts[c + 1] = filled
    return starts, sorted_codes[:filled].copy(), sorted_counts[:filled].copy()


@njit(cache=True, nogil=True)
def row_cells(offsets: Any, codes: Any, values: int) -> tuple[Any, Any, Any]:
    """Cells of classes from the code of each of their rows.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        The rows of class c are ``offsets[c]:offsets[c + 1]``.
    codes : ndarray of int32, shape (n_rows,)
    values : int
        Codes are below this.

    Returns
    -------
    (offsets, codes, counts)
        Of the cells, all int32; codes ascending within each class.

    Examples
    --------
    >>> found = row_cells(np.array([0, 3, 4]), np.array([2, 0, 2, 1], np.int32), 3)
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [0, 2, 1], [1, 2, 1]]
    """
    classes = len(offsets) - 1
    room = min(len(codes), classes * values)
    found, sums = np.empty(room, np.int32), np.empty(room, np.int32)
    ends = np.zeros(classes + 1, np.int32)
    seen = np.zeros(values, np.int64)
    filled = 0
    for c in range(classes):
        first = filled
        if values <= SCANNED * (offsets[c + 1] - offsets[c]):
            for i in range(offsets[c], offsets[c + 1]):
                seen[codes[i]] += 1
            filled = _emit_scanned(seen, found, sums, first)
        else:
            for i in range(offsets[c], offsets[c + 1]):
                if seen[codes[i]] == 0:
                    found[filled] = codes[i]
                    filled += 1
                seen[codes[i]] += 1
            _emit_sorted(seen, found, sums, first, filled)
        ends[c + 1] = filled
    return ends, found[:filled].copy(), sums[:filled].copy()


@njit(cache=True, nogil=True)
def merged_cells(offsets: Any, order: Any, starts: Any, codes: Any, counts: Any, values: int) -> tuple[Any, Any, Any]:
    """Cells of classes that each consist of some lists of cells; counts of equal codes are added up.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        The lists of class c are ``order[offsets[c]:offsets[c + 1]]``.
    order : ndarray of int64, shape (n_lists,)
    starts : ndarray of int64, shape (n_lists + 1,)
        The cells of list i are ``starts[i]:starts[i + 1]``.
    codes, counts : ndarray of int32, shape (n_cells,)
        In any order within a list.
    values : int
        Codes are below this.

    Returns
    -------
    (offsets, codes, counts)
        Of the classes, all int64; codes ascending within each.

    Examples
    --------
    >>> codes, counts = np.array([2, 0, 1, 2], np.int32), np.array([1, 5, 3, 4], np.int32)
    >>> found = merged_cells(np.array([0, 2, 3]), np.array([0, 2, 1]), np.array([0, 2, 3, 4]), codes, counts, 3)
    >>> [part.tolist() for part in found]
    [[0, 2, 3], [0, 2, 1], [5, 5, 3]]
    """
    classes = len(offsets) - 1
    room = min(len(codes), classes * values)
    found, sums = np.empty(room, np.int64), np.empty(room, np.int64)
    ends = np.zeros(classes + 1, np.int64)
    seen = np.zeros(values, np.int64)
    filled = 0
    for c in range(classes):
        first, cells = filled, 0
        for at in range(offsets[c], offsets[c + 1]):
            cells += starts[order[at] + 1] - starts[order[at]]
        scanned = values <= SCANNED * cells
        for at in range(offsets[c], offsets[c + 1]):
            for i in range(starts[order[at]], starts[order[at] + 1]):
                if not scanned and seen[codes[i]] == 0:
                    found[filled] = codes[i]
                    filled += 1
                seen[codes[i]] += counts[i]
        if scanned:
            filled = _emit_scanned(seen, found, sums, first)
        else:
            _emit_sorted(seen, found, sums, first, filled)
        ends[c + 1] = filled
    return ends, found[:filled].copy(), sums[:filled].copy()


@njit(cache=True, nogil=True)
def _emit_scanned(seen: Any, found: Any, sums: Any, filled: int) -> int:
    """Write the codes that have a count, by scanning all codes: faster than sorting where a class has most of them."""
    for code in range(len(seen)):
        if seen[code]:
            found[filled], sums[filled] = code, seen[code]
            seen[code] = 0
            filled += 1
    return filled


@njit(cache=True, nogil=True)
def _emit_sorted(seen: Any, found: Any, sums: Any, first: int, filled: int) -> None:
    """Sort the codes found, and write their counts."""
    if filled > first + 1:
        _sort_codes(found, first, filled)
    for i in range(first, filled):
        sums[i] = seen[found[i]]
        seen[found[i]] = 0


def boundaries(changes: Bools) -> Ints:
    """Class offsets of rows sorted by key, from whether each row's key differs from the row before.

    Parameters
    ----------
    changes : ndarray of bool, shape (n,)
        The first is taken as True.

    Examples
    --------
    >>> boundaries(np.array([True, False, True])).tolist()
    [0, 2, 3]
    """
    if not len(changes):
        return np.zeros(1, np.int64)
    starts = np.flatnonzero(changes[1:]) + 1
    return np.concatenate([[0], starts, [len(changes)]]).astype(np.int64)


def distinct_by_class(offsets: Ints) -> Ints:
    """Number of distinct values of each class: of its cells, since each holds one value.

    Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007.

    Examples
    --------
    >>> distinct_by_class(np.array([0, 2, 3])).tolist()
    [2, 1]
    """
    ends: Ints = np.asarray(offsets, dtype=np.int64)
    return ends[1:] - ends[:-1]


def largest_by_class(offsets: Ints, counts: Ints) -> Ints:
    """r_1, the count of the most frequent value of each class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, or persons who have its value, at least 1.

    Examples
    --------
    >>> largest_by_class(np.array([0, 2, 3]), np.array([1, 5, 4])).tolist()
    [5, 4]
    """
    return np.asarray(_largest(read_only(offsets, np.int64), read_only(counts, np.int64)))


def top_share_by_class(offsets: Ints, counts: Ints, sizes: Ints) -> Floats:
    """max_s q_cs, the share of the most frequent value of each class (arrays as in `largest_by_class`).

    Source: Wong, Li, Fu, Wang, (alpha, k)-anonymity, KDD 2006.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_classes,)
        n_c of each class: its records, or its persons, one of whom may be in several cells.

    Examples
    --------
    >>> top_share_by_class(np.array([0, 2, 3]), np.array([1, 3, 4]), np.array([4, 4])).tolist()
    [0.75, 1.0]

    Three persons, all with the first value and each with one further value:

    >>> top_share_by_class(np.array([0, 4]), np.array([3, 1, 1, 1]), np.array([3])).tolist()
    [1.0]
    """
    return np.asarray(largest_by_class(offsets, counts) / np.asarray(sizes, dtype=np.float64))


@njit(nogil=True, cache=True)
def _largest(offsets: Ints, counts: Ints) -> Ints:
    out = np.empty(len(offsets) - 1, np.int64)
    for c in range(len(out)):
        largest = 0
        for i in range(offsets[c], offsets[c + 1]):
            largest = max(largest, counts[i])
        out[c] = largest
    return out


def counted_once(numbers: Ints, classes: int, order: Ints, who: Ints, persons: Ints, left: Ints) -> Ints:
    """The persons that each combination adds to its class so that no person is counted twice in it.

    Parameters
    ----------
    numbers : ndarray of int64, shape (t,)
        Class of each combination, below `classes`.
    order : ndarray of int64, shape (t,)
        Places of the combinations, those with the same `who` contiguous.
    who : ndarray of int64, shape (t,)
        Person to whom a combination belongs (or person and value), at least 0.
    persons : ndarray of int64, shape (t,)
        Persons it represents: 1, unless none of them has another combination.
    left : ndarray of int64, shape (t,)
        Its records; one without any adds nothing.

    Returns
    -------
    ndarray of int64, shape (t,)
        `persons` at the first combination of each `who` in each class, otherwise 0: the sum over a class is its number
        of different persons.

    Examples
    --------
    >>> numbers, who = np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1])
    >>> counted_once(numbers, 2, np.arange(4), who, np.array([1, 1, 1, 5]), np.ones(4, np.int64)).tolist()
    [1, 1, 0, 5]
    """
    ints = (read_only(array, np.int64) for array in (order, who, persons, left))
    return np.asarray(_once(read_only(numbers, np.int64), classes, *ints))


@njit(nogil=True, cache=True)
def _once(numbers: Ints, classes: int, order: Ints, who: Ints, persons: Ints, left: Ints) -> Ints:
    last = np.full(classes, -1, np.int64)
    adds = np.zeros(len(numbers), np.int64)
    for i in order:
        if left[i] == 0:
            continue
        c = numbers[i]
        if last[c] != who[i]:
            last[c] = who[i]
            adds[i] = persons[i]
    return adds


def recursive_ratio_by_class(offsets: Ints, counts: Ints, l: int) -> Floats:
    """c* = r_1 / (r_l + ... + r_m) of each class, its counts r in descending order.

    A class is recursively (c, l)-diverse when c* is strictly below c.
    Source: Machanavajjhala et al., l-Diversity, ACM TKDD 1(1), 2007.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``.
    counts : ndarray of int64, shape (n_cells,)
        Records of each cell, at least 1, in any order within a class.
    l : int
        At least 1; l = 1 gives r_1 / n_c.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        Positive; infinite where a class has fewer than l values.

    Examples
    --------
    >>> recursive_ratio_by_class(np.array([0, 3, 4]), np.array([3, 6, 1, 9]), l=3).tolist()
    [6.0, inf]
    """
    return ratio_of_tails(*recursive_tail_by_class(offsets, counts, l))


def ratio_of_tails(largest: Ints, tail: Ints) -> Floats:
    """c* of each class from the result of `recursive_tail_by_class`.

    Examples
    --------
    >>> ratio_of_tails(np.array([6, 9]), np.array([4, 0])).tolist()
    [1.5, inf]
    """
    return np.asarray(_ratios(read_only(largest, np.int64), read_only(tail, np.int64)))


def recursive_tail_by_class(offsets: Ints, counts: Ints, l: int) -> tuple[Ints, Ints]:
    """r_1 and r_l + ... + r_m of each class as integers; a tail of 0: fewer than l values.

    Examples
    --------
    >>> [part.tolist() for part in recursive_tail_by_class(np.array([0, 3]), np.array([6, 3, 1]), l=2)]
    [[6], [4]]
    """
    if l < 1:
        raise UsageError(f"recursive diversity needs l >= 1, got {l}")
    return _tails(read_only(offsets, np.int64), read_only(counts, np.int64), l)  # type: ignore[no-any-return]


@njit(nogil=True, cache=True)
def _tails(offsets: Ints, counts: Ints, l: int) -> tuple[Ints, Ints]:
    largest = np.zeros(len(offsets) - 1, np.int64)
    tail = np.zeros(len(offsets) - 1, np.int64)
    top = np.empty(max(l - 1, 1), np.int64)  # the l - 1 largest counts so far, descending
    if l <= 2:  # the usual case: all of a class, or all except its largest count
        for c in range(len(tail)):
            highest = size = 0
            for i in range(offsets[c], offsets[c + 1]):
                highest = max(highest, counts[i])
                size += counts[i]
            largest[c], tail[c] = highest, size if l == 1 else size - highest
        return largest, tail
    for c in range(len(tail)):
        held = highest = rest = 0
        for i in range(offsets[c], offsets[c + 1]):
            count = counts[i]
            highest = max(highest, count)
            if held < l - 1 or count > top[held - 1]:
                if held == l - 1:
                    rest += top[held - 1]
                else:
                    held += 1
                j = held - 1
                while j > 0 and top[j - 1] < count:
                    top[j] = top[j - 1]
                    j -= 1
                top[j] = count
            else:
                rest += count
        largest[c], tail[c] = highest, rest
    return largest, tail


@njit(nogil=True, cache=True)
def _ratios(largest: Ints, tail: Ints) -> Floats:
    out = np.empty(len(tail), np.float64)
    for c in range(len(tail)):
        out[c] = largest[c] / tail[c] if tail[c] > 0 else np.inf
    return out
