"""Groups that several releases together do not split: signatures of units, and how many share them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.held_values import HeldValues
from privpipe.kernels.grouping.word_groups import group_rows

__all__ = ["combined_sizes", "signatures", "values_left", "values_within"]

Ints = NDArray[np.int64]
ABSENT = -1


def signatures(
    units: Sequence[Ints], classes: Sequence[Ints], records: Sequence[Ints], *, persons: bool
) -> tuple[Ints, Ints, Ints]:
    """For each unit the class it is in, release by release.

    A person with several records has the multiset of their classes for a class; a combination of original values that
    was released in several ways the set of them.

    Parameters
    ----------
    units, classes : sequence of ndarray of int64, shape (n_t, 2)
        Of each release, the hashed unit and class of each row.
    records : sequence of ndarray of int64, shape (n_t,)
    persons : bool
        Whether units are persons; else each is weighted by its records.

    Returns
    -------
    codes : ndarray of int64, shape (u, T)
        Number of the class in each release, -1 where the unit is not in it.
    weights : ndarray of int64, shape (u, T) or (u, 1)
        Records of the unit in each release; for persons 1.
    numbers : ndarray of int64, shape (n_1 + ... + n_T,)
        The unit of each row.

    Examples
    --------
    >>> a, b = np.array([[1, 1], [2, 2]]), np.array([[2, 2]])
    >>> codes, weights, _ = signatures([a, b], [a, b], [np.ones(2, int), np.ones(1, int)], persons=True)
    >>> sorted((codes >= 0).tolist()), weights.tolist()
    ([[True, False], [True, True]], [[1], [1]])
    """
    numbers, firsts = group_rows(np.concatenate(units))
    count, cuts = len(firsts), np.cumsum([0, *map(len, units)])
    codes = np.full((count, len(units)), ABSENT, dtype=np.int64)
    weights = np.zeros((count, len(units)), dtype=np.int64)
    for release, (rows, held) in enumerate(zip(classes, records, strict=True)):
        own = numbers[cuts[release] : cuts[release + 1]]
        weights[:, release] = np.bincount(own, weights=held, minlength=count).astype(np.int64)
        if not persons:
            places, seen = group_rows(rows)
            pairs = np.unique(own * max(len(seen), 1) + places)
            own, rows = pairs // max(len(seen), 1), rows[seen][pairs % max(len(seen), 1)]
            held = np.ones(len(own), dtype=np.int64)
        # Sums of mixed words do not depend on the order of a unit's rows.
        sums = np.zeros((count, 2), dtype=np.uint64)
        for word in range(2):
            np.add.at(sums[:, word], own, _mixed(rows[:, word].astype(np.uint64)) * held.astype(np.uint64))
        present = weights[:, release] > 0
        codes[present, release] = group_rows(sums[present].view(np.int64))[0]
    return codes, np.ones((count, 1), dtype=np.int64) if persons else weights, numbers


def combined_sizes(codes: Ints, weights: Ints, *, presence_known: bool) -> Ints:
    """Of each unit, how many an intruder who combines all releases cannot distinguish from it.

    Source: Sweeney, IJUFKS 10(5), 2002; Ganta, Kasiviswanathan, Smith, KDD 2008.

    Parameters
    ----------
    codes : ndarray of int64, shape (u, T)
        -1: not in that release. Every unit is in one at least.
    weights : ndarray of int64, shape (u, 1) or (u, T)
        With a weight for each release, the smallest sum over those the unit is in.
    presence_known : bool
        The intruder knows who was in which release; else two units may be the same if they agree wherever both are,
        and both are in one at least.

    Examples
    --------
    >>> a_to_f = np.array([[0, 0], [0, 0], [0, -1], [-1, 0], [-1, 1], [-1, 1]])
    >>> ones = np.ones((6, 1), dtype=np.int64)
    >>> combined_sizes(a_to_f, ones, presence_known=True).tolist()
    [2, 2, 1, 1, 2, 2]
    >>> combined_sizes(a_to_f, ones, presence_known=False).tolist()
    [4, 4, 3, 3, 2, 2]
    """
    numbers, firsts = group_rows(np.ascontiguousarray(codes))
    distinct = codes[firsts]
    sums = np.stack([np.bincount(numbers, weights=column, minlength=len(firsts)) for column in weights.T], axis=1)
    sums = sums.astype(np.int64)
    if not presence_known:
        sums = _compatible_sums(distinct, sums)
    if weights.shape[1] == 1:
        own: Ints = sums[numbers, 0]
        return own
    largest = np.iinfo(np.int64).max
    smallest: Ints = np.where(distinct == ABSENT, largest, sums).min(axis=1)
    return smallest[numbers]


def values_within(codes: Ints, numbers: Ints, values: Ints, *, persons: bool = False) -> Ints:
    """Distinct sensitive values of each unit's combined class in the new release (whose rows come last).

    Of persons the sets of their values are counted, and one alone where all of a class have some value in common.

    Parameters
    ----------
    codes : ndarray of int64, shape (u, T)
    numbers : ndarray of int64, shape (n_T,)
        Unit of each row of the new release.
    values : ndarray of int64, shape (n_T, 2)
    persons : bool
        Whether units are persons.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 0], [1, 0]])
    >>> values_within(codes, np.array([0, 1, 2]), np.array([[7, 7], [8, 8], [7, 7]])).tolist()
    [2, 2, 1]
    """
    groups, firsts = group_rows(np.ascontiguousarray(codes))
    places, seen = group_rows(values)
    if persons:
        sets = HeldValues(groups[numbers], numbers, places).sets(len(firsts))
        return np.asarray(np.diff(sets.offsets)[groups], dtype=np.int64)
    pairs = np.unique(groups[numbers] * max(len(seen), 1) + places)
    return np.bincount(pairs // max(len(seen), 1), minlength=len(firsts))[groups]


def values_left(codes: Ints, held: Sequence[tuple[Ints, Ints] | None]) -> Ints:
    """Sensitive values that occur in all the classes a unit was in: what is left to an intruder who intersects them.

    Parameters
    ----------
    codes : ndarray of int64, shape (u, T)
    held : sequence of (ndarray of int64, shape (n_t,), ndarray of int64, shape (n_t,)) or None
        Of each release, class code and value number of each row; None: the release has no such column.

    Returns
    -------
    ndarray of int64, shape (u,)
        0 where nothing is left: then values changed between the releases.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [-1, 1]])
    >>> first = np.array([0, 0]), np.array([5, 6])
    >>> second = np.array([0, 1, 1]), np.array([5, 6, 7])
    >>> values_left(codes, [first, second]).tolist()
    [1, 1, 2]
    """
    groups, firsts = group_rows(np.ascontiguousarray(codes))
    left: list[set[int] | None] = [None] * len(firsts)
    for release, rows in enumerate(held):
        if rows is None:
            continue
        sets: dict[int, set[int]] = {}
        for code, value in zip(*map(np.ndarray.tolist, rows), strict=True):
            sets.setdefault(code, set()).add(value)
        for at, code in enumerate(codes[firsts, release].tolist()):
            if code != ABSENT:
                own = sets.get(code, set())
                before = left[at]
                left[at] = own if before is None else before & own
    return np.array([0 if each is None else len(each) for each in left], dtype=np.int64)[groups]


def _compatible_sums(distinct: Ints, sums: Ints) -> Ints:
    """Sums over the signatures that agree wherever both are present; joined by pattern of presence, never by pair."""
    patterns, which = np.unique(distinct != ABSENT, axis=0, return_inverse=True)
    which = which.reshape(-1)
    total = np.zeros_like(sums)
    for one, own in enumerate(patterns):
        mine = np.flatnonzero(which == one)
        for other, theirs in enumerate(patterns):
            shared = own & theirs
            if not shared.any():
                continue
            rows = np.flatnonzero(which == other)
            both = np.ascontiguousarray(distinct[np.concatenate([mine, rows])][:, shared])
            numbers, firsts = group_rows(both)
            for column in range(sums.shape[1]):
                held = np.bincount(numbers[len(mine) :], weights=sums[rows, column], minlength=len(firsts))
                total[mine, column] += held[numbers[: len(mine)]].astype(np.int64)
    return total


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words spread over 64 bits (the finaliser of SplitMix64)."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
