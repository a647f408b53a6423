"""Joined class tables: of an original and its release, and the groups that several releases together do not split."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from privpipe.blocks.arrays import Ints, Words
from privpipe.blocks.class_block import HeldValues
from privpipe.kernels.grouping.word_groups import group_rows

__all__ = [
    "AttributionCounts",
    "ReplicateCounts",
    "attribution_counts",
    "combined_sizes",
    "replicate_counts",
    "signatures",
    "thinned_uniques",
    "values_left",
    "values_within",
]


Fractions = Mapping[int, int]
"""A sum of fractions: for each denominator the sum of its numerators."""


@dataclass(frozen=True, kw_only=True)
class AttributionCounts:
    """Records x of the original whose key has y_k rows in the release, y_kt of them with the secret of x.

    Parameters
    ----------
    classes, records : int
        Distinct keys of both tables; x in all.
    matched : int
        x with y_k > 0.
    disclosive : int
        x whose key has one secret value in the release.
    right : int
        Those whose own value is this value.
    right_twice : int
        Those whose key has one value in the original, too.
    attributed, own, released : mapping of int to int
        Sums of x_kt y_kt / y_k, x_kt^2 / x_k and y_kt^2 / y_k, as numerators by denominator.
    """

    classes: int = 0
    records: int = 0
    matched: int = 0
    disclosive: int = 0
    right: int = 0
    right_twice: int = 0
    attributed: Fractions = field(default_factory=dict)
    own: Fractions = field(default_factory=dict)
    released: Fractions = field(default_factory=dict)

    def merge(self, other: AttributionCounts) -> AttributionCounts:
        """The counts over both sets of classes."""
        whole = ("classes", "records", "matched", "disclosive", "right", "right_twice")
        counts = {name: getattr(self, name) + getattr(other, name) for name in whole}
        return AttributionCounts(
            **counts,
            attributed=_added(self.attributed, other.attributed),
            own=_added(self.own, other.own),
            released=_added(self.released, other.released),
        )

    @staticmethod
    def total(fractions: Fractions) -> float:
        """The sum, rounded once apart from the quotients.

        Examples
        --------
        >>> AttributionCounts.total({2: 3, 4: 1})
        1.75
        """
        return math.fsum(fractions[denominator] / denominator for denominator in sorted(fractions))


def attribution_counts(
    offsets: Ints, codes: Ints, counts: Ints, values: int, left_out: int | None = None
) -> AttributionCounts:
    """Count over some whole classes.

    Parameters
    ----------
    offsets, codes, counts : ndarray of int64
        Cells by class; a code below `values` is a value in the original, `values` + code the same in the release.
    values : int
    left_out : int, optional
        Secret whose records of the original are not counted as x; their keys' cells are used nevertheless.

    Examples
    --------
    >>> found = attribution_counts(np.array([0, 3, 5]), np.array([0, 1, 2, 1, 2]), np.array([3, 1, 4, 2, 1]), 2)
    >>> found.records, found.matched, found.disclosive, found.right, found.right_twice
    (6, 6, 6, 3, 0)
    """
    classes = len(offsets) - 1
    owner = np.repeat(np.arange(classes), np.diff(offsets))
    here = codes < values
    x_class, x_value, x_count = owner[here], codes[here], counts[here]
    y_class, y_value, y_count = owner[~here], codes[~here] - values, counts[~here]
    x_size, y_size = (_sums(side, of, classes) for side, of in ((x_class, x_count), (y_class, y_count)))
    x_kinds, y_kinds = (np.bincount(side, minlength=classes) for side in (x_class, y_class))
    # Cells ascend by code within a class, so that these do as well.
    place = np.searchsorted(y_class * values + y_value, x_class * values + x_value)
    same = np.zeros(len(x_class), dtype=np.int64)
    inside = place < len(y_class)
    equal = np.zeros(len(x_class), dtype=np.bool_)
    equal[inside] = (y_class[place[inside]] == x_class[inside]) & (y_value[place[inside]] == x_value[inside])
    same[equal] = y_count[place[equal]]
    counted = x_value != (-1 if left_out is None else left_out)
    matched, disclosive = counted & (y_size[x_class] > 0), counted & (y_kinds[x_class] == 1)
    right = disclosive & equal
    return AttributionCounts(
        classes=classes,
        records=int(x_count[counted].sum()),
        matched=int(x_count[matched].sum()),
        disclosive=int(x_count[disclosive].sum()),
        right=int(x_count[right].sum()),
        right_twice=int(x_count[right & (x_kinds[x_class] == 1)].sum()),
        attributed=_by_denominator(x_count[matched & equal] * same[matched & equal], y_size[x_class[matched & equal]]),
        own=_by_denominator(x_count[counted] ** 2, x_size[x_class[counted]]),
        released=_by_denominator(y_count**2, y_size[y_class]),
    )


@dataclass(frozen=True, kw_only=True)
class ReplicateCounts:
    """Uniques of two tables and their matches in the other table.

    Parameters
    ----------
    classes : int
        Distinct keys of both.
    uniques, released_uniques : int
        Keys of one record in the first table; of one row in the second.
    both : int
        Keys of one record in both.
    found : int
        Uniques of the first whose key occurs in the second at all.
    copies : int
        Rows of the second with such a key.
    once : mapping of int to int
        For keys of one row in the second: how many keys have a given number of records in the first.
    """

    classes: int = 0
    uniques: int = 0
    released_uniques: int = 0
    both: int = 0
    found: int = 0
    copies: int = 0
    once: Mapping[int, int] = field(default_factory=dict)

    def merge(self, other: ReplicateCounts) -> ReplicateCounts:
        """The counts over both sets of classes."""
        whole = ("classes", "uniques", "released_uniques", "both", "found", "copies")
        counts = {name: getattr(self, name) + getattr(other, name) for name in whole}
        return ReplicateCounts(**counts, once=_added(self.once, other.once))


def replicate_counts(offsets: Ints, codes: Ints, counts: Ints) -> ReplicateCounts:
    """Count over some whole classes; code 0 is the original's records, 1 the release's rows.

    Examples
    --------
    >>> replicate_counts(np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 0]), np.array([1, 1, 1, 3, 1])).copies
    4
    """
    classes = len(offsets) - 1
    sides = np.zeros((2, classes), dtype=np.int64)
    sides[codes, np.repeat(np.arange(classes), np.diff(offsets))] = counts
    known, shown = sides
    unique = known == 1
    sizes, keys = np.unique(known[(shown == 1) & (known > 0)], return_counts=True)
    return ReplicateCounts(
        classes=classes,
        uniques=int(unique.sum()),
        released_uniques=int((shown == 1).sum()),
        both=int((unique & (shown == 1)).sum()),
        found=int((unique & (shown > 0)).sum()),
        copies=int(shown[unique].sum()),
        once=dict(zip(sizes.tolist(), keys.tolist(), strict=True)),
    )


def thinned_uniques(once: Mapping[int, int], records: int, kept: int) -> float:
    """Expected uniques of both among `kept` of the `records` of the first table, drawn without replacement.

    A key of d records is drawn once with the hypergeometric chance C(d, 1) C(records - d, kept - 1) / C(records, kept).

    Examples
    --------
    >>> thinned_uniques({1: 3, 2: 1}, 4, 4), round(thinned_uniques({2: 1}, 4, 2), 12)
    (3.0, 0.666666666667)
    """
    if kept >= records:
        return float(once.get(1, 0))
    from scipy.stats import hypergeom

    return math.fsum(keys * float(hypergeom.pmf(1, records, size, kept)) for size, keys in sorted(once.items()))


def _sums(owner: Ints, counts: Ints, classes: int) -> Ints:
    found = np.zeros(classes, dtype=np.int64)
    np.add.at(found, owner, counts)
    return found


def _by_denominator(numerators: Ints, denominators: Ints) -> dict[int, int]:
    if not len(numerators):
        return {}
    found, places = np.unique(denominators, return_inverse=True)
    sums = _sums(places.ravel(), numerators, len(found))
    return dict(zip(found.tolist(), sums.tolist(), strict=True))


def _added(left: Fractions, right: Fractions) -> dict[int, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}


ABSENT = -1


def signatures(
    units: Sequence[Ints], classes: Sequence[Ints], records: Sequence[Ints], *, persons: bool
) -> tuple[Ints, Ints, Ints]:
    """For each unit the class it is in, release by release.

    The class of a person with several records is the multiset of their classes; that of a combination of original
    values that was released in several ways is the set of its classes.

    Parameters
    ----------
    units, classes : sequence of ndarray of int64, shape (n_t, 2)
        For each release, the hashed unit and class of each row.
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
    """For each unit, how many an intruder who combines all releases cannot distinguish from it.

    Source: Sweeney, IJUFKS 10(5), 2002; Ganta, Kasiviswanathan, Smith, KDD 2008.

    Parameters
    ----------
    codes : ndarray of int64, shape (u, T)
        -1: not in that release. Every unit is in at least one.
    weights : ndarray of int64, shape (u, 1) or (u, T)
        With a weight for each release, the smallest sum over those the unit is in.
    presence_known : bool
        Whether the intruder knows who was in which release; otherwise two units may be the same if they agree wherever
        both are, and both are in at least one.

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

    For persons the sets of their values are counted, or 1 where all persons of a class have some value in common.

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
    """Sensitive values that occur in all the classes of a unit: an intruder who intersects them is left with these.

    Parameters
    ----------
    codes : ndarray of int64, shape (u, T)
    held : sequence of (ndarray of int64, shape (n_t,), ndarray of int64, shape (n_t,)) or None
        For each release, class code and value number of each row; None: the release has no such column.

    Returns
    -------
    ndarray of int64, shape (u,)
        0 where no value remains: then values changed between the releases.

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


def _mixed(words: Words) -> Words:
    """Words spread over 64 bits (the finaliser of SplitMix64)."""
    mixed = words + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))
