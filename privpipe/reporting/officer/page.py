"""HTML pages for an officer.

The report of a run with its method statement, and two runs side by side; each is one file without scripts.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from privpipe.errors import UsageError, escaped
from privpipe.reporting.entry_rows import JudgedRow, entry_class, parameter_text
from privpipe.reporting.officer.charts import bar
from privpipe.reporting.officer.languages import Messages, Numbers, language_of
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.officer.wording import Wording
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments

if TYPE_CHECKING:
    from jinja2 import Template

    from privpipe.reporting.officer.languages import Language

__all__ = ["SECTIONS", "comparison_page", "make_ready", "method_statement", "report_page", "template"]


SPACES = "\u00a0\u202f"
"""Spaces that do not break, within numbers."""


@functools.cache
def template(name: str) -> Template:
    """A template by its place below the room of reports.

    Examples
    --------
    >>> "<script" in template("officer/style.css").render()
    False
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("privpipe", "reporting"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_printable,
    ).get_template(name)


def _printable(value: Any) -> Any:
    """What a page shows of a value: names may hold what turns the direction of reading."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return "".join(part if part in SPACES else escaped(part) for part in re.split(f"([{SPACES}])", value))


PERTURBING = ("perturbative", "synthetic")
CHANGES: Mapping[str, str] = {
    **dict.fromkeys(("microaggregate", "fuzzy_microaggregate"), "averaged"),
    **dict.fromkeys(("rank_swap", "record_swap", "shuffle"), "swapped"),
    **dict.fromkeys(("add_noise", "pram", "shift_dates"), "noisy"),
    "round": "rounded",
    "synthesize": "drawn",
}
"""What a stage that perturbs does with values; `other` where a plug-in brings it."""


def method_statement(say: Wording) -> list[str]:
    """The statement sentence by sentence; from what is public of the method alone.

    Parameters
    ----------
    say : Wording
        The report in the language of the page.
    """
    text, data = say.messages.text, say.data
    released = sum(row.released for row in data.columns)
    changes = [CHANGES.get(each["name"], "other") for each in data.stages if each["kind"] in PERTURBING]
    found = [
        text("statement.intro", name=data.run["name"], version=data.run["versions"].get("privpipe", "")),
        text(
            "statement.columns" if released < len(data.columns) else "statement.columns_same",
            released=say.numbers.number(released),
            all=say.numbers.number(len(data.columns)),
        ),
        text("statement.records", records=say.figure(data.records["released"])),
    ]
    stages = [
        say.stage(each["name"]) + (f" ({each['parameters']})" if each["parameters"] else "") for each in data.stages
    ]
    found.append(text("statement.stages", stages="; ".join(stages)) if stages else text("statement.no_stages"))
    levels = {name: level for each in data.stages for name, level in each["levels"].items()}
    if levels:
        found.append(text("statement.levels", levels=say.levels(levels)))
    if changes:
        found += [text(f"statement.{change}") for change in (*dict.fromkeys(changes), "inexact")]
    elif stages:
        found.append(text("statement.coarse"))
    held = [
        f"{say.title(row.name)} ({say.asked(row)})" if row.asked is not None else say.title(row.name)
        for row in data.guarantees
        if row.outcome == "pass"
    ]
    found.append(text("statement.judged", guarantees="; ".join(dict.fromkeys(held))))
    if any(getattr(entry_class(stage["name"]), "suppresses", False) for stage in data.stages):
        found.append(text("statement.missing"))
    return found


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


LOSSES = ("loss", "changed", "blanked")


def comparison_page(left: RunDocuments, right: RunDocuments, lang: str | None = None) -> str:
    """The page: verdicts, what was required and achieved, risks by intruder, class sizes and loss by column of both.

    Parameters
    ----------
    left, right : RunDocuments
        Of private records.
    lang : {"en", "de", "fr", "es"}, optional
        Left out, that of the first run's policy.

    Raises
    ------
    UsageError
        A public edition, which has none of these figures, or another language.

    Examples
    --------
    >>> row = {"name": "k_anonymity", "parameters": {"k": 3}, "observed": 4, "threshold": 3, "outcome": "pass"}
    >>> verdict = {"records": 90, "passed": True, "guarantees": [row], "measures": []}
    >>> runs = [RunDocuments(each, {**verdict, "run_id": each}) for each in ("a", "b")]
    >>> "<h1>" in comparison_page(*runs)
    True
    """
    for each in (left, right):
        if each.edition == "public":
            raise UsageError(
                f"{each.path!r} is a public edition, which withholds most of what the page compares; name the folder "
                "of the private record of the run"
            )
    language = language_of(lang, left.policy)
    messages, numbers = Messages.of(language), Numbers(language)
    sides = tuple(Wording(ReportData.of(each), messages, numbers) for each in (left, right))
    settings = compare_runs(left, right).settings
    return template("officer/comparison.html.j2").render(
        lang=language,
        sides=sides,
        t=messages.text,
        rows=list(_judged(*sides)),
        risks=_risks(*sides),
        columns=list(_columns(*sides)),
        settings={
            place: ["-" if value is None else parameter_text(value) for value in pair]
            for place, pair in settings.items()
        },
    )


def _judged(left: Wording, right: Wording) -> Iterator[dict[str, Any]]:
    """One row per entry: required, achieved and outcome, on both sides."""
    found = [_entries(side) for side in (left, right)]
    for key in dict.fromkeys((*found[0], *found[1])):
        cells = []
        for side, rows in zip((left, right), found, strict=True):
            row = rows.get(key)
            cells.append(("-", "-", "-") if row is None else (side.asked(row), side.reached(row), side.outcome(row)))
        title = left.title(key.name) + (f" ({key.table})" if key.table else "")
        yield {"title": title, "columns": ", ".join(key.columns), "cells": cells}


class _Entry(NamedTuple):
    """What distinguishes entries of one run: `times` counts those that are the same in all else."""

    name: str
    table: str
    columns: tuple[str, ...]
    times: int


def _entries(side: Wording) -> dict[_Entry, JudgedRow]:
    found: dict[_Entry, JudgedRow] = {}
    for row in (*side.data.guarantees, *side.data.measures):
        own = (row.name, row.table, tuple(row.columns))
        found[_Entry(*own, sum(key[:3] == own for key in found))] = row
    return found


def _risks(left: Wording, right: Wording) -> list[tuple[str, str, list[str]]]:
    """Intruder, figure, and before and after of both runs."""
    found: list[dict[tuple[str, str], tuple[str, str]]] = [
        {(intruder, figure): (before, after) for intruder, figure, before, after in side.risk_rows()}
        for side in (left, right)
    ]
    unknown = left.messages.text("unknown")
    nothing = (unknown, unknown)
    return [
        (*key, [*found[0].get(key, nothing), *found[1].get(key, nothing)])
        for key in dict.fromkeys((*found[0], *found[1]))
    ]


def _columns(left: Wording, right: Wording) -> Iterator[tuple[str, list[str]]]:
    """What each released column lost: loss, changed cells and blanked cells of both runs."""
    found = [{row.name: row for row in side.data.columns if row.released} for side in (left, right)]
    for name in dict.fromkeys((*found[0], *found[1])):
        cells = []
        for side, rows in zip((left, right), found, strict=True):
            row = rows.get(name)
            for what in LOSSES:
                if row is None:
                    cells.append(left.messages.text("compare.not_released") if what == "loss" else "-")
                elif what == "loss":
                    cells.append("-" if row.loss is None else side.numbers.number(row.loss, 3))
                else:
                    cells.append(side.column_share(row, what))
        yield name, cells
