"""What commands print with --json is what its schema says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from privpipe.reporting.output_schemas import OUTPUTS, RECORDS, output_schema

jsonschema = pytest.importorskip("jsonschema")
Run = Callable[..., Result]


@pytest.fixture
def printed(run: Run, place: Path) -> dict[str, Any]:
    """The documents of each command, by the name of its schema."""
    policy, grid, plan = place / "release.yaml", place / "grid.yaml", place / "plan.json"
    grid.write_text('"guarantees[0].k_anonymity.k": [2, 10]\n')
    axes = ("--risk", "marketer_risk", "--loss", "cell_loss")
    found: dict[str, list[Any]] = {}

    def keep(name: str, *arguments: Any, code: int = 0) -> None:
        done = run(*arguments, "--json")
        assert done.exit_code == code, done.stderr
        found.setdefault(name, []).append(json.loads(done.stdout))

    keep("assess", "assess", policy, code=5)
    keep("dry_run", "release", policy, "--dry-run")
    keep("release", "release", policy)
    keep("assess", "validate", place / "published" / "small", policy)
    keep("plan", "plan", policy, "--out", plan)
    keep("plan", "plan", policy, "--no-losses")
    keep("plan_cost", "plan", policy, "--cost")
    keep("transform", "transform", policy, "--plan", plan, "--target", place / "unjudged")
    keep("compare_settings", "compare", policy, "--grid", grid, *axes)
    keep("compare_runs", "compare", place / "published" / "small", place / "published" / "small")
    keep("verify", "verify", place / "published" / "small")
    keep("history", "history", place / "published" / "small")
    text = policy.read_text()
    policy.write_text(text.replace("search: optimal, suppress_at_most: 0.2", "levels: {age: 0, zip: 0}"))
    keep("release", "release", policy, code=5)
    keep("release", "release", policy, "--dry-run", code=5)
    return found


def test_documents_are_what_their_schemas_say(printed: dict[str, Any]) -> None:
    assert set(printed) == set(OUTPUTS)
    for name, documents in printed.items():
        for document in documents:
            jsonschema.Draft202012Validator(output_schema(name)).validate(document)
            known = set(output_schema(name)["properties"])
            assert set(document) <= known


def test_schemas_are_printed(run: Run, place: Path) -> None:
    for name in (*OUTPUTS, *RECORDS):
        schema = json.loads(run("schema", "--output", name).stdout)
        assert schema == output_schema(name)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert not jsonschema.Draft202012Validator(schema).is_valid({})
    wrong = run("schema", "--output", "relese")
    assert wrong.exit_code == 2
    assert "did you mean 'release'" in wrong.stderr
