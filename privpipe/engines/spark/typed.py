"""Raw columns to logical types: by Spark's casts where these are exact, else on the workers, counted before used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.carried_cells import CARRIED, carried_text, is_carried
from privpipe.engines.base.logical import kind_of, logical_schema
from privpipe.engines.base.text import decimal_scale
from privpipe.engines.base.text_lists import is_text_list
from privpipe.engines.base.typing import Typing, typing_of
from privpipe.engines.spark.layout import Layout, physical, spark_type
from privpipe.engines.spark.table import SparkTable
from privpipe.engines.spark.workers import fold, map_batches, map_struct

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Check", "RawFrame", "larger", "scales_in", "typed_table"]

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
        Cells that are no value of their declared type.
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


def scales_in(batches: Iterable[pa.RecordBatch], columns: Iterable[str]) -> dict[str, int]:
    """Digits after the point that the decimals of text columns need.

    Examples
    --------
    >>> scales_in([pa.record_batch({"pay": ["1.5", "2.25"]})], ["pay"])
    {'pay': 2}
    """
    found = dict.fromkeys(columns, 0)
    for batch in batches:
        for name in found:
            found[name] = max(found[name], decimal_scale(batch.column(name)))
    return found


def larger(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    """The larger scale of each column."""
    return {name: max(scale, right[name]) for name, scale in left.items()}


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
        found = sf.col(physical(at))
        found = sf.to_json(found) if is_text_list(raw.schema.field(at).type) else found
        column = found.cast(spark_type(target.type))
        if kind_of(target.type) == "number":
            column = sf.nanvl(column, sf.lit(None).cast("double"))
        columns.append(column.alias(physical(at)))
    return SparkTable(raw.frame.select(*columns), layout)


def _scales(table: SparkTable, columns: list[str]) -> dict[str, int]:
    layout = table.layout

    def measure(batches: Batches) -> Iterator[dict[str, int]]:
        yield scales_in((layout.block(batch).batch for batch in batches), columns)

    return fold(table.frame, measure, larger, "learn the digits of decimals") or {}


def _refuse_bad_cells(table: SparkTable, typing: Typing) -> None:
    layout = table.layout

    def measure(batches: Batches) -> Iterator[Counter[str]]:
        for batch in batches:
            yield Counter(typing.apply(layout.block(batch).batch)[1])

    add: Callable[[Counter[str], Counter[str]], Counter[str]] = Counter.__add__
    found = fold(table.frame, measure, add, "check the types") or Counter()
    typing.refuse({name: found[name] for name in typing.schema.names})
