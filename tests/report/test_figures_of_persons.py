"""Pages show no figure that rests on few persons, however many rows these have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments

ROWS = 8


def visits() -> pd.DataFrame:
    """Three hundred persons of one row each, and one of eight rows of a trade of her own."""
    rng = np.random.default_rng(4)
    rest = {
        "pid": [f"p{at}" for at in range(300)],
        "home": [f"h{at // 2}" for at in range(300)],
        "town": rng.choice(["aa", "bb"], 300),
        "trade": rng.choice(["baker", "smith", "tailor"], 300),
        "cost": rng.normal(3000, 400, 300).round(2),
    }
    one = {"pid": "pX", "home": "hX", "town": "aa", "trade": "falconer", "cost": 99_000.0}
    return pd.concat([pd.DataFrame(rest), pd.DataFrame([one] * ROWS)], ignore_index=True)


def report(tmp_path: Path, **changes: Any) -> ReportData:
    visits().to_parquet(tmp_path / "visits.parquet")
    document = {
        "name": "visits",
        "columns": {
            "pid": {"role": "identifier"},
            "home": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "trade": {"role": "insensitive"},
            "cost": {"role": "insensitive"},
        },
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "source": {"path": "visits.parquet"},
        "sink": {"path": "out"},
        **changes,
    }
    result = pp.release(pp.Policy.from_dict(document, base_dir=tmp_path))
    return ReportData.of(RunDocuments.read(result.record))


def labels(data: ReportData) -> set[str]:
    return {line["label"] for column in data.distributions.values() for line in column["lines"]}


HOMES = {"household_id": "home", "guarantees": [{"k_anonymity": {"k": 5, "over": "households"}}]}


@pytest.mark.parametrize("keys", [{"person_id": "pid"}, HOMES], ids=["persons", "households"])
def test_a_line_rests_on_persons(tmp_path: Path, keys: dict[str, Any]) -> None:
    """Eight rows of one person are eight records and one person."""
    assert "falconer" in labels(report(tmp_path))
    data = report(tmp_path, **keys, sink={"path": "persons"})
    assert data.threshold == 5 * ROWS
    assert "falconer" not in labels(data)
    counts = [count for column in data.distributions.values() for line in column["lines"] for count in line["counts"]]
    assert counts
    assert all(not count or count >= 5 * ROWS for count in counts)


def test_records_that_are_drawn_are_not_compared_with_persons(tmp_path: Path) -> None:
    drawn = {
        "person_id": "pid",
        "transform": [{"synthesize": {"method": "copula"}}],
        "guarantees": [{"k_anonymity": {"k": 5, "over": "records"}}],
    }
    data = report(tmp_path, **drawn)
    assert data.threshold == 5 * ROWS
    assert data.classes is not None
    assert data.classes["sides"] == ["after"]
