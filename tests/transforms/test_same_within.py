"""Draws shared within a household: constant columns stay constant, on every engine alike."""

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
from privpipe.errors import PolicyError, UsageError
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.transforms import AddNoise, Pram, RankSwap, Sample

SEED = "5f1d0c7b9ae84263b7f0e19c44d2a8316c05be97"


def families(n: int = 90, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    homes = rng.integers(0, n // 3, n)
    rent, region = rng.normal(800, 100, n), rng.choice(["n", "s", "w"], n)
    return pd.DataFrame(
        {
            "home": [f"h{each}" for each in homes],
            "rent": rent[homes],
            "region": region[homes],
            "income": rng.normal(2000, 300, n),
            "number": np.arange(n),
        }
    )


STAGES = [
    AddNoise(columns=["rent", "income"], variance_ratio=0.2, same_within="household_id"),
    AddNoise(columns=["rent"], variance_ratio=0.2, kind="multiplicative", same_within="household_id"),
    Pram(columns=["region"], diagonal=0.3, same_within="household_id"),
]


@pytest.mark.parametrize("stage", STAGES, ids=repr)
@settings(max_examples=8)
@given(seed=st.integers(0, 10_000))
def test_what_was_constant_in_a_household_stays_so(stage: Any, seed: int) -> None:
    rows = families(60, seed)
    after = stage.apply(rows, household_id="home", record_id="number", seed=SEED)
    assert list(after["home"]) == list(rows["home"])
    for column in set(stage.columns) & {"rent", "region"}:
        assert (after.groupby("home")[column].nunique() == 1).all()
    if stage.name() == "add_noise":
        assert (after["rent"] != rows["rent"]).all()


@pytest.mark.parametrize("stage", STAGES, ids=repr)
def test_records_draw_for_themselves_otherwise(stage: Any) -> None:
    from dataclasses import replace

    rows = families()
    after = replace(stage, same_within=None).apply(rows, record_id="number", seed=SEED)
    column = stage.columns[0]
    assert (after.groupby("home")[column].nunique() > 1).any()


def test_members_of_other_values_have_draws_of_their_own() -> None:
    rows = pd.DataFrame({"home": ["a", "a", "b"], "pay": [1.0, 5.0, 9.0], "number": [0, 1, 2]})
    stage = AddNoise(columns=["pay"], variance_ratio=1.0, same_within="household_id")
    after = stage.apply(rows, household_id="home", record_id="number", seed=SEED)
    noise = after["pay"] - rows["pay"]
    assert abs(noise[0] - noise[1]) > 1e-6


def test_a_row_without_a_household_draws_for_itself() -> None:
    rows = pd.DataFrame({"home": [None] * 40, "pay": [1.0, 2.0] * 20, "number": range(40)})
    stage = AddNoise(columns=["pay"], variance_ratio=1.0, same_within="household_id")
    after = stage.apply(rows, household_id="home", record_id="number", seed=SEED)
    assert after["pay"].nunique() == 40


@pytest.mark.parametrize("fraction", [0.2, 0.7])
def test_whole_households_are_sampled(fraction: float) -> None:
    rows = families(600)
    after = Sample(fraction=fraction, same_within="household_id").apply(
        rows, household_id="home", record_id="number", seed=SEED
    )
    before = rows["home"].value_counts()
    kept = after["home"].value_counts()
    assert (kept == before[kept.index]).all()
    assert abs(len(kept) / len(before) - fraction) < 0.15


def test_every_engine_draws_alike(tmp_path: Path, engine: Engine, embedded: Engine) -> None:
    rows = families()
    rows.to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "seed").write_text(SEED)
    (tmp_path / "seed").chmod(0o600)
    document = {
        "columns": {
            "home": {"role": "identifier"},
            "number": {"role": "identifier"},
            "rent": {"role": "insensitive"},
            "region": {"role": "quasi_identifier"},
            "income": {"role": "insensitive"},
        },
        "household_id": "home",
        "record_id": "number",
        "seed": {"from_file": "seed"},
        "transform": [
            {"sample": {"fraction": 0.8, "same_within": "household_id"}},
            *({stage.name(): stage.parameters()} for stage in STAGES[::2]),
        ],
        "guarantees": [{"k_anonymity": {"k": 1}}],
    }
    policy = pp.Policy.from_dict(document, base_dir=tmp_path)
    released = []
    for each in (embedded, engine):
        context = RunContext(each, policy, policy.seed.resolve())  # type: ignore[union-attr]
        staged = run_stages(context, attach(context, Source(data=str(tmp_path / "rows.parquet"))))
        frame = each.collect(staged.table).to_pandas()
        released.append(frame.sort_values(["rent", "income"]).reset_index(drop=True))
    pd.testing.assert_frame_equal(*released)
    assert 0 < len(released[0]) < len(rows)


def test_the_plan_says_in_how_many_households_a_column_differs() -> None:
    rows = pd.DataFrame(
        {"home": ["a", "a", "b", "b", "c"], "pay": [1.0, 5.0, 9.0, 9.0, 2.0], "number": range(5), "x": ["1"] * 5}
    )
    document = {
        "columns": {
            "home": {"role": "identifier"},
            "number": {"role": "identifier"},
            "pay": {"role": "insensitive"},
            "x": {"role": "quasi_identifier"},
        },
        "household_id": "home",
        "transform": [{"add_noise": {"columns": ["pay"], "variance_ratio": 0.1, "same_within": "household_id"}}],
        "guarantees": [{"k_anonymity": {"k": 1}}],
    }
    plan = pp.plan(rows, pp.Policy.from_dict(document))
    assert plan.stages[0].detail["varies"] == {"pay": 1}
    assert plan.stages[0].public().detail == {}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: AddNoise(columns=["a"], variance_ratio=1, by=["b"], same_within="household_id"), "by"),
        (lambda: AddNoise(columns=["a"], variance_ratio=1, kind="orthogonal", same_within="person_id"), "orthogonal"),
        (lambda: AddNoise(columns=["a", "b"], variance_ratio=1, kind="correlated", same_within="person_id"), "correl"),
        (lambda: Pram(columns=["a", "b"], joint=True, same_within="household_id"), "joint"),
        (lambda: Sample(records=3, same_within="household_id"), "requires fraction"),
        (lambda: RankSwap.build({"columns": ["a"], "p": 0.1, "same_within": "household_id"}), "several"),
    ],
)
def test_what_would_set_members_apart_is_refused(made: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        made()


def test_a_policy_without_the_key_is_refused_by_its_place() -> None:
    document = {
        "columns": {"pay": {"role": "insensitive"}, "x": {"role": "quasi_identifier"}},
        "transform": [{"add_noise": {"columns": ["pay"], "variance_ratio": 0.1, "same_within": "household_id"}}],
        "guarantees": [{"k_anonymity": {"k": 1}}],
    }
    with pytest.raises(PolicyError, match=r"transform\[0\].*needs `household_id`"):
        pp.Policy.from_dict(document)
