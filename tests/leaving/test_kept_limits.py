"""A kept plan that was sealed again suppresses and samples no more than its policy says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError, UsageError
from privpipe.running.plan import Plan, document_digest
from tests.tiers import deep_among, deep_beyond

N = 200
Change = Callable[[dict[str, Any]], None]


def people() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "name": [f"p{at}" for at in range(N)],
            "who": [f"w{at // 2}" for at in range(N)],
            "home": [f"h{at // 4}" for at in range(N)],
            "zip": rng.choice(["100", "101", "200"], N),
            "age": rng.integers(20, 60, N),
        }
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    people().to_parquet(tmp_path / "people.parquet")
    (tmp_path / "seed").write_text("6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")
    (tmp_path / "seed").chmod(0o600)
    return tmp_path


def policy(home: Path, stage: dict[str, Any], **changes: Any) -> pp.Policy:
    ages = {"intervals": {"start": 0, "widths": [5, 10, 50]}}
    document = {
        "source": {"path": "people.parquet"},
        "columns": {
            "name": {"role": "identifier"},
            "who": {"role": "identifier"},
            "home": {"role": "identifier"},
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"length": 3}}},
            "age": {"role": "quasi_identifier", "type": "integer", "hierarchy": ages},
        },
        "record_id": "name",
        "guarantees": [{"k_anonymity": {"k": 4}}],
        "transform": [stage, {"drop_identifiers": {}}],
        "sink": {"path": "out"},
        "seed": {"from_file": "seed"},
        **changes,
    }
    return pp.Policy.from_dict(document, base_dir=home)


def resealed(plan: Plan, change: Change, asked: pp.Policy) -> Plan:
    document = json.loads(plan.to_json())
    change(document["stages"][0]["detail"])
    del document["checksum"]
    return Plan.from_json(json.dumps({**document, "checksum": document_digest(document)}), asked)


def finest(detail: dict[str, Any]) -> None:
    """Nothing is generalized, so that most classes fail."""
    for made in detail["rounds"]:
        made["levels"] = dict.fromkeys(made["levels"], 0)


def finest_of_few(detail: dict[str, Any]) -> None:
    """The same, and the share is said to be of fewer records."""
    detail["levels"] = dict.fromkeys(detail["levels"], 0)
    detail["records"] = 40


def nobody(detail: dict[str, Any]) -> None:
    detail["blanks"] = [[place, -1, records] for place, _blanks, records in detail["blanks"]]


def more(detail: dict[str, Any]) -> None:
    detail["kept"] = [each + 1 for each in detail["kept"]]


def none(detail: dict[str, Any]) -> None:
    detail["kept"] = [1.5 for _ in detail["kept"]]


TRIES: dict[str, tuple[dict[str, Any], Change, str]] = {
    "sweep": ({"local_recoding": {"suppress_at_most": 0.1}}, finest, "suppresses more records"),
    "rounds": ({"local_recoding": {"method": "rounds", "suppress_at_most": 0.1}}, finest, "suppresses more records"),
    "generalize": ({"generalize": {"suppress_at_most": 0.2}}, finest_of_few, "another number of records"),
    "marked": ({"generalize": {"suppress_at_most": 0.2, "mark": True}}, finest_of_few, "another number of records"),
    "cells": ({"suppress_cells": {"suppress_at_most": 0.01}}, nobody, "suppresses more records"),
    "sample": ({"sample": {"records": 180}}, more, "keeps other records"),
    "strata": ({"sample": {"records": 180, "by": ["zip"]}}, none, "keeps other records"),
}


@pytest.mark.parametrize(("stage", "change", "said"), TRIES.values(), ids=TRIES)
def test_a_plan_sets_no_limit(stage: dict[str, Any], change: Change, said: str, home: Path, embedded: Engine) -> None:
    asked = policy(home, stage, guarantees=[{"k_anonymity": {"k": 1 if "sample" in stage else 4}}])
    plan = pp.plan(None, asked, engine=embedded, losses=False)
    with pytest.raises(UsageError, match=said):
        pp.release(asked, plan=resealed(plan, change, asked), engine=embedded)
    assert not (home / "out").exists()


STAGES: dict[str, dict[str, Any]] = {
    **{name: stage for name, (stage, _change, _said) in TRIES.items()},
    "search": {"local_recoding": {"method": "search", "suppress_at_most": 0.1}},
    "merged": {"local_recoding": {"rest": "merge", "suppress_at_most": 0.1}},
    "levels": {"generalize": {"levels": {"age": 2, "zip": 1}}},
    "records": {"suppress_records": {"suppress_at_most": 0.9}},
    "mondrian": {"mondrian": {}},
}
COUNTING: dict[str, dict[str, Any]] = {
    "records": {},
    "persons": {"person_id": "who"},
    "households": {"household_id": "home", "guarantees": [{"k_anonymity": {"k": 3, "over": "households"}}]},
}


@pytest.mark.parametrize("stage", deep_among([STAGES["search"]], STAGES.values()), ids=STAGES)
@pytest.mark.parametrize("counting", deep_beyond(1, COUNTING.values()), ids=COUNTING)
def test_a_plan_as_it_was_made_makes_the_same_release(
    stage: dict[str, Any], counting: dict[str, Any], home: Path, embedded: Engine
) -> None:
    if "sample" in stage:
        counting = {**counting, "guarantees": [{"k_anonymity": {"k": 1}}]}
    try:
        asked = policy(home, stage, **counting)
        pp.release(asked, engine=embedded)
    except (UsageError, NoSolutionError):  # a stage that does not serve who is counted
        if not {"person_id", "household_id"} & set(counting):
            raise
        return
    rows = pd.read_parquet(home / "out")
    pp.release(asked, plan=pp.plan(None, asked, engine=embedded, losses=False), engine=embedded)
    again = pd.read_parquet(home / "out")
    columns = list(rows.columns)
    pd.testing.assert_frame_equal(*(each.sort_values(columns).reset_index(drop=True) for each in (rows, again)))
