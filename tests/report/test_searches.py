"""What stages that tried no vectors of levels say of their search: as far as a plan knows it, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import privpipe as pp
from privpipe.reporting.officer.charts import other_searches, solution_space
from privpipe.reporting.officer.languages import LANGUAGES, Language
from privpipe.reporting.officer.page import report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from tests.report.accessibility import faults_of, read
from tests.report.conftest import document

CELLS = {"name": "suppress_cells", "detail": {"programs_solved": 4, "blanked_cells": 41, "loss": 41.0}}
BOUND = {**CELLS, "detail": {**CELLS["detail"], "lower_bound": 38.0, "optimal": False}}  # type: ignore[dict-item]
PROVED = {**CELLS, "detail": {**CELLS["detail"], "lower_bound": 41.0, "optimal": True}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("checked", {"local_recoding": {}}),
        ("cuts", {"mondrian": {}}),
        ("grouped", {"microaggregate": {"columns": ["income"], "k": 5, "method": "univariate"}}),
        ("greedy", {"suppress_cells": {}}),
    ],
)
def test_plans_of_stages_say_how_they_searched(kind: str, stage: dict[str, Any], home: Path) -> None:
    name = next(iter(stage))
    plan = pp.plan(None, {**document(home), "transform": [stage]}, losses=False)
    [found] = other_searches(plan.to_dict()["stages"], 5)
    assert (found["stage"], found["kind"]) == (name, kind)
    assert kind == "grouped" or found["loss"] is not None


def said(documents: dict[str, RunDocuments], *stages: Any, lang: Language = "en") -> str:
    data = replace(ReportData.of(documents["masked"]), searches=other_searches(stages, 5))
    page = report_page(data, lang)
    assert faults_of(page) == []
    return read(page).text


def test_the_page_says_it_in_a_sentence(documents: dict[str, RunDocuments]) -> None:
    start = "suppression of cells: 41 cells are blank, at a loss of 41 (integer programs solved: 4). "
    assert f"{start}It was not proved that none has a smaller loss." in said(documents, CELLS)
    assert f"{start}None can have a loss below 38;" in said(documents, BOUND)
    assert f"{start}It is proved that none has a smaller loss." in said(documents, PROVED)
    swept = {"name": "local_recoding", "detail": {"nodes_checked": 30, "loss": 0.25}}
    assert "local recoding: 30 candidates were compared" in said(documents, swept)
    assert "No stage of this run searched" not in said(documents, swept)
    assert "No stage of this run searched" in said(documents)


def test_the_page_says_how_far_a_search_of_levels_proved_its_choice(documents: dict[str, RunDocuments]) -> None:
    detail = {"levels": {"age": 1}, "nodes_checked": 5, "nodes": 9000, "loss": 0.5, "optimal": False}

    def of(lang: Language, **known: Any) -> str:
        space = solution_space([{"name": "generalize", "detail": {**detail, **known}}], 5)
        page = report_page(replace(ReportData.of(documents["masked"]), space=space), lang)
        assert faults_of(page) == []
        return read(page).text.replace("\u00a0", " ")

    assert "none has a loss below 0.125; whether this one is the smallest is not proved" in of("en", lower_bound=0.125)
    assert "did not prove that none has a smaller loss" in of("en", lower_bound=None)
    assert "It proved that none has a smaller loss" in of("en", optimal=True, lower_bound=0.5)
    for lang in LANGUAGES:
        assert ("0.125" if lang == "en" else "0,125") in of(lang, lower_bound=0.125)


def test_groups_are_said_to_be_near_the_best(documents: dict[str, RunDocuments]) -> None:
    grouped = {"name": "microaggregate", "detail": {"loss": 14.477412, "lower_bound": 14.45, "above_bound": 0.18}}
    assert "lose 14.48 % of the spread, at most 0.18 % more than the best possible groups" in said(documents, grouped)
    for lang, bound in {"de": "14,45 %", "es": "14,45 %", "fr": "14,45 %"}.items():
        assert bound in said(documents, grouped, lang=lang).replace("\u00a0", " ")  # type: ignore[arg-type]
    unknown = {"name": "microaggregate", "detail": {"loss": 14.5, "lower_bound": None, "above_bound": None}}
    assert "best possible" not in said(documents, unknown)


def test_few_blanked_cells_are_not_counted(documents: dict[str, RunDocuments]) -> None:
    few = {**CELLS, "detail": {**CELLS["detail"], "blanked_cells": 3, "loss": 3.0}}  # type: ignore[dict-item]
    [found] = other_searches([few], 5)
    assert (found["blanked"], found["loss"], found["few"]) == (None, None, True)
    for lang in LANGUAGES:
        assert said(documents, few, lang=lang)


def test_levels_are_reported_by_the_table_and_not_twice(documents: dict[str, RunDocuments]) -> None:
    data = ReportData.of(documents["released"])
    assert data.space is not None
    assert data.searches == ()
    assert ReportData.of(documents["public"]).searches == ()
