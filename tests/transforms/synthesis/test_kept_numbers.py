"""A kept plan draws as many records as its policy says: whoever seals one again does not choose their number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, PrivpipeError, UnsupportedError, UsageError
from privpipe.running.plan import Plan, document_digest

N = 120
MARGINALS = {
    "method": "marginals",
    "epsilon": 5.0,
    "delta": 1e-6,
    "domains": {"zip": {"levels": ["100", "200"]}, "age": {"low": 0, "high": 100, "bins": 4}},
}
METHODS: dict[str, dict[str, Any]] = {
    "cart": {},
    "copula": {"method": "copula"},
    "by": {"method": "copula", "by": ["zip"]},
    "suppressed": {"method": "copula", "by": ["zip"], "small_strata": "suppress"},
    "marginals": MARGINALS,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    rng = np.random.default_rng(4)
    rows = pd.DataFrame({"zip": rng.choice(["100", "200"], N), "age": rng.integers(20, 60, N)})
    rows.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "seed").write_text("6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")
    (tmp_path / "seed").chmod(0o600)
    return tmp_path


def policy(home: Path, stage: dict[str, Any]) -> pp.Policy:
    document = {
        "source": {"path": "people.parquet"},
        "columns": {"zip": {"role": "quasi_identifier"}, "age": {"role": "insensitive", "type": "integer"}},
        "guarantees": [{"k_anonymity": {"k": 1}}],
        "transform": [{"synthesize": stage}],
        "sink": {"path": "out"},
        "seed": {"from_file": "seed"},
    }
    return pp.Policy.from_dict(document, base_dir=home)


def resealed(plan: Plan, records: int, asked: pp.Policy) -> Plan:
    """The plan with this number of records in each model and combination."""
    document = json.loads(plan.to_json())
    for part in ("models", "combinations"):
        for each in document["stages"][0]["detail"][part]:
            each["records"] = records
    del document["checksum"]
    return Plan.from_json(json.dumps({**document, "checksum": document_digest(document)}), asked)


@pytest.mark.parametrize("records", [1, N - 1, N + 1, 10**6, 10**12, 2**63, 2**70])
@pytest.mark.parametrize("method", ["cart", "copula", "by"])
def test_another_number_is_refused(home: Path, method: str, records: int) -> None:
    asked = policy(home, METHODS[method])
    plan = pp.plan(None, asked, losses=False)
    with pytest.raises(UsageError, match="another number of records"):
        pp.release(asked, plan=resealed(plan, records, asked))
    assert not (home / "out").exists()


@pytest.mark.parametrize("records", [10**12, 2**63, 2**70])
def test_a_noisy_number_has_an_end(home: Path, records: int) -> None:
    asked = policy(home, MARGINALS)
    with pytest.raises(UnsupportedError, match="at most 500,000,000 records at once"):
        pp.release(asked, plan=resealed(pp.plan(None, asked, losses=False), records, asked))


@pytest.mark.parametrize("stage", METHODS.values(), ids=METHODS)
def test_the_plan_as_it_was_made_draws_what_it_did(home: Path, stage: dict[str, Any]) -> None:
    asked = policy(home, stage)
    plan = pp.plan(None, asked, losses=False)
    first = pp.release(asked, plan=plan)
    rows = pd.read_parquet(home / "out")
    assert len(rows) == first.assessment.records
    assert len(rows) == N or stage is MARGINALS
    again = pp.release(asked, plan=Plan.from_json(plan.to_json(), asked))
    assert again.assessment.records == len(rows)


def test_a_number_of_the_policy_is_its_own(home: Path) -> None:
    asked = policy(home, {"records": 7})
    pp.release(asked, plan=resealed(pp.plan(None, asked, losses=False), 10**12, asked))
    assert len(pd.read_parquet(home / "out")) == 7
    with pytest.raises(PolicyError, match="records"):
        policy(home, {"records": 10**12})


def test_where_strata_are_suppressed_no_more_than_there_are_is_drawn(home: Path) -> None:
    rows = pd.read_parquet(home / "people.parquet")
    pd.concat([rows, rows.head(9).assign(zip="300")], ignore_index=True).to_parquet(home / "people.parquet")
    asked = policy(home, METHODS["suppressed"])
    plan = pp.plan(None, asked, losses=False)
    assert pp.release(asked, plan=plan).assessment.records == N
    with pytest.raises(PrivpipeError, match="another number of records"):
        pp.release(asked, plan=resealed(plan, N, asked))
