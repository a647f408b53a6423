"""Commands say WARNING first, and end with 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]


@pytest.fixture
def warned(place: Path) -> Path:
    policy = place / "release.yaml"
    text = policy.read_text().replace(
        "  - k_anonymity: {k: 3}\n", "  - k_anonymity: {k: 3}\n  - k_anonymity: {k: 61, severity: warn}\n"
    )
    policy.write_text(text)
    return policy


def test_a_release_ends_with_0_and_says_it_first(run: Run, warned: Path) -> None:
    result = run("release", warned)
    assert result.exit_code == 0, result.stderr
    first = [line for line in result.stdout.splitlines() if not line.startswith("ALARM")]
    assert first[0].startswith("WARNING k_anonymity: required 61, achieved ")
    assert "PASSED WITH 1 WARNING" in result.stderr
    assert "PUBLISHED" in result.stderr
    checked = run("validate", warned.parent / "published" / "small", warned, "--json")
    assert checked.exit_code == 0, checked.stderr
    document = json.loads(checked.stdout)
    assert (document["passed"], len(document["warnings"])) == (True, 1)
    assert [row["outcome"] for row in document["guarantees"] if row["severity"] == "warn"] == ["fail"]


def test_a_refusal_names_what_refuses(run: Run, warned: Path) -> None:
    result = run("assess", warned)
    assert result.exit_code == 5
    assert "FAILED" in result.stderr
    assert result.stdout.startswith("WARNING k_anonymity")


def test_the_document_says_it_with_json(run: Run, warned: Path) -> None:
    result = run("release", warned, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["warnings"][0].startswith("k_anonymity: required 61, achieved ")
