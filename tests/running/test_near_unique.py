"""A quasi-identifier of too many values is refused before its hierarchy is built, with what it would need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.errors import EngineError
from privpipe.running import attached_source


def policy(values: list[str], tmp_path: Path) -> Any:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"code": values, "ill": ["u", "w"] * (len(values) // 2)}), tmp_path / "data.parquet")
    return pp.Policy.from_dict(
        {
            "version": 1,
            "name": "texts",
            "source": {"path": str(tmp_path / "data.parquet")},
            "columns": {
                "code": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
                "ill": {"role": "sensitive"},
            },
            "transform": [{"generalize": {"levels": {"code": 5}}}],
            "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "ill", "l": 1}}],
            "sink": {"path": str(tmp_path / "released")},
            "seed": {"insecure": 7},
            "allow_insecure_seed": True,
        }
    )


def test_near_unique_texts_are_refused_with_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached_source, "LEAST_RECORDS", 100)
    monkeypatch.setattr(attached_source, "VALUE_BYTES", 10**12)
    texts = [f"secret{at:04d}" for at in range(400)]
    with pytest.raises(
        EngineError, match=r"column 'code' has some \d+ distinct values.*GB.*raise `memory_limit`"
    ) as told:
        pp.release(policy(texts, tmp_path))
    assert "secret" not in str(told.value)
    assert not (tmp_path / "released").exists()


def test_texts_that_fit_are_released(tmp_path: Path) -> None:
    assert pp.release(policy([f"ab{at:04d}" for at in range(400)], tmp_path)).published
