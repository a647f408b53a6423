"""Domains and rules that Python gives as mappings are what a policy reads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from privpipe.errors import UsageError
from privpipe.transforms import Synthesize
from privpipe.transforms.synthesis.marginal_model import Domain

PRIVATE: dict[str, Any] = {"method": "marginals", "epsilon": 5.0, "delta": 1e-6}
DOMAINS: dict[str, Any] = {"sex": {"levels": ["f", "m"]}, "age": {"low": 0, "high": 100, "bins": 4}}


def test_mappings_are_domains() -> None:
    made = {"sex": Domain(levels=("f", "m")), "age": Domain(low=0, high=100, bins=4)}
    assert Synthesize(**PRIVATE, domains=DOMAINS) == Synthesize(**PRIVATE, domains=made)
    mixed = {**DOMAINS, "sex": made["sex"]}
    assert Synthesize(**PRIVATE, domains=mixed) == Synthesize.build({**PRIVATE, "domains": DOMAINS})


def test_they_run() -> None:
    rows = pa.table({"sex": ["f", "m"] * 100, "age": list(range(200))})
    made = Synthesize(**PRIVATE, domains=DOMAINS).apply(rows, seed="6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")
    assert set(made["sex"].to_pylist()) <= {"f", "m", None}
    assert len(made) > 100


@pytest.mark.parametrize(
    ("domains", "said"),
    [
        ({"sex": {"level": ["f"]}}, "domains.sex: unknown key 'level'; did you mean 'levels'"),
        ({"sex": ["f"]}, "domains.sex must be a mapping or a Domain"),
        ({"sex": None}, "domains.sex must be a mapping or a Domain"),
        (["sex"], "domains must be a mapping of names to Domain, not list"),
        (None, "domains must be a mapping of names to Domain, not NoneType"),
        ({"sex": {}}, "a column has either levels, or low below high"),
        ({"sex": {"levels": "fm"}}, "levels must be a list of texts"),
        ({"sex": {"levels": [1, 2]}}, "levels must be a list of texts"),
    ],
)
def test_anything_but_a_domain_is_refused_by_its_place(domains: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Synthesize(**PRIVATE, domains=domains)


def test_mappings_are_rules() -> None:
    rule: dict[str, Any] = {"when": {"married": ["no"]}, "then": {"partner": [None]}}
    assert Synthesize(rules=[rule]) == Synthesize.build({"rules": [rule]})  # type: ignore[arg-type]
    for wrong in ({"when": {"married": ["no"]}}, {"if": {}}, {"when": ["married"], "then": {"partner": [None]}}):
        with pytest.raises(UsageError, match="rules are mappings of `when` and `then`"):
            Synthesize(rules=[wrong])  # type: ignore[list-item]
