"""Drafts of related tables: relations by names and values, persons and events, and a policy that runs unedited."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.drafting.related_tables import several_tables

PERSONS = 400


def hospital(folder: Path, *, most: int = 3, lost: int = 0) -> Path:
    """Patients, up to `most` visits of each with a value that is not a key's `lost` times, and prescriptions."""
    draw = np.random.default_rng(3)
    ids = [f"p{at:04}" for at in range(PERSONS)]
    patients = {
        "id": ids,
        "age": draw.integers(20, 80, PERSONS),
        "sex": draw.choice(["f", "m"], PERSONS),
        "diagnosis": draw.choice(["flu", "gout", "none"], PERSONS),
    }
    own = [each for each in ids for _ in range(int(draw.integers(0, most + 1)))]
    visits = {
        "visit_id": [f"v{at:05}" for at in range(len(own) + lost)],
        "patient_id": [*own, *("nobody" for _ in range(lost))],
        "ward": draw.choice(["eyes", "skin"], len(own) + lost),
    }
    drugs = {
        "visit_id": visits["visit_id"][: len(own) // 2],
        "substance": draw.choice(["asa", "ibu"], len(own) // 2),
    }
    folder.mkdir()
    for name, columns in (("patients", patients), ("visits", visits), ("drugs", drugs)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


def drafted(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["init", *map(str, arguments), "--purpose", "internal"])


def test_a_folder_of_tables_is_drafted_and_released_unedited(tmp_path: Path) -> None:
    folder, out = hospital(tmp_path / "hospital"), tmp_path / "hospital.yaml"
    done = drafted(folder, "--out", out)
    assert done.exit_code == 0, done.stderr
    policy = pp.Policy.load(out)
    assert policy.related is not None
    assert policy.related.tree.root == "patients"
    found = {(each.table, each.columns, each.to) for each in policy.related.tree.relations}
    assert found == {("visits", ("patient_id",), "patients"), ("drugs", ("visit_id",), "visits")}
    text = out.read_text()
    assert "# Persons: the table that the others lead to, 400 records, one of each person." in text
    assert "# 100.0% of the distinct values of patient_id are among those of patients.id." in text
    assert "p0001" not in text
    assert "WARNING" not in text
    result = pp.release(policy)
    assert result.assessment.passed
    assert {path.name for path in (tmp_path / "published" / "hospital").iterdir()} >= {"patients", "visits", "drugs"}


def test_rows_of_no_one_are_counted_and_dropped(tmp_path: Path) -> None:
    done = drafted(hospital(tmp_path / "hospital", lost=3))
    assert done.exit_code == 0, done.stderr
    assert "# 3 records of visits belong to no person.\norphans: drop\n" in done.stdout


def test_who_is_unique_by_counts_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    buyers = list(range(30))
    orders = [each for each in buyers for _ in range(each)]
    pq.write_table(pa.table({"buyer": buyers, "sex": ["f", "m"] * 15}), folder / "buyers.parquet")
    pq.write_table(pa.table({"buyer": orders, "city": ["Bonn"] * len(orders)}), folder / "orders.parquet")
    done = drafted(folder / "orders.parquet", folder / "buyers.parquet")
    assert done.exit_code == 0, done.stderr
    assert "# 100.0% of the persons are unique by their numbers of records alone: an intruder may know" in done.stdout
    assert "row_counts: true" in done.stdout


def test_tables_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    for name, column in (("a", "x"), ("b", "y")):
        pq.write_table(pa.table({column: list(range(50))}), tmp_path / f"{name}.parquet")
    done = drafted(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert done.exit_code == 2
    assert "none of a, b leads to another" in done.stderr
    done = drafted(hospital(tmp_path / "hospital"), "--bare")
    assert done.exit_code == 2
    assert "are for one table" in done.stderr


def test_the_files_of_one_table_are_one_table(tmp_path: Path) -> None:
    for at in range(3):
        pq.write_table(pa.table({"age": [1, 2]}), tmp_path / f"part-{at}.parquet")
    assert several_tables([str(tmp_path)]) == {}
    (tmp_path / "README.md").write_text("age of persons")
    assert several_tables([str(tmp_path)]) == {}
    assert several_tables([str(tmp_path / "part-0.parquet")]) == {}
    pq.write_table(pa.table({"town": ["a"]}), tmp_path / "towns.parquet")
    assert set(several_tables([str(tmp_path)])) == {"part_0", "part_1", "part_2", "towns"}


def database(folder: Path, kind: str) -> Path:
    """The tables of `hospital`, a view of one of them, and a table without rows, in a database file."""
    folder.mkdir()
    tables = {path.stem: pq.read_table(path) for path in hospital(folder / "files").iterdir()}
    file = folder / f"hospital.{kind}"
    if kind == "duckdb":
        with duckdb.connect(str(file)) as connection:
            for name, table in tables.items():
                connection.register("rows_of", table)
                connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows_of")
            connection.execute("CREATE VIEW everybody AS SELECT * FROM patients")
            connection.execute("CREATE TABLE migrations (id INTEGER)")
        return file
    connection = sqlite3.connect(file)
    with connection:
        for name, table in tables.items():
            columns = ", ".join(table.column_names)
            connection.execute(f"CREATE TABLE {name} ({columns})")
            marks = ", ".join("?" * table.num_columns)
            connection.executemany(
                f"INSERT INTO {name} VALUES ({marks})", zip(*table.to_pydict().values(), strict=True)
            )
        connection.execute("CREATE VIEW everybody AS SELECT * FROM patients")
        connection.execute("CREATE TABLE migrations (id INTEGER)")
    connection.close()
    return file


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("duckdb", marks=pytest.mark.deep)])
def test_the_tables_of_a_database_are_drafted_and_released_unedited(tmp_path: Path, kind: str) -> None:
    file, out = database(tmp_path / "source", kind), tmp_path / "policies" / "hospital.yaml"
    out.parent.mkdir()
    done = drafted(file, "--out", out)
    assert done.exit_code == 0, done.stderr
    policy = pp.Policy.load(out)
    assert policy.related is not None
    found = {(each.table, each.columns, each.to) for each in policy.related.tree.relations}
    assert found == {("visits", ("patient_id",), "patients"), ("drugs", ("visit_id",), "visits")}
    text = out.read_text()
    assert "# Left out: table migrations" in text
    assert "everybody" not in text
    assert "WARNING" not in text
    assert policy.name == "hospital"
    result = pp.release(policy)
    assert result.assessment.passed
    assert len(pp.read_release(result.path, table="visits")) > 0


def test_one_table_of_a_database_is_drafted_by_its_name(tmp_path: Path) -> None:
    file = database(tmp_path / "source", "duckdb")
    done = drafted(file, "--table", "patients", "--bare")
    assert done.exit_code == 0, done.stderr
    assert "tables:" not in done.stdout
    done = drafted(file, "--bare")
    assert done.exit_code == 2
    assert "name one of the database by --table" in done.stderr


def test_tables_of_two_schemas_have_their_own_names(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "lake.duckdb")) as connection:
        connection.execute("CREATE SCHEMA old; CREATE TABLE visits (a INTEGER); CREATE TABLE old.visits (a INTEGER)")
        connection.execute('CREATE TABLE "the patients" (a INTEGER)')
    found = several_tables([str(tmp_path / "lake.duckdb")])
    assert set(found) == {"main_visits", "old_visits", "the_patients"}
