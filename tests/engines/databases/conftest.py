"""Databases as they are in the world: a SQLite file, a DuckDB file, and a PostgreSQL server of this test's own."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.databases import Database

CANARY = "canary cell"
PASSWORD = "canary password"


def source(at: str | Path, table: str | None = None, query: str | None = None, **given: object) -> Source:
    """The source of a table or query."""
    named = None if table is None else TableName.parse(table)
    return Source(data=Database(at=str(at), table=named, query=query), **given)  # type: ignore[arg-type]


@pytest.fixture
def sqlite(tmp_path: Path) -> Path:
    path = tmp_path / "no ending's 100%"
    with sqlite3.connect(path) as file:
        file.executescript(
            """
            CREATE TABLE visits (
                rowid TEXT, zip TEXT, age INTEGER, paid DECIMAL(10, 2), day DATE, at TIMESTAMP, zoned DATETIME,
                ok BOOLEAN, big INTEGER, x REAL, none INT, data BLOB
            );
            CREATE VIEW adults AS SELECT * FROM visits WHERE age > 20;
            CREATE TABLE "we""ird `name" (a INTEGER);
            INSERT INTO "we""ird `name" VALUES (1);
            CREATE TABLE empty (a INTEGER, b TEXT, c REAL, d BLOB);
            """
        )
        file.executemany(
            f"INSERT INTO visits VALUES ({', '.join('?' * 12)})",
            [
                (
                    f"r{n}",
                    f"{8000 + n % 3:05}",
                    20 + n % 4 * 10,
                    round(n * 1.1, 2),
                    f"2024-01-{n % 28 + 1:02}",
                    "2024-01-01 10:00:00.5",
                    "2024-01-01T10:00:00+02:00",
                    n % 2,
                    2**53 + n,
                    n / 3,
                    None,
                    b"\x00\xff",
                )
                for n in range(40)
            ],
        )
    file.close()
    return path


@pytest.fixture
def duck(tmp_path: Path) -> Path:
    path = tmp_path / "visits.db"
    with duckdb.connect(str(path)) as file:
        file.execute(
            "CREATE TABLE people AS SELECT 'r' || i AS rowid, lpad((8000 + i % 3)::VARCHAR, 5, '0') AS zip, "
            "(20 + i % 4 * 10)::INTEGER AS age, (i * 1.1)::DECIMAL(10, 2) AS paid, "
            "DATE '2024-01-01' + i::INTEGER AS day, TIMESTAMPTZ '2024-01-01 10:00:00+02' AS zoned, "
            "i % 2 = 1 AS ok, (2 ** 53)::BIGINT + i AS big, "
            "i / 3 AS x, '\\x00'::BLOB AS data FROM range(40) t(i)"
        )
        file.execute("CREATE SCHEMA other; CREATE TABLE other.visits AS SELECT 1 AS a")
        file.execute('CREATE TABLE visits AS SELECT 2 AS a; CREATE TABLE "we""ird `name" AS SELECT 1 AS a')
        file.execute("CREATE VIEW adults AS SELECT * FROM people WHERE age > 20; CREATE TABLE empty (a INTEGER)")
    return path


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server, and its URL without a password."""

    port: int
    folder: Path

    @property
    def url(self) -> str:
        return f"postgresql://owner@127.0.0.1:{self.port}/postgres"


def binaries() -> str | None:
    """The folder of PostgreSQL's programs; Debian keeps them off the path."""
    found = shutil.which("pg_ctl")
    folders = [os.path.dirname(os.path.realpath(found))] if found else []
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    return next((folder for folder in folders if os.path.exists(f"{folder}/initdb")), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server for these tests."""
    pytest.importorskip("adbc_driver_postgresql")
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    with running_server(programs) as server:
        yield server


@contextmanager
def running_server(programs: str) -> Iterator[Server]:
    """A server in a temporary folder, as an unprivileged user, which PostgreSQL demands."""
    user = "nobody" if os.geteuid() == 0 else None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="privpipe-test-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)
    data, secret = folder / "data", folder / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    if user is not None:
        shutil.chown(secret, user)

    def run(program: str, *arguments: str) -> None:
        group = pwd.getpwnam(user).pw_gid if user else None
        subprocess.run(
            [f"{programs}/{program}", *arguments],
            user=user,
            group=group,
            extra_groups=[] if user else None,
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )

    try:
        run(
            "initdb",
            "-D",
            str(data),
            "-U",
            "owner",
            f"--pwfile={secret}",
            "-A",
            "scram-sha-256",
            "--no-sync",
            "-E",
            "UTF8",
        )
        run(
            "pg_ctl",
            "-D",
            str(data),
            "-o",
            f"-k {folder} -h 127.0.0.1 -p {port} -F",
            "-l",
            str(data / "log"),
            "-w",
            "start",
        )
        try:
            yield Server(port, folder)
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty database."""
    from tests.engines.databases.sink_places import Place

    if request.param != "postgresql":
        yield Place(request.param, tmp_path)
        return
    server: Server = request.getfixturevalue("postgres")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    found = Place(request.param, tmp_path, server)
    found.ask("DROP SCHEMA IF EXISTS public CASCADE")  # the server is that of other tests too
    found.ask("CREATE SCHEMA public")
    yield found


@pytest.fixture
def release(tmp_path: Path, place: Any, embedded: Engine) -> Callable[..., Any]:
    """See `releasing`."""
    return releasing(tmp_path, place, embedded)


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Any:
    """An empty SQLite database."""
    from tests.engines.databases.sink_places import Place

    return Place("sqlite", tmp_path)


@pytest.fixture
def duckdb_place(tmp_path: Path) -> Any:
    """An empty DuckDB database."""
    from tests.engines.databases.sink_places import Place

    return Place("duckdb", tmp_path)


@pytest.fixture
def sqlite_release(tmp_path: Path, sqlite_place: Any, embedded: Engine) -> Callable[..., Any]:
    """See `releasing`."""
    return releasing(tmp_path, sqlite_place, embedded)


@pytest.fixture
def duckdb_release(tmp_path: Path, duckdb_place: Any, embedded: Engine) -> Callable[..., Any]:
    """See `releasing`."""
    return releasing(tmp_path, duckdb_place, embedded)


def releasing(tmp_path: Path, place: Any, embedded: Engine) -> Callable[..., Any]:
    """What runs a release into a place; `k` decides whether it passes, `records` how many there are."""

    def run(
        k: int = 3,
        records: int = 200,
        note: str = "note",
        *,
        engine: Engine = embedded,
        more: bool = False,
        source: Any = None,
        dry_run: bool = False,
        progress: Any = None,
        **sink: Any,
    ) -> Any:
        columns = {
            "zip": [f"{8000 + n % 4:05}" for n in range(records)],
            "age": [20 + n % 5 * 10 for n in range(records)],
            "note": [f"{note} {n % 7}" for n in range(records)],
        }
        if more:
            columns["more"] = list(range(records))
        path, made = tmp_path / "visits.parquet", pa.table(columns)
        if not path.exists() or not pq.read_table(path).equals(made):  # another run may be reading it
            pq.write_table(made, path)
        document = {
            "source": source or {"path": str(tmp_path / "visits.parquet")},
            "columns": {
                name: {"role": "quasi_identifier" if name in ("zip", "age") else "insensitive"} for name in columns
            },
            "guarantees": [{"k_anonymity": {"k": k}}],
            "sink": {"database": place.at, "table": "visits_public", **sink},
            "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
        }
        policy = pp.Policy.from_dict(document, tmp_path)
        return pp.release(policy, engine=engine, dry_run=dry_run, progress=progress)

    return run
