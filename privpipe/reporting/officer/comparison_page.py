"""Two runs side by side as one HTML page, in the views of the officer's report and masked as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privpipe.errors import UsageError
from privpipe.reporting.entry_rows import parameter_text
from privpipe.reporting.officer.judged_rows import JudgedRow
from privpipe.reporting.officer.languages import language_of
from privpipe.reporting.officer.messages import Messages
from privpipe.reporting.officer.numbers import Numbers
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.officer.templates import template
from privpipe.reporting.officer.wording import Wording
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["comparison_page"]

LOSSES = ("loss", "changed", "blanked")


def comparison_page(left: RunDocuments, right: RunDocuments, lang: str | None = None) -> str:
    """The page: verdicts, what was asked and reached, risks by intruder, class sizes and loss by column of both.

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
    """A row an entry: what was asked, what was reached and what came of it, on both sides."""
    found = [_entries(side) for side in (left, right)]
    for key in dict.fromkeys((*found[0], *found[1])):
        cells = []
        for side, rows in zip((left, right), found, strict=True):
            row = rows.get(key)
            cells.append(("-", "-", "-") if row is None else (side.asked(row), side.reached(row), side.outcome(row)))
        yield {"title": left.title(key[0]), "columns": ", ".join(key[1]), "cells": cells}


def _entries(side: Wording) -> dict[tuple[str, tuple[str, ...], int], JudgedRow]:
    found: dict[tuple[str, tuple[str, ...], int], JudgedRow] = {}
    for row in (*side.data.guarantees, *side.data.measures):
        times = sum(key[:2] == (row.name, tuple(row.columns)) for key in found)
        found[row.name, tuple(row.columns), times] = row
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
