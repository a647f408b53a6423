"""What a release reveals about who lives together: its order, its equal values, its documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privpipe as pp

HOMES = 300


def families() -> pd.DataFrame:
    """Members side by side, as surveys are kept; every household has a rent of its own."""
    rng = np.random.default_rng(11)
    home = np.repeat(np.arange(HOMES), 3)
    return pd.DataFrame(
        {
            "home": [f"household-{each:04}" for each in home],
            "number": np.arange(len(home)),
            "true": home,
            "age": rng.choice(["young", "old"], len(home)),
            "rent": (1000.0 + np.round(rng.normal(0, 200, HOMES), 2))[home],
        }
    )


def released(tmp_path: Path, stages: list[Any], **changes: Any) -> pd.DataFrame:
    families().to_parquet(tmp_path / "families.parquet")
    document = {
        "columns": {
            "home": {"role": "identifier"},
            "number": {"role": "identifier"},
            "true": {"role": "insensitive"},
            "age": {"role": "quasi_identifier"},
            "rent": {"role": "insensitive"},
        },
        "household_id": "home",
        "record_id": "number",
        "source": {"path": "families.parquet"},
        "sink": {"path": "out"},
        "transform": stages,
        "guarantees": [{"k_anonymity": {"k": 5, "over": "households"}}],
        **changes,
    }
    asked = {name: value for name, value in document.items() if value is not None}
    pp.release(pp.Policy.from_dict(asked, base_dir=tmp_path))
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    return pd.concat([pd.read_parquet(part) for part in parts], ignore_index=True)


NOISE = {"add_noise": {"columns": ["rent"], "variance_ratio": 0.1, "same_within": "household_id"}}


@pytest.mark.parametrize("key", ["number", None])
@pytest.mark.parametrize("stages", [[], [NOISE]], ids=["as it is", "noise"])
def test_members_lie_together_no_more_often_than_strangers(tmp_path: Path, key: str | None, stages: list[Any]) -> None:
    found = released(tmp_path, stages, record_id=key)["true"].to_numpy()
    together = int((found[1:] == found[:-1]).sum())
    # 899 pairs of neighbours, each of one household with probability 2 / 899: a Poisson of mean 2.
    assert together <= 12
    near = int((np.abs(np.diff(found)) == 1).sum())
    assert near <= 25


def test_fine_noise_that_is_shared_shows_who_lives_together_and_rounding_does_not(tmp_path: Path) -> None:
    """The attack that `same_within` invites: rows of one noisy rent are a family."""

    def share(rows: pd.DataFrame) -> float:
        groups = rows.groupby("rent")["true"].agg(["nunique", "size"])
        return float(groups.loc[groups["nunique"] == 1, "size"].sum() / len(rows))

    assert share(released(tmp_path, [NOISE])) == 1.0
    assert share(released(tmp_path, [NOISE, {"round": {"columns": ["rent"], "base": 200}}])) < 0.05


def test_a_run_says_that_shared_values_link(tmp_path: Path) -> None:
    released(tmp_path, [NOISE])
    verdict = json.loads(next((tmp_path / ".out.privpipe" / "records").glob("*/verdict.json")).read_text())
    assert any("shows which rows belong together" in note for note in verdict["notes"])


def test_no_document_holds_the_key_of_a_household(tmp_path: Path) -> None:
    stages = [
        {"sample": {"fraction": 0.8, "same_within": "household_id"}},
        NOISE,
        {"suppress_records": {"suppress_at_most": 0.9, "whole": "households"}},
    ]
    measures = [{"household_k_anonymity": {}}, {"household_uniqueness": {}}]
    found = released(
        tmp_path,
        stages,
        measures=measures,
        guarantees=[{"k_anonymity": {"k": 5, "over": "households"}}, {"whole_households": {}}],
    )
    assert "home" not in found.columns
    texts = [path for path in tmp_path.rglob("*") if path.suffix in (".json", ".md", ".html", ".yaml")]
    assert texts
    for path in texts:
        assert "household-0" not in path.read_text(encoding="utf-8"), path.name


def test_figures_over_an_unreleased_key_are_not_public(tmp_path: Path) -> None:
    released(tmp_path, [], measures=[{"household_k_anonymity": {"quasi_identifiers": []}}])
    public = [path.read_text() for path in (tmp_path / "out").rglob("*verdict*.json")]
    assert public
    for text in public:
        for entry in (*json.loads(text)["guarantees"], *json.loads(text)["measures"]):
            assert entry["name"] == "no_identifiers" or entry["observed"] is None
