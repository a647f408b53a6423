"""A release that is k-anonymous and fails an attack is refused with the attack's figure, and nothing is published.

Complementary releases are in tests/running/test_ledger.py, row order and minimality in the tests of these measures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import Refused

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def people(seed: int, n: int = 240) -> pa.Table:
    """Two towns by age groups; in one of the classes all share an illness."""
    rng = np.random.default_rng(seed)
    town = np.where(np.arange(n) % 2 == 0, "Ashford", "Barrow")
    illness = np.where(town == "Ashford", "flu", rng.choice(["cold", "gout", "asthma"], n))
    income = rng.lognormal(3, 0.7, n)
    return pa.table(
        {
            "name": [f"Quokka {seed} {at}" for at in range(n)],
            "town": town.tolist(),
            "street": [f"{name} {at}" for name, at in zip(town, rng.integers(0, 10, n) // 9, strict=True)],
            "illness": illness.tolist(),
            "income": income.tolist(),
            "tax": (0.3 * income + rng.normal(0, 0.1, n)).tolist(),
        }
    )


STREETS = {"Ashford": ["Ashford 0", "Ashford 1"], "Barrow": ["Barrow 0", "Barrow 1"]}


def policy_of(folder: Path, gate: dict[str, Any], **roles: str) -> dict[str, Any]:
    pq.write_table(people(1), folder / "people.parquet")
    pq.write_table(people(2), folder / "others.parquet")
    columns: dict[str, Any] = {
        "name": {"role": "identifier"},
        "town": {"role": "quasi_identifier"},
        "street": {"role": "quasi_identifier", "hierarchy": {"tree": STREETS}},
        "illness": {"role": "insensitive"},
        "income": {"role": "insensitive", "type": "number"},
        "tax": {"role": "insensitive", "type": "number"},
    }
    for name, role in roles.items():
        columns[name]["role"] = role
    return {
        "source": {"path": str(folder / "people.parquet"), "format": "parquet"},
        "columns": columns,
        "record_id": "name",
        "transform": [
            {"add_noise": {"columns": ["income", "tax"], "variance_ratio": 1e-8}},
            {"generalize": {"levels": {"street": 1}}},
        ],
        "guarantees": [{"k_anonymity": {"k": 5, "quasi_identifiers": ["town", "street"]}}, gate],
        "sink": {"path": str(folder / "published"), "format": "parquet"},
        "seed": {"insecure": "a test's seed"},
        "allow_insecure_seed": True,
    }


NUMBERS = ["income", "tax"]
ATTACKS: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "homogeneity": ({"homogeneity_attack": {"column": "illness", "at_most": 0.2}}, {"illness": "sensitive"}, ""),
    "inference": ({"attribute_inference": {"column": "illness", "at_most": 0.5}}, {"illness": "sensitive"}, "share"),
    "background": (
        {"background_knowledge_attack": {"column": "illness", "insiders": 1, "at_most": 0.3}},
        {"illness": "sensitive"},
        "",
    ),
    "membership": (
        {"membership_attack": {"holdout": "others.parquet", "columns": NUMBERS, "at_most": 0.5}},
        {},
        "advantage",
    ),
    "copies": ({"closest_record": {"holdout": "others.parquet", "columns": NUMBERS, "at_least": 0.5}}, {}, "copies"),
    "robust": (
        {"robust_interval_risk": {"columns": NUMBERS, "estimator": "classical", "k": 0.1, "at_most": 0.2}},
        {},
        "inside",
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_release_is_refused_with_the_attacks_figure(attack: str, tmp_path: Path) -> None:
    gate, roles, figure = ATTACKS[attack]
    policy = pp.Policy.from_dict(policy_of(tmp_path, gate, **roles), tmp_path)
    with pytest.raises(Refused) as refused:
        pp.release(policy)
    anonymity, verdict = refused.value.assessment.verdicts
    assert (anonymity.outcome, verdict.outcome) == ("pass", "fail")
    observed = verdict.observed[figure] if figure else verdict.observed
    assert 0 <= observed <= 1
    assert verdict.name in str(refused.value) or type(verdict.entry).__name__ in str(refused.value)
    assert "Quokka" not in str(refused.value)
    assert not (tmp_path / "published").exists()


def test_cells_that_an_unsplit_class_gives_away(tmp_path: Path) -> None:
    policy = policy_of(tmp_path, {"downcoding": {"columns": ["street"], "at_most": 0.1}})
    skewed = people(1)
    street = [f"{town} 0" for town in skewed["town"].to_pylist()]
    street[:2] = ["Ashford 1", "Barrow 1"]
    finer = pa.array(street)
    pq.write_table(skewed.set_column(2, "street", finer), tmp_path / "people.parquet")
    prior = pa.table({"street": ["Ashford 0"] * 6 + ["Ashford 1"] * 4 + ["Barrow 0"] * 6 + ["Barrow 1"] * 4})
    pq.write_table(prior, tmp_path / "prior.parquet")
    policy["guarantees"][1]["downcoding"]["prior"] = "prior.parquet"
    with pytest.raises(Refused) as refused:
        pp.release(pp.Policy.from_dict(policy, tmp_path))
    anonymity, verdict = refused.value.assessment.verdicts
    assert anonymity.passed
    assert verdict.observed["right"] == pytest.approx(238 / 240)
    assert verdict.observed["gain"] == pytest.approx(238 / 240 - 0.6)
