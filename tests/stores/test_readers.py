"""Spark reads a release as the page on object stores says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from tests.object_store import ObjectStore

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "object-stores.md"


@pytest.mark.spark
def test_spark_reads_a_release(
    store: ObjectStore, document: dict[str, Any], spark_engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pp.release({**document, "sink": {"path": "s3://lake/visits"}})
    code = PAGE.read_text(encoding="utf-8").split("```python spark\n")[1].split("```")[0]
    names: dict[str, Any] = {"spark": spark_engine.session, "pp": pp}
    monkeypatch.chdir(tmp_path)
    exec(code.replace('"visits")', f'"{tmp_path}/visits")'), names)
    assert sorted(map(tuple, names["frame"].collect())) == sorted(map(tuple, names["same"].collect()))
