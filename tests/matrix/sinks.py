"""Every place that a run publishes into, read back by the place's own reader."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.engines.lakes import deltas, icebergs
from tests.matrix.sources import Home, Rows, rows_of


@dataclass(frozen=True)
class Sink:
    """What `sink:` says, and the rows that readers find once a release is there."""

    said: Callable[[Home], dict[str, Any]]
    read: Callable[[Home], Rows]


def parts(home: Home, ending: str) -> list[Path]:
    return sorted((home.folder / "published").resolve().glob(f"*.{ending}"))


def of_texts(rows: list[dict[str, Any]]) -> Rows:
    return sorted(((int(row["n"]), row["sex"] or None) for row in rows), key=repr)


def csv_rows(home: Home) -> Rows:
    found: list[dict[str, Any]] = []
    for path in parts(home, "csv"):
        with path.open(newline="") as handle:
            found += csv.DictReader(handle)
    return of_texts(found)


def json_rows(home: Home) -> Rows:
    lines = [line for path in parts(home, "json") for line in path.read_text().splitlines()]
    return of_texts([{"sex": None, **json.loads(line)} for line in lines])


def s3_rows(home: Home) -> Rows:
    """By the pointer, with a client of its own."""
    sink = f"{home.bucket}/lake/published"
    release = json.loads(home.files.cat_file(f"{sink}/_CURRENT"))["release"].removeprefix("../")
    names = home.files.glob(f"{home.bucket}/lake/{release}/*.parquet")
    return rows_of(pa.concat_tables(pq.read_table(home.files.open(name)) for name in names))


def sqlite_rows(home: Home) -> Rows:
    with closing(sqlite3.connect(home.folder / "public.sqlite")) as database:
        return sorted(database.execute("SELECT n, sex FROM people_public").fetchall(), key=repr)


def duckdb_rows(home: Home) -> Rows:
    with duckdb.connect(str(home.folder / "public.duckdb"), read_only=True) as database:
        return sorted(database.execute("SELECT n, sex FROM people_public").fetchall(), key=repr)


def catalogue() -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("public")


def view_rows(home: Home) -> Rows:
    found = home.session.table("matrix.people_public").collect()
    return sorted(((row["n"], row["sex"]) for row in found), key=repr)


SINKS: dict[str, Sink] = {
    "parquet": Sink(
        lambda home: {"path": str(home.folder / "published")},
        lambda home: rows_of(pa.concat_tables(map(pq.read_table, parts(home, "parquet")))),
    ),
    "csv": Sink(lambda home: {"path": str(home.folder / "published"), "format": "csv"}, csv_rows),
    "json": Sink(lambda home: {"path": str(home.folder / "published"), "format": "json"}, json_rows),
    "s3": Sink(lambda home: {"path": f"s3://{home.bucket}/lake/published"}, s3_rows),
    "delta": Sink(
        lambda home: {"path": str(home.folder / "delta published"), "format": "delta"},
        lambda home: rows_of(deltas.truth(home.folder / "delta published")),
    ),
    "delta on s3": Sink(
        lambda home: {"path": f"s3://{home.bucket}/lake/delta_published", "format": "delta"},
        lambda home: rows_of(deltas.opened(f"s3://{home.bucket}/lake/delta_published").to_pyarrow_table()),
    ),
    "iceberg": Sink(
        lambda home: {"iceberg": "db.people_public", "catalog": "public"},
        lambda home: rows_of(catalogue().load_table("db.people_public").scan().to_arrow()),
    ),
    "duckdb": Sink(
        lambda home: {"database": str(home.folder / "public.duckdb"), "table": "people_public"}, duckdb_rows
    ),
    "sqlite": Sink(
        lambda home: {"database": str(home.folder / "public.sqlite"), "table": "people_public"}, sqlite_rows
    ),
    "postgresql": Sink(
        lambda home: {"database": home.server, "table": "people_public"},
        lambda home: sorted(home.ask("SELECT n, sex FROM people_public"), key=repr),
    ),
    "catalogue": Sink(lambda home: {"table": "matrix.people_public"}, view_rows),
}


def environment(folder: Path) -> dict[str, str]:
    """Both catalogues of Iceberg, as configured for pyiceberg."""
    public = icebergs.settings(folder / "warehouse of sinks")
    (folder / "warehouse of sinks").mkdir(exist_ok=True)
    return icebergs.environment(folder / "warehouse of sources") | {
        f"PYICEBERG_CATALOG__PUBLIC__{key.upper()}": value for key, value in public.items()
    }
