"""How near released rows come to original records, beside records that were never in the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks.table_files import TableFiles
from privpipe.engines import Engine
from privpipe.errors import UsageError
from privpipe.measures import ClosestRecord

from .test_membership_attack import TREE, judged, tables


def test_copies_and_other_people(embedded: Engine, tmp_path: Path) -> None:
    original, holdout = tables()
    pq.write_table(holdout, tmp_path / "holdout.parquet")
    path = str(tmp_path / "holdout.parquet")
    copies = judged(embedded, ClosestRecord(holdout=path, at_least=0.5), original, original.slice(0, 200))
    assert (copies.outcome, copies.observed["ratio"], copies.observed["copies"]) == ("fail", 0.0, 1.0)
    other = judged(embedded, ClosestRecord(holdout=path, at_least=0.2, sample=None), original, tables(seed=77)[0])
    assert other.outcome == "pass"
    x, y, h = (np.column_stack([t["a"], t["b"]]) for t in (original, tables(seed=77)[0], holdout))
    sd = x.std(axis=0, ddof=1)
    near = [np.sqrt((((side[:, None] - x[None]) / sd) ** 2).sum(axis=2)).min(axis=1) for side in (y, h)]
    assert other.observed["released"] == pytest.approx(np.quantile(near[0], 0.05))
    assert other.observed["ratio"] == pytest.approx(np.quantile(near[0], 0.05) / np.quantile(near[1], 0.05))


def test_labels_are_copies_of_what_they_cover() -> None:
    files = TableFiles(
        original=pa.table({"town": ["Bonn", "Graz"], "age": [20.0, 40.0]}),
        released=pa.table({"town": ["Europe", "Europe"], "age": [20.0, 40.0]}),
        holdout=pa.table({"town": ["Pune", "Bonn"], "age": [20.0, 25.0]}),
        hierarchies={"town": TREE},
    )
    near = ClosestRecord(holdout="h", sample=None).judge_tables(files)
    assert near.observed["copies"] == 1.0
    assert near.observed["holdout"] == pytest.approx(np.quantile([0.5, 0.125], 0.05))


def test_without_a_holdout_nothing_is_judged(embedded: Engine) -> None:
    original, _ = tables(20)
    verdict = judged(embedded, ClosestRecord(at_least=0.0), original, original)
    assert (verdict.outcome, verdict.observed["copies"]) == ("error", 1.0)
    ill: list[dict[str, Any]] = [{"at_least": -1}, {"sample": 0}, {"columns": ("a", "a")}]
    for each in ill:
        with pytest.raises(UsageError):
            ClosestRecord(**each)
