"""Whole households go: no one is left of a part one, and what is left meets the guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpipe as pp
from privpipe.engines import Engine, Source
from privpipe.errors import NoSolutionError, PolicyError, Refused, UnsupportedError
from privpipe.models import HouseholdKAnonymity, KAnonymity
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.transforms import SuppressRecords
from tests.tiers import at_most

KEYS = {"household_id": "home", "record_id": "number", "roles": pp.Roles(quasi_identifiers=["town", "age"])}


def survey(n: int = 200, seed: int = 2, homes: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    home = rng.integers(0, max(1, n // homes), n)
    return pd.DataFrame(
        {
            "home": [f"h{each}" for each in home],
            "town": (home % 3).astype(str),
            "age": rng.choice(["1", "2", "3", "4"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "number": np.arange(n),
        }
    )


def expected(rows: pd.DataFrame, k: int, over: str) -> pd.DataFrame:
    """From the definition: classes that fail go, then what is left of their households, until nothing does."""
    whole = rows.groupby("home").size()
    while True:
        classes = rows.groupby(["town", "age"])["home"]
        sizes = classes.transform("nunique" if over == "households" else "size")
        left = rows[sizes >= k]
        parts = left.groupby("home")["number"].transform("size") < left["home"].map(whole)
        left = left[~parts]
        if len(left) == len(rows):
            return left
        rows = left


@pytest.mark.parametrize("over", ["records", "households"])
@settings(max_examples=at_most(20))
@given(seed=st.integers(0, 10_000), k=st.integers(2, 12))
def test_what_goes_is_what_the_definition_says(over: str, seed: int, k: int) -> None:
    rows = survey(seed=seed)
    left = expected(rows, k, over)
    stage = SuppressRecords(suppress_at_most=1.0, whole="households")
    asked = {**KEYS, "guarantees": [KAnonymity(k=k, over=over)]}
    if left.empty:
        with pytest.raises(NoSolutionError, match="every record"):
            stage.apply(rows, **asked)
        return
    after = stage.apply(rows, **asked)
    assert sorted(after["number"]) == sorted(left["number"])


@settings(max_examples=at_most(20))
@given(seed=st.integers(0, 10_000), k=st.integers(2, 4))
def test_households_of_a_rare_composition_go(seed: int, k: int) -> None:
    rows = survey(120, seed, homes=2)
    homes = {home: tuple(sorted(zip(own["town"], own["age"], strict=True))) for home, own in rows.groupby("home")}
    compositions = pd.Series(homes)
    stays = compositions[compositions.map(compositions.value_counts()) >= k].index
    stage = SuppressRecords(suppress_at_most=1.0, whole="households")
    asked = {**KEYS, "guarantees": [HouseholdKAnonymity(k=k)]}
    if not len(stays):
        with pytest.raises(NoSolutionError, match="every record"):
            stage.apply(rows, **asked)
        return
    after = stage.apply(rows, **asked)
    assert set(after["home"]) == set(stays)
    assert HouseholdKAnonymity().assess(after, quasi_identifiers=["town", "age"], household_id="home").observed >= k


def test_the_limit_counts_records() -> None:
    rows = survey()
    gone = len(rows) - len(expected(rows, 9, "households"))
    least = gone / len(rows)
    asked = {**KEYS, "guarantees": [KAnonymity(k=9, over="households")]}
    after = SuppressRecords(suppress_at_most=least).apply(rows, **asked)
    assert len(after) == len(rows) - gone
    with pytest.raises(NoSolutionError, match=f"need {gone} of 200 records"):
        SuppressRecords(suppress_at_most=least - 0.01).apply(rows, **asked)


def test_a_row_without_a_household_goes_alone() -> None:
    rows = pd.DataFrame(
        {"home": [None, None, None, "a", "a"], "town": ["x", "x", "y", "x", "x"], "age": ["1"] * 5, "number": range(5)}
    )
    after = SuppressRecords(suppress_at_most=0.5, whole="households").apply(
        rows, **KEYS, guarantees=[KAnonymity(k=2, over="records")]
    )
    assert sorted(after["number"]) == [0, 1, 3, 4]


def policy(tmp_path: Path, rows: pd.DataFrame, **changes: Any) -> pp.Policy:
    rows.to_parquet(tmp_path / "survey.parquet")
    return pp.Policy.from_dict(
        {
            "columns": {
                "home": {"role": "identifier"},
                "number": {"role": "identifier"},
                "town": {"role": "quasi_identifier"},
                "age": {"role": "quasi_identifier"},
            },
            "household_id": "home",
            "record_id": "number",
            "source": {"path": "survey.parquet"},
            "sink": {"path": "out"},
            "transform": [{"suppress_records": {"suppress_at_most": 0.9}}],
            "guarantees": [{"k_anonymity": {"k": 9, "over": "households"}}, {"whole_households": {}}],
            **changes,
        },
        base_dir=tmp_path,
    )


def test_a_release_is_judged_for_part_households(tmp_path: Path) -> None:
    rows = survey()
    found = pp.release(policy(tmp_path, rows)).assessment
    assert found.passed
    left = expected(rows, 9, "households")
    assert len(pd.read_parquet(tmp_path / "out")) == len(left)
    assert found.verdicts[1].reason == f"all {left['home'].nunique()} released households are whole."


def test_a_part_household_is_found(tmp_path: Path) -> None:
    parts = [{"suppress_records": {"suppress_at_most": 0.9, "whole": "records"}}]
    with pytest.raises(Refused, match="lack") as refused:
        pp.release(policy(tmp_path, survey(), transform=parts))
    assert "h1" not in str(refused.value)


def test_sampled_records_leave_parts_and_sampled_households_none(tmp_path: Path) -> None:
    asked = [{"k_anonymity": {"k": 1}}, {"whole_households": {}}]
    with pytest.raises(Refused, match="lack"):
        pp.release(policy(tmp_path, survey(), transform=[{"sample": {"fraction": 0.5}}], guarantees=asked))
    whole = [{"sample": {"fraction": 0.5, "same_within": "household_id"}}]
    assert pp.release(policy(tmp_path, survey(), transform=whole, guarantees=asked)).assessment.passed


def test_generalize_takes_whole_households_too(tmp_path: Path) -> None:
    columns = {
        "home": {"role": "identifier"},
        "number": {"role": "identifier"},
        "town": {"role": "quasi_identifier"},
        "age": {"role": "quasi_identifier", "hierarchy": {"tree": {"*": {"low": ["1", "2"], "high": ["3", "4"]}}}},
    }
    made = policy(tmp_path, survey(), columns=columns, transform=[{"generalize": {"suppress_at_most": 1.0}}])
    assert pp.release(made).assessment.passed
    marked = policy(
        tmp_path, survey(), columns=columns, transform=[{"generalize": {"suppress_at_most": 0.6, "mark": True}}]
    )
    with pytest.raises(UnsupportedError, match="leave mark out"):
        pp.release(marked)


def test_whole_households_need_their_key(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="needs `household_id`"):
        pp.Policy.from_dict(
            {
                "columns": {"town": {"role": "quasi_identifier"}},
                "transform": [{"suppress_records": {"whole": "households"}}],
                "guarantees": [{"k_anonymity": {"k": 2}}],
            }
        )


@pytest.mark.parametrize(
    "guarantee", [{"k_anonymity": {"k": 9, "over": "households"}}, {"household_k_anonymity": {"k": 2}}], ids=str
)
def test_every_engine_takes_the_same_households_out(
    tmp_path: Path, engine: Engine, embedded: Engine, guarantee: Any
) -> None:
    stages = [{"suppress_records": {"suppress_at_most": 1.0, "whole": "households"}}]
    made = policy(tmp_path, survey(), transform=stages, guarantees=[guarantee], seed={"insecure": "a test"})
    released = []
    for each in (embedded, engine):
        context = RunContext(each, made, made.seed.resolve())  # type: ignore[union-attr]
        staged = run_stages(context, attach(context, Source(data=str(tmp_path / "survey.parquet"))))
        released.append(each.collect(staged.table).to_pandas().sort_values(["town", "age"]).reset_index(drop=True))
    pd.testing.assert_frame_equal(*released)
    assert 0 < len(released[0]) < 200
