"""Expectations that count persons and households."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.validated_frames import batch_of

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]

ROWS = pd.DataFrame(
    {
        "home": [1, 1, 2, 2, 3],
        "who": ["a", "b", "c", "c", "d"],
        "age": [30, 40, 40, 30, 30],
        "ill": ["f", "g", "f", "g", "f"],
    }
)


def validated(name: str, **asked: Any) -> dict[str, Any]:
    expectation = ppgx.EXPECTATIONS[name](**{"quasi_identifiers": ["age"], **asked})
    return dict(batch_of(ROWS).validate(expectation).result)


@pytest.mark.parametrize(
    ("name", "asked", "observed"),
    [
        ("k_anonymity", {"k": 2}, 2),
        ("k_anonymity", {"k": 2, "over": "households", "household_id": "home"}, 2),
        ("k_anonymity", {"k": 2, "person_id": "who"}, 2),
        ("household_k_anonymity", {"k": 2, "household_id": "home"}, 1),
        ("household_uniqueness", {"at_most": 0.1, "household_id": "home"}, 1 / 3),
        ("distinct_l_diversity", {"column": "ill", "l": 2, "quasi_identifiers": []}, 2),
        ("distinct_l_diversity", {"column": "ill", "l": 2, "quasi_identifiers": [], "person_id": "who"}, 3),
        (
            "distinct_l_diversity",
            {"column": "ill", "l": 2, "quasi_identifiers": [], "over": "households", "household_id": "home"},
            1,
        ),
        ("t_closeness", {"column": "ill", "t": 0.9, "over": "households", "household_id": "home"}, 0.1),
    ],
)
def test_an_expectation_counts_as_it_is_told(name: str, asked: dict[str, Any], observed: float) -> None:
    assert validated(name, **asked)["observed_value"] == pytest.approx(observed)


def test_without_the_key_it_fails_and_says_why() -> None:
    assert "household_id" in validated("household_k_anonymity", k=2)["details"]["reason"]
