"""Counting households: an oracle from the definition, every combination with persons, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import PolicyError, UnsupportedError, UsageError
from privpipe.models import DistinctLDiversity, KAnonymity, KMap, SampleUniqueness
from tests.tiers import at_most

L = {"distinct_l_diversity": {"column": "illness", "l": 1, "over": "households"}}
OVER = ("records", "persons", "households")


def survey(n: int = 300, seed: int = 7) -> pd.DataFrame:
    """Rows of persons in households; some persons have several rows, some live in two households."""
    rng = np.random.default_rng(seed)
    person = rng.integers(0, n // 2, n)
    household = np.where(rng.random(n) < 0.9, person // 3, rng.integers(0, n // 6, n))
    return pd.DataFrame(
        {
            "who": [f"p{each}" for each in person],
            "home": [f"h{each}" for each in household],
            "town": rng.integers(0, 4, n).astype(str),
            "age": rng.integers(0, 5, n).astype(str),
            "illness": rng.choice(["flu", "cold", "gout"], n),
        }
    )


def policy(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "columns": {
            "who": {"role": "identifier"},
            "home": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
        },
        "person_id": "who",
        "household_id": "home",
        "guarantees": [{"k_anonymity": {"k": 2, "over": "households"}}, L],
        **changes,
    }


def least(rows: pd.DataFrame, over: str) -> int:
    classes: dict[Any, set[Any]] = defaultdict(set)
    column = {"persons": "who", "households": "home"}.get(over)
    for at, row in enumerate(rows.to_dict("records")):
        classes[row["town"], row["age"]].add(at if column is None else row[column])
    return min(map(len, classes.values()))


@pytest.mark.parametrize("over", OVER)
def test_k_counts_different_ones_of_those_it_is_over(over: str) -> None:
    rows = survey()
    verdict = KAnonymity(k=2, over=over).assess(
        rows, quasi_identifiers=["town", "age"], person_id="who", household_id="home"
    )
    assert verdict.observed == least(rows, over)


@pytest.mark.deep
@settings(max_examples=at_most(15))
@given(st.integers(0, 10_000), st.integers(10, 80))
def test_k_over_households_is_never_weaker(seed: int, n: int) -> None:
    rows = survey(n, seed)
    keys = {"quasi_identifiers": ["town", "age"], "household_id": "home", "person_id": "who"}
    observed = [KAnonymity(over=over).assess(rows, **keys).observed for over in OVER]
    assert observed[2] <= observed[0]
    assert observed[1] <= observed[0]


def test_one_policy_counts_each_in_its_own_way(tmp_path: Path) -> None:
    rows = survey()
    rows.to_parquet(tmp_path / "survey.parquet")
    asked = policy(
        source={"path": "survey.parquet"},
        sink={"path": "out"},
        measures=[
            *({"k_anonymity": {"over": over}} for over in OVER),
            {"k_anonymity": {}},
            {"t_closeness": {"column": "illness", "over": "households"}},
            {"t_closeness": {"column": "illness", "over": "records"}},
        ],
    )
    found = pp.release(pp.Policy.from_dict(asked, base_dir=tmp_path)).assessment
    observed = [verdict.observed for verdict in found.measures]
    assert observed[:4] == [*(least(rows, over) for over in OVER), least(rows, "persons")]
    assert observed[4] == pytest.approx(_farthest(rows, "home"))
    assert observed[5] == pytest.approx(_farthest(rows, None))
    assert found.records == len(rows)
    assert set(pd.read_parquet(tmp_path / "out").columns) == {"town", "age", "illness"}


def _farthest(rows: pd.DataFrame, unit: str | None) -> float:
    """t over equal distances: half the sum of differences of shares, of those who have a value once each."""
    if unit is not None:
        whole = rows.drop_duplicates([unit, "illness"])["illness"].value_counts(normalize=True)
    else:
        whole = rows["illness"].value_counts(normalize=True)
    found = 0.0
    for _, own in rows.groupby(["town", "age"]):
        once = own if unit is None else own.drop_duplicates([unit, "illness"])
        shares = once["illness"].value_counts(normalize=True).reindex(whole.index, fill_value=0)
        found = max(found, float((shares - whole).abs().sum() / 2))
    return found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"household_id": "town"}, "must have the role identifier"),
        ({"household_id": "who"}, "is the column of person_id too"),
        ({"household_id": "hom"}, "did you mean 'home'"),
        ({"household_id": None}, "counts over households, and nothing distinguishes them"),
        ({"guarantees": [{"k_anonymity": {"k": 2, "over": "houses"}}, L]}, "over"),
        ({"guarantees": [{"k_map": {"k": 2, "over": "households"}}, L], "population": {"path": "x"}}, "counts records"),
    ],
)
def test_what_a_policy_cannot_mean_is_refused(changes: dict[str, Any], said: str) -> None:
    asked = {name: value for name, value in policy(**changes).items() if value is not None}
    with pytest.raises(PolicyError, match=said):
        pp.Policy.from_dict(asked)


def test_stages_that_suppress_work_for_guarantees_that_count_alike() -> None:
    asked = policy(
        transform=[{"suppress_records": {"suppress_at_most": 0.5}}],
        guarantees=[{"k_anonymity": {"k": 2, "over": "households"}}, {"k_anonymity": {"k": 3}}, L],
    )
    with pytest.raises(UnsupportedError, match="give all the same `over`"):
        pp.Policy.from_dict(asked)


def test_an_entry_that_compares_with_a_population_counts_records() -> None:
    with pytest.raises(UsageError, match="counts records"):
        KMap(k=2, over="households")


def test_a_missing_household_is_refused_where_households_are_counted() -> None:
    rows = survey()
    rows.loc[3, "home"] = None
    with pytest.raises(pp.errors.DataError, match="'home' has missing values"):
        KAnonymity(k=2, over="households").assess(rows, quasi_identifiers=["town"], household_id="home")


def test_a_missing_household_is_named_by_the_stage_that_counts_households(engine: Engine, tmp_path: Path) -> None:
    rows = survey(40)
    rows.loc[[3, 7], "home"] = None
    rows.to_parquet(tmp_path / "survey.parquet")
    asked = policy(
        source={"path": "survey.parquet"},
        sink={"path": "out"},
        transform=[{"suppress_records": {"suppress_at_most": 1.0, "whole": "records"}}],
        guarantees=[{"k_anonymity": {"k": 2, "over": "households"}}, L],
    )
    with pytest.raises(pp.errors.DataError, match="'home' has .*missing values"):
        pp.release(pp.Policy.from_dict(asked, base_dir=tmp_path), engine=engine)


def test_a_table_without_the_column_is_refused() -> None:
    with pytest.raises(pp.errors.DataError, match="home"):
        SampleUniqueness(over="households").assess(
            survey().drop(columns="home"), quasi_identifiers=["town"], household_id="home"
        )


def test_values_count_once_a_household() -> None:
    rows = pd.DataFrame({"home": ["a", "a", "b"], "town": ["x"] * 3, "illness": ["flu", "flu", "flu"]})
    verdict = DistinctLDiversity(column="illness", l=1, over="households").assess(
        rows, quasi_identifiers=["town"], household_id="home"
    )
    assert verdict.observed == 1
    top = KAnonymity(k=3, over="households").assess(rows, quasi_identifiers=["town"], household_id="home")
    assert (top.observed, top.failing_records) == (2, 2)
