"""Yesterday's cuts on tomorrow's records: the same parts, labels that cover their values, or a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError
from privpipe.models import KAnonymity
from privpipe.transforms import Mondrian

SEED = bytes(range(32))
ROLES = pp.Roles(quasi_identifiers=["age", "sex"])
TREE = {"tree": {"*": {f"{ten}s": [str(ten + one) for one in range(10)] for ten in (20, 30, 40, 50)}}}
SEX = {"tree": {"*": ["f", "m"]}}


def people(seed: int, rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"age": rng.integers(20, 60, rows).astype(str), "sex": rng.choice(["f", "m"], rows)})


def fitted(frame: pd.DataFrame, **options: Any) -> pp.FittedStage:
    stage = Mondrian(**options)
    return stage.fit(frame, roles=ROLES, hierarchies={"age": TREE, "sex": SEX}, guarantees=[KAnonymity(k=5)], seed=SEED)


def test_other_records_of_the_same_domain_go_to_the_same_parts() -> None:
    today, tomorrow = people(1, 4000), people(2)
    stage = fitted(today)
    labels = dict(zip(map(tuple, today.to_numpy()), map(tuple, stage.transform(today).to_numpy()), strict=True))
    found = stage.transform(tomorrow)
    assert list(map(tuple, found.to_numpy())) == [labels[tuple(row)] for row in tomorrow.to_numpy()]
    for value, label in zip(tomorrow["age"], found["age"], strict=True):
        assert label in ("*", value, f"{value[0]}0s")


def test_a_value_is_covered_by_its_label_or_counted() -> None:
    whole, refused = people(1, 1000), []
    for value in map(str, range(20, 60)):
        stage = fitted(whole[whole["age"] != value])
        tomorrow = pd.DataFrame({"age": [value, value], "sex": ["f", "m"]})
        try:
            assert set(stage.transform(tomorrow)["age"]) <= {"*", f"{value[0]}0s", value}
        except DataError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 40
    assert all("value of 'age' that the label of their part does not cover" in text for text in refused)


def test_codes_of_values_serve_no_other_values() -> None:
    today = people(1).astype({"age": int})
    stage = Mondrian(columns=["age", "sex"]).fit(today, roles=ROLES, guarantees=[KAnonymity(k=5)], seed=SEED)
    pd.testing.assert_frame_equal(stage.transform(today), stage.transform(today.copy()))
    with pytest.raises(DataError, match="'age' are not those the plan was made with, and a plan holds codes"):
        stage.transform(people(2, 30).astype({"age": int}))


def test_a_relaxed_tree_speaks_of_its_records() -> None:
    today = people(1)
    stage = fitted(today, mode="relaxed")
    with pytest.raises(DataError, match="refers to the records it was learnt from"):
        stage.transform(people(2))
