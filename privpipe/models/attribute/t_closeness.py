"""t-closeness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Histogram
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.marks import BaseDistribution, LargestShare, OneSensitive, Stricter
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies import HierarchySpec
from privpipe.hierarchies.canonical import canonical_text
from privpipe.models.attribute.base_distribution import Base, as_base
from privpipe.models.attribute.value_order import Order, as_order, in_rank_order, ranks
from privpipe.roles import column_type_of

__all__ = ["TCloseness", "ValueTree", "spec_of", "tree_key"]


@dataclass(frozen=True, eq=False)
class ValueTree:
    """The position of each value of a histogram in a tree.

    Parameters
    ----------
    rank : ndarray of int64, shape (m,)
        Place of each code in leaf order.
    nodes : ndarray of int64, shape (levels, m)
        Node of each place at each level, leaves first.
    """

    rank: Ints = field(repr=False)
    nodes: Ints = field(repr=False)

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


Distance = Literal["equal", "ordered", "hierarchical"]


@dataclass(frozen=True, kw_only=True, repr=False)
class TCloseness(ClassModel):
    """The values of `column` in each class are within `t` of those of the whole table; observed = max distance.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value, but has no place in an order.
    t : float, optional
        In [0, 1]. Left out (under `measures:`), the largest distance is reported.
    distance : {"equal", "ordered", "hierarchical"}
        Earth mover's distance with all values equally far apart; with neighbouring values one step apart and the
        two ends at distance 1; or along a tree, where two values are as far as the level of the node that joins
        them, the root at 1. Of the m values that the base has; those absent from a class count.
    order : sequence of values or "text", optional
        Order of the values for `ordered`. Left out: numbers by value, dates by time. Text has no order of its
        own: list its values, or write "text" to sort them by code points.
    hierarchy : mapping, optional
        The tree for `hierarchical`, as under `columns:` of a policy: ``{"file": "occupation.csv"}``. Left out: the
        one declared for the column.
    base : {"original", "released"} or {"file": path}
        The distribution that classes are compared with: all records of the input, suppressed ones too; the
        judged table; or a file's.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Raises
    ------
    UsageError
        Also while judging: `ordered` on a text column without `order`, `hierarchical` without a tree.
    DataError
        While judging: a missing value in an ordered column, a value that `order` or the tree does not have.

    Notes
    -----
    t bounds the average shift, not the relative gain of a rare value. Where persons are counted, shares are of all
    pairs of a person and a value, in the class and in the base, so that they add up to 1.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
    >>> facts = Facts(histograms={"illness": Histogram(pa.array(["asthma", "flu"]), np.array([2, 2]))})
    >>> cells = Cells(np.array([0, 1, 3]), np.array([0, 0, 1]), np.array([1, 1, 2]))
    >>> block = ClassBlock(np.array([1, 3]), {"illness": cells})
    >>> model = TCloseness(column="illness", t=0.2)
    >>> verdict = model.judge(model.measure(block, facts), facts)
    >>> verdict.observed, verdict.failing_records
    (0.5, 1)
    """

    threshold_field = "t"
    direction = "at_most"
    protects_nobody_at = 1
    convex = True
    needs_base = True
    observes = float
    source = "Li, Li, Venkatasubramanian, t-Closeness, ICDE 2007; IEEE TKDE 22(7), 2010"
    threat = "An intruder who finds a person's class learns more about the sensitive value than the whole table shows."
    formula = "EMD(q, p) <= t in each class; q its shares, p those of the whole table"
    choose = (
        "0.2 to 0.3 with equal distance, 0.1 to 0.2 with ordered or hierarchical; ordered for numbers and dates. "
        "It bounds the average shift: a rare value may still gain much."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    t: Annotated[LargestShare, Doc("largest distance of a class's values from those of the whole table, 0 to 1")] = None
    distance: Annotated[
        Distance,
        Stricter("equal"),
        Doc("equal (all values equally far apart), ordered (by their rank) or hierarchical (along a tree)"),
    ] = "equal"
    order: Annotated[
        Order | None,
        Stricter("equal"),
        Doc("values in order, or text for code-point order; numbers and dates have their own"),
    ] = None
    hierarchy: Annotated[
        Mapping[str, Any] | None,
        Stricter("equal"),
        Doc("the tree for hierarchical; left out: the one declared for the column"),
    ] = field(default=None, hash=False)
    base: Annotated[
        Base,
        BaseDistribution(),
        Stricter("equal"),
        Doc("what classes are compared with: original, released, or {file: path}"),
    ] = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hierarchy is not None:
            if self.distance != "hierarchical":
                raise UsageError(
                    f"TCloseness: hierarchy has no effect on distance {self.distance}; write distance: hierarchical"
                )
            HierarchySpec.from_mapping(self.hierarchy, ".", column=self.column)
        if self.order is not None and self.distance != "ordered":
            raise UsageError(f"TCloseness: order has no effect on distance {self.distance}; write distance: ordered")
        object.__setattr__(self, "order", as_order("TCloseness", self.order))
        object.__setattr__(self, "base", as_base("TCloseness", self.base))

    def learn(self, facts: Facts) -> Mapping[str, Any]:
        if self.distance != "hierarchical" or self.column not in facts.histograms:
            return {}
        spec = spec_of(self.column, self.hierarchy, facts)
        tree = ValueTree.of(spec, facts.histograms[self.column], self.column)
        return {self._tree_key: tree}

    @cached_property
    def _tree_key(self) -> str:
        return tree_key(self.column, self.hierarchy)

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        cells = block.cells[self.column]
        if self.distance == "equal":
            return cells.once("emd equal", lambda them: self._equal(them, facts))
        if self.distance == "hierarchical":
            key = self._tree_key
            return cells.once(f"emd {key}", lambda them: self._hierarchical(them, facts, key))
        return cells.once(f"emd ordered {self.order!r}", lambda them: self._ordered(them, facts))

    def _equal(self, cells: Cells, facts: Facts) -> Floats:
        from privpipe.kernels.classes.distance import emd_equal_by_class

        return emd_equal_by_class(cells.offsets, cells.codes, cells.counts, facts.histograms[self.column].shares)

    def _ordered(self, cells: Cells, facts: Facts) -> Floats:
        from privpipe.kernels.classes.distance import emd_ordered_by_class

        p = facts.histograms[self.column].shares
        rank = ranks(self.column, facts.histograms[self.column], self.order)
        if rank is None:
            return emd_ordered_by_class(cells.offsets, cells.codes, cells.counts, p)
        by_rank = np.empty_like(p)
        by_rank[rank] = p
        codes, counts = in_rank_order(cells, rank)
        return emd_ordered_by_class(cells.offsets, codes, counts, by_rank)

    def _hierarchical(self, cells: Cells, facts: Facts, key: str) -> Floats:
        from privpipe.kernels.classes.distance import emd_hierarchical_by_class

        if key not in facts.extra:
            raise UsageError(f"t_closeness: the tree of column {self.column!r} is not among the facts")
        tree: ValueTree = facts.extra[key]
        base = np.empty(len(tree.rank), dtype=np.int64)
        base[tree.rank] = facts.histograms[self.column].counts
        leaves, counts = in_rank_order(cells, tree.rank)
        return emd_hierarchical_by_class(cells.offsets, leaves, counts, base, tree.nodes)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", t=0.0),
            cls(column="illness", t=0.35),
            cls(column="illness", t=0.2, base="released"),
            cls(column="income", t=0.25, distance="ordered"),
            cls(column="illness", t=0.25, distance="ordered", order="text"),
            cls(column="illness", t=0.3, distance="hierarchical", hierarchy={"redact": {"keep": "left"}}),
            cls(
                column="illness",
                t=0.4,
                distance="hierarchical",
                hierarchy={"tree": {"any": {"common": ["flu", "cold"], "rare": ["gout"]}}},
            ),
        ]
