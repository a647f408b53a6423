"""Compositions of households: an oracle from the definition, persons of several rows, and every engine."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging import JudgingRules, assess
from privpipe.measures import HouseholdUniqueness, IndividualRisk
from privpipe.models import HouseholdKAnonymity, KAnonymity
from privpipe.roles import Roles
from tests.tiers import at_most


def families(n: int, seed: int, homes: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "home": rng.integers(0, max(1, n // homes), n),
            "who": rng.integers(0, max(1, n // 2), n),
            "age": pd.array(rng.choice([1, 2, None], n), dtype="Int64"),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def compositions(rows: pd.DataFrame, person: bool = False) -> Counter[Any]:
    homes: dict[Any, Counter[Any]] = {}
    for home, own in rows.groupby("home"):
        pairs = [(str(age), sex) for age, sex in zip(own["age"], own["sex"], strict=True)]
        if person:
            people: dict[Any, list[Any]] = {}
            for who, pair in zip(own["who"], pairs, strict=True):
                people.setdefault(who, []).append(pair)
            homes[home] = Counter(tuple(sorted(each)) for each in people.values())
        else:
            homes[home] = Counter(pairs)
    return Counter(frozenset(home.items()) for home in homes.values())


@pytest.mark.parametrize("person", [False, True])
@settings(max_examples=at_most(25))
@given(n=st.integers(1, 60), seed=st.integers(0, 10_000), homes=st.sampled_from([1, 2, 3]))
def test_figures_are_those_of_the_definition(person: bool, n: int, seed: int, homes: int) -> None:
    rows = families(n, seed, homes)
    found = compositions(rows, person)
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "sex"], "household_id": "home"}
    if person:
        asked["person_id"] = "who"
    verdict = HouseholdKAnonymity(k=2).assess(rows, **asked)
    assert verdict.observed == min(found.values())
    assert verdict.failing_records == sum(count for count in found.values() if count < 2)
    share = HouseholdUniqueness(at_most=1).assess(rows, **asked).observed
    assert share == pytest.approx(sum(count == 1 for count in found.values()) / sum(found.values()))


@pytest.mark.parametrize("parts", [1, 4])
def test_every_engine_gives_the_oracle_verdict(engine: Engine, parts: int) -> None:
    rows = families(300, 5)
    found = compositions(rows)
    table = pa.Table.from_pandas(rows.sample(frac=1, random_state=parts), preserve_index=False)
    entries = [HouseholdKAnonymity(k=2), HouseholdUniqueness(), KAnonymity(k=2, over="households")]
    roles = Roles(quasi_identifiers=["age", "sex"], insensitive=["home", "who"])
    judged = assess(
        engine,
        engine.scan(Source(data=table)),
        guarantees=entries,
        roles=roles,
        rules=JudgingRules(household="home"),
    ).verdicts
    classes = rows.astype({"age": object}).fillna({"age": "none"}).groupby(["age", "sex"])["home"].nunique()
    assert [each.observed for each in judged] == [
        min(found.values()),
        pytest.approx(found_alone(found)),
        classes.min(),
    ]


def found_alone(found: Counter[Any]) -> float:
    return sum(count == 1 for count in found.values()) / sum(found.values())


def test_order_and_names_of_columns_tell_nothing_apart() -> None:
    rows = pd.DataFrame({"home": [1, 1, 2, 2], "b": ["x", "y", "y", "x"], "a": ["y", "x", "x", "y"]})
    asked = {"household_id": "home"}
    assert HouseholdKAnonymity(k=2).assess(rows, quasi_identifiers=["b", "a"], **asked).observed == 2
    crossed = pd.DataFrame({"home": [1, 2], "b": ["x", "y"], "a": ["y", "x"]})
    assert HouseholdKAnonymity(k=2).assess(crossed, quasi_identifiers=["b", "a"], **asked).observed == 1


def test_sizes_alone_tell_households_apart() -> None:
    rows = pd.DataFrame({"home": [1, 1, 2], "age": [3, 3, 3]})
    assert KAnonymity(k=2, over="households").assess(rows, quasi_identifiers=["age"], household_id="home").observed == 2
    verdict = HouseholdKAnonymity(k=2, quasi_identifiers=()).assess(rows, household_id="home")
    assert (verdict.outcome, verdict.observed) == ("fail", 1)


def test_a_missing_household_is_an_error_that_counts() -> None:
    rows = pd.DataFrame({"home": [1, None, None], "age": [3, 3, 3]})
    with pytest.raises(DataError, match="2 missing values"):
        HouseholdKAnonymity(k=2).assess(rows, quasi_identifiers=["age"], household_id="home")


def test_wildcards_have_no_compositions() -> None:
    rows = pd.DataFrame({"home": [1, 2], "age": [3, 3]})
    with pytest.raises((UnsupportedError, UsageError)):
        HouseholdKAnonymity(k=2).assess(rows, quasi_identifiers=["age"], household_id="home", nulls="wildcard")


def test_a_household_is_found_with_any_of_its_members() -> None:
    """R_h = 1 - prod(1 - r_i), as sdcMicro shares it; of a class of one r = p ln(1/p) / (1 - p)."""
    rows = pd.DataFrame({"home": [1, 1, 2], "age": [1, 2, 3], "w": [10.0, 20.0, 30.0]})
    own = [p * np.log(1 / p) / (1 - p) for p in (0.1, 0.05, 1 / 30)]
    shared = 1 - (1 - own[0]) * (1 - own[1])
    observed = IndividualRisk(weight="w", household="home").assess(rows, quasi_identifiers=["age"]).observed
    assert observed["mean"] == pytest.approx((2 * shared + own[2]) / 3)
    assert observed["max"] == pytest.approx(shared)


def test_a_verdict_shows_how_many_households_fail() -> None:
    rows = pd.DataFrame({"home": [1, 2, 3, 4, 4], "age": [3, 3, 5, 3, 5]})
    asked = {"quasi_identifiers": ["age"], "household_id": "home"}
    failed = HouseholdKAnonymity(k=2).assess(rows, **asked)
    assert failed.reason == (
        "observed 1, required at least 2, over 3 compositions of 4 households; 2 of 4 households fail."
    )
    assert (failed.failing_classes, failed.failing_share) == (2, 0.5)
    passed = HouseholdKAnonymity(k=1).assess(rows, **asked)
    assert passed.reason == "observed 1, required at least 1, over 3 compositions of 4 households."
    assert passed.failing_share == 0


def test_so_many_households_are_alike_or_nothing_is_asked() -> None:
    assert (HouseholdKAnonymity(k=3).least_alike(), HouseholdKAnonymity().least_alike()) == (3, 0)
