"""`doctor FILE`, `init FILE` and `explain FORMAT` of databases and other formats."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, get_args

import duckdb
import pyarrow as pa
import pytest
from pyarrow import orc
from ruamel.yaml import YAML

import privpipe as pp
from privpipe.cli.drafts import init
from privpipe.cli.explain import described
from privpipe.cli.explanations import LAKE_TOPICS, SOURCE_TOPICS
from privpipe.cli.file_kinds import described_database, described_other
from privpipe.drafting.source_formats import database_source
from privpipe.engines import Format
from privpipe.errors import PolicyError, UsageError
from privpipe.policy.grammar import LAKES, SOURCE

DOCUMENT: dict[str, Any] = {
    "columns": {"zip": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("visits") as lite:
        lite.execute("CREATE TABLE visits (zip TEXT, big INTEGER)")
        lite.executemany("INSERT INTO visits VALUES (?, ?)", [(f"canary{n % 3}", 2**53 + n) for n in range(30)])
        lite.execute("CREATE VIEW few AS SELECT * FROM visits LIMIT 3")
    lite.close()
    with duckdb.connect("duck.parquet") as duck:
        duck.execute("CREATE SCHEMA clinic; CREATE TABLE clinic.visits AS SELECT 1 AS a")
    return tmp_path


def test_doctor_shows_a_database_and_its_source(home: Path) -> None:
    assert described_database("visits") == ("SQLite, 2 tables: few, visits", "source: {database: visits, table: few}")
    told = described_database("duck.parquet")
    assert told == ("DuckDB, 1 table: clinic.visits", "source: {database: duck.parquet, table: clinic.visits}")
    for path in ("visits", "duck.parquet"):
        found = described_database(path)
        assert found is not None
        pp.Policy.from_dict({**DOCUMENT, **YAML(typ="safe").load(found[1])})
    (home / "text.db").write_text("canary")
    assert described_database("text.db") is None


def test_doctor_shows_other_formats(home: Path) -> None:
    orc.write_table(pa.table({"a": [1, 2]}), "a.orc")
    assert described_other("a.orc") == ("orc, 1 columns, 2 records", "source: {path: a.orc, format: orc}")
    for name, said in (
        ("a.ods", "save them as .xlsx"),
        ("a.pkl", "a pickle runs code"),
        ("a.csv.lz4", "pack them as .gz, .bz2, .zst, .xz, .zip"),
        ("a.xls", "save them as .xlsx"),
        ("a.db", "database: ..."),
    ):
        with pytest.raises(UsageError, match=said):
            described_other(name)


def test_init_drafts_a_policy_of_a_table(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(["visits"], table="visits", suggest=False, out=None, delimiter=None, force=False)
    text = capsys.readouterr().out
    assert "canary" not in text
    policy = YAML(typ="safe").load(text)
    assert policy["source"] == {"database": "visits", "table": "visits"}
    assert policy["columns"]["big"]["type"] == "integer"


def test_init_asks_which_table(home: Path) -> None:
    with pytest.raises(UsageError, match=r"has 2 tables: name one by --table \(few, visits\)"):
        database_source("visits", None)
    with pytest.raises(UsageError, match="has no table 'vists'; did you mean 'visits'"):
        database_source("visits", "vists")
    only = database_source("duck.parquet", None)
    assert only is not None
    assert only.data.table.parts == ("clinic", "visits")
    (home / "a.csv").write_text("a\n1\n")
    assert database_source("a.csv", None) is None
    with pytest.raises(UsageError, match="is none by its first bytes"):
        database_source("a.csv", "visits")


def test_every_format_is_explained_by_the_keys_that_it_takes() -> None:
    assert {*SOURCE_TOPICS, *LAKE_TOPICS} == {*get_args(Format), "database", "iceberg"}
    for name in SOURCE_TOPICS:
        document = described(name)
        json.dumps(document)
        keys = {each["name"] for each in document["parameters"]}
        pp.Policy.from_dict({**DOCUMENT, **YAML(typ="safe").load(document["example"])})
        if name == "database":
            continue
        for key in set(SOURCE) - {"path", "format", "table", "database", "query", "columns", "header", *LAKES}:
            value = SOURCE[key].default
            value = {"partitions": ["a"], "sheet": "a", "compression": "gz"}.get(key, value)
            value = {
                "null_values": ["", "-"],
                "date_format": "%d",
                "escape": "!",
                "comment": "#",
                "thousands": "'",
            }.get(key, value)
            given = {**DOCUMENT, "source": {"path": "a", "format": name, key: value}}
            try:
                pp.Policy.from_dict(given)
                taken = True
            except PolicyError as error:
                taken = not any(found.path == f"source.{key}" and " for " in found.message for found in error.problems)
            assert taken is (key in keys), (name, key)
