"""DuckDB and SQLite files: the same rows and types on every engine, nothing written, nothing said of a value."""

from __future__ import annotations

import datetime
import os
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from privpipe.engines import Engine
from privpipe.engines.databases import database_kind
from privpipe.engines.readers.source_facts import positioned
from privpipe.errors import DataError, EngineError, PrivpipeError, UnsupportedError, UsageError
from tests.engines.databases.conftest import CANARY, source

UTC = datetime.UTC
KINDS = {
    "rowid": pa.string(),
    "zip": pa.string(),
    "age": pa.int64(),
    "paid": pa.decimal128(38, 2),
    "day": pa.date32(),
    "at": pa.timestamp("us"),
    "zoned": pa.timestamp("us", "UTC"),
    "ok": pa.bool_(),
    "big": pa.int64(),
    "x": pa.float64(),
    "none": pa.int64(),
    "data": pa.binary(),
}


def rows(engine: Engine, *given: Any, **more: Any) -> pa.Table:
    return engine.collect(engine.scan(source(*given, **more)))


def expected(n: int) -> dict[str, Any]:
    return {
        "rowid": f"r{n}",
        "zip": f"{8000 + n % 3:05}",
        "age": 20 + n % 4 * 10,
        "paid": Decimal(n * 11).scaleb(-1).quantize(Decimal("0.01")),
        "ok": n % 2 == 1,
        "big": 2**53 + n,
        "zoned": datetime.datetime(2024, 1, 1, 8, tzinfo=UTC),
        "x": n / 3,
    }


def test_sqlite_cells_have_the_types_of_their_columns(engine: Engine, sqlite: Path) -> None:
    found = rows(engine, sqlite, "visits")
    assert {field.name: field.type for field in found.schema} == KINDS
    assert found.schema.names == list(KINDS)
    for row in found.to_pylist():
        n = int(row["rowid"][1:])
        assert {name: row[name] for name in expected(n)} == expected(n)
        assert row["day"] == datetime.date(2024, 1, n % 28 + 1)
        assert row["at"] == datetime.datetime(2024, 1, 1, 10, 0, 0, 500000)
        assert (row["none"], row["data"]) == (None, b"\x00\xff")
    assert found.num_rows == 40


def test_duckdb_cells_are_those_of_the_file(engine: Engine, duck: Path) -> None:
    found = rows(engine, duck, "main.people")
    kinds = {name: KINDS[name] for name in ("rowid", "zip", "age", "paid", "day", "zoned", "ok", "big", "x", "data")}
    assert {field.name: field.type for field in found.schema} == kinds
    for row in found.to_pylist():
        n = int(row["rowid"][1:])
        assert {name: row[name] for name in expected(n)} == expected(n)
        assert row["day"] == datetime.date(2024, 1, 1) + datetime.timedelta(n)


def test_views_queries_strange_names_and_empty_tables(engine: Engine, sqlite: Path, duck: Path) -> None:
    for path in (sqlite, duck):
        assert rows(engine, path, "adults").num_rows == 30
        assert rows(engine, path, 'main.`we"ird ``name`').to_pylist() == [{"a": 1}]
        assert engine.count(engine.scan(source(path, "empty"))) == 0
        query = f"SELECT zip, count(*) AS n FROM {'people' if path == duck else 'visits'} GROUP BY zip -- all of them"
        counted = rows(engine, path, None, query)
        assert {row["zip"]: row["n"] for row in counted.to_pylist()} == {"08000": 14, "08001": 13, "08002": 13}


def test_declared_types_are_taken(embedded: Engine, sqlite: Path) -> None:
    found = rows(embedded, sqlite, "visits", types={"age": "decimal", "day": "text", "big": "text"})
    assert [str(found.schema.field(name).type) for name in ("age", "day", "big")] == [
        "decimal128(38, 0)",
        "string",
        "string",
    ]


def test_a_table_of_two_schemas_is_named_in_full(embedded: Engine, duck: Path) -> None:
    with pytest.raises(DataError, match="several tables of this name: main.visits, other.visits; specify which"):
        embedded.scan(source(duck, "visits"))
    assert rows(embedded, duck, "other.visits").to_pylist() == [{"a": 1}]
    assert rows(embedded, duck, "visits.main.visits").to_pylist() == [{"a": 2}]
    with pytest.raises(DataError, match="has no table 'poeple'; did you mean 'people'"):
        embedded.scan(source(duck, "poeple"))


