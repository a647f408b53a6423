"""Output of the Spark engine: part files in keyed order, and frames, by the driver or by the workers."""

from __future__ import annotations

import logging
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base.batches import as_type, whole_array
from privpipe.engines.base.contract import NO_TYPES, Written
from privpipe.engines.base.frames import frame_like
from privpipe.engines.base.part_files import files_of, part_name, write_part
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.distributed.orders import keyed_order, value_order_of
from privpipe.engines.readers.source import Format
from privpipe.engines.spark.column_types import as_it_came
from privpipe.engines.spark.driver_memory import require_room_for_rows, result_limit, row_bytes
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.row_functions import whole_runs
from privpipe.engines.spark.sources import is_spark_frame
from privpipe.engines.spark.spark_table import Layout, SparkTable, count_records
from privpipe.engines.spark.versions import arrow_table
from privpipe.engines.spark.workers import boxed, map_batches, results_of
from privpipe.errors import SinkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ORDER", "PART", "collect", "in_parts", "lying", "sorted_rows", "write"]


log = logging.getLogger("privpipe.engines.spark")
PART, ORDER = "__privpipe_part", "__privpipe_order"
STAGING = ".privpipe-part-"
ID_BYTES = 16


def write(
    table: SparkTable,
    folder: str,
    format: Format,
    stream: Stream,
    escape: bool,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Written:
    """See `Engine.write`. One file is written by the driver: its folder need not be seen by the workers."""
    columns = len(table.schema)
    few = table.bound is not None and files_of(table.bound, columns) == 1
    records = table.bound if few and table.bound is not None else count_records(table)
    files = files_of(records, columns)
    if not table.has_record_ids or (files == 1 and _fits_here(table, records)):
        rows = sorted_rows(table, stream)
        return write_part(rows.to_batches(), table.schema, folder, format, escape=escape, types=types)
    return _written_by_workers(table, folder, format, stream, files, escape=escape, types=types)


def _fits_here(table: SparkTable, records: int) -> bool:
    """Whether so many rows stay within what the driver may collect."""
    limit = result_limit(table.frame.sparkSession)
    return not limit or records * (row_bytes(table.schema) + ID_BYTES) <= limit


def collect(table: SparkTable, like: Any, form: ReturnForm = AS_THEY_ARE) -> Any:
    """See `Engine.collect`."""
    if not is_spark_frame(like):
        return frame_like(sorted_rows(table, None), like, form)
    visible = table.layout.without_ids().arrow.names
    by = list(ID_COLUMNS) if table.has_record_ids else visible
    return as_it_came(table.frame.orderBy(*by).select(*visible).toDF(*table.schema.names), like, form)


def lying(table: SparkTable, like: Any, form: ReturnForm = AS_THEY_ARE) -> Any:
    """The visible columns as a Spark frame, its rows as they lie; nothing runs."""
    visible = table.layout.without_ids().arrow.names
    return as_it_came(table.frame.select(*visible).toDF(*table.schema.names), like, form)


def sorted_rows(table: SparkTable, stream: Stream | None) -> pa.Table:
    """All rows on the driver, in keyed order of their ids, else in the order of all their values."""
    require_room_for_rows(table, "the records")
    with reported("collect the records"):
        found = arrow_table(table.frame)
    layout = table.layout
    columns = [as_type(whole_array(found.column(at)), field.type) for at, field in enumerate(layout.schema)]
    rows = pa.Table.from_arrays(columns, schema=layout.schema)
    if layout.has_ids:
        ids = np.column_stack([found.column(name).to_numpy() for name in ID_COLUMNS])
        order = np.lexsort(ids.T[::-1]) if stream is None else stream.arrange(ids)
        return rows.take(pa.array(order))
    return rows.take(value_order_of(columns))


def in_parts(table: SparkTable, placed: Layout, stream: Stream, parts: int) -> DataFrame:
    """The rows with the number of their part file and their order word."""
    from privpipe.kernels.grouping.word_groups import shares_of

    source = table.layout

    def add_part(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = source.block(batch)
            order = stream.order(rows.record_ids)
            yield placed.batch(rows, **{PART: shares_of(order, parts), ORDER: order})

    return map_batches(table.frame, add_part, placed)


def _written_by_workers(
    table: SparkTable, folder: str, format: Format, stream: Stream, parts: int, **options: Any
) -> Written:
    """Each part is sorted and written by one task into its own folder, then moved to its name.

    An attempt that is given up leaves its folder behind, never half a part file.
    """
    schema = table.schema
    placed = table.layout.with_extra(PART, ORDER)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part, rows in whole_runs(batches, PART):
            place = _new_place(folder)
            rows = _in_order(rows)
            batch = pa.RecordBatch.from_arrays(placed.visible(rows), schema=schema)
            done = write_part([batch], schema, str(place), format, **options)
            yield boxed((part, place.name, done))

    gathered = in_parts(table, placed, stream, parts).repartition(PART)
    ordered = gathered.sortWithinPartitions(PART)
    try:
        found = sorted(results_of(ordered, run, "write the part files"), key=lambda result: int(result[0]))
        return _named(Path(folder), format, found)
    finally:
        for left in Path(folder).glob(f"{STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)


def _in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of a part by their order words, equal ones by their ids; Spark takes ten times as long for it."""
    order, *ids = (rows.column(name).to_numpy() for name in (ORDER, *ID_COLUMNS))
    return rows.take(keyed_order(order, np.column_stack(ids)))


def _new_place(folder: str) -> Path:
    place = Path(folder, f"{STAGING}{uuid.uuid4().hex}")
    try:
        place.mkdir()
    except OSError as error:
        raise _not_shared(error) from None
    return place


def _not_shared(error: OSError) -> SinkError:
    return SinkError(
        f"the part files of the release cannot be written: {error.strerror}; with many records the target must be a "
        "folder that the driver and all workers share"
    )


def _named(folder: Path, format: Format, found: list[tuple[int, str, Written]]) -> Written:
    files: list[str] = []
    for _part, place, done in found:
        for name in done.files:
            files.append(part_name(len(files), format))
            try:
                os.replace(folder / place / name, folder / files[-1])
            except OSError as error:
                raise _not_shared(error) from None
    log.debug("%d part files", len(files))
    return Written(sum(done.records for _part, _place, done in found), tuple(files))
