"""What persons have, on every face: three who all have one illness are not 2-diverse, whatever else they have."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.engines import Engine
from privpipe.errors import Refused
from tests.tiers import third_on_spark

VISITS = pd.DataFrame(
    {
        "visit": [f"v{at}" for at in range(12)],
        "who": [f"p{at // 2}" for at in range(12)],
        "town": ["Ashford"] * 6 + ["Barrow"] * 6,
        "illness": ["HIV", "flu", "HIV", "gout", "HIV", "cold", "flu", "gout", "gout", "cold", "cold", "flu"],
    }
)
"""In Ashford all have HIV; in Barrow each has two of three illnesses."""
GUARANTEES: list[dict[str, Any]] = [
    {"alpha_k_anonymity": {"k": 3, "alpha": 0.7}},
    {"distinct_l_diversity": {"column": "illness", "l": 2}},
    {"entropy_l_diversity": {"column": "illness", "l": 2}},
    {"recursive_cl_diversity": {"column": "illness", "l": 2, "c": 3}},
    {"p_sensitive_k_anonymity": {"k": 3, "p": 2}},
    {"homogeneity_attack": {"column": "illness", "at_most": 0}},
    {"background_knowledge_attack": {"column": "illness", "exclude_values": 0, "at_most": 0}},
]
OBSERVED: list[Any] = [{"k": 3, "alpha": 1.0}, 1, 1.0, None, {"k": 3, "p": 1}, 0.5, 0.5]


@pytest.fixture
def policy(tmp_path: Path) -> dict[str, Any]:
    VISITS.to_parquet(tmp_path / "visits.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "visits.parquet")},
        "columns": {
            "visit": {"role": "identifier"},
            "who": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
        },
        "record_id": "visit",
        "person_id": "who",
        "guarantees": GUARANTEES,
        "sink": {"path": str(tmp_path / "out")},
        "seed": {"insecure": "a seed for tests"},
        "allow_insecure_seed": True,
    }


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=lambda each: next(iter(each)))
def test_each_rule_by_itself_refuses(policy: dict[str, Any], embedded: Engine, guarantee: dict[str, Any]) -> None:
    policy["guarantees"] = [guarantee]
    with pytest.raises(Refused):
        pp.release(policy, engine=embedded)
    assert not Path(policy["sink"]["path"]).exists()


def test_every_face_says_the_same(policy: dict[str, Any], engine: Engine) -> None:
    released = VISITS.drop(columns="visit")
    entries = list(pp.Policy.from_dict(policy).guarantees)
    roles = pp.Roles(quasi_identifiers=["town"], sensitive=["illness"], insensitive=["who"])
    found = pp.assess(released, entries, roles=roles, person_id="who", engine=engine)
    assert [each.observed for each in found.verdicts] == OBSERVED
    assert not any(each.passed for each in found.verdicts)
    with pytest.raises(Refused):
        pp.check(released, entries, roles=roles, person_id="who", engine=engine)
    assert pp.check(released[6:], entries, roles=roles, person_id="who", engine=engine).passed
    # Counting records would pass a class that reveals an illness of everyone.
    assert pp.assess(released, entries[1], roles=roles, engine=engine).passed


def test_the_command_line_refuses_and_accepts(policy: dict[str, Any], tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    policy["columns"]["who"] = {"role": "insensitive"}
    rules.write_text(json.dumps(policy))
    for name, rows, code in (("all", VISITS, 5), ("barrow", VISITS[6:], 0)):
        rows.drop(columns="visit").to_parquet(tmp_path / f"{name}.parquet")
        done = CliRunner().invoke(app, ["validate", str(tmp_path / f"{name}.parquet"), str(rules)])
        assert done.exit_code == code, done.output


@pytest.mark.parametrize(
    "stage",
    third_on_spark(
        [
            {"suppress_records": {"suppress_at_most": 0.5}},
            {"generalize": {"search": "optimal", "suppress_at_most": 0.5}},
            {"mondrian": {}},
            {"local_recoding": {"suppress_at_most": 0.5}},
        ]
    ),
    ids=lambda stage: next(iter(stage)),
)
def test_stages_reach_what_the_gate_asks(policy: dict[str, Any], engine: Engine, stage: dict[str, Any]) -> None:
    """Suppression takes Ashford; recoding puts both towns together, where nothing is everyone's."""
    asked = copy.deepcopy(policy)
    asked["transform"], asked["guarantees"] = [stage], GUARANTEES[:5]
    asked["columns"]["town"]["hierarchy"] = {"tree": {"*": ["Ashford", "Barrow"]}}
    result = pp.release(asked, engine=engine)
    assert result.assessment.passed
    figures = {each.name: each.observed for each in result.assessment.verdicts}
    assert figures["distinct_l_diversity"] in (3, 6)
