"""A release of a table of a database is that of the same rows in a file, with the same record ids, on every engine."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine

ROWS = [(f"{8000 + n % 4:05}", 20 + n % 5 * 10, f"d{n % 7}", n) for n in range(200)]
NAMES = ("zip", "age", "rowid", "big")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = pa.table(dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True)))
    pq.write_table(made, tmp_path / "visits.parquet")
    with duckdb.connect(str(tmp_path / "duck")) as duck:
        duck.execute("CREATE TABLE visits AS SELECT * FROM made")
    with sqlite3.connect(tmp_path / "lite") as lite:
        lite.execute("CREATE TABLE visits (zip TEXT, age INTEGER, rowid TEXT, big INTEGER)")
        lite.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", ROWS)
    lite.close()
    return tmp_path


def document(home: Path, source: dict[str, Any]) -> dict[str, Any]:
    ages = {"intervals": {"start": 0, "widths": [20, 40]}}
    return {
        "source": source,
        "columns": {
            "zip": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier", "hierarchy": ages},
            "rowid": {"role": "insensitive"},
            "big": {"role": "insensitive"},
        },
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "transform": [{"add_noise": {"columns": ["big"], "relative_sd": 0.1}}],
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
        "sink": {"path": str(home / "published")},
    }


def released(home: Path, source: dict[str, Any], engine: Engine) -> list[Any]:
    policy = pp.Policy.from_dict(
        {**document(home, source), "sink": {"path": str(home / f"out-{len(list(home.iterdir()))}")}}
    )
    result = pp.release(policy, engine=engine)
    return sorted(map(repr, pq.read_table(result.path, partitioning=None).to_pylist()))


def test_the_same_rows_make_the_same_release(engine: Engine, home: Path) -> None:
    expected = released(home, {"path": str(home / "visits.parquet")}, engine)
    assert len(expected) == 200
    for source in (
        {"database": str(home / "duck"), "table": "main.visits"},
        {"database": str(home / "lite"), "query": "SELECT zip, age, rowid, big FROM visits ORDER BY big DESC"},
    ):
        assert released(home, source, engine) == expected


def test_other_tables_of_a_policy_may_lie_in_databases(embedded: Engine, home: Path) -> None:
    place = {"database": str(home / "lite"), "table": "visits"}
    policy = pp.Policy.from_dict(
        {**document(home, place), "original": place, "population": {"database": str(home / "duck"), "table": "visits"}}
        | {"guarantees": [{"k_anonymity": {"k": 3}}, {"k_map": {"k": 3}}], "transform": []}
    )
    assert pp.assess(str(home / "visits.parquet"), policy, engine=embedded).passed
    assert pp.validate(str(home / "visits.parquet"), policy, engine=embedded).passed