def test_what_the_database_is_its_first_bytes_say(embedded: Engine, sqlite: Path, duck: Path, tmp_path: Path) -> None:
    assert (database_kind(str(sqlite)), database_kind(str(duck))) == ("sqlite", "duckdb")
    text = tmp_path / "visits.sqlite"
    text.write_text(CANARY)
    assert database_kind(str(text)) is None
    with pytest.raises(DataError, match="visits.sqlite is neither a DuckDB nor a SQLite file"):
        embedded.scan(source(text, "visits"))
    with pytest.raises(DataError, match="is a folder; a database is one file"):
        embedded.scan(source(tmp_path, "visits"))
    with pytest.raises(EngineError, match="no database at"):
        embedded.scan(source(tmp_path / "nothing", "visits"))
    link = tmp_path / "link.parquet"
    link.symlink_to(sqlite)
    assert rows(embedded, link, "visits").num_rows == 40


@pytest.mark.parametrize("kind", ["sqlite", "duck"])
def test_a_truncated_file_is_refused(embedded: Engine, kind: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(kind)
    whole = path.read_bytes()
    for size in (20, len(whole) // 2, len(whole) - 3000):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match="not a readable (SQLite|DuckDB) file"):
            embedded.collect(embedded.scan(source(path, "visits" if kind == "sqlite" else "people")))


def test_a_newer_version_is_named(embedded: Engine, tmp_path: Path) -> None:
    path = tmp_path / "new.duckdb"
    made = bytearray(2**14)
    made[8:12] = b"DUCK"
    made[12] = 250
    path.write_bytes(made)
    with pytest.raises(DataError, match=r"new\.duckdb (is not a readable DuckDB file|was written by another version)"):
        embedded.scan(source(path, "visits"))


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM visits",
        "SELECT 1; DELETE FROM visits",
        "WITH x AS (SELECT 1) DELETE FROM visits",
        "INSERT INTO visits SELECT * FROM visits",
        "DROP TABLE visits",
        "PRAGMA journal_mode = DELETE",
        "ATTACH 'other.db' AS other",
        "COPY visits TO 'visits.csv'",
        "CREATE TABLE new AS SELECT 1",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM nowhere",
        "SELEC 'canary cell'",
        "",
        "SELECT 1) AS x; DROP TABLE visits; --",
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "duck"])
def test_a_query_reads_the_file_and_nothing_else(
    embedded: Engine, kind: str, query: str, request: pytest.FixtureRequest
) -> None:
    path: Path = request.getfixturevalue(kind)
    before = path.read_bytes()
    with pytest.raises((UsageError, DataError)) as raised:
        embedded.scan(source(path, None, query))
    assert CANARY not in str(raised.value)
    assert path.read_bytes() == before


def test_errors_tell_no_cell(embedded: Engine, sqlite: Path, duck: Path) -> None:
    with duckdb.connect(str(duck)) as file:
        file.execute("CREATE TABLE told AS SELECT 'canary cell' AS a UNION ALL SELECT '7'")
    with sqlite3.connect(sqlite) as lite:
        lite.execute("CREATE TABLE told AS SELECT 'canary cell' AS a UNION ALL SELECT 7")
    lite.close()
    with pytest.raises(PrivpipeError) as raised:
        embedded.scan(source(duck, None, "SELECT a::INTEGER AS a FROM told"))
    assert CANARY not in str(raised.value)
    with pytest.raises(DataError, match="column 'a' mixes 1 whole numbers, 1 texts") as raised:
        embedded.scan(source(sqlite, "told"))
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ("DECIMAL(10, 2): 1.5, 2", "decimal128(38, 2)"),
        ("DECIMAL(10, 2): 1.555, 2", "double"),
        ("REAL: 1.5, 2", "double"),
        ("NUMERIC: 9007199254740993, 0.5", None),
        ("NUMERIC: 9007199254740993, 5", "int64"),
        ("BOOLEAN: 0, 1", "bool"),
        ("BOOLEAN: 0, 2", "int64"),
        ("DATE: '2024-02-29', '2023-02-28'", "date32[day]"),
        ("DATE: '2023-02-29', '2023-02-28'", "string"),
        ("DATE: '2024-02-29 10:00', '2023-02-28'", "string"),
        ("TIMESTAMP: '2024-02-29 10:00:00', '2024-02-29T10:00:00.123456'", "timestamp[us]"),
        ("TIMESTAMP: '2024-02-29 10:00:00Z', '2024-02-29T10:00:00.1-05:30'", "timestamp[us, tz=UTC]"),
        ("TIMESTAMP: '2024-02-29 10:00:00Z', '2024-02-29T10:00:00'", "string"),
        ("TIMESTAMP: 1700000000, 1700000001", "int64"),
        ("TEXT: '', 'a'", "string"),
        ("INTEGER: '', 7", None),
    ],
)
def test_a_sqlite_column_is_what_all_its_cells_are(
    embedded: Engine, tmp_path: Path, cells: str, kind: str | None
) -> None:
    path = tmp_path / "typed.db"
    declared, _, values = cells.partition(": ")
    with sqlite3.connect(path) as file:
        file.execute(f"CREATE TABLE t (a {declared})")
        for value in values.split(", "):
            file.execute(f"INSERT INTO t VALUES ({value})")
        file.execute("INSERT INTO t VALUES (NULL)")
    file.close()
    if kind is None:
        with pytest.raises(DataError, match="column 'a' mixes"):
            embedded.scan(source(path, "t"))
    else:
        table = embedded.collect(embedded.scan(source(path, "t")))
        assert str(table.schema.field("a").type) == kind
        assert table["a"].null_count == 1


