"""An entry whose library is not installed says so when the policy is read, and names the extra."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import UsageError
from privpipe.policy import Policy

DOCUMENT: dict[str, Any] = {
    "columns": {"age": {"role": "quasi_identifier", "type": "integer"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
}
ENTRIES = [
    {"robust_interval_risk": {"columns": ["age"]}},
    {"information_loss": {"measure": "propensity", "model": "tree", "columns": ["age"]}},
]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: next(iter(entry)))
def test_it_is_reported_when_the_policy_is_read(monkeypatch: pytest.MonkeyPatch, entry: dict[str, Any]) -> None:
    for module in ("sklearn", "sklearn.tree", "sklearn.covariance"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError, match=r"measures\[0\].*not installed.*privpipe\[utility\]"):
        Policy.from_dict({**DOCUMENT, "measures": [entry]})


def test_what_needs_no_library_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    Policy.from_dict(
        {**DOCUMENT, "measures": [{"robust_interval_risk": {"columns": ["age"], "estimator": "classical"}}]}
    )


def test_the_extra_of_the_tests_brings_it(project: Path) -> None:
    extras = tomllib.loads((project / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert "utility" in extras["all"][0].partition("[")[2].rstrip("]").split(",")
    assert any(need.startswith("scikit-learn") for need in extras["utility"])
