"""Reference figures of tables, a test for each case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FIGURES = Path(__file__).resolve().parents[3] / "shared" / "reference" / "tables.json"
ABSENT = "reference figures (../shared/reference/tables.json) are not next to the project"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A fixture `<kind>_row` is each reference case of that kind; without the figures one test is skipped by name."""
    for fixture in metafunc.fixturenames:
        if fixture.endswith("_row"):
            kind = fixture.removesuffix("_row")
            cases = json.loads(FIGURES.read_text())["cases"] if FIGURES.exists() else []
            found = [pytest.param(case, id=case["id"]) for case in cases if case["kind"] == kind]
            absent = [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="absent")]
            metafunc.parametrize(fixture, found or absent)