def test_types_that_no_release_carries_are_refused(embedded: Engine, tmp_path: Path) -> None:
    path = tmp_path / "types.db"
    for cell in ("INTERVAL 1 DAY", "TIME '10:00'", "{'a': 1}", "[1, 2]", "5::UHUGEINT", "'101'::BIT"):
        with pytest.raises(DataError, match="column 'a' has the type|column 'a' has a type"):
            with duckdb.connect(str(path)) as file:
                file.execute(f"CREATE OR REPLACE TABLE t AS SELECT {cell} AS a")
            embedded.scan(source(path, "t"))
    for cell, what in (
        ("'infinity'::TIMESTAMP", "infinite"),
        (f"{2**126}::HUGEINT", None),
        (f"{2**127 - 1}::HUGEINT", "38 digits"),
    ):
        with duckdb.connect(str(path)) as file:
            file.execute(f"CREATE OR REPLACE TABLE t AS SELECT {cell} AS a")
        if what is None:
            assert rows(embedded, path, "t").to_pylist() == [{"a": Decimal(2**126)}]
        else:
            with pytest.raises(DataError, match=what):
                embedded.scan(source(path, "t"))


def test_a_writer_elsewhere_is_reported(
    embedded: Engine, sqlite: Path, duck: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privpipe.engines.databases.sqlite_files.PATIENCE", 0.05)
    writer = sqlite3.connect(sqlite)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(EngineError, match="is locked by a writer"):
        embedded.scan(source(sqlite, "visits"))
    writer.close()
    hold = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(duck)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(EngineError, match="is open for writing elsewhere"):
            embedded.scan(source(duck, "people"))
        process.communicate("")
    own = duckdb.connect(str(duck))
    with pytest.raises(EngineError, match="is open for writing elsewhere"):
        embedded.scan(source(duck, "people"))
    own.close()


def test_rows_in_a_writers_log_are_read(embedded: Engine, sqlite: Path) -> None:
    writer = sqlite3.connect(sqlite)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("INSERT INTO visits (rowid) VALUES ('r99')")
    writer.commit()
    assert rows(embedded, sqlite, "visits").num_rows == 41
    writer.close()


def test_staged_rows_are_private_and_gone_with_the_engine(sqlite: Path, tmp_path: Path) -> None:
    from privpipe.engines import open_engine

    place = tmp_path / "spill"
    with open_engine("embedded", {"temp_directory": str(place)}) as engine:
        engine.scan(source(sqlite, "visits"))
        staged = list(place.rglob("*.parquet"))
        assert staged
        assert all(path.stat().st_mode & 0o077 == 0 for path in (*staged, *(path.parent for path in staged)))
        with pytest.raises(UsageError):
            engine.scan(source(sqlite, None, "DROP TABLE visits"))
        assert len(list(place.rglob("database-*"))) == 1
    assert not list(place.rglob("*"))


def test_rows_without_an_order_are_not_aligned_by_it(sqlite: Path) -> None:
    with pytest.raises(UnsupportedError, match="a table of a database has no order"):
        positioned(source(sqlite, "visits"))


def test_a_file_no_one_may_read(embedded: Engine, sqlite: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    sqlite.chmod(0)
    with pytest.raises(DataError, match="Permission denied"):
        embedded.scan(source(sqlite, "visits"))
