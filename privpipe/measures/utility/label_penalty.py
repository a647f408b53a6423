"""What released labels cost cell by cell, whatever level each is at: Iyengar's share and the certainty penalty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.distinct_pair import DistinctPair
from privpipe.errors import HierarchyError
from privpipe.hierarchies import Hierarchy
from privpipe.measures.utility.cut_ranges import range_penalty
from privpipe.measures.utility.recoded import NotRecoded, Text, Texts, texts_of

__all__ = ["LabelCosts", "cell_losses", "certainty_penalties"]


@dataclass(frozen=True)
class LabelCosts:
    """Costs of a hierarchy's labels, each by its lowest level.

    Parameters
    ----------
    penalties, shares : mapping of label to float
        NCP: 0 for a single value, else share of the domain; and the share itself.
    domain_size : float

    Examples
    --------
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(ncp, 3) for label, ncp in LabelCosts.of(ages).penalties.items()}
    {'7': 0.0, '8': 0.0, '30': 0.0, 'child': 0.667, 'adult': 0.0, '*': 1.0}
    """

    penalties: Mapping[Text, float] = field(repr=False)
    shares: Mapping[Text, float] = field(repr=False)
    domain_size: float

    @classmethod
    def of(cls, hierarchy: Hierarchy) -> LabelCosts:
        """Of every label."""
        penalties: dict[Text, float] = {}
        shares: dict[Text, float] = {}
        for level in range(hierarchy.height + 1):
            leaves = np.bincount(hierarchy.codes(level))
            found = dict(zip(hierarchy.released(level), hierarchy.shares(level).tolist(), strict=True))
            for label, below in zip(hierarchy.released_labels(level), leaves.tolist(), strict=True):
                penalties.setdefault(label, 0.0 if below == 1 else found[label])
                shares.setdefault(label, found[label])
        if hierarchy.null_code is not None:
            penalties[None], shares[None] = 0.0, float(hierarchy.shares(0)[hierarchy.null_code])
            # Releases of before wrote a label for missing values.
            for costs in (penalties, shares):
                costs.setdefault(hierarchy.values[hierarchy.null_code], costs[None])
        return cls(penalties, shares, max(hierarchy.domain_size, 1.0))


def certainty_penalties(pair: DistinctPair, records: int) -> dict[str, float]:
    """Mean NCP of each quasi-identifier's cells over all records, 1 for a suppressed record's.

    By its hierarchy where a column has one; else by the range or the set that a label names, beside the original; a
    column that still has values costs nothing.

    Raises
    ------
    NotRecoded
        Labels that nothing explains.
    """
    counts = _counts(pair)
    lost, found = records - int(counts.sum()), {}
    for column in pair.keys:
        labels = texts_of(pair.released, column)
        if column in pair.hierarchies:
            each: Sequence[float] = _each(column, labels, LabelCosts.of(_hierarchy(pair, column)).penalties)
        else:
            each = _by_range(pair, column, labels)
        found[column] = (_weighted_sum(each, labels, counts) + lost) / records
    return found


def cell_losses(pair: DistinctPair, records: int) -> dict[str, float]:
    """Iyengar's u of each column that has a hierarchy, from the share of each cell's own label.

    Raises
    ------
    NotRecoded
        Labels that a hierarchy lacks, or no hierarchy at all.
    """
    counts = _counts(pair)
    lost, found = records - int(counts.sum()), {}
    for column in pair.keys:
        if column not in pair.hierarchies:
            continue
        labels, costs = texts_of(pair.released, column), LabelCosts.of(_hierarchy(pair, column))
        total = _weighted_sum(_each(column, labels, costs.shares), labels, counts) + lost
        least = records / costs.domain_size
        found[column] = 0.0 if records == least else max(0.0, (total - least) / (records - least))
    if not found:
        raise NotRecoded("no quasi-identifier has a `hierarchy:`, so there is no label to weigh")
    return found


def _each(column: str, labels: Texts, costs: Mapping[Text, float]) -> list[float]:
    unknown = sum(label not in costs for label in labels.values)
    if unknown:
        raise NotRecoded(f"column {column!r} has {unknown:,} labels that its hierarchy does not have")
    return [costs[label] for label in labels.values]


def _by_range(pair: DistinctPair, column: str, labels: Texts) -> list[float]:
    if pair.original is None:
        return [0.0] * len(labels.values)
    values = texts_of(pair.original, column)
    found = [range_penalty(label, values.values, values.kind) for label in labels.values]
    unknown = sum(penalty is None for penalty in found)
    if unknown:
        raise NotRecoded(f"column {column!r} has no hierarchy, and {unknown:,} labels that are no ranges of its values")
    return [penalty or 0.0 for penalty in found]


def _weighted_sum(each: Sequence[float], labels: Texts, counts: NDArray[np.int64]) -> float:
    return float(np.cumsum(np.array(each) * np.array(labels.counts(counts)))[-1])


def _counts(pair: DistinctPair) -> NDArray[np.int64]:
    return np.asarray(pair.released["__count"].to_numpy(), dtype=np.int64)


def _hierarchy(pair: DistinctPair, column: str) -> Hierarchy:
    source = pair.released if pair.original is None else pair.original
    values = texts_of(source, column)
    texts, counts = values.values, values.counts(np.asarray(source["__count"].to_numpy(), dtype=np.int64))
    if pair.original is None:
        texts = [None] if None in texts else []
        counts = [1] * len(texts)
    try:
        return pair.hierarchies[column].build(texts, counts, values.kind)
    except HierarchyError as error:
        raise NotRecoded(f"a hierarchy does not fit: {error}") from None
