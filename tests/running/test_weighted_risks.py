"""A release that is k-anonymous and too risky by its sampling weights, or by its special uniques, is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, Refused


@pytest.fixture
def weighted(document: dict[str, Any], people: Path) -> dict[str, Any]:
    """The people with weights and households that are not released."""
    head, *lines = people.read_text(encoding="utf-8").splitlines()
    told = [f"{line};{1.5 + at % 7};house {at // 3}" for at, line in enumerate(lines)]
    people.write_text("\n".join([f"{head};weight;house", *told]) + "\n", encoding="utf-8")
    found = copy.deepcopy(document)
    found["columns"]["weight"] = {"role": "identifier", "type": "number"}
    found["columns"]["house"] = {"role": "identifier"}
    return found


def published(document: dict[str, Any]) -> bool:
    return Path(document["sink"]["path"]).exists()


@pytest.mark.parametrize(
    "gate",
    [
        {"individual_risk": {"weight": "weight", "at_most": 0.001}},
        {"individual_risk": {"weight": "weight", "household": "house", "figure": "max", "at_most": 0.01}},
        {"special_uniques": {"columns": ["age", "town", "income"], "at_most": 0.001}},
        {"loglinear_risk": {"weight": "weight", "formula": "age + town + income", "at_most": 0.01}},
    ],
    ids=lambda gate: next(iter(gate)),
)
def test_k_anonymity_is_not_enough(weighted: dict[str, Any], gate: dict[str, Any]) -> None:
    weighted["guarantees"].append(gate)
    with pytest.raises(Refused) as caught:
        pp.release(weighted)
    outcomes = {verdict.name: verdict.outcome for verdict in caught.value.assessment.verdicts}
    assert outcomes["k_anonymity"] == "pass"
    assert outcomes[next(iter(gate))] == "fail"
    assert not published(weighted)


def test_weights_and_households_judge_a_release_that_does_not_hold_them(weighted: dict[str, Any]) -> None:
    weighted["guarantees"].append({"individual_risk": {"weight": "weight", "household": "house", "at_most": 0.5}})
    weighted["measures"] = [{"individual_risk": {"weight": "weight"}}]
    result = pp.release(weighted)
    assert result.assessment.passed
    kept = pq.read_table(result.path)
    assert not {"weight", "house", "name"} & set(kept.schema.names)
    mean = result.assessment.measures[0].observed["mean"]
    assert 0 < mean < result.assessment.verdicts[-1].observed["mean"]


def test_rows_of_the_mark_have_no_weight(weighted: dict[str, Any]) -> None:
    weighted["columns"]["weight"]["role"] = "insensitive"
    weighted["guarantees"] = [
        {"k_anonymity": {"k": 5}},
        {"distinct_l_diversity": {"column": "illness", "l": 1}},
        {"individual_risk": {"weight": "weight", "at_most": 0.5}},
        {"loglinear_risk": {"weight": "weight", "formula": "age + town", "at_most": 1, "if_no_uniques": "pass"}},
    ]
    weighted["columns"]["age"]["hierarchy"] = {"intervals": {"start": 20, "widths": [5, 10, 20]}}
    weighted["transform"] = [{"generalize": {"search": "optimal", "suppress_at_most": 0.05, "mark": True}}]
    result = pp.release(weighted)
    assert result.assessment.passed
    kept = pq.read_table(result.path)
    assert kept["weight"].null_count == result.assessment.suppressed_records


def test_a_weight_must_be_declared(weighted: dict[str, Any]) -> None:
    weighted["guarantees"].append({"individual_risk": {"weight": "wait", "at_most": 0.5}})
    with pytest.raises(PolicyError, match="'wait' is not among"):
        pp.Policy.from_dict(weighted)
