"""A stage that suppresses after one that left no record ends the run by a clear error, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError

STAGES: dict[str, dict[str, Any]] = {
    "records": {"suppress_records": {"suppress_at_most": 1.0}},
    "households": {"suppress_records": {"suppress_at_most": 1.0, "whole": "households"}},
    "cells": {"suppress_cells": {}},
    "cells by programs": {"suppress_cells": {"method": "optimal"}},
}


@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
def test_nothing_is_suppressed_of_nothing(stage: dict[str, Any], engine: Engine, tmp_path: Path) -> None:
    pd.DataFrame({"home": ["a"], "town": ["b"]}).to_parquet(tmp_path / "people.parquet")
    document = {
        "source": {"path": "people.parquet"},
        "columns": {"home": {"role": "identifier"}, "town": {"role": "quasi_identifier"}},
        "household_id": "home",
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "transform": [{"sample": {"fraction": 1e-6}}, stage, {"drop_identifiers": {}}],
        "sink": {"path": "out"},
        "seed": {"insecure": 7},
        "allow_insecure_seed": True,
    }
    with pytest.raises(NoSolutionError, match="no record is left"):
        pp.release(pp.Policy.from_dict(document, base_dir=tmp_path), engine=engine)
    assert not (tmp_path / "out").exists()
