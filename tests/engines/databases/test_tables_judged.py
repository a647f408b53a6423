"""Tables of databases where a finished table or a base is asked for, and what of databases is not served."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.errors import DataError, PolicyError, UsageError
from privpipe.models import TCloseness
from privpipe.policy.schema import json_schema
from privpipe.testing import GAPS

POLICY: dict[str, Any] = {
    "columns": {"age": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}},
    "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "ill", "l": 2}}],
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "out.duckdb")) as duck:
        duck.execute("CREATE TABLE good AS SELECT 30 AS age, 'i' || i % 2 AS ill FROM range(20) t(i)")
        duck.execute("CREATE TABLE bad AS SELECT i AS age, 'i' || i % 2 AS ill FROM range(20) t(i)")
    with sqlite3.connect(tmp_path / "census") as lite:
        lite.execute("CREATE TABLE `base of ill` (value TEXT, count INTEGER)")
        lite.executemany("INSERT INTO `base of ill` VALUES (?, ?)", [("i0", 5), ("i1", 5)])
    lite.close()
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    return tmp_path


def test_a_table_is_validated_in_python(files: Path, engine: Engine) -> None:
    at = files / "out.duckdb"
    assert pp.validate(at, POLICY, table="good", engine=engine).passed
    assert not pp.validate(str(at), POLICY, table="main.bad", engine=engine).passed
    with pytest.raises(DataError, match="has no table 'goood'; did you mean 'good'"):
        pp.validate(at, POLICY, table="goood", engine=engine)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"data": "a.duckdb", "table": "a", "format": "csv"}, "a database declares it itself"),
        ({"data": pa.table({"age": [1]}), "table": "a"}, "a frame was given"),
        ({"data": "postgresql://me:pw@h/d", "table": "a"}, "holds a password"),
        ({"data": "a.duckdb", "table": "a; b"}, "is not the name of a table"),
    ],
)
def test_what_names_no_table(given: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match) as refused:
        pp.validate(policy=POLICY, **given)
    assert "pw@" not in str(refused.value)


@pytest.mark.parametrize(("table", "code"), [("good", 0), ("bad", 5), ("none", 3)])
def test_a_table_is_validated_on_the_command_line(files: Path, table: str, code: int) -> None:
    arguments = ["validate", str(files / "out.duckdb"), str(files / "policy.json"), "--table", table]
    found = CliRunner().invoke(app, arguments)
    assert (found.exit_code or getattr(found.exception, "exit_code", 0)) == code


def test_a_base_is_in_a_database(files: Path, embedded: Engine) -> None:
    base = {"file": "census", "table": "`base of ill`"}
    entry = {"t_closeness": {"column": "ill", "t": 0.01, "base": base}}
    policy = pp.Policy.from_dict({**POLICY, "guarantees": [entry]}, files)
    assert pp.validate(files / "out.duckdb", policy, table="good", engine=embedded).passed
    assert not pp.validate(files / "out.duckdb", policy, table="bad", engine=embedded).passed
    with pytest.raises(UsageError, match="not the name of a table"):
        TCloseness(column="ill", t=0.1, base={"file": "census", "table": "a; b"})


def test_the_methods_of_a_table_of_a_database_are_compared(files: Path) -> None:
    age = {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [10, 20]}}}
    document = {
        **POLICY,
        "columns": {**POLICY["columns"], "age": age},
        "source": {"database": "out.duckdb", "table": "bad"},
        "uses": ["table of age by ill"],
    }
    (files / "release.json").write_text(json.dumps(document))
    found = CliRunner().invoke(app, ["compare", "--suggest", str(files / "release.json"), "--json"])
    assert found.exit_code == 0, found.output
    assert "i0" not in found.output


def test_what_of_databases_is_not_served(tmp_path: Path, embedded: Engine) -> None:
    source = {"path": str(tmp_path / "a.parquet")}
    pa.parquet.write_table(pa.table({"age": [1] * 4, "ill": ["a", "b"] * 2}), tmp_path / "a.parquet")
    server = {**POLICY, "source": source, "sink": {"database": "mysql://h/d", "table": "a"}}
    with pytest.raises(GAPS["*", "sink in a server other than PostgreSQL"].raises):
        pp.release(server, engine=embedded)
    entry = {"complementary_release": {"ledger": str(tmp_path / "ledger"), "k": 2}}
    kept = {
        **POLICY,
        "source": source,
        "sink": {"database": "a.duckdb", "table": "a"},
        "guarantees": [*POLICY["guarantees"], entry],
    }
    with pytest.raises(GAPS["*", "ledger together with a sink database"].raises, match="keeps no record"):
        pp.Policy.from_dict(kept)


@pytest.mark.parametrize(
    ("sink", "right"),
    [
        ({"database": "a.duckdb", "table": "t"}, True),
        ({"database": {"env": "URL"}, "table": "t"}, True),
        ({"table": "t"}, True),
        ({"path": "t"}, True),
        ({"database": "a.duckdb"}, False),
        ({"database": "a.duckdb", "table": "t", "path": "x"}, False),
        ({"path": "t", "table": "x"}, False),
    ],
)
def test_the_schema_knows_the_sinks(sink: dict[str, Any], right: bool) -> None:
    document = {**POLICY, "sink": sink}
    found = not list(jsonschema.Draft202012Validator(json_schema()).iter_errors(document))
    assert found == right
    if right:
        pp.Policy.from_dict(document)
    else:
        with pytest.raises(PolicyError):
            pp.Policy.from_dict(document)
