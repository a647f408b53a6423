"""Names with control characters and bidirectional overrides: escaped wherever a person reads them, kept elsewhere."""

from __future__ import annotations

import json
import logging
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from privpipe.cli.console import as_json, settle
from privpipe.errors import PolicyError, Problem, escaped
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.report import release_report
from privpipe.reporting.run_documents import RunDocuments

EVIL = "a\x1b[2J\u202eb\u2066\x9b31m\x7f"
NAME = "ok\nPASSED: every guarantee holds.\u202e"


def odd(text: str) -> set[str]:
    """What moves cursors or turns directions; line ends and blanks apart."""
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs") and sign not in "\n"}


@pytest.fixture
def evil(place: Path) -> Path:
    """The small release, under a name and with columns that play tricks."""
    text = (place / "release.yaml").read_text()
    text = text.replace("zip:", json.dumps(EVIL) + ":").replace("column: illness", "column: illness")
    (place / "release.yaml").write_text(text.replace("name: small", f"name: {json.dumps(NAME)}"))
    data = (place / "data.csv").read_text()
    (place / "data.csv").write_text(data.replace("age;zip;", f"age;{EVIL};", 1))
    return place


@pytest.mark.parametrize(
    "arguments",
    [
        ("release", "release.yaml"),
        ("release", "release.yaml", "--json"),
        ("--verbose", "assess", "release.yaml"),
        ("plan", "release.yaml", "--out", "plan.json"),
        ("plan", "release.yaml", "--json"),
        ("hierarchy", "check", "release.yaml"),
    ],
)
def test_no_command_prints_them(
    run: Any, evil: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(evil)
    done = run(*arguments)
    assert done.exit_code in (0, 5), done.output
    assert odd(done.stdout) == odd(done.stderr) == set()
    if "--json" in arguments:
        assert json.loads(done.stdout)


def test_an_error_names_them_escaped_and_on_one_line(run: Any, evil: Path) -> None:
    text = (evil / "release.yaml").read_text()
    (evil / "release.yaml").write_text(
        text.replace("role: sensitive", "role: sensitiv").replace("illness:", '"i\\nl":', 1)
    )
    done = run("assess", evil / "release.yaml")
    assert done.exit_code == 2
    assert odd(done.stderr) == set()
    assert "columns.i\\nl.role" in done.stderr


def test_reports_show_them_escaped(run: Any, evil: Path) -> None:
    assert run("release", evil / "release.yaml").exit_code == 0
    documents = RunDocuments.read(str(evil / "published" / "small"))
    for text in (release_report(documents), report_page(ReportData.of(documents))):
        assert odd(text) == set()
        assert "a\\x1b[2J\\u202eb" in text
        assert "\nPASSED: every guarantee holds." not in text


def test_a_line_of_a_log_stays_one_line(capsys: pytest.CaptureFixture[str], run: Any) -> None:
    settle(verbose=True, debug=False)
    logging.getLogger("privpipe.test").info("stage %s done", NAME + EVIL)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert odd(said) == set()


def test_what_is_printable_stays() -> None:
    for text in ("größe", "年齢", 'naïve "col"; \'', "\U0001f600", ""):
        assert escaped(text) == text
        assert as_json({"name": text}) == json.dumps({"name": text}, indent=2, ensure_ascii=False) + "\n"
    assert json.loads(as_json({"name": EVIL + "\ud800"})) == {"name": EVIL + "\ud800"}
    assert str(PolicyError([Problem("columns.a\nb", "is\rwrong")])) == "policy: columns.a\\nb: is\\rwrong"
