"""A report shows the same on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from tests.report.conftest import document

ENGINES = ("dask", "spark")
OF_THE_RUN = ("run",)


@pytest.fixture(scope="module")
def expected(home: Path) -> dict[str, Any]:
    return shown(home, "embedded")


def shown(home: Path, engine: Any) -> dict[str, Any]:
    """All but what names the run."""
    name = engine if isinstance(engine, str) else engine.name
    result = pp.release(document(home), engine=engine, target=str(home / f"on-{name}" / "people"))
    found = ReportData.of(RunDocuments.read(result.record)).to_dict()
    return {name: value for name, value in found.items() if name not in OF_THE_RUN}


def test_dask_shows_what_embedded_shows(home: Path, dask_engine: Any, expected: dict[str, Any]) -> None:
    assert shown(home, dask_engine) == expected


@pytest.mark.deep
def test_spark_shows_what_embedded_shows(home: Path, spark_engine: Any, expected: dict[str, Any]) -> None:
    assert shown(home, spark_engine) == expected
