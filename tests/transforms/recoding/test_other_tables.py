"""Yesterday's levels on tomorrow's rows: the definition of a hierarchy decides, not the values it happened to see."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError
from privpipe.transforms import Generalize

SEED = bytes(range(32))
ROLES = pp.Roles(quasi_identifiers=["zip"])
TODAY = pd.DataFrame({"zip": ["0811", "0812", "82", None]})


def fitted(**options: Any) -> pp.FittedStage:
    hierarchies = {"zip": {"redact": {"keep": "left"}, **options}}
    return Generalize(levels={"zip": 1}).fit(TODAY, roles=ROLES, hierarchies=hierarchies, seed=SEED)


def test_new_values_get_the_labels_that_the_old_ones_would() -> None:
    out = fitted().transform(pd.DataFrame({"zip": ["0811", "9", "0777"]}))
    assert out["zip"].tolist() == ["081*", "9***", "077*"]
    assert fitted().transform(TODAY)["zip"].tolist() == ["081*", "081*", "82**", None]


def test_a_longer_value_goes_by_the_rule_for_unknown_ones() -> None:
    tomorrow = pd.DataFrame({"zip": ["0811", "12345", "12345"]})
    with pytest.raises(DataError, match="1 distinct values \\(2 records\\)") as caught:
        fitted().transform(tomorrow)
    assert "12345" not in str(caught.value)
    assert fitted(unknown="root").transform(tomorrow)["zip"].tolist() == ["081*", "*", "*"]


def test_the_same_plan_comes_of_the_same_definition_and_another_is_refused() -> None:
    other = pd.DataFrame({"zip": ["0999", "1"]})
    hierarchies = {"zip": {"redact": {"keep": "left"}}}
    again = Generalize(levels={"zip": 1}).fit(other, roles=ROLES, hierarchies=hierarchies, seed=SEED)
    digests = [each.plan["stages"][0]["detail"]["hierarchies"] for each in (fitted(), again)]
    assert digests[0] == digests[1]
    hierarchies = {"zip": {"redact": {"keep": "right"}}}
    another = Generalize(levels={"zip": 1}).fit(other, roles=ROLES, hierarchies=hierarchies, seed=SEED)
    assert another.plan["stages"][0]["detail"]["hierarchies"] != digests[0]


def test_the_public_plan_shows_no_length() -> None:
    roles = pp.Roles(quasi_identifiers=["zip"])
    policy = pp.Policy(
        roles=roles,
        hierarchies={"zip": {"redact": {"keep": "left"}}},
        transform=[Generalize(levels={"zip": 4})],
        guarantees=[pp.models.KAnonymity(k=2)],
        seed=SEED,
    )
    plan = pp.plan(TODAY.dropna(), policy)
    assert plan.stages[0].detail["lengths"] == {"zip": 4}
    assert plan.stages[0].public().detail == {"levels": {"zip": 4}}
