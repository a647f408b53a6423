"""Every language says everything, of the same things, and writes numbers as its readers do."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter

import pytest

from privpipe.reporting.entry_rows import judged_row
from privpipe.reporting.officer.languages import LANGUAGES, Numbers, catalogue
from privpipe.reporting.officer.page import SECTIONS
from privpipe.reporting.report import release_report
from privpipe.reporting.run_documents import RunDocuments

OFFICER = Path(__file__).parents[2] / "privpipe" / "reporting" / "officer"


def speaks_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_language_has_every_text_and_speaks_of_the_same(lang: str) -> None:
    english, texts = catalogue("en"), catalogue(lang)  # type: ignore[arg-type]
    assert texts.keys() == english.keys()
    assert {key: speaks_of(text) for key, text in texts.items()} == {
        key: speaks_of(text) for key, text in english.items()
    }
    assert [key for key, text in texts.items() if not text] == ["asked.none"]
    if lang != "en":
        same = [key for key, text in texts.items() if text == english[key] and len(text) > 12 and " " in text]
        assert not same, "left untranslated"


def test_every_text_that_the_page_asks_for_is_there() -> None:
    template = (OFFICER / "page.html.j2").read_text(encoding="utf-8")
    asked = set(re.findall(r'\bt\("([a-z_.]+)"', template)) | {f"section.{name}" for name in SECTIONS}
    names = [name for names in re.findall(r"head\(\[(.*?)\]", template) for name in re.findall(r'"(\w+)"', names)]
    asked |= {f"head.{name}" for name in names}
    asked = {key for key in asked if not key.endswith((".", "_"))}
    assert asked
    assert asked <= catalogue("en").keys()


@pytest.mark.parametrize(
    ("lang", "number", "share", "date"),
    [
        ("en", "1,234,567", "12.5 %", "5 March 2026, 09:07 UTC"),
        ("de", "1.234.567", "12,5 %", "5. März 2026, 09:07 UTC"),
        ("fr", "1 234 567", "12,5 %", "5 mars 2026, 09:07 UTC"),
        ("es", "1.234.567", "12,5 %", "5 de marzo de 2026, 09:07 UTC"),
    ],
)
def test_numbers_are_written_as_in_the_language(lang: str, number: str, share: str, date: str) -> None:
    written = Numbers(lang)  # type: ignore[arg-type]
    plain = str.maketrans({"\u202f": " ", "\u00a0": " "})
    assert written.number(1_234_567).translate(plain) == number
    assert written.percent(0.125).translate(plain) == share
    assert written.date("2026-03-05T09:07:00+00:00") == date


def test_a_share_that_is_not_all_is_never_written_as_all() -> None:
    assert Numbers("en").percent(0.9999).startswith("> 99.9")


def test_the_criteria_are_under_their_heading() -> None:
    row = {"name": "linkability_attack", "parameters": {"known": [["age"], ["zip"]]}, "observed": None}
    verdict = {"run_id": "a", "records": 90, "passed": True, "guarantees": [], "measures": [row]}
    text = release_report(RunDocuments("a", verdict))
    assert "WP216 criteria" in text
    assert "a pass is not a certificate" in text
    assert judged_row(row, 90, 5).kind == "criterion"
    assert "WP216" not in release_report(RunDocuments("a", {**verdict, "measures": []}))
    assert 't("criteria.text")' in (OFFICER / "page.html.j2").read_text(encoding="utf-8")
