"""Histograms from counted values, in the one order that makes codes, and class blocks from joint cells and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Histogram, Reduction
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import HeldValues
from privpipe.blocks.row_reductions import bears_nothing
from privpipe.engines.base.batches import whole_array
from privpipe.errors import DataError
from privpipe.kernels.columns.cell_words import scaled_numbers
from privpipe.kernels.exact_sums import ExactMoments

__all__ = [
    "COUNT",
    "ExactMoments",
    "KnownSizes",
    "WithSizes",
    "block_of_cells",
    "codes_of",
    "combined_ids",
    "dictionary_values",
    "find_codes",
    "group_key",
    "grouping_columns",
    "histogram_of",
    "may_be_marked",
    "merged_histogram",
    "not_covered",
    "plain_key",
    "require_query_columns",
    "scaled_numbers",
    "value_order",
]


def group_key(array: pa.Array) -> pa.Array:
    """Values as they are compared when counted: NaN is null and minus zero is zero.

    Examples
    --------
    >>> group_key(pa.array([-0.0, float("nan"), 1.5])).to_pylist()
    [0.0, None, 1.5]
    """
    if not pt.is_floating(array.type):
        return array
    none = pa.scalar(None, array.type)
    array = pc.if_else(pc.fill_null(pc.is_nan(array), True), none, array)
    return pc.add(array, pa.scalar(0.0, array.type))  # IEEE 754: -0.0 + 0.0 is 0.0


def plain_key(column: pa.Array) -> pa.Array:
    """As `group_key`; of a dictionary, its values."""
    return group_key(column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column)


def value_order(values: pa.Array) -> pa.Array:
    """Positions that put values in the order of their type (text by code points), null last.

    Examples
    --------
    >>> value_order(pa.array(["b", None, "A", "a"])).to_pylist()
    [2, 3, 0, 1]
    """
    if pt.is_boolean(values.type):
        values = values.cast(pa.int8())
    return pc.array_sort_indices(values, null_placement="at_end")


def histogram_of(values: pa.Array | pa.ChunkedArray, counts: pa.Array | pa.ChunkedArray | None = None) -> Histogram:
    """The histogram of a column's values, or of values with their counts.

    Parameters
    ----------
    values : pyarrow.Array or ChunkedArray
        In logical type; values may repeat.
    counts : array of int64, optional
        Records that each entry of `values` stands for; 1 where left out.

    Examples
    --------
    >>> found = histogram_of(pa.array(["b", None, "a", "b"]), pa.array([1, 2, 3, 4]))
    >>> found.values.to_pylist(), found.counts.tolist()
    (['a', 'b', None], [3, 5, 2])
    """
    values = group_key(whole_array(values))
    weights = np.ones(len(values), np.int64) if counts is None else whole_array(counts).cast(pa.int64()).to_numpy()
    encoded = values.dictionary_encode(null_encoding="encode")
    indices = encoded.indices.to_numpy(zero_copy_only=False)
    sums = np.zeros(len(encoded.dictionary), np.int64)
    np.add.at(sums, indices, weights)
    order = value_order(encoded.dictionary)
    # A mask keeps no value of weight 0: a histogram holds what occurs.
    ordered = sums[order.to_numpy()]
    found = pa.array(ordered > 0)
    return Histogram(encoded.dictionary.take(order).filter(found), ordered[ordered > 0])


def merged_histogram(parts: Sequence[Histogram], kind: pa.DataType) -> Histogram:
    """One histogram of several parts of a table; `kind` is the column's type, for no parts at all."""
    values = pa.chunked_array([part.values for part in parts], type=kind)
    counts = pa.chunked_array([pa.array(part.counts) for part in parts], type=pa.int64())
    return histogram_of(values, counts)


def codes_of(values: pa.Array, dictionary: Histogram, column: str) -> Ints:
    """Positions of values in a dictionary, int64 of shape (n,).

    Raises
    ------
    DataError
        The dictionary lacks a value.

    Examples
    --------
    >>> codes_of(pa.array(["b", None]), histogram_of(pa.array(["a", "b", None])), "ill").tolist()
    [1, 2]
    """
    found = find_codes(values, dictionary)
    missing = found < 0
    if missing.any():
        raise not_covered(column, int(missing.sum()))
    return found


