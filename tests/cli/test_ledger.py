"""`privpipe ledger` proves, shows and mends; a damaged ledger ends it with 3 and a message."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
KEY = "k" * 40


@pytest.fixture
def released(place: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy that released twice next to a ledger."""
    monkeypatch.setenv("PRIVPIPE_LEDGER_KEY", KEY)
    policy = place / "release.yaml"
    text = policy.read_text()
    rows = (place / "data.csv").read_text().splitlines()
    named = ["who;" + rows[0], *(f"Quokka {at};{row}" for at, row in enumerate(rows[1:]))]
    (place / "data.csv").write_text("\n".join(named) + "\n")
    text = text.replace("columns:\n", "record_id: who\ncolumns:\n  who: {role: identifier}\n")
    entry = "  - complementary_release: {ledger: book, key: {from_env: PRIVPIPE_LEDGER_KEY}, k: 2}\n"
    policy.write_text(text.replace("measures:\n", entry + "measures:\n"))
    for _ in range(2):
        assert run("release", policy).exit_code == 0
    return policy


def test_a_whole_ledger_is_sound_by_its_policy_and_by_its_path(released: Path, run: Run) -> None:
    book = released.parent / "book"
    (released.parent / "key").write_text(KEY)
    for arguments in (
        (released,),
        (book, "--key-env", "PRIVPIPE_LEDGER_KEY"),
        (book, "--key-file", released.parent / "key"),
    ):
        found = run("ledger", "check", *arguments, "--json")
        assert found.exit_code == 0, found.stderr
        told = json.loads(found.stdout)
        assert (told["sound"], told["entries"], told["follows"], told["pending"]) == (True, 2, "persons", 0)
        assert [(sink["entry"], sink["wrong"]) for sink in told["sinks"]] == [(2, "")]
    assert "the ledger's key" in run("ledger", "check", released).stdout


def test_what_is_shown_is_not_a_hash_and_no_key(released: Path, run: Run) -> None:
    book = released.parent / "book"
    head = json.loads((book / "ledger.json").read_text())
    for arguments, proved in (((released,), True), ((book,), False)):
        found = run("ledger", "show", *arguments, "--json")
        assert found.exit_code == 0
        told = json.loads(found.stdout)
        assert told["proved"] is proved
        assert [(row["number"], row["records"], row["persons"]) for row in told["entries"]] == [
            (1, 60, 60),
            (2, 60, 60),
        ]
        plain = run("ledger", "show", *arguments)
        assert told["entries"][0]["run_id"] in plain.stdout
        for secret in (KEY, head["salt"], head["link"], head["seal"], head["commitment"], "Quokka"):
            assert secret not in found.stdout + plain.stdout
        assert ("not proved" in plain.stderr) is not proved


def test_exit_codes_and_no_crash(released: Path, run: Run) -> None:
    book = released.parent / "book"
    key = ("--key-env", "PRIVPIPE_LEDGER_KEY")
    assert run("ledger", "check", book).exit_code == 2  # without the key nothing is proved
    assert run("ledger", "check", book, "--key-env", "NOT_SET").exit_code == 2
    assert run("ledger", "check", book, *key, "--key-file", "x").exit_code == 2
    assert run("ledger", "check", released.parent / "nowhere").exit_code == 3
    assert run("ledger", "repair", released.parent / "nowhere").exit_code == 3
    assert run("ledger", "repair", released).exit_code == 0
    assert run("ledger", "repair", released, "--accept-loss").exit_code == 2
    entry = sorted(book.glob("*/0*.entry"))[-1]
    kept = entry.read_bytes()
    entry.write_bytes(kept[:-40])
    for command in ("check", "show", "repair"):
        for source in ((released,), (book, *key)):
            found = run("ledger", command, *source)
            assert found.exit_code == 3, (command, found.stdout)
            assert "crashed" not in found.stderr
    assert run("release", released).exit_code == 3
    shown = json.loads(run("ledger", "check", released, "--json").stdout)
    assert (shown["sound"], shown["entries"]) == (False, 1)
    entry.write_bytes(kept)
    assert run("ledger", "check", released).exit_code == 0


def test_a_loss_is_declared_by_the_policy_and_noted_from_then_on(released: Path, run: Run) -> None:
    shutil.rmtree(released.parent / "book")
    assert run("release", released).exit_code == 3
    refused = run("ledger", "repair", released)
    assert refused.exit_code == 3
    assert "--accept-loss" in refused.stderr
    assert run("ledger", "repair", released, "--accept-loss").exit_code == 0
    for _ in range(2):
        found = run("release", released, "--json")
        assert found.exit_code == 0
        assert any("lost history" in note for note in json.loads(found.stdout)["notes"])
    assert "declared lost" in run("ledger", "check", released).stdout


def test_a_policy_without_a_ledger_and_garbage_are_told_so(place: Path, run: Run) -> None:
    without = run("ledger", "check", place / "release.yaml")
    assert without.exit_code == 2
    assert "privpipe explain complementary_release" in without.stderr
    (place / "book").mkdir()
    (place / "book" / "thesis.txt").write_text("mine")
    for command in ("check", "show", "repair"):
        assert run("ledger", command, place / "book").exit_code == 3
    (place / "book" / "ledger.json").write_text("[" * 100_000)
    for command in ("check", "show", "repair"):
        found = run("ledger", command, place / "book")
        assert found.exit_code == 3
        assert "crashed" not in found.stderr
