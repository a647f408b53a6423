"""Cells and names in a database are those of the release, or the run says before it publishes that they cannot be."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.databases import Database
from privpipe.errors import DataError, PolicyError, SinkError, UnsupportedError, UsageError
from tests.engines.databases.sink_places import Place
from tests.tiers import deep_beyond

INF = float("inf")
CELLS = {
    "integer": pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
    "number": pa.array([INF, -INF, 0.1 + 0.2, None], pa.float64()),
    "tiny": pa.array([5e-324, -1e-9, 1e308, None], pa.float64()),
    "text": pa.array(["", "'; DROP TABLE visits_public; --", '🦘\n\t"\\ 100%', None], pa.string()),
    "like a day": pa.array(["2024-01-01", "2024-02-30", "1", None], pa.string()),
    "flag": pa.array([True, False, True, None], pa.bool_()),
    "day": pa.array([date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), None], pa.date32()),
    "at": pa.array(
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(2024, 1, 1), None], pa.timestamp("us")
    ),
    "zoned": pa.array(
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, 1, 2, 3, 4, UTC), None, None], pa.timestamp("us", "UTC")
    ),
    "money": pa.array([Decimal("12.30"), Decimal("-0.01"), Decimal("9999999999999.99"), None], pa.decimal128(38, 2)),
    "whole": pa.array([Decimal("12.00"), Decimal("7.00"), Decimal("0.00"), None], pa.decimal128(38, 2)),
    "data": pa.array([b"", b"\x00\xff", b"'", None], pa.binary()),
    "nothing": pa.array([None] * 4, pa.string()),
    'we"ird ` name': pa.array([1, 2, 3, 4], pa.int64()),
    "select": pa.array([1, 2, 3, 4], pa.int64()),
    "rowid": pa.array(["a", "b", "c", "d"], pa.string()),
    "größe 🦘": pa.array([1, 2, 3, 4], pa.int64()),
    "x'); DROP TABLE visits_public; --": pa.array([1, 2, 3, 4], pa.int64()),
    "$1 ? %s": pa.array([1, 2, 3, 4], pa.int64()),
}


def published(tmp_path: Path, place: Place, columns: dict[str, Any], engine: Engine, **sink: Any) -> Any:
    pq.write_table(pa.table(columns), tmp_path / "cells.parquet")
    document = {
        "source": {"path": str(tmp_path / "cells.parquet")},
        "columns": {name: {"role": "quasi_identifier" if name == "kind" else "insensitive"} for name in columns},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"database": place.at, "table": "visits_public", **sink},
    }
    return pp.release(pp.Policy.from_dict(document, tmp_path), engine=engine)


def told(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_cells_come_back_as_they_were(tmp_path: Path, place: Place, embedded: Engine) -> None:
    columns = {"kind": ["a"] * 4, **CELLS}
    published(tmp_path, place, columns, embedded)
    published(tmp_path, place, columns, embedded)  # over a release of these columns
    found = Source(data=Database(at=place.at, table=TableName(("visits_public",))))
    assert told(embedded.collect(embedded.scan(found))) == told(pa.table(columns))


def test_a_table_without_records_is_refused_and_leaves_nothing(tmp_path: Path, place: Place, embedded: Engine) -> None:
    with pytest.raises(Exception, match="(?i)empty|no record|refused"):
        published(tmp_path, place, {"kind": pa.array([], pa.string())}, embedded)
    assert place.kind != "postgresql" or place.tables() == []


@pytest.mark.parametrize(
    "table", deep_beyond(3, ('`a"b`', "`x'; DROP TABLE y; --`", "select", "`größe`", "`a``b`", "`percent % $1`"))
)
def test_names_of_tables(tmp_path: Path, place: Place, embedded: Engine, table: str) -> None:
    for _ in range(2):
        published(tmp_path, place, {"kind": ["a"] * 4}, embedded, table=table)
    name = TableName.parse(table).parts[0]
    assert place.tables() == sorted([name, f"{name}__documents"])


@pytest.mark.parametrize(
    ("kind", "column", "match"),
    [
        ("sqlite", pa.array([Decimal("12345678901234.56")] * 4), "column 'x': 4 cells have more than 15 digits"),
        ("postgresql", pa.array(["a\0b"] * 4), "column 'x': 4 cells hold NUL"),
    ],
)
def test_cells_that_a_database_would_change(
    tmp_path: Path, place: Place, embedded: Engine, kind: str, column: Any, match: str
) -> None:
    if place.kind == kind:
        with pytest.raises(DataError, match=match) as refused:
            published(tmp_path, place, {"kind": ["a"] * 4, "x": column}, embedded)
        assert "nothing was published" in str(refused.value)
        assert not Path(place.at).exists()
    else:
        published(tmp_path, place, {"kind": ["a"] * 4, "x": column}, embedded)
        found = Source(data=Database(at=place.at, table=TableName(("visits_public",))))
        assert embedded.collect(embedded.scan(found)).num_rows == 4


@pytest.mark.parametrize("name", ["ö" * 32, "ctid", "xmin"])
def test_columns_that_postgresql_cannot_have(tmp_path: Path, place: Place, embedded: Engine, name: str) -> None:
    columns = {"kind": ["a"] * 4, name: [1] * 4}
    if place.kind != "postgresql":
        published(tmp_path, place, columns, embedded)
        return
    with pytest.raises(DataError, match="PostgreSQL"):
        published(tmp_path, place, columns, embedded)
    assert place.tables() == []


def test_a_long_name_of_a_table(tmp_path: Path, place: Place, embedded: Engine) -> None:
    name = "v" * 53
    if place.kind != "postgresql":
        published(tmp_path, place, {"kind": ["a"] * 4}, embedded, table=name)
        return
    with pytest.raises(UsageError, match="cuts names to 63 bytes, and .* has 64"):
        published(tmp_path, place, {"kind": ["a"] * 4}, embedded, table=name)
    published(tmp_path, place, {"kind": ["a"] * 4}, embedded, table=name[:-1])


@pytest.mark.parametrize(
    ("sink", "error", "match"),
    [
        ({"database": "new.db"}, UsageError, "end it in .duckdb or .sqlite"),
        ({"database": "cells.parquet"}, PolicyError, "is the table of `source:`"),
        ({"database": "other.parquet"}, SinkError, "neither a DuckDB nor a SQLite file"),
        ({"database": "."}, SinkError, "is a folder"),
        ({"database": "mysql://h/d"}, UnsupportedError, "published into PostgreSQL"),
        ({"database": "postgresql://me:pw@h/d"}, PolicyError, "holds a password"),
        ({"database": {"env": "NOT_SET_AT_ALL"}}, UsageError, "NOT_SET_AT_ALL is not set"),
        ({"database": "new.sqlite", "table": "a.b"}, UsageError, "not a name for a table of SQLite"),
        ({"database": "new.sqlite", "table": "sqlite_x"}, UsageError, "not a name for a table of SQLite"),
        ({"database": "new.duckdb", "table": "a.b.c"}, UsageError, "`schema.table` or `table`"),
        ({"database": "new.duckdb", "table": None}, PolicyError, "needs `table:`"),
        ({"database": "new.duckdb", "format": "csv"}, PolicyError, "sink.format: is for other sinks"),
        ({"database": "new.duckdb", "path": "x"}, PolicyError, "is given in addition to `path:`"),
        ({"database": "new.duckdb", "table": "nowhere.x"}, SinkError, "CREATE SCHEMA first"),
    ],
    ids=str,
)
def test_policies_that_name_no_place(
    tmp_path: Path, embedded: Engine, sink: dict[str, Any], error: type[Exception], match: str
) -> None:
    (tmp_path / "other.parquet").write_bytes(b"PAR1 and more")
    with pytest.raises(error, match=match) as refused:
        published(tmp_path, Place("sqlite", tmp_path), {"kind": ["a"] * 4}, embedded, **sink)
    assert "pw" not in str(refused.value)
