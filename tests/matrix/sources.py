"""One table in every place that a run reads, with the rows that the place's own reader finds there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq

from tests.engines.lakes import deltas, icebergs
from tests.engines.lakes.deltas import ROWS

Rows = list[tuple[int, str | None]]


@dataclass(frozen=True)
class Home:
    """Where tables are made: a folder, an object store and a database server."""

    folder: Path
    bucket: str
    files: Any
    server: str
    ask: Callable[..., Any]
    session: Any = None


@dataclass(frozen=True)
class Made:
    """What `source:` says of a table that was made, and its rows."""

    source: dict[str, Any]
    rows: Rows


def rows_of(table: pa.Table) -> Rows:
    """Sorted, each as a tuple."""
    found = zip(table.column("n").to_pylist(), table.column("sex").to_pylist(), strict=True)
    return sorted(((int(n), sex) for n, sex in found), key=repr)


def file(home: Home, name: str, write: Callable[[pa.Table, str], Any], **said: Any) -> Made:
    write(ROWS, str(home.folder / name))
    return Made({"path": str(home.folder / name), **said}, rows_of(ROWS))


def folder(home: Home) -> Made:
    place = home.folder / "parts"
    place.mkdir()
    for at in range(4):
        pq.write_table(ROWS.slice(4 * at, 4), place / f"part-{at}.parquet")
    return Made({"path": str(place)}, rows_of(ROWS))


def json_lines(home: Home) -> Made:
    duckdb.from_arrow(ROWS).query("t", f"COPY t TO '{home.folder / 'rows.json'}' (FORMAT json)")
    return Made({"path": str(home.folder / "rows.json")}, rows_of(ROWS))


def delta(make: Callable[[Path], Path]) -> Callable[[Home], Made]:
    def made(home: Home) -> Made:
        place = make(home.folder / "delta")
        return Made({"path": str(place)}, rows_of(deltas.truth(place)))

    return made


def delta_by_sex(place: Path) -> Path:
    deltas.write(place, ROWS, partition_by=["sex"])
    deltas.opened(place).delete("n = 4")
    return place


def iceberg(make: Callable[[Path], Any]) -> Callable[[Home], Made]:
    def made(home: Home) -> Made:
        table = icebergs.quietly(make, home.folder / "warehouse of sources")
        return Made({"iceberg": "db.people", "catalog": icebergs.CATALOG}, rows_of(table.scan().to_arrow()))

    return made


def iceberg_by_sex(place: Path) -> Any:
    from pyiceberg.transforms import IdentityTransform

    table = icebergs.catalogue(place).create_table("db.people", schema=ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field("sex", IdentityTransform())
    table.append(ROWS)
    table.delete("n = 4")
    return table


def equality(home: Home) -> Made:
    icebergs.quietly(icebergs.with_equality_deletes, home.folder / "warehouse of sources")
    return Made({"iceberg": "db.people", "catalog": icebergs.CATALOG}, [])


def in_duckdb(home: Home) -> Made:
    with duckdb.connect(str(home.folder / "source.duckdb")) as database:
        database.register("made", ROWS)
        database.execute("CREATE TABLE people AS SELECT * FROM made")
    return Made({"database": str(home.folder / "source.duckdb"), "table": "people"}, rows_of(ROWS))


def in_sqlite(home: Home) -> Made:
    with closing(sqlite3.connect(home.folder / "source.sqlite")) as database, database:
        database.execute("CREATE TABLE people (n INTEGER, sex TEXT)")
        database.executemany("INSERT INTO people VALUES (?, ?)", rows_of(ROWS))
    return Made({"database": str(home.folder / "source.sqlite"), "table": "people"}, rows_of(ROWS))


def in_postgresql(home: Home) -> Made:
    home.ask("DROP TABLE IF EXISTS people")
    home.ask("CREATE TABLE people (n bigint, sex text)")
    for n, sex in rows_of(ROWS):
        home.ask("INSERT INTO people VALUES ($1, $2)", n, sex)
    return Made({"database": home.server, "table": "people"}, rows_of(ROWS))


def on_s3(home: Home) -> Made:
    pq.write_table(ROWS, home.folder / "rows.parquet")
    home.files.put_file(str(home.folder / "rows.parquet"), f"{home.bucket}/raw/rows.parquet")
    return Made({"path": f"s3://{home.bucket}/raw"}, rows_of(ROWS))


def delta_on_s3(home: Home) -> Made:
    from deltalake import DeltaTable, write_deltalake

    url = f"s3://{home.bucket}/delta"
    write_deltalake(url, ROWS)
    write_deltalake(url, ROWS, mode="overwrite")
    DeltaTable(url).delete("n = 4")
    return Made({"path": url, "format": "delta"}, [row for row in rows_of(ROWS) if row[0] != 4])


def in_catalogue(home: Home) -> Made:
    pq.write_table(ROWS, home.folder / "rows.parquet")
    home.session.read.parquet(str(home.folder / "rows.parquet")).createOrReplaceTempView("people")
    return Made({"table": "people"}, rows_of(ROWS))


SOURCES: dict[str, Callable[[Home], Made]] = {
    "parquet": lambda home: file(home, "rows.parquet", pq.write_table),
    "folder of parquet": folder,
    "csv": lambda home: file(home, "rows.csv", pyarrow.csv.write_csv),
    "json": json_lines,
    "arrow": lambda home: file(home, "rows.arrow", lambda rows, path: pyarrow.feather.write_feather(rows, path)),
    "orc": lambda home: file(home, "rows.orc", lambda rows, path: pyarrow.orc.write_table(rows, path)),
    "delta, overwritten": delta(deltas.overwritten),
    "delta, updated": delta(deltas.updated),
    "delta, deleted": delta(deltas.deleted),
    "delta, compacted": delta(deltas.compacted),
    "delta, partitioned": delta(delta_by_sex),
    "delta, deletion vectors": delta(deltas.vectors),
    "delta on s3": delta_on_s3,
    "iceberg, overwritten": iceberg(icebergs.overwritten),
    "iceberg, updated": iceberg(icebergs.updated),
    "iceberg, deleted": iceberg(icebergs.deleted),
    "iceberg, partitioned": iceberg(iceberg_by_sex),
    "iceberg, deletes by position": iceberg(icebergs.with_position_deletes),
    "iceberg, deletes by equality": equality,
    "duckdb": in_duckdb,
    "sqlite": in_sqlite,
    "postgresql": in_postgresql,
    "s3": on_s3,
    "catalogue": in_catalogue,
}
