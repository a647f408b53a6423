"""The clinic: what is published is counted again by a program of the test that knows the keys of its source."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
CLINIC = PIPELINES / "clinic"
ENGINES = [
    "embedded",
    pytest.param("dask", marks=[pytest.mark.dask, pytest.mark.deep]),
    pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep]),
]


def source(name: str) -> list[dict[str, str]]:
    with (CLINIC / "data" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def band(age: str) -> str:
    """The age as it is released."""
    low = int(age) // 40 * 40
    return f"{low}-{low + 39}"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_clinic_publishes(tmp_path: Path, engine: str) -> None:
    result = pp.release(CLINIC / "release.yaml", engine=engine, target=tmp_path / "clinic")
    tables = {name: pp.read_release(tmp_path / "clinic", table=name) for name in ("patients", "visits", "drugs")}
    assert [table.column_names for table in tables.values()] == [
        ["age", "sex", "town", "illness"],
        ["ward", "quarter"],
        ["substance"],
    ]
    patients = Counter((row["age"], row["sex"], row["town"]) for row in tables["patients"].to_pylist())
    assert min(patients.values()) >= 5
    before = Counter((band(row["age"]), row["sex"], row["town"]) for row in source("patients"))
    assert patients <= before
    assert len(tables["patients"]) >= 0.9 * 1_500
    assert len(tables["visits"]) <= len(source("visits"))
    assert [verdict.outcome for verdict in result.assessment.verdicts] == ["pass", "pass", "pass"]


def test_the_data_of_the_clinic_is_what_its_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__file__": str(tmp_path / "prepare.py"), "__name__": "prepare"}
    exec(compile((CLINIC / "prepare.py").read_text(encoding="utf-8"), "prepare.py", "exec"), scope)
    scope["main"]()
    for name in ("patients", "visits", "drugs"):
        assert (tmp_path / "data" / f"{name}.csv").read_bytes() == (CLINIC / "data" / f"{name}.csv").read_bytes()
