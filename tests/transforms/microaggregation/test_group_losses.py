"""What a plan says of its groups: the loss of what is released, and a bound, or nothing where none was looked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privpipe as pp
from privpipe.kernels.microaggregation import lower_bound

SEED = "00112233445566778899aabbccddeeff"
VALUES = np.random.default_rng(8).normal(size=(60, 2))
ROWS = pa.table({"row": range(60), "a": VALUES[:, 0], "b": VALUES[:, 1], "area": ["x", "y"] * 30})


def planned(**wanted: Any) -> dict[str, Any]:
    stage = {"columns": [["a", "b"]], "k": 3, "refine": "proof", "iterations": 300, **wanted}
    policy = {
        "seed": SEED,
        "record_id": "row",
        "columns": {
            "row": {"role": "identifier"},
            **{name: {"role": "quasi_identifier"} for name in ("a", "b")},
            "area": {"role": "insensitive"},
        },
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "transform": [{"microaggregate": stage}],
    }
    plan = pp.plan(ROWS, policy, losses=False).to_dict()
    detail: dict[str, Any] = plan["stages"][0]["detail"]
    return detail


def test_a_plan_says_how_near_its_groups_are_to_the_best() -> None:
    detail = planned()
    assert 0 < detail["lower_bound"] <= detail["loss"]
    assert 0 <= detail["above_bound"] <= 5
    assert detail["loss"] <= detail["lower_bound"] * (1 + detail["above_bound"] / 100) * (1 + 1e-3)
    again = planned()
    assert {name: again[name] for name in ("loss", "lower_bound", "above_bound")} == {
        name: detail[name] for name in ("loss", "lower_bound", "above_bound")
    }
    assert planned(by=["area"])["lower_bound"] >= 0.9 * detail["lower_bound"]


@pytest.mark.parametrize(
    "wanted",
    [{"refine": "search"}, {"k": 6}, {"refine": "descent", "iterations": "auto"}, {"block": 20}, {"ties": "position"}],
    ids=repr,
)
def test_nothing_is_said_where_no_bound_is_looked_for(wanted: dict[str, Any]) -> None:
    assert "losses" not in planned(**wanted)
    assert "above_bound" not in planned(**wanted)


def test_no_bound_is_stated_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def given(points: Any, labels: Any, k: int, stream: Any, *, iterations: Any = None) -> lower_bound.Proof:
        return lower_bound.Proof(labels, 0.0)

    monkeypatch.setattr("privpipe.kernels.microaggregation.blocks.proved_search", given)
    detail = planned()
    assert detail["loss"] > 0
    assert detail["lower_bound"] is None
    assert detail["above_bound"] is None
