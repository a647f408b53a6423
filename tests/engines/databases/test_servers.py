"""A PostgreSQL server by ADBC and by SQLAlchemy: one table, the same rows; its texts and URLs stay with it."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.databases import Database
from privpipe.errors import DataError, EngineError, PrivpipeError, UsageError
from tests.engines.databases.conftest import CANARY, PASSWORD, Server, source

dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
pytest.importorskip("sqlalchemy")
pytest.importorskip("psycopg")

COLUMNS = (
    "i::int2 AS a, 9007199254740993 + i AS big, (i * 1.1)::numeric(10, 2) AS paid, "
    "CASE WHEN i > 1 THEN i * 0.125 END::numeric AS free, timestamptz '2024-01-01 10:00+02' AS zoned, "
    "timestamp '2024-01-01 10:00' AS at, date '2024-01-01' + i AS day, i % 2 = 0 AS ok, 'z' || i AS zip, "
    "i / 3.0::float8 AS x, '00000000-0000-0000-0000-00000000000f'::uuid AS u, NULL::text AS none, "
    "'\\x00ff'::bytea AS data"
)


@pytest.fixture(scope="module")
def server(postgres: Server) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", PASSWORD)
        with dbapi.connect(postgres.url) as connection, connection.cursor() as cursor:
            for statement in (
                "DROP SCHEMA IF EXISTS public, other CASCADE",
                "CREATE SCHEMA public",
                f"CREATE TABLE visits AS SELECT {COLUMNS} FROM generate_series(0, 99) i",
                "CREATE SCHEMA other",
                'CREATE TABLE other."we""ird" AS SELECT 1 AS rowid',
                "CREATE TABLE told AS SELECT 'canary cell'::text AS a",
                "CREATE TABLE empty (a integer, b numeric(8, 3))",
                "CREATE VIEW adults AS SELECT * FROM visits WHERE a > 9",
            ):
                cursor.execute(statement)
            connection.commit()
        yield postgres


def rows(engine: Engine, *given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.collect(engine.scan(source(*given))).to_pylist()
    return found


def test_types_and_rows(engine: Engine, server: Server) -> None:
    table = engine.scan(source(server.url, "visits"))
    assert {field.name: str(field.type) for field in table.schema} == {
        "a": "int64",
        "big": "int64",
        "paid": "decimal128(38, 2)",
        "free": "decimal128(38, 3)",
        "zoned": "timestamp[us, tz=UTC]",
        "at": "timestamp[us]",
        "day": "date32[day]",
        "ok": "bool",
        "zip": "string",
        "x": "double",
        "u": "string",
        "none": "string",
        "data": "binary",
    }
    found = {row["a"]: row for row in engine.collect(table).to_pylist()}
    assert len(found) == 100
    assert found[7] == {
        "a": 7,
        "big": 9007199254741000,
        "paid": Decimal("7.70"),
        "free": Decimal("0.875"),
        "zoned": datetime.datetime(2024, 1, 1, 8, tzinfo=datetime.UTC),
        "at": datetime.datetime(2024, 1, 1, 10),
        "day": datetime.date(2024, 1, 8),
        "ok": False,
        "zip": "z7",
        "x": 7 / 3,
        "u": "00000000-0000-0000-0000-00000000000f",
        "none": None,
        "data": b"\x00\xff",
    }


def test_sqlalchemy_reads_the_same(embedded: Engine, server: Server) -> None:
    other = server.url.replace("postgresql://", "postgresql+psycopg://")
    for given in (("visits", None), (None, "SELECT * FROM visits WHERE a < 5 ORDER BY a")):
        by_adbc, by_alchemy = (
            sorted(rows(embedded, url, *given), key=lambda row: row["a"]) for url in (server.url, other)
        )
        assert by_adbc == by_alchemy
    assert rows(embedded, other, 'other.`we"ird`') == [{"rowid": 1}]


def test_views_names_and_empty_tables(embedded: Engine, server: Server) -> None:
    assert len(rows(embedded, server.url, "public.adults")) == 90
    assert rows(embedded, server.url, 'other.`we"ird`') == [{"rowid": 1}]
    table = embedded.scan(source(server.url, "empty"))
    assert (embedded.count(table), [str(field.type) for field in table.schema]) == (0, ["int64", "decimal128(38, 0)"])


def test_the_environment_names_the_server(embedded: Engine, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", str(server.port)),
        ("PGUSER", "owner"),
        ("PGDATABASE", "postgres"),
    ):
        monkeypatch.setenv(name, value)
    assert len(rows(embedded, "postgresql", "visits")) == 100
    monkeypatch.setenv("VISITS_URL", server.url)
    named = Source(data=Database(env="VISITS_URL", table=TableName(("visits",))))
    assert embedded.count(embedded.scan(named)) == 100
    monkeypatch.delenv("VISITS_URL")
    with pytest.raises(UsageError, match="environment variable VISITS_URL is not set"):
        embedded.scan(named)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM told",
        "SELECT 1; DELETE FROM told",
        "SELECT 1) AS x; COMMIT; DELETE FROM told; SELECT (1",
        "WITH gone AS (DELETE FROM told RETURNING *) SELECT * FROM gone",
        "DELETE FROM told RETURNING *",
        "SELECT nextval('counted')",
        "SELECT * FROM nowhere",
        "SELECT nothing FROM told",
        "SELECT a::integer FROM told",
        "SELECT 1 / (length(a) - 11) FROM told",
        "SELEC 'canary cell'",
    ],
)
@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_a_query_reads_and_errors_tell_nothing(embedded: Engine, server: Server, query: str, driver: str) -> None:
    url = server.url.replace("postgresql", driver, 1)
    with pytest.raises(PrivpipeError) as raised:
        embedded.scan(source(url, None, query))
    assert CANARY not in str(raised.value)
    assert CANARY not in "".join(traceback.format_exception(raised.value))
    assert rows(embedded, server.url, "told") == [{"a": CANARY}]


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg"])
def test_no_error_shows_the_url_or_its_password(
    embedded: Engine, server: Server, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "canarysecret"
    for rest in (f"owner:{secret}@127.0.0.1:{server.port}/postgres", f"owner:{secret}@127.0.0.1:1/postgres"):
        monkeypatch.setenv("VISITS_URL", f"{driver}://{rest}")
        named = Source(data=Database(env="VISITS_URL", table=TableName(("visits",)), place="release.yaml:3: source"))
        with pytest.raises(EngineError, match=r"release.yaml:3: source: the database of VISITS_URL") as raised:
            embedded.scan(named)
        assert secret not in "".join(traceback.format_exception(raised.value))
    monkeypatch.setenv("VISITS_URL", secret)
    with pytest.raises(UsageError, match="holds no URL") as raised:
        embedded.scan(named)
    assert secret not in str(raised.value)


def test_what_no_release_carries_is_refused(embedded: Engine, server: Server) -> None:
    for cell in ("money '1.5'", "1::oid", "interval '1 day'", "time '10:00'", "inet '127.0.0.1'", "array[1]", "B'101'"):
        with pytest.raises(DataError, match=r"column 'a' has the type .* no release can carry"):
            embedded.scan(source(server.url, None, f"SELECT {cell} AS a"))
    for cell, said in (
        ("1e40::numeric", "38 digits"),
        ("'infinity'::timestamp", "infinite"),
        ("'-infinity'::date", "infinite"),
    ):
        with pytest.raises(DataError, match=said):
            embedded.scan(source(server.url, None, f"SELECT {cell} AS a"))


def test_nan_is_a_missing_value(embedded: Engine, server: Server) -> None:
    for driver in ("postgresql", "postgresql+psycopg"):
        url = server.url.replace("postgresql", driver, 1)
        assert rows(embedded, url, None, "SELECT 'NaN'::numeric AS a UNION ALL SELECT NULL") == [{"a": None}] * 2


def test_decimals_of_many_batches_have_one_scale(embedded: Engine, server: Server) -> None:
    query = "SELECT i, CASE WHEN i = 149999 THEN 0.125 ELSE i END::numeric AS a FROM generate_series(0, 149999) i"
    for driver in ("postgresql", "postgresql+psycopg"):
        table = embedded.scan(source(server.url.replace("postgresql", driver, 1), None, query))
        assert str(table.schema.field("a").type) == "decimal128(38, 3)"
        assert embedded.count(table) == 150_000


def test_sqlalchemy_mixes_no_types(embedded: Engine, server: Server) -> None:
    url = server.url.replace("postgresql", "postgresql+psycopg", 1)
    with pytest.raises(DataError, match="column 'a' (holds|has the type)"):
        embedded.scan(source(url, None, "SELECT interval '1 day' AS a UNION ALL SELECT interval '2 days'"))
    for scheme in ("nosuch", "postgresql+nosuch"):
        with pytest.raises(UsageError, match="no driver of that name"):
            embedded.scan(source(f"{scheme}://127.0.0.1/x", "t"))
    with pytest.raises(UsageError, match="is a file: write its path"):
        embedded.scan(source("sqlite:///visits.db", "t"))
