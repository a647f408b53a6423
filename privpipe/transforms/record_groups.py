"""Microaggregation of one list of columns on an engine: which block a record is in, and what a block releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.errors import DataError, NoSolutionError
from privpipe.transforms.numeric import masked_type, written

if TYPE_CHECKING:
    from privpipe.draws import Stream
    from privpipe.kernels.kd_tree import BlockTree

__all__ = ["Aggregated", "BlockKey", "GroupPlan", "Method", "Pattern", "group_aggregates"]

Method = Literal["mdav", "univariate", "fixed"]
Aggregate = Literal["mean", "median"]
PATTERN = 1 << 32
"""Keys of the blocks of one pattern of nulls lie this far from those of the next."""


@dataclass(frozen=True)
class Pattern:
    """Records that miss the same columns, and the tree that deals them out to blocks."""

    missing: tuple[str, ...]
    records: int
    tree: BlockTree


@dataclass(frozen=True)
class GroupPlan:
    """What is known of one list of columns before its records are grouped.

    Parameters
    ----------
    columns : tuple of str
    k : int
    mean, sd : mapping of column to float
        Of the whole stage input; a column with sd 0 takes no part and is left as it is.
    block : int or None
        Most records of a block; None: one block.
    neighbours : int
        Nearest records that descent looks at.
    by_pattern : bool
        Records are grouped within their pattern of nulls.
    patterns : tuple of Pattern
        One, unless `by_pattern`.
    """

    columns: tuple[str, ...]
    k: int
    mean: Mapping[str, float]
    sd: Mapping[str, float]
    block: int | None
    neighbours: int
    by_pattern: bool
    patterns: tuple[Pattern, ...]

    @property
    def varying(self) -> tuple[str, ...]:
        """Columns that are not constant."""
        return tuple(column for column in self.columns if self.sd[column] > 0)

    def points(self, rows: RowBlock) -> NDArray[np.float64]:
        """Standardised values of the varying columns, shape (n, s); a missing one stands at the mean."""
        scores = [(rows[column] - self.mean[column]) / self.sd[column] for column in self.varying]
        return np.nan_to_num(np.stack(scores, axis=1), nan=0.0) if scores else np.empty((len(rows), 0))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        patterns = [
            {"missing": list(pattern.missing), "records": pattern.records, "tree": pattern.tree.to_dict()}
            for pattern in self.patterns
        ]
        return {
            "columns": list(self.columns),
            "k": self.k,
            "mean": dict(self.mean),
            "sd": dict(self.sd),
            "constant": [column for column in self.columns if not self.sd[column] > 0],
            "block": self.block,
            "neighbours": self.neighbours,
            "by_pattern": self.by_pattern,
            "patterns": patterns,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From the JSON of a plan."""
        from privpipe.kernels.kd_tree import BlockTree

        patterns = tuple(
            Pattern(tuple(each["missing"]), int(each["records"]), BlockTree.from_dict(each["tree"]))
            for each in data["patterns"]
        )
        return cls(
            columns=tuple(data["columns"]),
            k=int(data["k"]),
            mean=data["mean"],
            sd=data["sd"],
            block=data["block"],
            neighbours=int(data["neighbours"]),
            by_pattern=bool(data["by_pattern"]),
            patterns=patterns,
        )


@dataclass(frozen=True)
class BlockKey:
    """The block of each record, a function of its values alone."""

    group: GroupPlan

    def __call__(self, rows: RowBlock) -> NDArray[np.int64]:
        group = self.group
        keys = np.full(len(rows), -1, dtype=np.int64)
        points = group.points(rows)
        gaps = missing_cells(rows, group.columns)
        for number, pattern in enumerate(group.patterns):
            here = np.arange(len(rows))
            if group.by_pattern:
                here = np.flatnonzero((gaps == np.isin(group.columns, pattern.missing)).all(axis=1))
            keys[here] = number * PATTERN + pattern.tree.path(points[here])
        if (keys < 0).any():
            raise DataError(
                f"{int((keys < 0).sum()):,} records miss values of {', '.join(map(repr, group.columns))} in a way "
                "that the plan does not know; make a new plan for this table"
            )
        if not group.by_pattern and gaps.all(axis=1).any():
            # Records without any value belong to no group: dealt out, so that no block grows by all of them.
            nothing = gaps.all(axis=1)
            keys[nothing] = rows.record_ids[nothing, 1] % group.patterns[0].tree.blocks
        return keys


