"""Two runs as one page: what the report shows of each, side by side, and nothing that it masks."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privpipe.cli import app
from privpipe.errors import UsageError
from privpipe.reporting.officer.page import comparison_page
from privpipe.reporting.run_documents import RunDocuments
from tests.report.accessibility import faults_of, read
from tests.report.conftest import CANARY, RARE_INCOME


def text_of(page: str) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", page.partition("</style>")[2]).split()))


@pytest.fixture
def page(documents: dict[str, RunDocuments]) -> str:
    return comparison_page(documents["released"], documents["refused"])


def test_it_shows_both_verdicts_risks_sizes_and_losses(page: str, documents: dict[str, RunDocuments]) -> None:
    text = text_of(page)
    assert {"verdict", "guarantees", "risks", "sizes", "loss"} <= read(page).ids
    for run in ("released", "refused"):
        assert documents[run].name in text
    for said in ("Published", "Refused", "Prosecutor", "A: Before", "B: After", "Records before", "A: Loss"):
        assert said.lower() in text.lower(), said
    for bins in (documents[run].report["classes"]["bins"] for run in ("released", "refused")):
        for each in bins:
            assert all(f"{count:,}" in text for count in each["counts"])


def test_it_has_no_fault_and_reaches_nowhere(page: str) -> None:
    assert faults_of(page) == []
    assert not re.search(r"https?:|//|\bsrc=|url\(|@import|<script|<link|<iframe|\bon\w+=", page)


def test_nothing_masked_is_in_it(page: str) -> None:
    for marked in (CANARY, str(RARE_INCOME), f"{RARE_INCOME:,}"):
        assert marked not in page


def test_a_public_edition_is_refused(documents: dict[str, RunDocuments]) -> None:
    with pytest.raises(UsageError, match="public edition"):
        comparison_page(documents["released"], documents["public"])


def test_the_command_writes_it(released: Any, refused: Path, tmp_path: Path) -> None:
    out = tmp_path / "two.html"
    done = CliRunner().invoke(app, ["compare", released.record, str(refused), "--html", str(out)])
    assert done.exit_code == 0, done.stderr
    assert out.read_text(encoding="utf-8").startswith("<!doctype html>")
    wrong = CliRunner().invoke(app, ["compare", "release.yaml", "--grid", "grid.yaml", "--html", str(out)])
    assert wrong.exit_code == 2
    assert CliRunner().invoke(app, ["compare", released.path, str(refused), "--html", str(out)]).exit_code == 2
    german = CliRunner().invoke(app, ["compare", released.record, str(refused), "--html", str(out), "--lang", "de"])
    assert german.exit_code == 0, german.stderr
    assert "Zwei Läufe im Vergleich" in out.read_text(encoding="utf-8")
    assert CliRunner().invoke(app, ["compare", released.record, str(refused), "--lang", "de"]).exit_code == 2
