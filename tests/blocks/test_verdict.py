"""Verdicts: pass, fail and error are three things, and JSON is plain."""

from __future__ import annotations

import json

import numpy as np
import pytest

from privpipe.blocks import Verdict
from privpipe.blocks.verdict import plain
from privpipe.models import KAnonymity, TCloseness


@pytest.mark.parametrize(("outcome", "passed"), [("pass", True), ("fail", False), ("error", False)])
def test_only_a_pass_passes(outcome: str, passed: bool) -> None:
    assert Verdict(KAnonymity(k=2), 2, outcome).passed is passed  # type: ignore[arg-type]


def test_a_verdict_is_a_row_of_the_document() -> None:
    model = TCloseness(column="illness", t=0.2, base={"file": "census.csv"})
    verdict = Verdict(model, np.float64(0.25), "fail", 0.2, 1, 5, 0.5, "observed 0.25.")
    row = json.loads(json.dumps(verdict.to_dict()))
    assert row["name"] == "t_closeness"
    assert row["parameters"] == {"column": "illness", "t": 0.2, "distance": "equal", "base": {"file": "census.csv"}}
    assert (row["observed"], row["threshold"], row["failing_classes"]) == (0.25, 0.2, 1)
    assert set(verdict.to_measure()) == {"name", "parameters", "observed", "reason"}
    assert str(verdict).startswith("FAIL  TCloseness(")


def test_plain_knows_arrays_and_no_infinity() -> None:
    value = {"a": np.array([1, 2]), 3: (np.int64(4), float("nan")), "set": {5}, "text": "x", "no": None}
    assert plain(value) == {"a": [1, 2], "3": [4, None], "set": [5], "text": "x", "no": None}