@dataclass(frozen=True)
class Aggregated:
    """What one block releases: each record carries the aggregates of its group."""

    group: GroupPlan
    method: Method
    refine: bool
    aggregate: Aggregate
    rounded: bool
    stream: Stream = field(repr=False)

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        held = np.flatnonzero(~missing_cells(rows, self.group.columns).all(axis=1))
        labels = self._labels(rows, held)
        for column in self.group.columns:
            values = rows[column]
            if labels is not None and self.group.sd[column] > 0:
                values = values.copy()
                values[held] = group_aggregates(values[held], labels, self.aggregate)
            target = masked_type(rows.schema.field(column), self.rounded)
            rows = rows.replace(column, written(values, target, column=column, rounded=self.rounded))
        return rows

    def _labels(self, rows: RowBlock, held: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Group of each record that has a value; None where nothing varies or no record has any."""
        if not len(held) or not self.group.varying:
            return None
        if len(held) < self.group.k:
            raise NoSolutionError(
                f"a block of {', '.join(map(repr, self.group.columns))} has {len(held):,} records, fewer than "
                f"k = {self.group.k}: the plan was made for another table"
            )
        from privpipe.kernels.microaggregation import block_groups
        from privpipe.kernels.univariate import fixed_groups, univariate_groups

        points = self.group.points(rows.take(held))
        # The order in which an engine hands over the records of a block says nothing.
        order = self.stream.arrange(rows.record_ids[held])
        if self.method == "mdav":
            return block_groups(
                points,
                order,
                self.group.k,
                refine=self.refine,
                neighbours=self.group.neighbours,
                largest=self.group.block,
            )
        groups_of = univariate_groups if self.method == "univariate" else fixed_groups
        labels = np.empty(len(held), dtype=np.int64)
        labels[order] = groups_of(points[order, 0], self.group.k)
        return labels


def missing_cells(rows: RowBlock, columns: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which cells hold no value, shape (n, s)."""
    return np.stack([np.isnan(rows[column]) for column in columns], axis=1)


def group_aggregates(
    values: NDArray[np.float64], labels: NDArray[np.int64], aggregate: Aggregate = "mean"
) -> NDArray[np.float64]:
    """Of each record the mean or median of its group's known values; NaN stays NaN.

    A mean never leaves the range of its group, so equal values stay what they are. Sums run in the order of the
    values, whatever that of the records.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    labels : ndarray of int64, shape (n,)
        Group numbers from 0 on.
    aggregate : {"mean", "median"}
        The median of an even number of values is the middle of the two inner ones.

    Examples
    --------
    >>> group_aggregates(np.array([1.0, np.nan, 4.0, 2.0]), np.array([0, 0, 0, 1])).tolist()
    [2.5, nan, 2.5, 2.0]
    """
    known = np.flatnonzero(~np.isnan(values))
    if not len(known):
        return values
    order = known[np.lexsort((values[known], labels[known]))]
    ordered, groups = values[order], labels[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sizes = np.diff(starts, append=len(order))
    if aggregate == "median":
        low, high = ordered[starts + (sizes - 1) // 2], ordered[starts + sizes // 2]
        middle = low + (high - low) / 2.0
    else:
        middle = np.add.reduceat(ordered, starts) / sizes
    # Of -0.0 and 0.0, equal values, the order of the records would choose.
    middle = np.clip(middle, ordered[starts], ordered[starts + sizes - 1]) + 0.0
    found = values.copy()
    found[order] = np.repeat(middle, sizes)
    return found
