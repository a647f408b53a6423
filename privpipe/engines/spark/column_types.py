"""Raw columns to logical types: by Spark's casts where these are exact, else on the workers; and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.conversion import Typing, typing_of
from privpipe.engines.base.logical_types import (
    CARRIED,
    carried_cells,
    carried_text,
    is_carried,
    is_text_list,
    kind_of,
    logical_schema,
)
from privpipe.engines.base.return_forms import ReturnForm, kept_metadata
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.distributed.sources import larger_scales, scales_in
from privpipe.engines.spark.spark_table import Layout, SparkTable, spark_type
from privpipe.engines.spark.workers import fold, map_batches, map_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Check", "RawFrame", "as_it_came", "typed_table"]


Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class RawFrame:
    """A Spark frame with columns named by position, and the types and names they have in the source."""

    frame: DataFrame = field(repr=False)
    schema: pa.Schema


@dataclass
class Check:
    """What is amiss in a source, added up over all its parts before any is blamed.

    Parameters
    ----------
    records : int
    bad : Counter of column
        Cells that are not values of their declared type.
    ragged : int
        Lines with too few or too many fields.
    """

    records: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    ragged: int = 0

    def merge(self, other: Check) -> Check:
        """Add up."""
        return Check(self.records + other.records, self.bad + other.bad, self.ragged + other.ragged)


def typed_table(raw: RawFrame, types: Mapping[str, str]) -> SparkTable:
    """The table of a Spark frame under declared types.

    Raises
    ------
    DataError
        Names and types as `typing_of` refuses them; cells that do not convert (column, type and count).
    """
    typing = typing_of(raw.schema, types)
    native = _natively(_carrying(raw, types))
    if typing.schema == native.schema:
        return native
    changed = [name for name in types if native.schema.field(name).type != typing.schema.field(name).type]
    texts = [name for name in changed if types[name] == "decimal" and pt.is_string(native.schema.field(name).type)]
    if texts:
        chosen = native.select(texts)
        scales = _scales(chosen, texts)
        typing = typing_of(raw.schema, types, scales)
    _refuse_bad_cells(native.select(changed), Typing(pa.schema([typing.schema.field(name) for name in changed]), types))
    source, layout = native.layout, Layout(typing.schema)

    def convert(batches: Batches) -> Batches:
        for batch in batches:
            rows = typing.convert(source.block(batch).batch)
            yield pa.record_batch(rows.columns, schema=layout.arrow)

    return SparkTable(map_batches(native.frame, convert, layout), layout)


def _carrying(raw: RawFrame, types: Mapping[str, str]) -> RawFrame:
    """The frame with what is carried as text, as `carried_text` writes it."""
    from pyspark.sql.types import StringType, StructField, StructType

    held = [at for at, each in enumerate(raw.schema) if is_carried(each.type) and types.get(each.name) == CARRIED]
    if not held:
        return raw
    fields = [
        StructField(each.name, StringType()) if at in held else each for at, each in enumerate(raw.frame.schema.fields)
    ]

    def write(batches: Batches) -> Batches:
        for batch in batches:
            cells = [carried_text(cell) if at in held else cell for at, cell in enumerate(batch.columns)]
            yield pa.record_batch(cells, names=batch.schema.names)

    schema = raw.schema
    for at in held:
        schema = schema.set(at, schema.field(at).with_type(pa.string()))
    return RawFrame(map_struct(raw.frame, write, StructType(fields)), schema)


def _natively(raw: RawFrame) -> SparkTable:
    """The columns in their logical types, by casts that keep every value; NaN is null."""
    from pyspark.sql import functions as sf

    layout = Layout(logical_schema(raw.schema))
    columns = []
    for at, target in enumerate(layout.schema):
        # Of strings, the cast also takes a collation away under which 'a' might equal 'A'.
        found = sf.col(column_name(at))
        found = sf.to_json(found) if is_text_list(raw.schema.field(at).type) else found
        column = found.cast(spark_type(target.type))
        if kind_of(target.type) == "number":
            column = sf.nanvl(column, sf.lit(None).cast("double"))
        columns.append(column.alias(column_name(at)))
    return SparkTable(raw.frame.select(*columns), layout)


def _scales(table: SparkTable, columns: list[str]) -> dict[str, int]:
    layout = table.layout

    def measure(batches: Batches) -> Iterator[dict[str, int]]:
        yield scales_in((layout.block(batch).batch for batch in batches), columns)

    return fold(table.frame, measure, larger_scales, "learn the digits of decimals") or {}


def _refuse_bad_cells(table: SparkTable, typing: Typing) -> None:
    layout = table.layout

    def measure(batches: Batches) -> Iterator[Counter[str]]:
        for batch in batches:
            yield Counter(typing.apply(layout.block(batch).batch)[1])

    add: Callable[[Counter[str], Counter[str]], Counter[str]] = Counter.__add__
    found = fold(table.frame, measure, add, "check the types") or Counter()
    typing.refuse({name: found[name] for name in typing.schema.names})


def as_it_came(frame: DataFrame, like: Any, form: ReturnForm) -> DataFrame:
    """A frame of logical types as its source was: types by `form`, and what metadata may stay; nothing runs.

    Attributes of Spark ML list the values of a column: they stay where it is untouched and no record is left out.
    """
    from pyspark.sql import functions as sf

    names = list(frame.columns)
    known = {field.name: field for field in _schema(like).fields}
    frame = _decoded(frame.toDF(*map(column_name, range(len(names)))), names, known, form)
    columns = []
    for at, name in enumerate(names):
        column = sf.col(column_name(at))
        if name in form.types:
            column = column.cast(known[name].dataType)
        metadata = {}
        if name in known:
            metadata = kept_metadata(known[name].metadata, whole=form.whole and name in form.untouched)
        columns.append(column.alias(name, metadata=metadata) if metadata else column.alias(name))
    return frame.select(*columns)


def _schema(like: Any) -> Any:
    return like.schema if hasattr(like, "mapInArrow") else like.to_spark().schema


def _decoded(frame: DataFrame, names: list[str], known: dict[str, Any], form: ReturnForm) -> DataFrame:
    """The frame with what was carried as text in its own types again."""
    from pyspark.sql.types import StructField, StructType

    held = {at: form.types[name] for at, name in enumerate(names) if is_carried(form.types.get(name, pa.null()))}
    if not held:
        return frame
    fields = [
        StructField(each.name, known[names[at]].dataType) if at in held else each
        for at, each in enumerate(frame.schema.fields)
    ]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            cells = [
                carried_cells(cell.cast(pa.string()), held[at]) if at in held else cell
                for at, cell in enumerate(batch.columns)
            ]
            yield pa.record_batch(cells, names=batch.schema.names)

    return map_struct(frame, read, StructType(fields))
