"""A table with a column of each type, and what is wrong with one that came out of a stage."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

__all__ = ["NESTED", "wide_table", "wrong_cells"]

ROWS = 40
NESTED = ("time", "tags", "numbers", "record", "pairs")


def wide_table() -> pa.Table:
    """Forty records, known by `key`, of which `cost` may be masked."""
    at = range(ROWS)
    start = datetime.datetime(2024, 7, 1, 12)
    return pa.table(
        {
            "key": pa.array(at),
            "cost": pa.array([1.5 * i for i in at]),
            "age": pa.array([20 + i % 4 for i in at]),
            "price": pa.array([Decimal(i) / 4 for i in at], pa.decimal128(5, 2)),
            "float": pa.array([i / 10 for i in at], pa.float32()),
            "small": pa.array([i - 20 for i in at], pa.int8()),
            "unsigned": pa.array(at, pa.uint16()),
            "town": pa.array(["abcde"[i % 5] for i in at]).dictionary_encode(),
            "long": pa.array([f"t{i}" for i in at], pa.large_string()),
            "when": pa.array([start + datetime.timedelta(minutes=i) for i in at], pa.timestamp("us", "Europe/Berlin")),
            "day": pa.array([start.date() + datetime.timedelta(i) for i in at]),
            "bytes": pa.array([bytes([i]) for i in at]),
            "time": pa.array([datetime.time(1, 2, i) for i in at], pa.time64("us")),
            "tags": pa.array([["a", f"b{i}"] if i % 3 else None for i in at]),
            "numbers": pa.array([[i, None] for i in at], pa.list_(pa.int16())),
            "record": pa.array([{"x": i, "y": "y"} for i in at], pa.struct([("x", pa.int8()), ("y", pa.string())])),
            "pairs": pa.array([[("k", i)] for i in at], pa.map_(pa.string(), pa.int32())),
        }
    )


def wrong_cells(what: str, out: pa.Table, table: pa.Table, *, masked: tuple[str, ...] = ("cost",)) -> list[Any]:
    """Types and values of untouched columns that are not those of the same records of `table`."""
    before = table.take(pa.array(out.column("key").to_pylist()))
    wrong: list[Any] = []
    for name in table.column_names:
        if name in masked:
            continue
        found, kind = out.column(name), table.schema.field(name).type
        if found.type != kind:
            wrong.append((what, name, str(kind), str(found.type)))
        elif found.to_pylist() != before.column(name).to_pylist():
            wrong.append((what, name, "values"))
    return wrong
