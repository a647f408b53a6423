"""`explain` shows what the catalogue knows about any entry."""

from __future__ import annotations

import json
from typing import Any

import pytest

from privpipe.blocks import Catalogue
from privpipe.cli.explain import described
from privpipe.policy.catalogues import Catalogues
from privpipe.policy.grammar import OFFICER, PLAN, SIGN_OFF, SINK, SOURCE_SECTIONS
from tests.gathering import gathered

CATALOGUES = Catalogues.shipped()
NAMES = [name for room in CATALOGUES.every() for name in room]


@pytest.mark.parametrize("room", CATALOGUES.every(), ids=lambda room: room.package.rpartition(".")[2])
def test_every_entry_is_explained(run: Any, room: Catalogue) -> None:
    def check(name: str) -> None:
        done = run("explain", name)
        assert done.exit_code == 0
        document, told = described(name), " ".join(done.stdout.split())
        assert document["summary"].rstrip(".") in told
        for parameter in document["parameters"]:
            assert f" {parameter['name']}: {parameter['type']} (" in told
            assert parameter["about"], f"{parameter['name']} says nothing of itself"
        if name == min(room):
            assert json.loads(run("explain", name, "--json").stdout) == document
        if room is CATALOGUES.models:
            for title in ("guards against: ", "rule: ", "how to choose: ", "source: "):
                assert f"\n{title}" in done.stdout
        check_rule_of_thumb(name, document, done.stdout)

    def check_rule_of_thumb(name: str, document: dict[str, Any], told: str) -> None:
        """Derived from the entry's own fields, so a model that comes later has it too."""
        group = room.module_of(name).split(".")[0]
        parameters = {parameter["name"] for parameter in document["parameters"]}
        shown = parameters & {"k", "l", "t"} if group in ("identity", "attribute") else set()
        table = document.get("rule_of_thumb", [])
        assert bool(table) == bool(shown)
        assert ("rule of thumb: start from the risk" in told) == bool(shown)
        assert all(shown <= set(row) for row in table)

    with gathered() as case:
        for name in room:
            with case(name):
                check(name)


@pytest.mark.parametrize("name", ["officer", "sign_off"])
def test_an_officers_policy_is_explained_by_its_keys(run: Any, name: str) -> None:
    keys = {"officer": OFFICER, "sign_off": SIGN_OFF}[name]
    document = described(name)
    assert [parameter["name"] for parameter in document["parameters"]] == list(keys)
    said = run("explain", name).stdout
    for key, each in keys.items():
        assert f"\n  {key}: " in said
        assert each.about in " ".join(said.split())
    assert "{presets}" not in said
    assert json.loads(run("explain", name, "--json").stdout) == document
    assert f"  {name} " in run("explain").stdout


@pytest.mark.parametrize("name", ["source", "population", "original", "sink", "plan"])
def test_a_section_of_a_policy_is_explained_by_its_keys(run: Any, name: str) -> None:
    section = {"sink": SINK, "plan": PLAN}.get(name) or SOURCE_SECTIONS[name]
    document = described(name)
    assert [parameter["name"] for parameter in document["parameters"]] == list(section)
    said = run("explain", name).stdout
    assert said.startswith(f"{name} - section of a policy\n")
    for key in section:
        assert f"\n  {key}: " in said
    assert json.loads(run("explain", name, "--json").stdout) == document


def test_k_is_chosen_by_sensitivity(run: Any) -> None:
    said = run("explain", "k_anonymity").stdout
    for row in ("low          3-5    0.33-0.2", "medium       5-10   0.2-0.1", "high         10-20  0.1-0.05"):
        assert f"\n  {row}\n" in said


def test_every_measure_shows_threat_rule_choice_and_source(run: Any) -> None:
    for name in CATALOGUES.measures:
        assert {"threat", "formula", "choose", "source"} <= set(described(name))


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


@pytest.mark.parametrize("arguments", [(), ("k_anonymity",), ("source",), ("bands",), ("t_closeness",)])
def test_lines_are_as_wide_as_the_terminal(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, run("explain", *arguments).stdout.splitlines())) <= 80
