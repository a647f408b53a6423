"""The report as one HTML page: no script, no address of elsewhere, one file."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from privpipe.errors import escaped
from privpipe.reporting.officer.charts import bar
from privpipe.reporting.officer.messages import Messages
from privpipe.reporting.officer.numbers import Numbers
from privpipe.reporting.officer.wording import Wording

if TYPE_CHECKING:
    from jinja2 import Template

    from privpipe.reporting.officer.languages import Language
    from privpipe.reporting.officer.report_data import ReportData

__all__ = ["SECTIONS", "page_template", "report_page"]

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


SPACES = "\u00a0\u202f"
"""Spaces that do not break, within numbers."""


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
    return page_template().render(
        data=data,
        lang=lang,
        t=messages.text,
        has=messages.has,
        n=numbers.number,
        pct=numbers.percent,
        date=numbers.date,
        say=Wording(data, messages, numbers),
        sections=SECTIONS,
        bar=bar,
    )


@functools.cache
def page_template(name: str = "page.html.j2") -> Template:
    """A page of this package, that shows every text as text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_printable
    )
    return environment.from_string(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _printable(value: Any) -> Any:
    """What a page shows of a value: names may hold what turns the direction of reading."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(part if part in SPACES else escaped(part) for part in re.split(f"([{SPACES}])", value))
