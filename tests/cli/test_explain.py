"""`explain` tells what the catalogue knows of any entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privpipe.cli.explain import described
from privpipe.release.policy.entries import Catalogues

CATALOGUES = Catalogues.shipped()
NAMES = [name for room in CATALOGUES.every() for name in room]


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_explained(run: Any, name: str) -> None:
    done = run("explain", name)
    assert done.exit_code == 0
    document = described(name)
    assert document["summary"].rstrip(".") in " ".join(done.stdout.split())
    for parameter in document["parameters"]:
        assert f"  {parameter['name']}: {parameter['type']} (" in done.stdout
        assert parameter["about"], f"{name}.{parameter['name']} says nothing of itself"
    assert json.loads(run("explain", name, "--json").stdout) == document


@pytest.mark.parametrize("name", list(CATALOGUES.models))
def test_every_model_tells_threat_rule_choice_and_source(run: Any, name: str) -> None:
    said = run("explain", name).stdout
    for title in ("guards against: ", "rule: ", "how to choose: ", "source: "):
        assert f"\n{title}" in said


def test_without_a_name_all_are_listed(run: Any) -> None:
    said = run("explain").stdout
    assert all(f"\n  {name} " in said for name in NAMES)
    listed = json.loads(run("explain", "--json").stdout)
    assert {name for names in listed.values() for name in names} == set(NAMES)


def test_the_nearest_name_is_offered(run: Any) -> None:
    done = run("explain", "k_anonimity")
    assert done.exit_code == 2
    assert "did you mean 'k_anonymity'?" in done.stderr


def test_the_schema_is_printed_or_written(run: Any, tmp_path: Any) -> None:
    printed = json.loads(run("schema").stdout)
    assert run("schema", "--out", tmp_path / "policy.schema.json").stdout == ""
    assert json.loads((tmp_path / "policy.schema.json").read_text()) == printed
    assert run("schema", "--out", tmp_path / "none" / "x.json").exit_code == 4
