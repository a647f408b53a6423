"""The tree over a sensitive column's values, for distances along it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Histogram
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.hierarchies.canonical import canonical_text
from privpipe.roles import column_type_of

__all__ = ["ValueTree", "spec_of", "tree_key"]


@dataclass(frozen=True, eq=False)
class ValueTree:
    """Where each value of a histogram stands in a tree.

    Parameters
    ----------
    rank : ndarray of int64, shape (m,)
        Place of each code in leaf order.
    nodes : ndarray of int64, shape (levels, m)
        Node of each place at each level, leaves first.
    """

    rank: NDArray[np.int64] = field(repr=False)
    nodes: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, spec: HierarchySpec, histogram: Histogram, column: str) -> ValueTree:
        """The tree of a column's values.

        Raises
        ------
        DataError
            Values that the hierarchy lacks (their number); more than one root, or no level above the values.
        """
        kind = column_type_of(histogram.values.type)
        texts = canonical_text(histogram.values, kind, column=column).to_pylist()
        hierarchy = spec.build(texts, histogram.counts.tolist(), kind)
        if hierarchy.height < 1 or len(hierarchy.labels(hierarchy.height)) != 1:
            raise DataError(f"the hierarchy of column {column!r} must end in one root to measure distances along it")
        leaf = hierarchy.encode(texts).astype(np.int64)
        order = np.argsort(leaf, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        levels = [hierarchy.codes(level).astype(np.int64)[leaf[order]] for level in range(hierarchy.height + 1)]
        # Numbers from 0 within the values at hand, so that they serve as places.
        nodes = [np.concatenate([[0], np.cumsum(row[1:] != row[:-1])]) for row in levels]
        return cls(rank.astype(np.int64), np.array(nodes, dtype=np.int64))


def tree_key(column: str, hierarchy: Mapping[str, Any] | None) -> str:
    """Under which name `Facts.extra` holds a tree: two guarantees may look at one column along different trees."""
    return f"tree of {column}" if hierarchy is None else f"tree of {column} by {json.dumps(hierarchy, sort_keys=True)}"


def spec_of(column: str, hierarchy: Mapping[str, Any] | None, facts: Facts) -> HierarchySpec:
    """The guarantee's own hierarchy, else the column's declared one.

    Raises
    ------
    UsageError
        Neither is there.
    """
    if hierarchy is not None:
        return HierarchySpec.from_mapping(hierarchy, ".", column=column)
    if column not in facts.hierarchies:
        raise UsageError(
            f"distance hierarchical needs a tree over the values of {column!r}: declare its `hierarchy:` under "
            "`columns:`, or give the guarantee one of its own, as in {file: occupation.csv}"
        )
    return facts.hierarchies[column]
