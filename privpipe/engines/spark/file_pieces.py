"""Files read on the workers, a piece for each task: CSV and JSON as text, and Parquet types that Spark cannot read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from privpipe.engines.base.batches import in_order
from privpipe.engines.base.conversion import Typing, typing_of
from privpipe.engines.base.logical_types import check_names
from privpipe.engines.distributed.sources import (
    csv_dialect,
    json_names,
    larger_scales,
    scales_in,
    text_decimals,
    text_schema,
)
from privpipe.engines.lakes import LakeTable
from privpipe.engines.readers.files import stamp_of
from privpipe.engines.readers.parquet_files import ParquetFiles, partition_values, read_groups, with_partitions
from privpipe.engines.readers.source import Source
from privpipe.engines.readers.text_records import (
    CsvBlock,
    csv_blocks,
    json_batches,
    json_columns,
    ragged_error,
    read_csv_block,
)
from privpipe.engines.spark.column_types import Check
from privpipe.engines.spark.spark_table import Layout, SparkTable
from privpipe.engines.spark.workers import fold, map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["csv_frame", "json_frame", "lake_frame", "parquet_frame"]


P = TypeVar("P")
Reader = Callable[[Any], Iterator[tuple[pa.RecordBatch, int]]]
"""From a piece to its batches, each with the number of its ragged lines."""
MOST_TASKS = 4096
BLOCK_BYTES = 2**20, 2**25


def csv_frame(session: SparkSession, source: Source, files: list[str]) -> SparkTable:
    """The table of CSV files, cut into blocks."""
    dialect = csv_dialect(source, files)
    size = min(max(sum(stamp_of(name)[1] for name in files) // 16, BLOCK_BYTES[0]), BLOCK_BYTES[1])
    cut = partial(csv_blocks, dialect=dialect, size=size)
    blocks = [block for found in in_order(cut, files, os.cpu_count() or 1) for block in found]

    def read(block: CsvBlock) -> Iterator[tuple[pa.RecordBatch, int]]:
        yield read_csv_block(block, dialect)

    return _typed_table(session, blocks, read, text_schema(dialect.names), source)


def json_frame(session: SparkSession, source: Source, files: list[str]) -> SparkTable:
    """The table of JSON files, one task per file."""
    most = source.max_bytes

    def learn(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[int, list[str]]]:
        for at in _numbers(batches):
            yield {at: json_columns([files[at]], most)}

    merge: Callable[[dict[int, list[str]], dict[int, list[str]]], dict[int, list[str]]] = dict.__or__
    found = fold(_numbered(session, len(files)), learn, merge, "read the JSON files") or {}
    names = json_names((found[at] for at in sorted(found)), source)

    def read(name: str) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in json_batches([name], names, most):
            yield batch, 0

    return _typed_table(session, files, read, text_schema(names), source)


def parquet_frame(session: SparkSession, source: Source, found: ParquetFiles, schema: pa.Schema) -> SparkTable:
    """The table of Parquet files, one task per row group; `schema` has the partition columns last."""
    pieces = [(name, at) for name, groups in found.groups.items() for at in range(len(groups))]
    values = partition_values(source, found.files) if source.partitions else {}
    columns = found.schema

    def read(piece: tuple[str, int]) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in read_groups(piece[0], [piece[1]], columns).to_batches():
            yield with_partitions(batch, values.get(piece[0], {})), 0

    return _typed_table(session, pieces, read, schema, source)


def lake_frame(session: SparkSession, source: Source, lake: LakeTable) -> SparkTable:
    """The table of a table format, a task a data file."""
    check_names(lake.schema.names)

    def read(piece: Any) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in piece.batches():
            yield batch, 0

    return _typed_table(session, lake.pieces, read, lake.schema, source)


def _typed_table(
    session: SparkSession, pieces: Sequence[Any], read: Reader, schema: pa.Schema, source: Source
) -> SparkTable:
    scales = _scales(session, pieces, read, text_decimals(schema, source.types))
    return _table(session, pieces, read, typing_of(schema, source.types, scales))


def _scales(session: SparkSession, pieces: Sequence[Any], read: Reader, decimals: Sequence[str]) -> dict[str, int]:
    """Digits behind the sign of text columns that are declared decimal."""
    if not decimals:
        return {}

    def learn(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, int]]:
        for at in _numbers(batches):
            yield scales_in((batch for batch, _ in read(pieces[at])), list(decimals))

    return fold(_numbered(session, len(pieces)), learn, larger_scales, "learn the digits of decimals") or {}


def _table(session: SparkSession, pieces: Sequence[Any], read: Reader, typing: Typing) -> SparkTable:
    """The table of all pieces, once it is known that every line and cell of it converts."""

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[Check]:
        for at in _numbers(batches):
            for batch, ragged in read(pieces[at]):
                yield Check(batch.num_rows, Counter(typing.apply(batch)[1]), ragged)

    found = fold(_numbered(session, len(pieces)), measure, Check.merge, "read the files") or Check()
    if found.ragged:
        raise ragged_error(found.ragged, typing.schema.names)
    typing.refuse({name: found.bad[name] for name in typing.schema.names})
    layout = Layout(typing.schema)

    def convert(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for at in _numbers(batches):
            for batch, _ in read(pieces[at]):
                yield pa.record_batch(typing.convert(batch).columns, schema=layout.arrow)

    frame = map_batches(_numbered(session, len(pieces)), convert, layout)
    return SparkTable(frame, layout, {"records": found.records})


def _numbered(session: SparkSession, pieces: int) -> DataFrame:
    """The numbers of the pieces, spread over tasks: a path never enters a plan."""
    return session.range(0, pieces, 1, max(1, min(pieces, MOST_TASKS)))


def _numbers(batches: Iterator[pa.RecordBatch]) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()
