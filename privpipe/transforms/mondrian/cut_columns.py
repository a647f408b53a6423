"""How a column is cut: its values as codes in order, and the label and cost of a range of codes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from privpipe.blocks import Histogram
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.errors import DataError, HierarchyError, NoSolutionError
from privpipe.transforms.base import StageContext
from privpipe.transforms.recoding.labelling import texts_of, type_of
from privpipe.transforms.recoding.population import SeenColumn, hierarchy_over_both

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy

__all__ = [
    "CutColumn",
    "Labels",
    "by_value",
    "cut_columns",
    "order_of_values",
    "require_one_node_a_label",
    "value_codes",
]

Labels = Literal["cells", "values"]
ANY = "*"


@dataclass(frozen=True)
class CutColumn:
    """A column's dictionary: the codes of its values, in the order in which a tree cuts them.

    With a hierarchy, codes are its labels at `min_level`, in leaf order. Without one, the distinct values seen, in
    the order of their type, a missing value last. With a population, its values are among them.

    Parameters
    ----------
    name : str
    values : pyarrow.Array
        Distinct values of the table, null last where there are any.
    codes : ndarray of int64
        Code of each of `values`.
    texts : tuple of str or None
        Canonical text of each code, None for a missing value; of a column with a hierarchy, not used.
    is_number : bool
        Whether ranges are intervals rather than sets; numbers, dates and timestamps.
    numbers : ndarray of float64
        Where each code is on the line (integers above their least), NaN for a missing value; empty unless
        `is_number`.
    hierarchy : Hierarchy, optional
    """

    name: str
    values: pa.Array = field(repr=False)
    codes: Ints = field(repr=False)
    texts: tuple[str | None, ...] = field(default=(), repr=False)
    is_number: bool = False
    numbers: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    hierarchy: Hierarchy | None = None

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.texts) if self.hierarchy is None else len(self.hierarchy.labels(self.hierarchy.min_level))

    @property
    def domain_size(self) -> float:
        """D, which shares are taken of: the hierarchy's domain, else the distinct values seen."""
        return float(self.size) if self.hierarchy is None else self.hierarchy.domain_size

    @property
    def digest(self) -> str:
        """SHA-256 over the values of the codes."""
        if self.hierarchy is not None:
            return self.hierarchy.digest()
        words = "".join("-" if text is None else f"{len(text)}:{text}" for text in self.texts)
        return hashlib.sha256(words.encode()).hexdigest()

    @cached_property
    def leaves(self) -> Ints:
        """A leaf of the hierarchy for each code."""
        if self.hierarchy is None:
            return np.arange(self.size)
        row = self.hierarchy.codes(self.hierarchy.min_level)
        return np.searchsorted(row, np.arange(self.size)).astype(np.int64)

    @cached_property
    def groups(self) -> Ints:
        """Codes of one group may share a label: those below one label at `max_level`."""
        if self.hierarchy is None:
            return np.zeros(self.size, dtype=np.int64)
        return self.hierarchy.codes(self.hierarchy.max_level)[self.leaves].astype(np.int64)

    def levels(self, first: Ints, last: Ints) -> Ints:
        """Level of the lowest common ancestor of each range of codes, at least `min_level`."""
        if self.hierarchy is None:
            raise TypeError(f"{self.name} has no hierarchy")
        found = self.hierarchy.common_level(self.leaves[first], self.leaves[last]).astype(np.int64)
        return np.maximum(found, self.hierarchy.min_level)

    def shares(self, first: Ints, last: Ints) -> Floats:
        """Share of the domain that each range's label represents, in [0, 1]."""
        if self.hierarchy is None:
            return (last - first + 1) / self.size
        table = np.array([self.hierarchy.shares(level) for level in range(self.hierarchy.height + 1)])
        found: Floats = table[self.levels(first, last), self.leaves[first]]
        return found

    def told(self, first: Ints, last: Ints, low: Ints, high: Ints, labels: Labels) -> tuple[Ints, Ints]:
        """The ends that each range's label shows, which is all that a plan may say of the values present.

        Parameters are those of `named`, which gives the same labels for the result.
        """
        if self.hierarchy is None:
            return self._bounds(first, last, low, high) if labels == "cells" and self.is_number else (low, high)
        levels, start, stop = self.levels(low, high), low.copy(), high.copy()
        for level in np.unique(levels).tolist():
            row = self.hierarchy.codes(level)[self.leaves]
            here = levels == level
            start[here] = np.searchsorted(row, row[low[here]], side="left")
            stop[here] = np.searchsorted(row, row[low[here]], side="right") - 1
        return start, stop

    @property
    def _top(self) -> int:
        """The greatest code that is a value."""
        return self.size - 1 if self.texts[-1] is not None or self.size == 1 else self.size - 2

    def _bounds(self, first: Ints, last: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Cells of numbers: a missing value is part of one only where there is one."""
        missing = low > self._top
        return np.where(missing, low, first), np.where(high > self._top, high, np.minimum(last, self._top))

    def is_root(self, first: Ints, last: Ints) -> Bools:
        """Whether the label of each range represents every value: that of the last level, or all codes."""
        if self.hierarchy is None:
            most = self._top if self.is_number else self.size - 1
            return np.asarray((first == 0) & (last >= most) & (last > first), dtype=np.bool_)
        height = self.hierarchy.height
        return np.asarray((self.levels(first, last) == height) & (height > 0), dtype=np.bool_)

    def penalties(self, first: Ints, last: Ints, low: Ints, high: Ints) -> Floats:
        """NCP of each range: a number's width over the table's, a category's share unless it is a single value.

        Parameters
        ----------
        first, last : ndarray of int64
            Ends of the range that a label states.
        low, high : ndarray of int64
            Ends of the values present, for columns with a hierarchy.
        """
        if not self.is_number:
            share = self.shares(low, high)
            return np.where(share <= 1.0 / self.domain_size, 0.0, share)
        least, most = np.nanmin(self.numbers, initial=np.inf), np.nanmax(self.numbers, initial=-np.inf)
        if not most > least:
            return np.zeros(len(first))
        width = (self.numbers[last] - self.numbers[first]) / (most - least)
        # A range that takes in the missing values is called by no interval.
        return np.where(np.isnan(width), np.where(first == last, 0.0, 1.0), width)

    def named(self, first: Ints, last: Ints, low: Ints, high: Ints, labels: Labels) -> tuple[Ints, list[str | None]]:
        """What ranges are released as: a number for each, and the texts they number; None: a missing value stays one.

        Parameters
        ----------
        first, last : ndarray of int64
            Ends of the cells, as the cuts leave them.
        low, high : ndarray of int64
            Ends of the values present.
        labels : {"cells", "values"}
            Which of the two an interval shows; a set, or a label of a hierarchy, covers the values present.
        """
        if self.hierarchy is not None:
            one, other = self.levels(low, high), low
        else:
            one, other = self.told(first, last, low, high, labels)
        pairs, places = np.unique(one * self.size + other, return_inverse=True)
        texts = [self._text(pair // self.size, pair % self.size, labels) for pair in pairs.tolist()]
        known = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        numbers = np.array([known[text] for text in texts], dtype=np.int64)
        return numbers[places], list(known)

    def _text(self, one: int, other: int, labels: Labels) -> str | None:
        """The label at level `one` of code `other`; without a hierarchy, that of the codes `one` to `other`."""
        if self.hierarchy is None:
            return self._range(one, other, labels)
        return self.hierarchy.released_labels(one)[int(self.hierarchy.codes(one)[self.leaves[other]])]

    def _range(self, first: int, last: int, labels: Labels) -> str | None:
        if first == last:
            return self.texts[first]
        if not self.is_number:
            if first == 0 and last == self.size - 1:
                return ANY
            return "{" + ", ".join("null" if text is None else text for text in self.texts[first : last + 1]) + "}"
        if last > self._top:
            return ANY
        if labels == "values":
            return f"[{self.texts[first]}, {self.texts[last]}]"
        if last == self._top:
            return ANY if first == 0 else f">={self.texts[first]}"
        end = self.texts[last + 1]
        return f"<{end}" if first == 0 else f"[{self.texts[first]}, {end}["


def cut_columns(
    histograms: Mapping[str, Histogram],
    columns: tuple[str, ...],
    context: StageContext,
    *,
    hierarchies: bool = True,
    beside: Mapping[str, Histogram] | None = None,
) -> tuple[CutColumn, ...]:
    """The dictionaries of some columns of a table, by their hierarchies where they have one.

    Parameters
    ----------
    histograms : mapping of column to Histogram
        Of the table.
    hierarchies : bool
        False: all by their values.
    beside : mapping of column to Histogram, optional
        Of a population that is cut like the table.

    Raises
    ------
    DataError
        A value of the population that a hierarchy lacks.
    HierarchyError
        A value that a hierarchy lacks, by its rule; a label of two nodes.
    NoSolutionError
        Values that a hierarchy lacks are to be suppressed, which a cut cannot.
    UnsupportedError
        A hierarchy that the population's values would change.
    """
    found = []
    for column in columns:
        values, counts = histograms[column].values, histograms[column].counts
        strangers = None if beside is None else _strangers(values, beside[column].values)
        if not hierarchies or column not in context.hierarchies:
            values = values if strangers is None else _in_order(values, strangers)
            found.append(by_value(column, values, texts_of(values, context, column).to_pylist()))
            continue
        texts = texts_of(values, context, column).to_pylist()
        hierarchy = context.hierarchies[column].build(texts, counts.tolist(), type_of(context, column))
        require_one_node_a_label(hierarchy, context)
        leaves = hierarchy.encode(texts)
        if (leaves < 0).any():
            raise NoSolutionError(
                f"{context.place}: {int(counts[leaves < 0].sum()):,} records have a value that the hierarchy of "
                f"{column!r} lacks and `unknown: suppress` wants them gone, but this stage suppresses no record; "
                "complete the hierarchy or write `unknown: root`"
            )
        if strangers is not None:
            own = SeenColumn(0, tuple(texts), tuple(counts.tolist()), type_of(context, column), hierarchy)
            more = texts_of(strangers, context, column).to_pylist()
            hierarchy, theirs = hierarchy_over_both(hierarchy, own, column, more, context)
            require_one_node_a_label(hierarchy, context)
            values, leaves = _joined(values, strangers), np.concatenate([hierarchy.encode(texts), theirs])
        codes = hierarchy.codes(hierarchy.min_level)[leaves].astype(np.int64)
        found.append(CutColumn(column, values, codes, hierarchy=hierarchy))
    return tuple(found)


def order_of_values(values: pa.Array) -> Ints:
    """What sorts distinct values in the order of their type, a missing one last.

    Examples
    --------
    >>> import pyarrow as pa
    >>> order_of_values(pa.array([True, None, False])).tolist()
    [2, 0, 1]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    sortable = values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values
    order = pc.array_sort_indices(sortable, null_placement="at_end")
    return np.asarray(order.to_numpy(zero_copy_only=False), dtype=np.int64)


def _strangers(mine: pa.Array, theirs: pa.Array) -> pa.Array:
    """Values of a population that the table lacks."""
    import pyarrow.compute as pc

    return theirs.filter(pc.index_in(theirs, value_set=mine).is_null())


def _joined(mine: pa.Array, strangers: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.concat_arrays([mine, strangers])


def _in_order(mine: pa.Array, strangers: pa.Array) -> pa.Array:
    import pyarrow as pa

    values = _joined(mine, strangers)
    return values.take(pa.array(order_of_values(values)))


def value_codes(column: CutColumn, array: pa.Array) -> Ints:
    """The code of each cell of a block.

    Raises
    ------
    DataError
        A value that the dictionary lacks.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if pa.types.is_floating(array.type):
        none = pa.scalar(None, array.type)
        array = pc.add(pc.if_else(pc.is_nan(array), none, array), pa.scalar(0, array.type))  # -0.0 becomes 0.0
    found = pc.index_in(array, value_set=column.values.cast(array.type))
    if found.null_count:
        raise DataError(
            f"{found.null_count:,} values of column {column.name!r} are not among those the plan was made with"
        )
    codes: Ints = column.codes[found.to_numpy(zero_copy_only=False)]
    return codes


def by_value(name: str, values: pa.Array, texts: list[str | None]) -> CutColumn:
    """The dictionary of a column by its values, whatever hierarchy it has; `texts` are theirs."""
    import pyarrow as pa

    kind = values.type
    moment = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or moment
    numbers = np.empty(0)
    if number:
        ticks = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()) if moment else values
        if pa.types.is_integer(ticks.type):
            return CutColumn(name, values, np.arange(len(texts)), tuple(texts), number, _above_least(ticks))
        numbers = np.asarray(ticks.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
    return CutColumn(name, values, np.arange(len(texts)), tuple(texts), number, numbers)


def _above_least(ticks: pa.Array) -> Floats:
    """How far each integer is above the least, NaN where missing: exact also where doubles of them are one."""
    import pyarrow.compute as pc

    missing = ticks.is_null().to_numpy(zero_copy_only=False)
    if missing.all():
        return np.full(len(ticks), np.nan)
    whole = ticks.fill_null(pc.min(ticks)).to_numpy(zero_copy_only=False)
    unsigned = whole.astype(np.int64 if whole.dtype.kind == "i" else np.uint64).view(np.uint64)
    return np.where(missing, np.nan, (unsigned - unsigned[whole.argmin()]).astype(np.float64))


def require_one_node_a_label(hierarchy: Hierarchy, context: StageContext) -> None:
    """Refuse a hierarchy in which one text names two nodes, for cells of several levels share a column.

    Raises
    ------
    HierarchyError
    """
    if hierarchy.label_collisions:
        raise HierarchyError(
            f"{context.place}: label_collision: {hierarchy.label_collisions:,} labels of {hierarchy.column!r} name "
            "different nodes at different levels; cells of several levels share this column, so give them names of "
            "their own",
            kind="label_collision",
        )
