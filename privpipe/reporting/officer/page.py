"""The report as one HTML page: no script, no address of elsewhere, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from privpipe.reporting.officer.charts import bar
from privpipe.reporting.officer.messages import Messages
from privpipe.reporting.officer.method_statement import method_statement
from privpipe.reporting.officer.numbers import Numbers
from privpipe.reporting.officer.templates import template
from privpipe.reporting.officer.wording import Wording

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language
    from privpipe.reporting.officer.report_data import ReportData

__all__ = ["SECTIONS", "make_ready", "report_page"]

PAGE = "officer/page.html.j2"
SECTIONS = (
    "released",
    "guarantees",
    "meaning",
    "risks",
    "sizes",
    "distributions",
    "space",
    "tried",
    "loss",
    "attacks",
    "notes",
    "changes",
    "statement",
    "provenance",
    "signoff",
    "glossary",
)
"""Parts of a report below its verdict, in their order; each page has all of them."""


def make_ready() -> None:
    """Have the page's template compiled, which takes ten times as long as to fill it in."""
    template(PAGE)


def report_page(data: ReportData, lang: Language = "en") -> str:
    """The page of a report.

    Parameters
    ----------
    data : ReportData
    lang : {"en", "de", "fr", "es"}

    Examples
    --------
    >>> from privpipe.reporting.officer.report_data import ReportData
    >>> from privpipe.reporting.run_documents import RunDocuments
    >>> row = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "threshold": 3, "outcome": "pass"}
    >>> verdict = {"run_id": "a", "records": 90, "passed": True, "guarantees": [row], "measures": []}
    >>> page = report_page(ReportData.of(RunDocuments("a", verdict)))
    >>> "<h1>" in page, "<script" in page
    (True, False)
    """
    messages = Messages.of(lang)
    numbers = Numbers(lang)
    return template(PAGE).render(
        data=data,
        lang=lang,
        t=messages.text,
        has=messages.has,
        n=numbers.number,
        pct=numbers.percent,
        date=numbers.date,
        say=Wording(data, messages, numbers),
        statement=method_statement,
        sections=SECTIONS,
        bar=bar,
    )
