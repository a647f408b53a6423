"""`table:` instead of `path:`: the reader, the schema, YAML, and engines without a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.blocks.table_name import TableName
from privpipe.engines import open_engine
from privpipe.errors import DataError, PolicyError, UnsupportedError
from privpipe.models import KAnonymity
from privpipe.testing import GAPS

DOCUMENT: dict[str, Any] = {
    "source": {"table": "s.visits"},
    "columns": {"zip": {"role": "quasi_identifier"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
}


def problem(**changes: Any) -> str:
    with pytest.raises(PolicyError) as raised:
        pp.Policy.from_dict({**DOCUMENT, **changes})
    [found] = raised.value.problems
    return f"{found.path}: {found.message}"


def test_each_source_may_be_a_table() -> None:
    for section in ("source", "original", "population"):
        policy = pp.Policy.from_dict({**DOCUMENT, section: {"table": "`my db`.visits"}})
        assert getattr(policy, section).table == TableName(("my db", "visits"))
        assert getattr(policy, section).to_source({"zip": "text"}, Path()).data == TableName(("my db", "visits"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({}, "source.path: is required: a file or a folder"),
        ({"table": "a b"}, "source.table: 'a b' is not the name of a table; write `table`, `db.table`"),
        ({"table": "x; DROP TABLE y"}, "source.table: 'x; DROP TABLE y' is not the name of a table"),
        ({"table": "x", "path": "a.csv"}, "source.table: is given in addition to `path:`"),
        ({"table": "x", "format": "csv"}, "source.format: is for files; a table declares its own columns and types"),
        ({"table": "x", "delimiter": ";"}, "source.delimiter: is for files"),
        ({"table": 7}, "source.table: must be text, not the number 7"),
        ({"tabel": "x"}, "source.tabel: unknown key; did you mean 'table'?"),
    ],
)
def test_the_reader_says_what_is_wrong(source: dict[str, Any], message: str) -> None:
    assert problem(source=source).startswith(message)


def test_the_schema_says_the_same() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(pp.policy.json_schema())
    for source, sound in (({"table": "x"}, 1), ({"path": "x"}, 1), ({}, 0), ({"path": "x", "table": "x"}, 0)):
        assert validator.is_valid({**DOCUMENT, "source": source}) is bool(sound)
    assert validator.is_valid({**DOCUMENT, "population": {"table": "census", "generalized": True}})


def test_a_policy_with_a_table_is_written_and_read_alike(tmp_path: Path) -> None:
    policy = pp.Policy(
        roles=pp.Roles(quasi_identifiers=["zip"]), guarantees=[KAnonymity(k=2)], source={"table": "s.visits"}
    )
    (tmp_path / "release.yaml").write_text(policy.to_yaml(), encoding="utf-8")
    read = pp.Policy.load(tmp_path / "release.yaml")
    assert read.source == policy.source
    assert read.digest() == policy.digest()
    assert read.source is not None
    assert read.source.table is not None
    line = read.lines["source.table"]
    assert read.source.table.place == f"{tmp_path / 'release.yaml'}:{line}: source.table"


@pytest.mark.parametrize("name", ["embedded", "dask"])
def test_an_engine_without_a_catalogue_is_refused_at_once(name: str, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue({"dask": "dask_engine"}.get(name, name))
    with pytest.raises(GAPS[name, "source table"].raises, match="source.table: .*`engine: spark`"):
        pp.assess(None, pp.Policy.from_dict(DOCUMENT), engine=engine)


def test_a_table_of_the_callers_duckdb_connection(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(
        "CREATE SCHEMA s; CREATE TABLE s.visits AS SELECT '08' || (range % 2)::VARCHAR AS zip FROM range(9)"
    )
    visits = connection.sql("SELECT 1 AS zip")  # a variable is not a table, nor is a file
    (tmp_path / "visits.csv").write_text("zip\n1\n", encoding="utf-8")
    policy = pp.Policy.from_dict({**DOCUMENT, "sink": {"path": str(tmp_path / "out")}})
    assert pp.assess(None, policy, engine=connection).verdicts[0].observed == 4
    assert policy.release(engine=connection).assessment.records == 9
    for name in ("visits", "s.visit", f"`{tmp_path}/visits.csv`"):
        other = pp.Policy.from_dict({**DOCUMENT, "source": {"table": name}})
        with pytest.raises(DataError, match="source.table: the DuckDB connection knows no table or view"):
            pp.assess(None, other, engine=connection)
    assert visits.fetchall() == [(1,)]
    with open_engine("embedded") as engine, pytest.raises(UnsupportedError):
        pp.assess(None, policy, engine=engine)


def test_a_path_handed_over_takes_the_place_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("zip\n081\n081\n", encoding="utf-8")
    policy = pp.Policy.from_dict({**DOCUMENT, "sink": {"path": str(tmp_path / "out")}})
    assert pp.assess(str(tmp_path / "visits.csv"), policy).verdicts[0].observed == 2
    assert policy.release(str(tmp_path / "visits.csv")).assessment.records == 2


def test_a_base_distribution_may_be_a_table(embedded: Any) -> None:
    columns = {"zip": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}}
    guarantee = {"t_closeness": {"column": "ill", "t": 0.6, "base": {"table": "s.census"}}}
    policy = pp.Policy.from_dict({"columns": columns, "guarantees": [guarantee]})
    with pytest.raises(UnsupportedError, match=r"base distribution of 'ill': .*s\.census.*`engine: spark`"):
        pp.assess(pa.table({"zip": ["081", "081"], "ill": ["flu", "cold"]}), policy, engine=embedded)
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA s")
    connection.execute("CREATE TABLE s.census AS SELECT * FROM (VALUES ('flu', 3), ('cold', 1)) AS t(value, count)")
    judged = pp.assess(pa.table({"zip": ["081", "081"], "ill": ["flu", "cold"]}), policy, engine=connection)
    assert judged.verdicts[0].observed == pytest.approx(0.25)  # |1/2 - 3/4|
    assert "base distribution of 'ill': the table s.census" in judged.notes
    with pytest.raises(PolicyError, match="is not the name of a table"):
        wrong = {"t_closeness": {"column": "ill", "t": 0.6, "base": {"table": "a b"}}}
        pp.Policy.from_dict({"columns": columns, "guarantees": [wrong]})


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ({}, "sink.path: is required: folder to publish into"),
        ({"table": "x; DROP TABLE y"}, "sink.table: 'x; DROP TABLE y' is not the name of a table"),
        ({"table": "db.`x y`"}, "sink.table: a catalogue names what is published only by letters, digits and _"),
        ({"table": "x", "path": "out"}, "sink.table: is given in addition to `path:`"),
        ({"table": "x", "format": "csv"}, "sink.format: is for files"),
        ({"table": "x", "formula_cells": "escape"}, "sink.formula_cells: is for files"),
        ({"table": "visits"}, "sink.table: is the table of `source:`; publish under a separate name"),
        ({"table": "spark_catalog.S.Visits"}, "sink.table: is the table of `source:`"),
    ],
)
def test_the_reader_says_what_is_wrong_with_a_sink(sink: dict[str, Any], message: str) -> None:
    assert problem(sink=sink).startswith(message)


def test_a_sink_may_be_a_table() -> None:
    policy = pp.Policy.from_dict({**DOCUMENT, "sink": {"table": "s.visits_public"}})
    assert policy.sink is not None
    assert policy.sink.table == TableName(("s", "visits_public"))
    assert "table: s.visits_public" in policy.to_yaml()
    assert policy.run_digest() == pp.Policy.from_dict(DOCUMENT).run_digest()
    with pytest.raises(UnsupportedError, match=r"write spark_catalog.db.table"):
        pp.Policy.from_dict({**DOCUMENT, "sink": {"table": "lake.s.visits_public"}})
