"""Microaggregation over several lists of columns is released next to measures that trust combinations of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine


@pytest.mark.parametrize("entry", [{"special_uniques": {"at_most": 1.0}}, {"individual_risk": {"weight": "w"}}])
def test_it_is_judged_and_the_measure_says_so(engine: Engine, tmp_path: Path, entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    people = pd.DataFrame(
        {"sex": rng.choice(["m", "f"], 60), "age": rng.integers(20, 60, 60), "pay": rng.integers(1, 99, 60), "w": 2.0}
    )
    people.to_parquet(tmp_path / "people.parquet")
    [name] = entry
    gate = "at_most" in entry[name]
    document = {
        "source": {"path": str(tmp_path / "people.parquet")},
        "columns": {
            "sex": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier"},
            "pay": {"role": "quasi_identifier"},
            "w": {"role": "insensitive"},
        },
        "transform": [{"microaggregate": {"columns": [["age"], ["pay"]], "k": 3, "by": ["sex"]}}],
        "guarantees": [{"k_anonymity": {"k": 2, "quasi_identifiers": ["sex"]}}, *([entry] if gate else [])],
        "measures": [] if gate else [entry],
        "sink": {"path": str(tmp_path / "published" / "people")},
    }
    result = pp.release(document, engine=engine)
    assert any(note.startswith(name) and "microaggregate changed" in note for note in result.assessment.notes)
