"""Policies about related tables: read with lines, released in one move, refused whole, validated and applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, NoSolutionError, PolicyError, Refused, UnsupportedError, UsageError
from privpipe.record import verify

KEY = "0123456789abcdef0123456789abcdef0123456789abcdef"


def tables_of(persons: int = 120, seed: int = 0) -> dict[str, pa.Table]:
    """Patients in three ages, with up to some visits to five wards."""
    draw = np.random.default_rng(seed)
    ids = pa.array([f"person {at}" for at in range(persons)])
    patients = pa.table(
        {
            "patient": ids,
            "age": draw.integers(1, 4, persons) * 20,
            "illness": draw.choice(["flu", "gout", "none"], persons),
        }
    )
    rows = draw.integers(0, persons, 2 * persons)
    visits = pa.table({"patient": ids.take(pa.array(rows)), "ward": draw.choice(list("abcde"), len(rows))})
    return {"patients": patients, "visits": visits}


def document(**changes: Any) -> dict[str, Any]:
    """A policy about them."""
    found = {
        "version": 1,
        "name": "clinic",
        "tables": {
            "patients": {
                "source": {"path": "patients.parquet"},
                "key": "patient",
                "columns": {
                    "patient": {"role": "identifier"},
                    "age": {"role": "quasi_identifier"},
                    "illness": {"role": "sensitive"},
                },
            },
            "visits": {
                "source": {"path": "visits.parquet"},
                "columns": {"patient": {"role": "identifier"}, "ward": {"role": "quasi_identifier"}},
            },
        },
        "relations": [{"from": "visits.patient", "to": "patients"}],
        "guarantees": [
            {"joint_k_anonymity": {"k": 2, "knows": {"visits": 1}}},
            {"joint_alpha": {"column": "patients.illness", "alpha": 0.9}},
        ],
        "sink": {"path": "published"},
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
    }
    return {**found, **changes}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def policy(folder: Path, **changes: Any) -> pp.Policy:
    return pp.Policy.from_dict(document(**changes), folder)


@pytest.mark.parametrize("engine", ["embedded", "dask", pytest.param("spark", marks=pytest.mark.spark)])
def test_tables_are_published_together(folder: Path, engine: str) -> None:
    result = pp.release(policy(folder), engine=engine)
    published = folder / "published"
    assert {path.name for path in published.iterdir()} == {"patients", "visits", "_privpipe"}
    tables = {name: pp.read_release(published, table=name) for name in ("patients", "visits")}
    assert tables["patients"].column_names == ["age", "illness"]
    assert tables["visits"].column_names == ["ward"]
    assert (len(tables["patients"]), len(tables["visits"])) == (120, 240)
    [joint, alpha] = result.assessment.verdicts
    assert joint.observed >= 2
    assert 0 < alpha.observed <= 0.9
    shown = json.loads((published / "_privpipe" / "verdict.json").read_text())
    held = [(row["name"], row["observed"]) for row in shown["guarantees"]]
    built_in = [("no_identifiers", 0)] * 2
    assert held == [*built_in, ("joint_k_anonymity", None), ("joint_alpha", None)]  # keys are not released
    assert verify(str(published)).sound


@pytest.mark.parametrize("engine", ["embedded", "dask", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_table_without_guarantees_gives_nothing_back(folder: Path, engine: str) -> None:
    people, visits = tables_of(persons=300).values()
    born = pa.array([2000 - age for age in people.column("age").to_pylist()])
    pq.write_table(people.append_column("born", born), folder / "patients.parquet")
    pq.write_table(visits, folder / "visits.parquet")
    tables = document()["tables"]
    columns = {
        **tables["patients"]["columns"],
        "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 0, "widths": [50, 100]}}},
        "born": {"role": "insensitive"},
    }
    coarse = {**tables["patients"], "columns": columns, "transform": [{"generalize": {"levels": {"age": 1}}}]}
    changed = {**tables, "patients": coarse}
    asked = [{"joint_k_anonymity": {"k": 1}}, {"joint_alpha": {"column": "patients.illness", "alpha": 1.0}}]
    with pytest.raises(Refused, match="recovery"):
        pp.release(policy(folder, tables=changed, guarantees=asked), engine=engine)
    assert not (folder / "published").exists()
    changed = {**changed, "patients": {**coarse, "columns": {**columns, "born": {"role": "drop"}}}}
    assert pp.release(policy(folder, tables=changed, guarantees=asked), engine=engine).assessment.passed


def test_a_set_that_fails_is_refused_whole(folder: Path) -> None:
    guarantees = [{"joint_k_anonymity": {"k": 5, "knows": {"visits": 3}}}, *document()["guarantees"][1:]]
    with pytest.raises(Refused, match=r"joint_k_anonymity|JointKAnonymity"):
        pp.release(policy(folder, guarantees=guarantees))
    assert not (folder / "published").exists()


def test_persons_are_suppressed_in_all_tables(folder: Path) -> None:
    guarantees = [{"joint_k_anonymity": {"k": 4, "knows": {"visits": 2}}}, *document()["guarantees"][1:]]
    stages = [{"cap_rows": {"table": "visits", "at_most": 2}}, {"suppress_persons": {"at_most": 1.0}}]
    result = pp.release(policy(folder, guarantees=guarantees, transform=stages))
    assert result.assessment.verdicts[0].observed >= 4
    left = {name: pp.read_release(folder / "published", table=name) for name in ("patients", "visits")}
    assert 0 < len(left["patients"]) < 120
    assert len(left["visits"]) <= 2 * len(left["patients"])
    plan = json.loads((folder / "published" / "_privpipe" / "plan.json").read_text())
    assert [stage["detail"] for stage in plan["stages"]] == [{}, {}]  # how many went is no one's business
    with pytest.raises(NoSolutionError, match=r"of 120 persons would have to go, and 1 may"):
        pp.release(policy(folder, guarantees=guarantees, transform=[{"suppress_persons": {"at_most": 0.01}}]))


def with_pseudonyms(domain: str = "patients") -> dict[str, Any]:
    """The tables with a key that readers join by."""
    stage = {"pseudonymise": {"columns": ["patient"], "key": {"from_env": "CLINIC_KEY"}, "domain": domain}}
    tables = document()["tables"]
    other = {"pseudonymise": {**stage["pseudonymise"], "domain": "patients"}}
    return {
        "patients": {**tables["patients"], "transform": [stage]},
        "visits": {**tables["visits"], "transform": [other]},
    }


def test_pseudonyms_join_what_is_published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLINIC_KEY", KEY)
    pp.release(policy(folder, tables=with_pseudonyms()))
    patients, visits = (pp.read_release(folder / "published", table=name) for name in ("patients", "visits"))
    assert set(visits["patient"].to_pylist()) <= set(patients["patient"].to_pylist())
    assert not any(text.startswith("person") for text in patients["patient"].to_pylist())
    with pytest.raises(DataError, match="240 records belong to no record"):
        pp.release(policy(folder, tables=with_pseudonyms("visitors")))


def test_a_table_has_its_own_guarantees_too(folder: Path) -> None:
    tables = document()["tables"]
    tables["visits"]["guarantees"] = [{"k_anonymity": {"k": 200}}]
    with pytest.raises(Refused, match="table 'visits': observed"):
        pp.release(policy(folder, tables=tables))


def test_apply_gives_frames_back() -> None:
    frames = {name: table.to_pandas() for name, table in tables_of().items()}
    found = pp.Policy.from_dict(document()).apply(frames)
    assert {name: list(frame.columns) for name, frame in found.items()} == {
        "patients": ["age", "illness"],
        "visits": ["ward"],
    }
    with pytest.raises(UsageError, match="give a mapping with a frame for each of patients, visits"):
        pp.Policy.from_dict(document()).apply({"patients": frames["patients"]})


def test_finished_tables_are_validated(folder: Path) -> None:
    finished = folder / "finished"
    finished.mkdir()
    for name, table in tables_of().items():
        pq.write_table(table, finished / f"{name}.parquet")
    judged = pp.validate(finished, policy(folder))
    assert judged.passed
    assert judged.verdicts[0].observed >= 2
    pq.write_table(tables_of()["visits"], finished / "notes.parquet")
    with pytest.raises(DataError, match="table 'notes' is not in the policy"):
        pp.validate(finished, policy(folder))
    (finished / "notes.parquet").unlink()
    (finished / "visits.parquet").unlink()
    with pytest.raises(DataError, match="there is no table 'visits'"):
        pp.validate(finished, policy(folder))
    pq.write_table(tables_of()["visits"].select(["ward"]), finished / "visits.parquet")
    with pytest.raises(DataError, match="cannot be judged together"):
        pp.validate(finished, policy(folder))


def test_another_seed_gives_another_order(folder: Path) -> None:
    orders = []
    for seed in (7, 7, 8):
        pp.release(policy(folder, seed={"insecure": seed}), target=folder / "elsewhere")
        orders.append(pp.read_release(folder / "elsewhere", table="visits")["ward"].to_pylist())
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


WRONG = """\
version: 1
source: {path: visits.parquet}
tables:
  patients:
    source: {path: patients.parquet}
    key: patient
    columns: {patient: {role: identifier}, age: {role: quasi_identifier}, illness: {role: sensitive}}
  visits:
    source: {path: visits.parquet}
    sink: {path: elsewhere}
    columns: {patient: {role: identifier}, ward: {role: insensitve}}
