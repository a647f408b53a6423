"""Raw partitions to logical types; faults are counted over all partitions before any is used."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.conversion import Typing, typing_of
from privpipe.engines.base.logical_types import is_carried
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.sources import larger_scales, scales_in, text_decimals, text_schema
from privpipe.engines.readers.text_records import ragged_error

__all__ = ["may_fail", "narrowed", "scales_of", "summed", "text_table", "typed_table"]


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
