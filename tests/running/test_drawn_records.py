"""Rows that are drawn from a model are of no person: guarantees over persons are refused, the rest runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import UsageError

DOMAINS = {"age": {"low": 0, "high": 100, "bins": 5}, "town": {"levels": ["aa", "bb"]}}
PRIVATE = {"method": "marginals", "epsilon": 9.0, "delta": 1e-6, "domains": DOMAINS, "unit": "person"}
BY_TOWN = {"k_anonymity": {"k": 2, "quasi_identifiers": ["town"]}}
OVER_RECORDS = {"k_anonymity": {"k": 2, "over": "records", "quasi_identifiers": []}}


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    person = rng.integers(0, 300, 600)
    return pd.DataFrame(
        {
            "pid": [f"p{each}" for each in person],
            "home": [f"h{each // 3}" for each in person],
            "town": rng.choice(["aa", "bb"], 600),
            "age": rng.integers(18, 90, 600),
        }
    )


def policy(tmp_path: Path, stages: list[Any], guarantees: list[Any], **changes: Any) -> pp.Policy:
    rows().to_parquet(tmp_path / "rows.parquet")
    document = {
        "columns": {
            "pid": {"role": "identifier"},
            "home": {"role": "identifier"},
            "town": {"role": "quasi_identifier"},
            "age": {"role": "quasi_identifier"},
        },
        "person_id": "pid",
        "household_id": "home",
        "transform": stages,
        "guarantees": guarantees,
        "source": {"path": "rows.parquet"},
        "sink": {"path": "out"},
        **changes,
    }
    return pp.Policy.from_dict(document, base_dir=tmp_path)


ALL = {
    "marginals of persons": [{"synthesize": PRIVATE}],
    "cart": [{"synthesize": {}}],
    "cart by town": [{"synthesize": {"by": ["town"]}}],
    "copula, by name": [{"synthesize": {"method": "copula", "columns": ["age", "town"]}}],
    "coded before": [{"top_code": {"columns": ["age"], "at": 80}}, {"synthesize": {"method": "copula"}}],
    "coded after": [
        {"synthesize": {"method": "copula"}},
        {"top_code": {"columns": ["age"], "quantile": 0.9, "replace": "mean"}},
    ],
    "suppressed after": [{"synthesize": {"method": "copula"}}, {"suppress_records": {"suppress_at_most": 0.5}}],
}


@pytest.mark.parametrize("name", ALL)
def test_what_counts_records_runs(tmp_path: Path, name: str) -> None:
    asked = policy(tmp_path, ALL[name], [OVER_RECORDS])
    result = pp.release(asked)
    found = pd.read_parquet(tmp_path / "out")
    assert set(found.columns) == {"town", "age"}
    assert result.assessment.passed
    assert not any("persons are counted" in note for note in result.assessment.notes)
    assert pp.assess(tmp_path / "out", asked).passed


@pytest.mark.parametrize("over", [None, "persons", "households"])
@pytest.mark.parametrize("name", ALL)
def test_guarantees_over_persons_are_refused_when_the_policy_is_read(
    tmp_path: Path, name: str, over: str | None
) -> None:
    entry = {"k_anonymity": {"k": 2, **({} if over is None else {"over": over})}}
    with pytest.raises(
        UsageError, match=r"guarantees\[0\].*none among the records that synthesize draws.*over: record"
    ):
        policy(tmp_path, ALL[name], [entry])


def test_households_are_refused_by_what_reads_them(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"guarantees\[1\].*households"):
        policy(tmp_path, ALL["cart"], [OVER_RECORDS, {"household_k_anonymity": {"k": 2}}])


def test_rows_that_keep_a_column_are_still_of_their_person(tmp_path: Path) -> None:
    asked = policy(tmp_path, [{"synthesize": {"columns": ["age"], "method": "copula"}}], [BY_TOWN])
    assert not asked.draws_records
    notes = pp.release(asked, dry_run=True).assessment.notes
    assert any("persons are counted" in note for note in notes)


def test_attacks_on_drawn_records_run(tmp_path: Path) -> None:
    measures = [{"closest_record": {}}, {"membership_attack": {}}]
    result = pp.release(policy(tmp_path, ALL["cart"], [OVER_RECORDS], measures=measures))
    assert [verdict.name for verdict in result.assessment.measures] == ["closest_record", "membership_attack"]
