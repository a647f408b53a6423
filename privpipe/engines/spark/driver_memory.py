"""What the driver may collect, estimated before it is tried: Spark ends a job whose results are too large, or dies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.distributed.collection import FEWER, Room, of_columns, too_large
from privpipe.engines.spark.failures import reported
from privpipe.engines.spark.spark_table import count_records

if TYPE_CHECKING:
    from privpipe.blocks import Facts
    from privpipe.engines.spark.spark_table import SparkTable

__all__ = [
    "expected_bytes",
    "fits_driver",
    "fits_here",
    "require_room",
    "require_room_for_rows",
    "result_limit",
    "room_for_results",
    "row_bytes",
]


TEXT_BYTES = 32
"""Of a text whose length was not measured."""
FIXED_BYTES = 8
RECORDS_HERE = 2_000_000
"""A table of at most so many records has few enough cells for the driver."""
CELL_BYTES = 40
"""Of a collected cell: its class, its code and its count, as Arrow and once more as it is sent."""


ID_BYTES = 16
RAISE = f"raise `spark.driver.memory` and `spark.driver.maxResultSize` under `engines.spark.conf`, {FEWER}"


def result_limit(session: Any) -> int:
    """Bytes that may be collected at a time; 0 where it is unknown.

    They stay within ``spark.driver.maxResultSize`` and half of the memory that the driver's virtual machine may take.
    """
    said = str(session.conf.get("spark.driver.maxResultSize", "1g")).strip().casefold().removesuffix("b")
    power = "kmgtp".find(said[-1:]) + 1 if said[-1:].isalpha() else 0
    digits = said[:-1] if power else said
    limits = [int(digits) << (10 * power)] if digits.isdigit() and int(digits) else []
    if hasattr(session, "_jsparkSession"):
        limits.append(int(session.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()) // 2)
    return min(limits, default=0)


def expected_bytes(frame: Any) -> float:
    """Bytes that Spark's optimizer expects of a frame; nothing runs. Unknown for Connect: infinite."""
    if not hasattr(frame, "_jdf"):
        return float("inf")
    return float(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def fits_driver(session: Any, size: int) -> bool:
    """Whether so many bytes pass through the driver: what is broadcast is collected before, too."""
    limit = result_limit(session)
    return not limit or size <= limit


def fits_here(table: SparkTable, facts: Facts, columns: int = 1) -> bool:
    """Whether the cells of so many columns are few enough for the driver, as far as it is known without a count.

    Few enough are those of a small table whose cells stay within what the driver may collect.
    """
    known = [bound for bound in (table.bound, facts.records) if bound is not None and bound >= 0]
    if not known or min(known) > RECORDS_HERE:
        return False
    limit = result_limit(table.frame.sparkSession)
    return not limit or min(known) * CELL_BYTES * max(columns, 1) <= limit


def row_bytes(schema: pa.Schema) -> int:
    """Bytes of a row, roughly, before any of them is looked at.

    Examples
    --------
    >>> row_bytes(pa.schema([("age", pa.int64()), ("town", pa.string())]))
    40
    """
    return sum(FIXED_BYTES if _is_fixed(field.type) else TEXT_BYTES for field in schema)


def require_room(table: SparkTable, sets: Sequence[Sequence[str]], what: str) -> None:
    """Refuse to collect the distinct values of sets of columns, with their counts, that the driver cannot hold.

    Only where the records are so many that it might not be counted is anything computed: one query for all sets.

    Raises
    ------
    EngineError
        With the figures, and what to change.
    """
    from pyspark.sql import functions as sf

    limit = result_limit(table.frame.sparkSession)
    fields = [[table.schema.field(name) for name in names] for names in sets]
    most = sum(row_bytes(pa.schema(each)) + FIXED_BYTES for each in fields)
    if not limit or not sets or (table.bound is not None and table.bound * most <= limit):
        return
    texts = list(dict.fromkeys(field.name for each in fields for field in each if not _is_fixed(field.type)))
    numbers = [sf.approx_count_distinct(sf.xxhash64(*(table.counted(name) for name in names))) for names in sets]
    lengths = [sf.avg(sf.octet_length(table.column(name))) for name in texts]
    with reported(f"estimate the number of {what}"):
        found = list(table.frame.agg(*numbers, *lengths).collect()[0])
    long = {name: float(length or 0) for name, length in zip(texts, found[len(sets) :], strict=True)}
    combinations = [int(number) for number in found[: len(sets)]]
    needed = sum(
        number * (FIXED_BYTES + sum(FIXED_BYTES + long.get(field.name, 0.0) for field in each))
        for number, each in zip(combinations, fields, strict=True)
    )
    if needed > limit:
        largest = max(zip(combinations, sets, strict=True), key=lambda pair: pair[0])
        counted = f"about {sum(combinations):,} {what} ({', '.join(map(repr, largest[1]))}: {largest[0]:,})"
        raise too_large("spark", counted, needed, limit, RAISE)


def require_room_for_rows(table: SparkTable, what: str) -> None:
    """Refuse to collect records that the driver cannot hold.

    Raises
    ------
    EngineError
        With the figures, and what to change.
    """
    limit = result_limit(table.frame.sparkSession)
    needed = _most_bytes(table, table.schema) if limit else 0
    if needed > limit:
        raise too_large("spark", of_columns(what, table.schema.names), needed, limit, RAISE)


def room_for_results(table: SparkTable, columns: Sequence[str], what: str) -> Room | None:
    """The limit for results that may be as large as some columns; None where they are within it anyway."""
    limit = result_limit(table.frame.sparkSession)
    if not limit or 2 * _most_bytes(table, pa.schema([table.schema.field(name) for name in columns])) <= limit:
        return None
    return Room("spark", of_columns(what, columns), limit, RAISE)


def _most_bytes(table: SparkTable, schema: pa.Schema) -> int:
    records = count_records(table) if table.bound is None else table.bound
    return records * (row_bytes(schema) + ID_BYTES)


def _is_fixed(kind: pa.DataType) -> bool:
    return not (pt.is_string(kind) or pt.is_binary(kind))
