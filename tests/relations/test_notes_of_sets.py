"""Notes on related tables: columns under no guarantee, thresholds that protect no one, repeated facts, other files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp

PATIENTS = pd.DataFrame({"id": [1, 2, 3, 4], "town": ["a", "a", "b", "b"], "ill": ["x", "y", "x", "y"]})
VISITS = pd.DataFrame({"id": [1, 2, 3, 4], "ward": ["w"] * 4, "town": ["a", "a", "b", "b"]})


def document(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "tables": {
            "patients": {
                "source": {"path": "patients.parquet"},
                "key": "id",
                "columns": {
                    "id": {"role": "identifier"},
                    "town": {"role": "quasi_identifier"},
                    "ill": {"role": "sensitive"},
                },
                "guarantees": [{"k_anonymity": {"k": 2}}],
            },
            "visits": {
                "source": {"path": "visits.parquet"},
                "columns": {
                    "id": {"role": "identifier"},
                    "ward": {"role": "quasi_identifier"},
                    "town": {"role": "insensitive"},
                },
            },
        },
        "relations": [{"from": "visits.id", "to": "patients"}],
        "guarantees": [{"joint_k_anonymity": {"k": 2}}, {"joint_alpha": {"column": "patients.ill", "alpha": 0.5}}],
        **changes,
    }


def notes(**changes: Any) -> tuple[str, ...]:
    judged = pp.assess({"patients": PATIENTS, "visits": VISITS}, document(**changes))
    assert judged.passed
    return judged.notes


def test_a_fact_that_two_tables_tell_is_named_and_a_key_is_not() -> None:
    shared = [note for note in notes() if note.startswith("column ")]
    where = "where it is one fact, an attacker knows the finer of the two forms"
    assert shared == [f"column 'town' is in 'patients' and 'visits': {where}"]


def test_what_a_joint_guarantee_looks_at_is_not_noted() -> None:
    assert not any("no guarantee looks at" in note or "protects no one" in note for note in notes())


@pytest.mark.parametrize(
    ("guarantees", "expected"),
    [
        (
            [("k_anonymity", {"k": 2, "knows": {"visits": 0}})],
            "no guarantee looks at the quasi-identifier 'visits.ward'",
        ),
        ([("k_anonymity", {"k": 1})], "joint_k_anonymity with k = 1 protects no one"),
        ([("t_closeness", {"column": "patients.ill", "t": 1.0})], "joint_t_closeness with t = 1 protects no one"),
    ],
)
def test_what_protects_no_one_is_noted(guarantees: list[tuple[str, dict[str, Any]]], expected: str) -> None:
    alpha = {"joint_alpha": {"column": "patients.ill", "alpha": 0.5, "knows": {"visits": 0}}}
    assert expected in notes(guarantees=[alpha, *({f"joint_{name}": asked} for name, asked in guarantees)])


def test_hidden_files_of_a_finished_table_are_counted(tmp_path: Path) -> None:
    for name, frame in {"patients": PATIENTS, "visits": VISITS}.items():
        (tmp_path / name).mkdir()
        frame.to_parquet(tmp_path / name / "part.parquet")
    assert not any("files" in note for note in pp.validate(tmp_path, document()).notes)
    VISITS.to_parquet(tmp_path / "visits" / ".old.parquet")
    found = [note for note in pp.validate(tmp_path, document()).notes if "not judged: 1 hidden" in note]
    assert found == ["table 'visits': readers get 1 file with the table that were not judged: 1 hidden"]
    PATIENTS.to_parquet(tmp_path / ".patients.parquet")
    (tmp_path / ".empty").touch()
    assert "readers get 1 file with the table that were not judged: 1 hidden" in pp.validate(tmp_path, document()).notes
