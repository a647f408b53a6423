"""Class tables of an original and of its release joined by their keys: what the one tells of the other, in counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["AttributionCounts", "ReplicateCounts", "attribution_counts", "replicate_counts", "thinned_uniques"]

Ints = NDArray[np.int64]
Fractions = Mapping[int, int]
"""A sum of fractions: of each denominator the sum of its numerators."""


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
        Those whose own value it is.
    right_twice : int
        Those whose key has one value in the original too.
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
        """Of both sets of classes."""
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
        """The sum, rounded once but for the quotients.

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
        Cells by class; a code below `values` is that value in the original, one from there on the same in the release.
    values : int
    left_out : int, optional
        Secret whose records of the original are not counted as x; what their keys hold they tell all the same.

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
    asked = x_value != (-1 if left_out is None else left_out)
    matched, disclosive = asked & (y_size[x_class] > 0), asked & (y_kinds[x_class] == 1)
    right = disclosive & equal
    return AttributionCounts(
        classes=classes,
        records=int(x_count[asked].sum()),
        matched=int(x_count[matched].sum()),
        disclosive=int(x_count[disclosive].sum()),
        right=int(x_count[right].sum()),
        right_twice=int(x_count[right & (x_kinds[x_class] == 1)].sum()),
        attributed=_by_denominator(x_count[matched & equal] * same[matched & equal], y_size[x_class[matched & equal]]),
        own=_by_denominator(x_count[asked] ** 2, x_size[x_class[asked]]),
        released=_by_denominator(y_count**2, y_size[y_class]),
    )


@dataclass(frozen=True, kw_only=True)
class ReplicateCounts:
    """Uniques of two tables among one another's.

    Parameters
    ----------
    classes : int
        Distinct keys of both.
    uniques, released_uniques : int
        Keys of one record in the one table; of one row in the other.
    both : int
        Keys of one record in both.
    found : int
        Uniques of the first whose key occurs in the second at all.
    copies : int
        Rows of the second with such a key.
    once : mapping of int to int
        Of the keys of one row in the second: how many have so many records in the first.
    """

    classes: int = 0
    uniques: int = 0
    released_uniques: int = 0
    both: int = 0
    found: int = 0
    copies: int = 0
    once: Mapping[int, int] = field(default_factory=dict)

    def merge(self, other: ReplicateCounts) -> ReplicateCounts:
        """Of both sets of classes."""
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
    """Uniques of both that are expected among `kept` of the `records` of the first table, drawn without replacement.

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
