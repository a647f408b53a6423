"""Relations between columns that a release has lost: of pairs of columns, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.kernels.losses.column_losses import counted_pairs, cramers_v, rank_correlation, rank_ratio

if TYPE_CHECKING:
    from privpipe.judging.paired_columns import CodedColumn, PairedSample

__all__ = ["LEAST_RECORDS", "LEAST_RELATED", "LostRelation", "RelatedColumn", "lost_relations", "places_of"]


LEAST_RELATED = 0.3
"""A relation above which its loss is reported."""
LEAST_RECORDS = 50
"""Records that a relation is measured over, at the least: over fewer 0.3 may be chance."""
MOST_RECORDS = 20_000
"""Records that relations are measured over, at the most."""


@dataclass(frozen=True, kw_only=True)
class LostRelation:
    """Two columns that were related, and are less so in the release.

    Parameters
    ----------
    columns : tuple of two str
    measured_by : str
        ``rank correlation`` of two numbers or points in time; ``correlation ratio`` of one with labels; ``association``
        of labels, which is Cramer's V.
    before, after : float
        Without sign, in [0, 1].
    records, of : int
        Records with a label of both columns in the release, over which it was measured; and those looked at.
    """

    columns: tuple[str, str]
    measured_by: str
    before: float
    after: float
    records: int
    of: int


@dataclass(frozen=True)
class _Side:
    codes: Ints = field(repr=False)
    ordered: bool

    @classmethod
    def of(cls, column: CodedColumn, places: Ints) -> _Side:
        codes = column.codes[places]
        return cls(np.where(column.blank[codes], -1, codes), column.ordered)

    @property
    def known(self) -> Bools:
        found: Bools = self.codes >= 0
        return found


@dataclass(frozen=True)
class RelatedColumn:
    """A column before and after, of the records that relations are measured over.

    Parameters
    ----------
    before, after : codes, shape (n,)
        In the order of the values where there is one, -1 where there is no label. Labels of what had an order are in
        the order of the values that they were given to.
    """

    before: _Side
    after: _Side

    @classmethod
    def of(cls, before: CodedColumn, after: CodedColumn, places: tuple[Ints, Ints]) -> RelatedColumn:
        """From both sides, and the places of the records in each."""
        first, second = _Side.of(before, places[0]), _Side.of(after, places[1])
        return cls(first, _in_order(second, first) if first.ordered and not second.ordered else second)


def places_of(sample: PairedSample) -> tuple[Ints, Ints]:
    """The places in both tables of the records that relations are measured over: at most 20,000, of smallest id."""
    first, second = sample.pairs
    if len(first) <= MOST_RECORDS:
        return first, second
    ids = sample.released.record_ids[second]
    chosen = np.lexsort((ids[:, 1], ids[:, 0]))[:MOST_RECORDS]
    return first[chosen], second[chosen]


def lost_relations(
    columns: Mapping[str, RelatedColumn], changed: Mapping[str, bool], at_most: float
) -> tuple[LostRelation, ...]:
    """Pairs of columns whose relation was above 0.3 and lost more than a share of it, the greatest loss first.

    A pair of which neither column changed is left out; so is a relation over fewer than 50 records on either side.

    Parameters
    ----------
    columns : mapping of name to RelatedColumn
    changed : mapping of name to bool
        Whether a column changed, of those that have two labels or more left.
    at_most : float
        The share that a relation may lose.
    """
    found = []
    for pair in combinations(changed, 2):
        if not any(changed[name] for name in pair):
            continue
        first, second = (columns[name] for name in pair)
        before, _ = _related(first.before, second.before)
        if before is None or before <= LEAST_RELATED:
            continue
        after, records = _related(first.after, second.after)
        if after is not None and before - after > at_most * before:
            by, looked_at = _measure(first.before, second.before), len(first.before.codes)
            found.append(
                LostRelation(columns=pair, measured_by=by, before=before, after=after, records=records, of=looked_at)
            )
    return tuple(sorted(found, key=lambda each: each.after - each.before))


def _in_order(labels: _Side, values: _Side) -> _Side:
    """Labels in the order of the mean rank of the values that they were given to."""
    both = labels.known & values.known
    given, size = labels.codes[both], int(labels.codes.max(initial=-1)) + 1
    sums = np.bincount(given, weights=_ranks(values.codes[both]), minlength=size)
    means = sums / np.maximum(np.bincount(given, minlength=size), 1)
    place = np.empty(size, np.int64)
    place[np.argsort(means, kind="stable")] = np.arange(size)
    codes = labels.codes.copy()
    codes[labels.known] = place[labels.codes[labels.known]]
    return _Side(codes, ordered=True)


def _ranks(codes: Ints) -> Ints:
    """Twice the mid-rank of each code: whole numbers, so that sums are exact in any order."""
    counts = np.bincount(codes) if len(codes) else np.zeros(0, np.int64)
    found: Ints = (2 * np.cumsum(counts) - counts)[codes]
    return found


def _measure(first: _Side, second: _Side) -> str:
    if first.ordered and second.ordered:
        return "rank correlation"
    return "correlation ratio" if first.ordered or second.ordered else "association"


def _related(first: _Side, second: _Side) -> tuple[float | None, int]:
    """The relation of two columns, over the records with a label of both; None over too few."""
    both = first.known & second.known
    records = int(both.sum())
    if records < LEAST_RECORDS:
        return None, records
    if second.ordered and not first.ordered:
        first, second = second, first
    x, y = _dense(first.codes[both]), _dense(second.codes[both])
    pairs = counted_pairs(x, y, int(y.max()) + 1)
    if second.ordered:
        return abs(rank_correlation(pairs)), records
    return (rank_ratio(pairs) if first.ordered else cramers_v(pairs)), records


def _dense(codes: Ints) -> Ints:
    """Codes without gaps, in the same order."""
    present = np.bincount(codes) > 0
    found: Ints = (np.cumsum(present) - 1)[codes]
    return found