relations:
  - {from: visits.patient, to: patients}
guarantees:
  - joint_k_anonymity: {k: 2, knows: {visits: 4}}
  - joint_alpha: {column: patients.ilness, alpha: 0.5}
  - k_anonymity: {k: 5}
transform:
  - cap_rows: {table: vists, at_most: 2}
"""


def test_everything_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "clinic.yaml"
    file.write_text(WRONG)
    with pytest.raises(PolicyError) as caught:
        pp.Policy.load(file)
    found = {problem.path: (problem.line, problem.message) for problem in caught.value.problems}
    assert found["source"][0] == 2
    assert found["tables.visits.columns.ward.role"][0] == 11
    assert found["tables.visits.sink"] == (10, found["tables.visits.sink"][1])
    assert "of the whole set" in found["tables.visits.sink"][1]
    assert any(path.startswith("guarantees[0].joint_k_anonymity") and line == 15 for path, (line, _) in found.items())
    assert found["guarantees[1].joint_alpha.column"][0] == 16
    assert "belongs in the table" in found["guarantees[2].k_anonymity"][1]
    assert found["transform[0].cap_rows.table"][0] == 19


UNFITTING = """\
version: 1
tables:
  patients:
    source: {path: patients.parquet}
    key: patient
    columns:
      patient: {role: identifier}
      age: {role: quasi_identifier}
      illness: {role: insensitive}
  visits:
    source: {path: visits.parquet}
    columns:
      patient: {role: insensitive}
      wrd: {role: quasi_identifier}
