"""A public plan shows the same whatever the source, except levels, whose labels are in the data."""

from __future__ import annotations

import datetime
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.blocks.verdict import plain
from privpipe.transforms import CATALOGUE
from privpipe.transforms.base import StagePlan

OF_THE_POLICY_ALONE = ("drop_identifiers", "pseudonymise", "round", "shift_dates", "suppress_records")
"""Stages whose plan, but for the number of suppressed records, is the same for any source without missing values."""
OF_THE_SOURCE = (
    *("add_noise", "bottom_code", "fuzzy_microaggregate", "generalize", "local_recoding", "microaggregate", "mondrian"),
    *("pram", "rank_swap", "safepub", "sample", "shuffle", "suppress_cells", "synthesize", "top_code"),
)
"""Stages that learn something of the sources here, which shows that these differ; a new stage need not stand here."""


def people(seed: int, records: int, zips: str, illnesses: str) -> pd.DataFrame:
    """Records that share nothing with those of another seed but their columns."""
    draw = random.Random(seed)
    day = datetime.date(1950 + seed, 1, 1)
    return pd.DataFrame(
        {
            "name": [f"person {seed} {at}" for at in range(records)],
            "zip": [draw.choice(zips) for _ in range(records)],
            "age": [draw.randint(20, 20 + 13 * seed) for _ in range(records)],
            "illness": [draw.choice(illnesses) for _ in range(records)],
            "income": [draw.uniform(10, 900 * seed) for _ in range(records)],
            "weight": [draw.uniform(1, 9) for _ in range(records)],
            "born": pd.Series(
                [day + datetime.timedelta(draw.randint(0, 9999)) for _ in range(records)], dtype="object"
            ),
            **{name: [draw.choice(illnesses) for _ in range(records)] for name in ("household", "town", "sex")},
        }
    )


OTHERS = ("illness", "income", "weight", "born", "household", "town", "sex")
SOURCES = (people(1, 700, "abc", "xyz"), people(2, 900, "cdef", "uvwx"))


def policy(path: Path, stage: dict[str, Any]) -> dict[str, Any]:
    """A policy of one stage over `people`."""
    name = next(iter(stage))
    tree = {"all": {"first": ["a", "b", "c"], "last": ["d", "e", "f"]}}
    quasi = {"age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 20, "widths": [10, 40]}}}}
    return {
        "version": 1,
        "source": {"path": str(path)},
        "columns": {
            "name": {"role": "identifier"},
            "zip": {"role": "quasi_identifier", "hierarchy": {"tree": tree}},
            **({"age": {"role": "insensitive"}} if name == "safepub" else quasi),
            **{column: {"role": "insensitive"} for column in OTHERS},
        },
        "transform": [stage],
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }


def examples() -> Iterator[Any]:
    for name in CATALOGUE:
        for at, entry in enumerate(CATALOGUE[name].examples()):
            parameters = plain(entry.parameters())
            if name == "sample" and "weight" in parameters:
                parameters["weight"] = "factor"
            if name == "record_swap":
                parameters |= {"household": "income", "along": []}  # each record of this table lives alone
            if name == "generalize" and "levels" not in parameters:
                continue  # its levels are chosen by the data; below
            yield pytest.param({name: parameters}, id=f"{name}-{at}", marks=[pytest.mark.deep] if at > 1 else [])
    by: list[dict[str, Any]] = [
        {"add_noise": {"columns": ["income"], "variance_ratio": 0.1}},
        {"rank_swap": {"columns": ["income"], "p": 0.1}},
        {"top_code": {"columns": ["income"], "quantile": 0.9}},
        {"microaggregate": {"columns": ["income"], "k": 3}},
        {"synthesize": {"columns": ["illness"]}},
    ]
    for each in by:
        [(name, parameters)] = each.items()
        yield pytest.param({name: {**parameters, "by": ["zip"]}}, id=f"{name}-by")


@pytest.mark.parametrize("stage", list(examples()))
def test_the_public_plan_is_the_same_for_sources_that_share_nothing(
    stage: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", "k" * 32)
    plans = []
    for at, source in enumerate(SOURCES):
        (tmp_path / str(at)).mkdir()
        source.to_parquet(tmp_path / "rows.parquet", index=False)
        plans.append(pp.plan(None, pp.Policy.from_dict(policy(tmp_path / "rows.parquet", stage))))
    public = [plan.public_dict() for plan in plans]
    assert public[0] == public[1]
    assert public[0] == json.loads(json.dumps(public[0], allow_nan=False))
    private = [{**plan.stages[0].detail, "suppressed_records": 0} for plan in plans]
    name = next(iter(stage))
    assert private[0] == private[1] or name not in OF_THE_POLICY_ALONE
    assert private[0] != private[1] or name not in OF_THE_SOURCE


def test_scores_of_synthetic_records_are_private_as_their_trees_are(tmp_path: Path) -> None:
    """They are learnt of the records: the public plan shows no tree, and no weight of a score."""
    SOURCES[0].to_parquet(tmp_path / "rows.parquet", index=False)
    made = pp.plan(None, pp.Policy.from_dict(policy(tmp_path / "rows.parquet", {"synthesize": {"min_leaf": 5}})))
    trees = made.stages[0].detail["models"][0]["trees"]
    weights = [each for tree in trees.values() for score in tree["scores"] for _, each in score]
    assert weights
    assert made.stages[0].public().detail == {}
    shown = json.dumps(made.public_dict())
    assert not any(each in shown for each in ("trees", "codebooks", *weights))


def test_a_stage_that_says_nothing_shows_nothing() -> None:
    made = StagePlan(name="somebody else's", parameters={"p": 1}, detail={"secret": 1})
    assert made.public() == StagePlan(name="somebody else's", parameters={"p": 1})
