"""Releases whose cells have levels of their own, from the policy to the published files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import NoSolutionError
from privpipe.running.plan import Plan

STAGES: dict[str, dict[str, Any]] = {
    "mondrian": {"mondrian": {"k": 6}},
    "by values": {"mondrian": {"columns": ["age", "town"], "score": "loss", "labels": "values"}},
    "relaxed": {"mondrian": {"mode": "relaxed"}},
    "local recoding": {"local_recoding": {"suppress_at_most": 0.05}},
    "merged rest": {"local_recoding": {"rest": "merge", "share": 0.3}},
}


@pytest.mark.parametrize("name", STAGES)
def test_published_and_judged(document: dict[str, Any], tmp_path: Path, name: str) -> None:
    document["transform"] = [document["transform"][0], STAGES[name]]
    document["guarantees"] = [
        {"k_anonymity": {"k": 5}},
        {"distinct_l_diversity": {"column": "illness", "l": 3}},
        {"t_closeness": {"column": "illness", "t": 0.45}},
    ]
    document["measures"] = []
    document["sink"] = {"path": str(tmp_path / "published"), "format": "parquet"}
    result = pp.release(pp.Policy.from_dict(document))
    assert result.assessment.passed
    rows = pq.read_table([str(file) for file in sorted(Path(result.path).glob("*.parquet"))])
    sizes = Counter(zip(rows.column("age").to_pylist(), rows.column("town").to_pylist(), strict=True))
    assert len(sizes) > 2
    assert min(sizes.values()) >= (6 if name == "mondrian" else 5)
    assert result.plan.loss == result.plan.stages[-1].detail["cell_loss"]
    assert len(rows) + result.plan.suppressed_records == 400
    assert Plan.from_json(result.plan.to_json()).digest == result.plan.digest
    written = Path(result.record, "plan.json").read_text(encoding="utf-8")
    assert not any(value in written for value in ("Ashford", "gout", "Quokkaville"))


def test_what_cannot_be_met_publishes_nothing(document: dict[str, Any], tmp_path: Path) -> None:
    document["guarantees"] = [{"distinct_l_diversity": {"column": "illness", "l": 50}}]
    document["sink"] = {"path": str(tmp_path / "published"), "format": "parquet"}
    for stage in ({"mondrian": {}}, {"local_recoding": {"suppress_at_most": 1.0}}):
        document["transform"] = [stage]
        with pytest.raises(NoSolutionError):
            pp.release(pp.Policy.from_dict(document))
        assert not (tmp_path / "published").exists()