def find_codes(values: pa.Array, dictionary: Histogram) -> Ints:
    """As `codes_of`, -1 for a value the dictionary lacks."""
    known = group_key(dictionary.values)
    if values.type != known.type:
        try:
            values = values.cast(known.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return np.full(len(values), -1, np.int64)
    positions = pc.index_in(group_key(values), value_set=known)
    return np.asarray(pc.fill_null(positions, -1).cast(pa.int64()).to_numpy(zero_copy_only=False))


def dictionary_values(dictionary: Histogram, kind: pa.DataType, column: str) -> pa.Array:
    """A dictionary's values in the column's own type, for engines that look codes up by a join.

    Raises
    ------
    DataError
        A value that the type cannot hold; a value twice, which would count records twice.
    """
    try:
        values = group_key(dictionary.values.cast(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(
            f"the base distribution of column {column!r} holds {dictionary.values.type}, the column {kind}; "
            "declare the same type for both"
        ) from None
    if len(values.unique()) < len(values):
        raise DataError(f"the base distribution of column {column!r} repeats a value")
    return values


def not_covered(column: str, values: int) -> DataError:
    """What every engine reports when a base distribution has no share for values of the data."""
    return DataError(
        f"base does not cover the released values: column {column!r} holds {values:,} distinct "
        f"value{'s' if values != 1 else ''} that the base distribution lacks"
    )


COUNT: Final = "__privpipe_count"
"""Name of the column that holds the number of records of a joint cell."""


def grouping_columns(query: ClassQuery) -> tuple[str, ...]:
    """What one group-by must group on to answer the query: keys, sensitive columns, weight and person.

    Examples
    --------
    >>> grouping_columns(ClassQuery(keys=("zip",), columns=("ill",), person="who"))
    ('zip', 'ill', 'who')
    """
    extra = [name for name in (query.weight, query.person) if name is not None]
    return tuple(dict.fromkeys([*query.keys, *query.columns, *extra]))


def require_query_columns(schema: pa.Schema, query: ClassQuery) -> None:
    """Refuse a query on columns the table lacks, or on a weight that is not a number.

    Raises
    ------
    DataError
    """
    for name in grouping_columns(query):
        if name not in schema.names:
            raise DataError(f"column {name!r} is not in the table")
    if query.weight is not None and query.person is not None:
        raise DataError("weights are summed over records and cannot be asked for together with a person column")
    if query.weight is not None:
        kind = schema.field(query.weight).type
        if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
            raise DataError(f"weight column {query.weight!r} is {kind}; weights must be numbers")


def may_be_marked(query: ClassQuery) -> bool:
    """Whether classes are marked that have nothing but the mark, or no value, in every key."""
    return query.mark is not None and bool(query.keys)


def block_of_cells(cells: pa.Table, query: ClassQuery, ids: Ints | None = None) -> ClassBlock:
    """The class block of joint cells.

    Parameters
    ----------
    cells : pyarrow.Table
        The columns `grouping_columns(query)` in logical types, and `COUNT` (int64, records); one row a
        combination, in any order. All cells of a class are here.
    query : ClassQuery
    ids : ndarray of int64, shape (n_rows,), optional
        Class of each row, where the engine knows it; found from the keys when left out.

    Returns
    -------
    ClassBlock
        Classes by ascending id, in no promised order without `ids`; codes ascend within each class.

    Raises
    ------
    DataError
        A dictionary lacks a value; a record without a person or a weight.

    Examples
    --------
    >>> cells = pa.table({"zip": ["1", "2", "1"], "ill": ["flu", "flu", "hiv"], COUNT: [3, 1, 2]})
    >>> block = block_of_cells(cells, ClassQuery(keys=("zip",), columns=("ill",)))
    >>> block.sizes.tolist(), block.cells["ill"].counts.tolist()
    ([5, 1], [3, 2, 1])
    """
    keys = [whole_array(cells.column(name)) for name in query.keys]
    ids = combined_ids(keys, len(cells)) if ids is None else ids
    order = np.argsort(ids, kind="stable")
    sorted_ids = ids[order]
    offsets = _boundaries(sorted_ids)
    counts = np.asarray(whole_array(cells.column(COUNT)).cast(pa.int64()).to_numpy(zero_copy_only=False))[order]
    if query.person is not None:
        return _in_persons(cells, query, order, offsets, _marks(keys, query, order[offsets[:-1]]))
    return ClassBlock(
        sizes=_sums(offsets, counts),
        cells={
            name: _marginal(offsets, _codes(cells, name, query)[order], counts) for name in dict.fromkeys(query.columns)
        },
        marked=_marks(keys, query, order[offsets[:-1]]),
        weights=_weights(cells, query, order, offsets, counts),
    )


def combined_ids(columns: Sequence[pa.Array], length: int) -> Ints:
    """One integer per row, equal exactly where all columns are (null equals null, NaN is null, -0.0 is 0.0).

    Parameters
    ----------
    columns : sequence of pyarrow.Array
        May be empty: then all rows are equal.
    length : int
        Rows.

    Returns
    -------
    ndarray of int64, shape (length,)
        No hash: dictionary codes in mixed radix, made dense again before they could overflow.

    Examples
    --------
    >>> combined_ids([pa.array(["a", None, "a"]), pa.array([1, 1, 2])], 3).tolist()
    [0, 2, 1]
    """
    ids = np.zeros(length, np.int64)
    bound = 1
    for column in columns:
        encoded = group_key(column).dictionary_encode(null_encoding="encode")
        radix = max(1, len(encoded.dictionary))
        if bound * radix >= 2**62:
            distinct, ids = np.unique(ids, return_inverse=True)
            ids, bound = ids.astype(np.int64, copy=False), max(1, len(distinct))
        ids = ids * radix + encoded.indices.to_numpy(zero_copy_only=False)
        bound *= radix
    return ids


def _boundaries(ids: Ints) -> Ints:
    from privpipe.kernels.classes.cells import boundaries

    changes = np.ones(len(ids), np.bool_)
    changes[1:] = ids[1:] != ids[:-1]
    return boundaries(changes)


def _sums(offsets: Ints, counts: NDArray[Any]) -> NDArray[Any]:
    from privpipe.blocks.arrays import read_only
    from privpipe.kernels.classes.cells import sum_by_class

    return np.asarray(sum_by_class(read_only(offsets, np.int64), read_only(counts, counts.dtype)))


def _marginal(offsets: Ints, codes: Ints, counts: Ints) -> Cells:
    from privpipe.blocks.arrays import read_only
    from privpipe.kernels.classes.cells import marginal_cells

    return Cells(*marginal_cells(*(read_only(part, np.int64) for part in (offsets, codes, counts))))


def _codes(cells: pa.Table, name: str, query: ClassQuery) -> Ints:
    values = whole_array(cells.column(name))
    if name in query.dictionaries:
        return codes_of(values, query.dictionaries[name], name)
    return combined_ids([values], len(values))


def _marks(keys: Sequence[pa.Array], query: ClassQuery, first: Ints) -> Bools | None:
    if query.mark is None or not may_be_marked(query):
        return None
    marked = np.ones(len(first), np.bool_)
    for key in keys:
        marked &= bears_nothing(key.take(pa.array(first)), query.mark)
    return marked


def _weights(
    cells: pa.Table,
    query: ClassQuery,
    order: Ints,
    offsets: Ints,
    counts: Ints,
) -> Floats | None:
    """Weight of each class, exact and rounded once, so that every engine gives the same double."""
    if query.weight is None:
        return None
    values = group_key(whole_array(cells.column(query.weight)).cast(pa.float64()))
    if values.null_count:
        missing = int(counts[np.asarray(pc.is_null(values).to_numpy(zero_copy_only=False))[order]].sum())
        raise DataError(f"weight column {query.weight!r} has {missing:,} missing values; a record needs a weight")
    weights = values.to_numpy(zero_copy_only=False)[order]
    from privpipe.blocks.arrays import read_only
    from privpipe.kernels.exact_sums import exact_sum_by_class

    cells_of_classes = read_only(offsets, np.int64), read_only(weights, np.float64), read_only(counts, np.int64)
    return np.asarray(exact_sum_by_class(*cells_of_classes), dtype=np.float64)


def _in_persons(
    cells: pa.Table,
    query: ClassQuery,
    order: Ints,
    offsets: Ints,
    marked: Bools | None,
) -> ClassBlock:
    """Sizes and counts in distinct persons: the person's code is the value counted, then each value's persons."""
    persons = group_key(whole_array(cells.column(str(query.person))))
    if persons.null_count:
        raise DataError(f"person column {query.person!r} has missing values; a record needs a person to be counted by")
    who = combined_ids([persons], len(persons))[order]
    ones = np.ones(len(order), np.int64)
    distinct = _marginal(offsets, who, ones)
    classes = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    found, held = {}, {}
    for name in dict.fromkeys(query.columns):
        codes = _codes(cells, name, query)[order]
        by_cell = np.lexsort((who, codes, classes))
        triples = np.column_stack([classes[by_cell], codes[by_cell], who[by_cell]])
        fresh = np.ones(len(triples), np.bool_)
        fresh[1:] = (triples[1:] != triples[:-1]).any(axis=1)
        kept = triples[fresh]
        starts = _boundaries(kept[:, 0]) if len(kept) else np.zeros(1, np.int64)
        found[name] = _marginal(starts, kept[:, 1], np.ones(len(kept), np.int64))
        held[name] = HeldValues(kept[:, 0], kept[:, 2], kept[:, 1])
    return ClassBlock(np.diff(distinct.offsets), found, marked, held=held)


BLOCK_CLASSES = 131072


@dataclass(frozen=True)
class KnownSizes:
    """How many classes have each size.

    Parameters
    ----------
    mark : str or None
        By which the class of the mark was distinguished from the others; None: by none.
    classes : mapping of (marked, size) to int

    Examples
    --------
    >>> known = KnownSizes("*", {(False, 2): 3, (True, 5): 1})
    >>> [(block.sizes.tolist(), block.marked) for block in known.blocks(ClassQuery(keys=("zip",)))]
    [([2, 2, 2, 5], None)]
    >>> [block.marked.tolist() for block in known.blocks(ClassQuery(keys=("zip",), mark="*"))]
    [[False, False, False, True]]
    """

    mark: str | None
    classes: dict[tuple[bool, int], int] = field(repr=False)

    @classmethod
    def of(cls, block: ClassBlock, mark: str | None) -> Self:
        """Those of a block of classes."""
        flags = np.zeros(len(block), np.bool_) if block.marked is None else block.marked
        found: dict[tuple[bool, int], int] = {}
        for flag in (False, True):
            sizes, counts = _numbers(block.sizes[flags == flag])
            found |= {(flag, size): count for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)}
        return cls(mark, found)

    def merged(self, other: Self) -> Self:
        """Those of both."""
        found = dict(self.classes)
        for key, count in other.classes.items():
            found[key] = found.get(key, 0) + count
        return replace(self, classes=found)

    def answers(self, query: ClassQuery) -> bool:
        """Whether a query over the same keys needs no more than this."""
        told = not may_be_marked(query) or query.mark == self.mark
        return told and not query.columns and query.person is None and query.weight is None

    def blocks(self, query: ClassQuery) -> Iterator[ClassBlock]:
        """The classes in order of their sizes, the class of the mark last."""
        listed = sorted(self.classes.items())
        counts = np.array([number for _, number in listed], dtype=np.int64)
        ends = np.cumsum(counts)
        sizes = np.array([size for (_, size), _ in listed], dtype=np.int64)
        marked = np.array([flag for (flag, _), _ in listed], dtype=np.bool_)
        for start in range(0, int(ends[-1]) if len(ends) else 0, BLOCK_CLASSES):
            first, last = np.searchsorted(ends, [start, min(start + BLOCK_CLASSES, int(ends[-1])) - 1], side="right")
            here = slice(int(first), int(last) + 1)
            # How many classes of each size lie before the end of the block, less those before it begins.
            own = np.diff(np.minimum(ends[here], start + BLOCK_CLASSES), prepend=start)
            flags = np.repeat(marked[here], own) if may_be_marked(query) else None
            yield ClassBlock(np.repeat(sizes[here], own), marked=flags)


def _numbers(sizes: Ints) -> tuple[Ints, Ints]:
    """Each size, ascending, and how often it occurs."""
    if len(sizes) and int(sizes.max()) <= len(sizes):
        counts = np.bincount(sizes)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(sizes, return_counts=True)


@dataclass(frozen=True)
class WithSizes:
    """A reduction that also notes the sizes of the classes that it sees."""

    inner: Reduction[ClassBlock, Any]
    mark: str | None

    def measure(self, block: ClassBlock, facts: Facts) -> tuple[Any, KnownSizes]:
        return self.inner.measure(block, facts), KnownSizes.of(block, self.mark)

    def merge(self, left: tuple[Any, KnownSizes], right: tuple[Any, KnownSizes]) -> tuple[Any, KnownSizes]:
        return self.inner.merge(left[0], right[0]), left[1].merged(right[1])
