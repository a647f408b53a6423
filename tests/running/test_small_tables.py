"""A small table gives the plan and the bytes that the database gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines.embedded import session
from tests.tiers import deep_beyond

SEED = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"
STAGES: dict[str, list[dict[str, Any]]] = {
    "generalize": [{"generalize": {"suppress_at_most": 0.2}}],
    "levels": [{"generalize": {"levels": {"age": 2, "zip": 1}, "suppress_at_most": 0.9, "mark": True}}],
    "cells": [{"generalize": {"approach": "AG_CS"}}],
    "local recoding": [{"local_recoding": {"suppress_at_most": 0.2}}],
    "merged rest": [{"local_recoding": {"rest": "merge", "share": 0.4, "suppress_at_most": 0.2}}],
    "clusters": [{"local_recoding": {"method": "search", "steps": 1, "suppress_at_most": 0.2}}],
    "mondrian": [{"mondrian": {}}],
    "records": [{"suppress_records": {"suppress_at_most": 1.0}}],
    "noise and levels": [
        {"add_noise": {"columns": ["pay"], "relative_sd": 0.1}},
        {"rank_swap": {"columns": ["age"], "p": 0.1}},
        {"generalize": {"suppress_at_most": 0.2}},
    ],
}


def frame(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    made = pd.DataFrame(
        {
            "age": rng.integers(20, 60, rows),
            "zip": pd.Series(rng.integers(1000, 1012, rows).astype(str)).mask(rng.random(rows) < 0.05),
            "pay": rng.choice([0.0, -0.0, 1.5, float("nan"), 7.25], rows),
            "ill": pd.Categorical(rng.choice(["a", "b", "c"], rows)),
        }
    )
    return pd.concat([made, made.head(rows // 4)], ignore_index=True)  # records that are equal


def policy(stages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "version": 1,
        "seed": SEED,
        "columns": {
            "age": {
                "role": "quasi_identifier",
                "hierarchy": {"intervals": {"start": 0, "widths": [5, 10, 20], "labels": "brackets"}},
            },
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "pay": {"role": "insensitive"},
            "ill": {"role": "sensitive"},
        },
        "transform": stages,
        "guarantees": [{"k_anonymity": {"k": 2}}, {"distinct_l_diversity": {"column": "ill", "l": 1}}],
    }


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES.keys())
@pytest.mark.parametrize("rows", deep_beyond(1, (24, 240)))
def test_plan_and_rows_are_those_of_the_database(
    stages: list[dict[str, Any]], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for small in (0, 10_000):
        monkeypatch.setattr(session, "SMALL_ROWS", small)
        plan = pp.plan(frame(rows), policy(stages))
        released = pp.transform(frame(rows), plan)
        judged = pp.assess(released, policy(stages))
        made.append((plan, released, judged))
    (first, mine, seen), (second, theirs, told) = made
    assert [(each.detail, each.parameters) for each in first.stages] == [
        (each.detail, each.parameters) for each in second.stages
    ]
    assert (first.source, first.records, first.lost) == (second.source, second.records, second.lost)
    pd.testing.assert_frame_equal(mine, theirs)
    assert [str(each) for each in seen.verdicts] == [str(each) for each in told.verdicts]


def test_published_bytes_are_those_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for small in (0, 10_000):
        monkeypatch.setattr(session, "SMALL_ROWS", small)
        target = tmp_path / str(small) / "out"
        own = {**policy(STAGES["generalize"]), "sink": {"path": str(target), "format": "csv"}}
        made = pp.Policy.from_dict(own)
        made.release(frame(120))
        written.append([path.read_bytes() for path in sorted(target.rglob("part-*"))])
    assert written[0] == written[1] != []