relations:
  - {from: visits.patient, to: patients}
guarantees:
  - joint_k_anonymity: {k: 2}
"""


def test_errors_of_a_run_name_the_table_and_the_line(folder: Path) -> None:
    file = folder / "clinic.yaml"
    file.write_text(UNFITTING)
    policy = pp.Policy.load(file)
    (warning,) = policy.warnings
    assert warning.startswith(f"{file}:13: tables.visits.columns.patient: ")
    with pytest.raises(DataError) as caught:
        policy.apply(tables_of())
    assert str(caught.value).startswith(f"{file}:14: tables.visits.columns.wrd: the data has no column 'wrd'")


def test_a_table_without_rows_or_with_another_column_is_named(folder: Path) -> None:
    visits = tables_of()["visits"]
    pq.write_table(visits.slice(0, 0), folder / "visits.parquet")
    with pytest.raises(
        DataError, match=r"^tables\.visits\.source: .* no records: .*; leave the table out of `tables:`$"
    ):
        pp.release(policy(folder))
    pq.write_table(visits.append_column("more", visits["ward"]), folder / "visits.parquet")
    with pytest.raises(DataError, match=r"^tables\.visits\.columns: 1 column\(s\) of the data have no role: 'more'"):
        pp.release(policy(folder))
    assert not (folder / "published").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"relations": []}, "lead to no other table"),
        ({"relations": [{"from": "visits.patient", "to": "patients.age"}]}, "there is no table"),
        ({"guarantees": []}, "at least one joint guarantee is needed"),
        ({"guarantees": [{"joint_k_anonymity": {"k": 2}}]}, "is sensitive and no guarantee judges it"),
        (
            {"guarantees": [{"joint_alpha": {"column": "patients.ilness", "alpha": 0.9}}]},
            "joint_alpha.column: table 'patients' has no column 'ilness'; did you mean 'illness'.$",
        ),
        ({"guarantees": [{"joint_k_anonymity": {}}]}, "needs its threshold `k`"),
        ({"tables": {"patients": {"columns": {"patient": {"role": "identifier"}}}}}, "relations"),
    ],
)
def test_policies_that_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document(**changes))


def test_a_key_that_leaves_as_it_is_draws_a_warning() -> None:
    assert not pp.Policy.from_dict(document()).warnings
    tables = document()["tables"]
    tables["visits"]["columns"]["patient"] = {"role": "insensitive"}
    (found,) = pp.Policy.from_dict(document(tables=tables)).warnings
    assert "tables.visits.columns.patient" in found
    assert "is released unchanged" in found


def test_what_cannot_switch_several_tables(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="in one move"):
        pp.release(policy(folder, sink={"path": "published", "format": "delta"}))
    with pytest.raises(UsageError, match="transform: policy 'clinic' is about related tables"):
        pp.transform(tables_of()["visits"], pp.plan(None, policy(folder)))


def test_a_joint_guarantee_over_one_table_is_refused() -> None:
    with pytest.raises(PolicyError, match="it belongs in a policy with `tables:`"):
        pp.Policy.from_dict(
            {"columns": {"age": {"role": "quasi_identifier"}}, "guarantees": [{"joint_k_anonymity": {"k": 2}}]}
        )


def test_a_set_that_would_be_empty_has_no_solution(folder: Path) -> None:
    stages = [{"suppress_persons": {"at_most": 1.0}}]
    asked = [{"joint_k_anonymity": {"k": 121}}, *document()["guarantees"][1:]]
    with pytest.raises(NoSolutionError, match="120 of 120 persons would have to go, which leaves none"):
        pp.release(policy(folder, transform=stages, guarantees=asked))
