"""Pairs of releases under random policies and one seed: nothing but the released cells is learned."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privpipe.engines import Engine
from privpipe.running.stage_run import DrawRoot
from privpipe.testing.release_attacks import two_releases
from tests.tiers import deep

STRONG = {"from_env": "PRIVPIPE_TEST_SEED"}
PAIRS = int(os.environ.get("PRIVPIPE_PAIRS", "24"))
TOWNS = ["Ashford", "Barrow", "Crewe", "Dover"]


def draw_source(seed: int) -> pd.DataFrame:
    """People whose columns all depend on one hidden figure, so that any join of rows shows."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 500))
    hidden = rng.normal(size=n)
    rank = hidden.argsort().argsort()
    return pd.DataFrame(
        {
            "name": [f"person {at:04d}" for at in rng.permutation(n)],
            "tag": rng.permutation(n),
            "age": 20 + (rank * 40 // n) + rng.integers(0, 3, n),
            "town": np.array(TOWNS)[np.clip(rank * 4 // n + rng.integers(0, 2, n), 0, 3)],
            "illness": np.array(["flu", "cold", "gout", "asthma"])[(rank * 4 // n + rng.integers(0, 3, n)) % 4],
            "income": np.exp(10 + 0.6 * hidden + 0.1 * rng.normal(size=n)).round(2),
            "wealth": np.exp(11 + 0.8 * hidden + 0.1 * rng.normal(size=n)).round(2),
        }
    ).sample(frac=1, random_state=seed)


def next_month(source: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The same people; some had a raise, a few left."""
    rng = np.random.default_rng(seed)
    later = source.copy()
    later["income"] += np.where(rng.random(len(later)) < 0.3, 1000.0, 0.0)
    return later.iloc[rng.random(len(later)) > 0.02].reset_index(drop=True)


def draw_policy(draw: random.Random) -> dict[str, Any]:
    shown = draw.sample(["age", "town", "illness", "income", "wealth"], draw.randint(2, 5))
    keys = [name for name in shown if name in ("age", "town")]
    if not keys:
        keys = ["age"]
        shown.append("age")
    columns: dict[str, dict[str, Any]] = {
        name: {"role": "identifier"} for name in ("name", "tag", "age", "town", "illness", "income", "wealth")
    }
    if draw.random() < 0.6:  # a reader may join by what both releases show
        shown.append("tag")
    for name in shown:
        columns[name] = {"role": "sensitive" if name == "illness" else "insensitive"}
    for name in keys:
        columns[name] = {"role": "quasi_identifier"}
    columns["age"] |= {"type": "integer"}
    if "age" in keys:
        columns["age"]["hierarchy"] = {"intervals": {"start": 20, "widths": [5, 10, 20, 40]}}
    if "town" in keys:
        columns["town"]["hierarchy"] = {"tree": {"*": {"north": TOWNS[:2], "south": TOWNS[2:]}}}
    numbers = [name for name in shown if name in ("income", "wealth")]
    stages = [draw_mask(draw, name) for name in numbers]
    stages.append(
        draw.choice(
            [
                {"generalize": {"search": "optimal", "suppress_at_most": draw.choice([0.0, 0.05])}},
                {"generalize": {"search": "optimal", "suppress_at_most": 0.05, "mark": True}},
                {"mondrian": {}},
                {"local_recoding": {"suppress_at_most": 0.05}},
                {"suppress_cells": {}},
            ]
        )
    )
    guarantees: list[dict[str, Any]] = [{"k_anonymity": {"k": draw.choice([3, 5, 8])}}]
    if "illness" in shown:
        guarantees.append({"distinct_l_diversity": {"column": "illness", "l": 1}})
    return {
        "columns": columns,
        "record_id": draw.choice(["name", "name", None]),
        "transform": stages,
        "guarantees": guarantees,
        "seed": STRONG,
    }


def draw_mask(draw: random.Random, name: str) -> dict[str, Any]:
    ratio = draw.choice([0.1, 0.5, 1.0])
    stages: list[dict[str, Any]] = [
        {"add_noise": {"columns": [name], "variance_ratio": ratio}},
        {"add_noise": {"columns": [name], "variance_ratio": ratio, "kind": "multiplicative"}},
        {"rank_swap": {"columns": [name], "p": draw.choice([0.05, 0.2])}},
        {"microaggregate": {"columns": [name], "k": draw.choice([3, 5])}},
        {"round": {"columns": [name], "base": 5000, "mode": "random"}},
        {"shuffle": {"columns": [name]}},
    ]
    return draw.choices(stages, [5, 2, 1, 1, 1, 1])[0]


def varied(draw: random.Random, policy: dict[str, Any]) -> dict[str, Any]:
    """The same policy with more or less noise and wider or narrower windows."""
    other = copy.deepcopy(policy)
    for stage in other["transform"]:
        for parameters in stage.values():
            if "variance_ratio" in parameters:
                parameters["variance_ratio"] *= draw.choice([0.5, 2.0])
            if "p" in parameters:
                parameters["p"] /= 2
    return other


def attack_pairs(seeds: range, folder: Path, engine: Engine) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:
        draw = random.Random(seed)
        source = draw_source(seed)
        other = draw.choice([source, next_month(source, seed)])
        first = draw_policy(draw)
        second = draw.choice([draw_policy(draw), first, varied(draw, first), varied(draw, first)])
        home = folder / str(seed)
        home.mkdir()
        outcome = two_releases(first, second, source, other, folder=home, engine=engine, key="tag")
        # One source under one policy is one release twice, in one order.
        again = first == second and other is source
        findings = [
            each for each in outcome.findings if not (again and each.attack in ("position", "alignment", "value"))
        ]
        assert not findings, (seed, findings)
        found["refused" if outcome.refused else "published"] += 1
    return found


@pytest.mark.parametrize("pairs", [4, deep(PAIRS)])
def test_two_releases_tell_no_more_than_their_cells(pairs: int, tmp_path: Path, embedded: Engine) -> None:
    found = attack_pairs(range(pairs), tmp_path, embedded)
    assert found["published"] >= pairs // 3, found


@pytest.mark.deep
@pytest.mark.parametrize("pairs", [range(3)])
def test_nor_do_they_on_every_engine(tmp_path: Path, engine: Engine, pairs: range) -> None:
    assert sum(attack_pairs(pairs, tmp_path, engine).values()) == len(pairs)


@pytest.mark.parametrize("stage", [{"rank_swap": {"p": 0.05}}, {"shuffle": {}}, {"add_noise": {"variance_ratio": 0.5}}])
def test_draws_that_two_policies_share_are_found(
    tmp_path: Path, embedded: Engine, stage: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: keys of stages that hang on the seed alone."""
    ((name, parameters),) = stage.items()
    source = draw_source(48)
    shown = {"tag": {"role": "insensitive"}, "income": {"role": "insensitive", "type": "number"}}

    def found(folder: str, *keys: str) -> set[str]:
        policies = [
            {
                "columns": {column: {"role": "drop"} for column in source}
                | shown
                | {key: {"role": "quasi_identifier"}},
                "transform": [{name: {"columns": ["income"], **parameters}}],
                "guarantees": [{"k_anonymity": {"k": 1}}],
                "seed": STRONG,
            }
            for key in keys
        ]
        home = tmp_path / folder
        home.mkdir()
        outcome = two_releases(*policies, source, source, folder=home, engine=embedded, key="tag")
        assert not outcome.refused
        return {each.attack for each in outcome.findings}

    assert "value" not in found("apart", "age", "town")
    monkeypatch.setattr(DrawRoot, "of", classmethod(lambda cls, context, drawn, plan: cls(context.seed)))
    assert "value" in found("shared", "age", "town")
