"""A page in one language holds no sentence of another: whatever privpipe says of a run is said in the reader's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from privpipe.reporting.explorer_pages import answer_page, explorer_page
from privpipe.reporting.officer.languages import LANGUAGES, Language, catalogue
from privpipe.reporting.officer.page import comparison_page, report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.exploration import Explored
from tests.report.accessibility import faults_of, read
from tests.report.test_explorer import explored

__all__ = ["explored"]

OTHERS = [lang for lang in LANGUAGES if lang != "en"]
LEAST_WORDS = 3
RUNS = ("released", "public", "refused", "waiting", "masked")


def said_in(lang: Language) -> set[str]:
    """What a language says between the things that it speaks of, from some words on."""
    parts = (part for text in catalogue(lang).values() for part in re.split(r"\{\w*\}|`[^`]*`", text))
    return {" ".join(part.split()) for part in parts if len(part.split()) >= LEAST_WORDS}


def english_in(page: str, lang: Language) -> list[str]:
    own = "\n".join(said_in(lang))
    text = read(page).text
    return sorted(part for part in said_in("en") if part in text and part not in own)


def pages(documents: dict[str, RunDocuments], lang: Language) -> Iterator[str]:
    for name in RUNS:
        yield report_page(ReportData.of(documents[name]), lang)
    yield comparison_page(documents["released"], documents["refused"], lang)
    yield comparison_page(documents["masked"], documents["waiting"], lang)


@pytest.mark.parametrize("lang", OTHERS)
def test_no_english_is_left_in_a_page(lang: Language, documents: dict[str, RunDocuments], explored: Explored) -> None:
    found = list(pages(documents, lang))
    found += [explorer_page(explored.data, lang), *(answer_page(said, "a", lang) for said in ("written", "refused"))]
    for page in found:
        assert read(page).lang == lang
        assert faults_of(page) == []
        assert english_in(page, lang) == []


def test_english_would_be_found(documents: dict[str, RunDocuments]) -> None:
    page = report_page(ReportData.of(documents["released"]), "en")
    assert len(english_in(page, "de")) > 50
