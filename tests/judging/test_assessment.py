"""What an assessment says of its verdicts and measures, and of the whole table that readers see."""

from __future__ import annotations

import re
from typing import Any

import pytest

from privpipe.blocks import Verdict
from privpipe.judging import Assessment
from privpipe.judging.assessment import rules_of_judging
from privpipe.measures import ProsecutorRisk
from privpipe.models import KAnonymity

RULES = rules_of_judging((), ("zip",))


def told(outcome: Any, **more: Any) -> Assessment:
    verdict = Verdict(KAnonymity(k=5, **more), 3, outcome, 5, 2, 7, 0.25, reason=f"{outcome} of classes of 3.")
    return Assessment(verdicts=(verdict,), records=28)


def tables(page: str) -> list[list[dict[str, str]]]:
    """The rows of each table that has a head, each cell by what its column is called."""
    found = []
    for table in re.findall("<table>.*?</table>", page):
        first, *rows = re.findall("<tr>(.*?)</tr>", table)
        if "<td>" not in first:
            heads = re.findall("<th>(.*?)</th>", first)
            found.append([dict(zip(heads, re.findall("<td>(.*?)</td>", row), strict=True)) for row in rows])
    return found


def test_figures_of_measures_are_under_the_heads_that_those_of_guarantees_have() -> None:
    entry = ProsecutorRisk(at_most=0.5)
    verdict = Verdict(entry, 0.25, "pass", 0.5)
    page = Assessment(verdicts=(verdict,), measures=(verdict,), records=4)._repr_html_()
    guarantees, measures = tables(page)
    assert measures == [
        {"measure": verdict.name, "parameters": guarantees[0]["parameters"], "observed": guarantees[0]["observed"]}
    ]
    assert measures[0]["observed"] == "0.25"


@pytest.mark.parametrize("outcome", ["pass", "fail", "error"])
def test_a_page_shows_why_the_whole_table_failed(outcome: str) -> None:
    page = Assessment(verdicts=told("pass").verdicts, records=28, whole=told(outcome))._repr_html_()
    assert (f"the whole table: k_anonymity: {outcome} of classes of 3." in page) == (outcome != "pass")
    assert ("Failed" in page) == (outcome != "pass")
    assert "the whole table" not in told(outcome)._repr_html_()


def test_a_public_document_reports_a_whole_table_where_there_is_one() -> None:
    alone = told("fail").public_dict(RULES)
    assert "whole_table" not in alone
    joined = Assessment(verdicts=told("pass").verdicts, records=28, whole=told("fail", severity="warn"))
    shown = joined.public_dict(RULES)
    assert shown["whole_table"]["passed"] == joined.passed
    assert [row["outcome"] for row in shown["whole_table"]["guarantees"]] == ["fail"]
    assert [text.startswith("the whole table: ") for text in shown["warnings"]] == [True]
    assert told("pass").public_dict(RULES)["warnings"] == []
