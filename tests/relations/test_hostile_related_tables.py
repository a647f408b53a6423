"""Related tables that were made to break a release: each is published whole, or refused by name and nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, PolicyError, PrivpipeError, UnsupportedError
from tests.relations.test_related_release import document, policy, tables_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def renamed(old: str, new: Any) -> dict[str, Any]:
    """The policy with another name for one of its tables."""
    found = document()
    tables = {new if name == old else name: table for name, table in found["tables"].items()}
    changed = {"tables": tables, "relations": [{"from": f"{new}.patient", "to": "patients"}]}
    return {**changed, "guarantees": [{"joint_k_anonymity": {"k": 2}}, found["guarantees"][1]]}


@pytest.mark.parametrize(
    "name",
    ["_privpipe", "a/b", "../visits", "..", ".visits", "a.b", "a\\b", "", " visits", "day=3", "x" * 61, "a\nb", "a:b"],
)
def test_names_that_are_not_folders_are_refused_with_their_line(folder: Path, name: str) -> None:
    with pytest.raises(PolicyError) as caught:
        policy(folder, **renamed("visits", name))
    assert any(
        "is not a valid table name, which becomes a directory name" in each.message for each in caught.value.problems
    )
    assert not (folder / "published").exists()


def test_a_name_that_is_a_number_is_refused(folder: Path) -> None:
    with pytest.raises(PolicyError, match="tables: a key must be text, not int"):
        policy(folder, **renamed("visits", 2026))


def test_the_line_of_a_name_is_said(tmp_path: Path) -> None:
    text = "version: 1\ntables:\n  patients: {columns: {}}\n  ../visits: {columns: {}}\nrelations: []\nguarantees: []\n"
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(PolicyError) as caught:
        pp.Policy.load(tmp_path / "policy.yaml")
    assert 4 in [each.line for each in caught.value.problems if "is not a valid table name" in each.message]


def test_names_that_differ_by_case_alone_are_refused(folder: Path) -> None:
    found = document()
    found["tables"]["Visits"] = found["tables"]["visits"]
    found["relations"] = [*found["relations"], {"from": "Visits.patient", "to": "patients"}]
    with pytest.raises(PolicyError, match="is the folder of 'visits' where file systems fold case"):
        policy(folder, tables=found["tables"], relations=found["relations"])


@pytest.mark.parametrize("name", ["Besuche ä", "受診", "2026-visits"])
def test_names_in_any_script_are_published(folder: Path, name: str) -> None:
    pp.release(policy(folder, **renamed("visits", name)))
    assert len(pp.read_release(folder / "published", table=name)) == 240


@pytest.mark.parametrize("engine", ["embedded", "dask"])
@pytest.mark.parametrize("name", ["病棟", "ward (old)", 'a"b', "a`b", "a.b", "hash#"])
def test_columns_of_any_name_are_judged(folder: Path, name: str, engine: str) -> None:
    visits = tables_of()["visits"].rename_columns(["patient", name])
    pq.write_table(visits, folder / "visits.parquet")
    tables = document()["tables"]
    tables["visits"]["columns"] = {"patient": {"role": "identifier"}, name: {"role": "quasi_identifier"}}
    plain = pp.release(policy(folder, tables=tables), engine=engine)
    assert plain.assessment.verdicts[0].observed >= 2
    assert pp.read_release(folder / "published", table="visits").column_names == [name]


@pytest.mark.parametrize("name", ["__privpipe_person_0", "__privpipe_group_0", "__privpipe_value", "__count"])
def test_columns_named_like_ours_are_refused(folder: Path, name: str) -> None:
    tables = document()["tables"]
    tables["visits"]["columns"][name] = {"role": "insensitive"}
    with pytest.raises(PolicyError, match="a column name must not"):
        policy(folder, tables=tables)
    visits = tables_of()["visits"]
    pq.write_table(visits.append_column(name, visits["ward"]), folder / "visits.parquet")
    tables["visits"]["columns"].pop(name)
    tables["visits"]["undeclared"] = "drop"
    with pytest.raises(DataError, match="reserved"):
        pp.release(policy(folder, tables=tables))
    assert not (folder / "published").exists()


@pytest.mark.parametrize("engine", ["embedded", "dask"])
@pytest.mark.parametrize("table", ["patients", "visits"])
def test_missing_keys_are_refused_with_their_number(folder: Path, table: str, engine: str) -> None:
    found = tables_of()[table]
    keys = pa.array([None, None, *found["patient"].to_pylist()[2:]], pa.string())
    pq.write_table(found.set_column(0, "patient", keys), folder / f"{table}.parquet")
    with pytest.raises(DataError, match=f"table '{table}': .*2 .*records have no value in 'patient'|2 records have no"):
        pp.release(policy(folder), engine=engine)
    assert not (folder / "published").exists()


def test_missing_keys_of_rows_are_dropped_where_orphans_are(folder: Path) -> None:
    found = tables_of()["visits"]
    keys = pa.array([None, None, *found["patient"].to_pylist()[2:]], pa.string())
    pq.write_table(found.set_column(0, "patient", keys), folder / "visits.parquet")
    pp.release(policy(folder, orphans="drop"))
    assert len(pp.read_release(folder / "published", table="visits")) == 238


def test_a_person_with_many_rows_is_refused_before_picks_are_made(folder: Path) -> None:
    found, many = tables_of()["visits"], 100_000
    huge = pa.table({"patient": ["person 7"] * many, "ward": ["a", "b"] * (many // 2)})
    pq.write_table(pa.concat_tables([found, huge]), folder / "visits.parquet")
    guarantees = [{"joint_k_anonymity": {"k": 2, "knows": {"visits": 2}}}, document()["guarantees"][1]]
    cap, suppress = {"cap_rows": {"table": "visits", "at_most": 3}}, {"suppress_persons": {"at_most": 1.0}}
    for stages in ([], [suppress]):
        with pytest.raises(UnsupportedError, match=r"1 persons have more than 50,0.* rows of 'visits'.*`cap_rows`"):
            pp.release(policy(folder, guarantees=guarantees, transform=stages))
        assert not (folder / "published").exists()
    pp.release(policy(folder, guarantees=guarantees, transform=[cap, suppress]))
    assert 0 < len(pp.read_release(folder / "published", table="visits")) <= 3 * 120


@pytest.mark.parametrize(
    ("shape", "message"),
    [("no persons", "no records"), ("no rows", "no records"), ("all of one person", "1 of 120 persons fail")],
)
def test_empty_and_lopsided_tables_are_refused(folder: Path, shape: str, message: str) -> None:
    patients, visits = tables_of()["patients"], tables_of()["visits"]
    if shape == "all of one person":
        visits = visits.set_column(0, "patient", pa.array(["person 7"] * len(visits)))
    else:
        visits, patients = visits.slice(0, 0), patients.slice(0, 0 if shape == "no persons" else None)
    pq.write_table(patients, folder / "patients.parquet")
    pq.write_table(visits, folder / "visits.parquet")
    with pytest.raises(PrivpipeError, match=message):
        pp.release(policy(folder))
    assert not (folder / "published").exists()


@pytest.mark.parametrize("cells", ["keep", "escape"])
def test_files_have_the_format_of_the_sink(folder: Path, cells: str) -> None:
    visits = tables_of()["visits"]
    wards = pa.array([f"={ward}" for ward in visits["ward"].to_pylist()])
    pq.write_table(visits.set_column(1, "ward", wards), folder / "visits.parquet")
    result = pp.release(policy(folder, sink={"path": "published", "format": "csv", "formula_cells": cells}))
    assert any("table 'visits': 240 cells of column 'ward' begin with =" in note for note in result.assessment.notes)
    lines = (folder / "published" / "visits" / "part-00000.csv").read_text().splitlines()
    assert lines[0] == "ward"
    assert {line[: len(line) - 1] for line in lines[1:]} == {"'=" if cells == "escape" else "="}
    assert sorted(pp.read_release(folder / "published", table="visits")["ward"].to_pylist()) == sorted(
        wards.to_pylist()
    )
    assert pp.read_release(folder / "published", table="patients").column_names == ["age", "illness"]


def test_cells_that_the_sink_refuses_and_partitions(folder: Path) -> None:
    visits = tables_of()["visits"]
    pq.write_table(visits.set_column(1, "ward", pa.array(["=1"] * len(visits))), folder / "visits.parquet")
    with pytest.raises(DataError, match="240 cells of column 'ward' begin with ="):
        pp.release(policy(folder, sink={"path": "published", "format": "csv", "formula_cells": "refuse"}))
    assert not (folder / "published").exists()
    with pytest.raises(PolicyError, match="not partitioned"):
        policy(folder, sink={"path": "published", "partition": ["ward"]})
