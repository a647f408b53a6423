"""The Dask engine's handle on a table, a schema and a task per partition; two tables as one; parts in logical types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.conversion import Typing, typing_of
from privpipe.engines.base.logical_types import is_carried, require_same, stacked_schema
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.sources import larger_scales, scales_in, text_decimals, text_schema
from privpipe.engines.readers.text_records import ragged_error

__all__ = [
    "DaskTable",
    "append",
    "may_fail",
    "narrowed",
    "renamed",
    "scales_of",
    "stack",
    "summed",
    "taken",
    "text_table",
    "typed_table",
]


@dataclass(frozen=True, repr=False)
class DaskTable:
    """A table in partitions.

    Parameters
    ----------
    schema : pyarrow.Schema
        Logical schema of the visible columns.
    parts : tuple of Node
        At least one; each a record batch of the visible columns, the hidden id columns after them.
    has_record_ids : bool
    narrow : callable, optional
        For a table straight from columnar files: tasks that read only some columns; asked for `coded` ones, with
        texts as dictionaries.
    """

    schema: pa.Schema
    parts: tuple[Node, ...]
    has_record_ids: bool = False
    narrow: Callable[..., list[Node]] | None = field(default=None)

    def __repr__(self) -> str:
        return f"DaskTable({len(self.schema)} columns, {len(self.parts)} partitions)"

    def holding(self, columns: Sequence[str]) -> list[Node]:
        """Tasks whose batches hold at least these columns, read without the others where that is cheaper."""
        if self.narrow is not None and columns and len(set(columns)) < len(self.schema):
            return self.narrow(list(dict.fromkeys(columns)))
        return list(self.parts)

    def coded(self, columns: Sequence[str]) -> list[Node]:
        """As `holding`, for who only counts values: texts may come as dictionaries."""
        if self.narrow is None or not columns:
            return self.holding(columns)
        return self.narrow(list(dict.fromkeys(columns)), coded=True)

    def derived(self, parts: Sequence[Node], schema: pa.Schema | None = None) -> DaskTable:
        """A table of no more records, computed from this one; ids travelled along."""
        return DaskTable(self.schema if schema is None else schema, tuple(parts), self.has_record_ids)


def stack(runtime: Runtime, table: DaskTable, other: DaskTable, columns: Sequence[str], tag: str) -> DaskTable:
    """See `Engine.stack`."""
    schema = stacked_schema(table.schema, other.schema, columns, tag)
    parts = [
        runtime.task("stack tables", tagged, part, schema=schema, side=side)
        for side, each in enumerate((table, other))
        for part in (each.holding(columns) if columns else each.parts)
    ]
    return DaskTable(schema, tuple(parts))


def append(runtime: Runtime, table: DaskTable, other: DaskTable) -> DaskTable:
    """See `Engine.append`."""
    require_same(table, other)
    names = [*table.schema.names, *(ID_COLUMNS if table.has_record_ids else ())]
    theirs = [runtime.task("append records", taken, part, columns=names) for part in other.parts]
    return DaskTable(table.schema, (*table.parts, *theirs), table.has_record_ids, None)


def taken(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Some columns of one partition, in this order."""
    return batch.select(list(columns))


def renamed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """One partition with other names of columns."""
    return pa.record_batch(batch.columns, names=list(names))


def tagged(batch: pa.RecordBatch, schema: pa.Schema, side: int) -> pa.RecordBatch:
    """One partition in the stacked schema."""
    columns = [batch.column(name) for name in schema.names[:-1]]
    return pa.record_batch([*columns, pa.array(np.full(batch.num_rows, side, dtype=np.int64))], schema=schema)


@dataclass(frozen=True, repr=False)
class Read:
    """What a task read: a batch, how many cells of each column did not convert, how many lines are ragged."""

    batch: pa.RecordBatch
    bad: Mapping[str, int]
    ragged: int = 0

    def problems(self) -> tuple[Mapping[str, int], int]:
        """The counts alone."""
        return self.bad, self.ragged


