"""Normalised certainty penalty of released labels, whatever level each cell is at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.distinct_pair import DistinctPair
from privpipe.errors import HierarchyError
from privpipe.hierarchies import Hierarchy
from privpipe.measures.utility.recoded import NotRecoded, Text, texts_of

__all__ = ["certainty_penalties", "label_penalties"]


def label_penalties(hierarchy: Hierarchy) -> dict[Text, float]:
    """NCP of each label by its lowest level: 0 for a single value, else values below it / D.

    Examples
    --------
    >>> ages = Hierarchy.from_rows([["7", "child", "*"], ["8", "child", "*"], ["30", "adult", "*"]])
    >>> {label: round(ncp, 3) for label, ncp in label_penalties(ages).items()}
    {'7': 0.0, '8': 0.0, '30': 0.0, 'child': 0.667, 'adult': 0.0, '*': 1.0}
    """
    found: dict[Text, float] = {}
    for level in range(hierarchy.height + 1):
        leaves = np.bincount(hierarchy.codes(level))
        shares = dict(zip(hierarchy.texts(level), hierarchy.shares(level).tolist(), strict=True))
        for label, below in zip(hierarchy.labels(level), leaves.tolist(), strict=True):
            found.setdefault(label, 0.0 if below == 1 else shares[label])
    if hierarchy.null_code is not None:
        found[None] = 0.0
    return found


def certainty_penalties(pair: DistinctPair, records: int) -> Mapping[str, float]:
    """Mean NCP of each quasi-identifier's cells over all records, 1 for a suppressed record's.

    A column without a hierarchy was not recoded: its kept cells cost nothing.

    Raises
    ------
    NotRecoded
        Labels that a hierarchy lacks.
    """
    counts: NDArray[np.int64] = np.asarray(pair.released["__count"].to_numpy(), dtype=np.int64)
    lost, found = records - int(counts.sum()), {}
    for column in pair.keys:
        kept = 0.0
        if column in pair.hierarchies:
            labels = texts_of(pair.released, column)
            penalties = label_penalties(_hierarchy(pair, column))
            unknown = sum(label not in penalties for label in labels.values)
            if unknown:
                raise NotRecoded(f"column {column!r} has {unknown:,} labels that its hierarchy does not have")
            each = np.array([penalties[label] for label in labels.values])
            kept = float(np.cumsum(each * np.array(labels.counts(counts)))[-1])
        found[column] = (kept + lost) / records
    return found


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
