"""The tables of the corpus: small files of every format, made of the same draws each time."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq

__all__ = ["write_tables"]

TOWNS = {"Ashford": "01", "Barrow": "02", "Crewe": "03", "Dover": "11", "Exeter": "12"}
PEOPLE, CROWD = 240, 12_000
"""The second is more than the embedded engine keeps out of its database."""


def table_of(records: int, seed: int, first: int = 0) -> pa.Table:
    """So many records; some miss a value, persons and households have several."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    town, code, missing = "", "", False
    for at in range(first, first + records):
        if at % 3 == 0 or at == first:  # a household lives in one place
            town = draw.choice(list(TOWNS)[: draw.choice((2, 3, 5))])
            code = f"{TOWNS[town]}{draw.randint(0, 3)}{draw.randint(0, 2)}"
            missing = records > PEOPLE and draw.random() < 0.02
        rows.append(
            {
                "name": f"p{at}",
                "person": f"q{at * 7 % (records * 9 // 10 + 1)}",
                "household": f"h{at // 3}",
                "age": draw.randint(20, 59),
                "zip": None if missing else code,
                "town": town,
                "sex": draw.choice("fm"),
                "illness": None if draw.random() < 0.02 else draw.choice(("flu", "flu", "cold", "asthma", "gout")),
                "income": None if draw.random() < 0.02 else draw.randint(10, 999) / 10,
                "cost": decimal.Decimal(draw.randint(0, 9999)) / 100,
                "weight": at % 3 + 1,
                "day": dt.date(2024, 1, 1) + dt.timedelta(days=draw.randint(0, 300)),
            }
        )
    schema = pa.schema(
        {
            **dict.fromkeys(("name", "person", "household"), pa.string()),
            "age": pa.int64(),
            **dict.fromkeys(("zip", "town", "sex", "illness"), pa.string()),
            "income": pa.float64(),
            "cost": pa.decimal128(10, 2),
            "weight": pa.int64(),
            "day": pa.date32(),
        }
    )
    return pa.Table.from_pylist(rows, schema=schema)


_MADE: dict[str, pa.Table] = {}


def _table(name: str, records: int, seed: int, first: int = 0) -> pa.Table:
    if name not in _MADE:
        _MADE[name] = table_of(records, seed, first)
    return _MADE[name]


def write_tables(place: Path) -> None:
    """All sources, holdouts, populations and hierarchies into a folder."""
    people = _table("people", PEOPLE, 7)
    others, more = _table("others", PEOPLE, 8, 1000), _table("more", PEOPLE, 9, 2000)
    census = pa.concat_tables([people, others, more])
    for name, table in (("people", people), ("others", others), ("more", more), ("census", census)):
        pa.csv.write_csv(table, place / f"{name}.csv")
    crowd = _table("crowd", CROWD, 10)
    (place / "crowd").mkdir()
    for at in range(3):
        pq.write_table(crowd.slice(at * CROWD // 3, CROWD // 3), place / "crowd" / f"part-{at}.parquet")
    for row, folder in (("Ashford", "south"), ("Barrow", "north")):
        (place / "parted" / f"town={row}").mkdir(parents=True)
        chosen = people.filter(pa.compute.equal(people["town"], row)).drop_columns(["town"])
        pq.write_table(chosen, place / "parted" / f"town={row}" / f"{folder}.parquet")
    (place / "towns.csv").write_text(
        "Ashford,south,*\nDover,south,*\nExeter,south,*\nBarrow,north,*\nCrewe,north,*\n", encoding="utf-8"
    )
    _write_formats(place, people)


def _write_formats(place: Path, people: pa.Table) -> None:
    text = (place / "people.csv").read_bytes()
    (place / "people.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    lines = text.decode().splitlines()
    (place / "empty.csv").write_text(lines[0] + "\n", encoding="utf-8")
    (place / "damaged.csv").write_text("\n".join([*lines[:20], 'p20,"q', *lines[20:]]) + "\n", encoding="utf-8")
    pa.feather.write_feather(people, place / "people.arrow", compression="uncompressed")
    pa.orc.write_table(people, place / "people.orc")
    rows = people.to_pylist()
    with (place / "people.json").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, default=str) + "\n" for row in rows)
    german = [";".join(people.column_names)]
    german += [";".join(_german(value) for value in row.values()) for row in rows]
    (place / "german.csv").write_bytes("\n".join([*german, "Summe: 240 Sätze"]).encode("windows-1252"))
    _write_databases(place, people, rows)
    _write_lake(place, people)
    _write_excel(place, people, rows)


def _german(value: Any) -> str:
    if isinstance(value, dt.date):
        return f"{value:%d.%m.%Y}"
    if isinstance(value, float | decimal.Decimal):
        return str(value).replace(".", ",")
    return "NA" if value is None else str(value)


def _write_databases(place: Path, people: pa.Table, rows: list[dict[str, Any]]) -> None:
    with duckdb.connect(str(place / "people.duckdb")) as database:
        database.register("given", people)
        database.execute("CREATE TABLE people AS SELECT * FROM given")
    with sqlite3.connect(place / "people.sqlite") as connection:
        kinds = {name: "INTEGER" if name in ("age", "weight") else "TEXT" for name in people.column_names}
        kinds |= {"income": "REAL", "cost": "DECIMAL(10, 2)", "day": "DATE"}
        connection.execute(f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        places = ", ".join("?" * len(kinds))
        values = [tuple(str(v) if isinstance(v, dt.date | decimal.Decimal) else v for v in r.values()) for r in rows]
        connection.executemany(f"INSERT INTO people VALUES ({places})", values)


def _write_lake(place: Path, people: pa.Table) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(place / "people.delta"), people)


def _write_excel(place: Path, people: pa.Table, rows: list[dict[str, Any]]) -> None:
    from openpyxl import Workbook

    book = Workbook()
    book.active.append(people.column_names)
    for row in rows:
        book.active.append([str(v) if isinstance(v, decimal.Decimal) else v for v in row.values()])
    book.save(place / "people.xlsx")