def typed_table(
    runtime: Runtime,
    raw: Sequence[Node],
    schema: pa.Schema,
    types: Mapping[str, str],
    unsure: frozenset[str] = frozenset(),
) -> DaskTable:
    """A table of tasks that yield Arrow tables or batches of `schema`.

    Parameters
    ----------
    unsure : frozenset of str
        Columns of which a task may find that they cannot be read as the schema says.

    Raises
    ------
    DataError
        Cells that do not convert (counted over all partitions), columns and types as `typing_of` refuses them.
    """
    typing = typing_of(schema, types, scales_of(runtime, raw, text_decimals(schema, types)))
    unreadable_columns = [
        field.name
        for field in schema
        if field.name in unsure or may_fail(field.type, typing.schema.field(field.name).type)
    ]
    if unreadable_columns:
        checks = [
            runtime.task("check types", bad_cells, part, typing=narrowed(typing, unreadable_columns)) for part in raw
        ]
        typing.refuse(summed(runtime.compute("check types", checks)))
    parts = [runtime.task("convert types", typing.convert, part) for part in raw]
    return DaskTable(typing.schema, tuple(parts))


def text_table(runtime: Runtime, raw: Sequence[Node], names: Sequence[str], types: Mapping[str, str]) -> DaskTable:
    """A table of tasks that yield `(batch of text columns, number of ragged lines)`.

    It is read at once, for only reading shows whether every cell converts, and kept unless caching is off.
    """
    schema = text_schema(names)
    decimals = text_decimals(schema, types)
    if decimals:
        raw = runtime.keep("read text", raw)
    texts = [runtime.task("take text", _First(), part) for part in raw]
    typing = typing_of(schema, types, scales_of(runtime, texts, decimals))
    read = runtime.keep("read text", [runtime.task("convert text", converted, part, typing=typing) for part in raw])
    problems = runtime.compute("check text", [runtime.task("check text", Read.problems, part) for part in read])
    ragged = sum(lines for _bad, lines in problems)
    if ragged:
        raise ragged_error(ragged, names)
    typing.refuse(summed([bad for bad, _lines in problems]))
    parts = tuple(runtime.task("take rows", batch_of, part) for part in read)
    return DaskTable(typing.schema, parts)


def scales_of(runtime: Runtime, raw: Sequence[Node], columns: Sequence[str]) -> dict[str, int]:
    """Digits after the point of some text columns, over all partitions."""
    if not columns:
        return {}
    tasks = [runtime.task("learn decimals", scales_in, [part], columns=columns) for part in raw]
    return functools.reduce(larger_scales, runtime.compute("learn decimals", tasks))


@dataclass(frozen=True)
class _First:
    def __call__(self, raw: tuple[pa.RecordBatch, int]) -> pa.RecordBatch:
        return raw[0]


def converted(raw: tuple[pa.RecordBatch, int], typing: Typing) -> Read:
    """A text batch in declared types, with the counts of what is amiss."""
    batch, ragged = raw
    values, bad = typing.apply(batch)
    return Read(values, bad, ragged)


def batch_of(read: Read) -> pa.RecordBatch:
    """The rows of what was read."""
    return read.batch


def bad_cells(raw: pa.RecordBatch | pa.Table, typing: Typing) -> dict[str, int]:
    """Cells of the typing's columns that do not convert."""
    return typing.apply(raw)[1]


def summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Counts by column, added up over the partitions."""
    total: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            total[name] = total.get(name, 0) + count
    return total


def narrowed(typing: Typing, columns: Sequence[str]) -> Typing:
    """The typing of some of the columns."""
    return Typing(pa.schema([typing.schema.field(name) for name in columns]), typing.kinds)


def may_fail(found: pa.DataType, logical: pa.DataType) -> bool:
    """Whether some value of a source type may have no value of the logical type.

    Examples
    --------
    >>> may_fail(pa.int8(), pa.int64()), may_fail(pa.uint64(), pa.int64()), may_fail(pa.string(), pa.date32())
    (False, True, True)
    """
    if pt.is_dictionary(found):
        return may_fail(found.value_type, logical)
    if found == logical or pt.is_null(found) or is_carried(found):
        return False
    if pt.is_integer(logical):
        return not pt.is_integer(found) or found == pa.uint64()
    if pt.is_floating(logical):
        return not pt.is_floating(found)
    if pt.is_timestamp(logical) and pt.is_timestamp(found):
        return found.unit == "ns"
    texts = (pt.is_large_string, pt.is_string_view, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)
    return not any(is_text(found) for is_text in texts)
