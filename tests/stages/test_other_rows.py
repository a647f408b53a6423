"""A fitted generalization recodes rows that it was not learnt from, judges none of them, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize

SEED = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
HIERARCHIES: dict[str, Any] = {
    "age": {"intervals": {"start": 0, "widths": [5, 10, 20, 40]}},
    "zip": {"redact": {"keep": "left"}},
}
ROLES = pp.Roles(quasi_identifiers=["age", "zip"], sensitive=["ill"])
WAYS: list[dict[str, Any]] = [
    {"search": "optimal"},
    {"search": "optimal", "suppress_at_most": 0.05},
    {"levels": {"age": 2, "zip": 1}, "suppress_at_most": 0.1},
]


def rows(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ages, zips = rng.integers(20, 60, 200), rng.choice(["081", "082", "171"], 200)
    return pd.DataFrame({"age": ages, "zip": zips, "ill": rng.choice(["a", "b"], 200)})


def fitted(way: dict[str, Any], engine: str) -> Any:
    options: Any = {"roles": ROLES, "hierarchies": HIERARCHIES, "guarantees": [KAnonymity(k=5)], "engine": engine}
    return Generalize(**way).fit(rows(), seed=SEED, **options)


@pytest.mark.parametrize("engine", ["embedded", pytest.param("dask", marks=pytest.mark.dask)])
@pytest.mark.parametrize("way", WAYS, ids=repr)
@pytest.mark.parametrize("records", [1, 20, 199])
def test_a_part_of_the_rows_is_recoded_and_not_judged(way: dict[str, Any], records: int, engine: str) -> None:
    stage = fitted(way, engine)
    part = rows()[:records]
    with pytest.warns(UserWarning, match="recoded by the plan and not judged"):
        out = stage.transform(part)
    assert len(out) == records  # none is suppressed
    whole = stage.transform(rows())
    labels = {(*raw, *label) for raw, label in zip(_keys(part), _keys(out), strict=True)}
    assert len(labels) == len(set(_keys(part)))  # a label is a function of the value
    assert set(_keys(whole)) & set(_keys(out))


def test_the_rows_that_were_fitted_are_judged_as_before() -> None:
    stage = fitted(WAYS[1], "embedded")
    out = stage.transform(rows())
    assert pp.k_anonymity(out, ["age", "zip"]) >= 5


def test_a_policy_over_other_rows_still_suppresses() -> None:
    """What is not judged is a stage by itself: the stage in a policy works for its guarantees on every table."""
    columns = {
        "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": HIERARCHIES["age"]},
        "zip": {"role": "quasi_identifier", "hierarchy": HIERARCHIES["zip"]},
        "ill": {"role": "insensitive"},
    }
    transform = [{"generalize": {"levels": {"age": 2, "zip": 1}, "suppress_at_most": 0.9}}]
    document = {"columns": columns, "transform": transform, "guarantees": [{"k_anonymity": {"k": 12}}]}
    policy = pp.Policy.from_dict({**document, "seed": {"insecure": 7}, "allow_insecure_seed": True})
    assert pp.k_anonymity(policy.apply(rows(3)), ["age", "zip"]) >= 12


def _keys(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(frame[["age", "zip"]].itertuples(index=False, name=None))
