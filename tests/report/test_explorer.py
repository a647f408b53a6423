"""The page of settings: no marked value on it, read by everyone, the same on every engine; and one setting written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privpipe.errors import PolicyError, UnsupportedError, UsageError
from privpipe.policy import Policy
from privpipe.reporting.explorer_pages import ExplorerData, answer_page, explorer_page
from privpipe.reporting.officer.languages import LANGUAGES, Language
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_comparison import Point, RiskUtilityMap
from privpipe.reporting.run_documents import RunDocuments
from privpipe.running.exploration import Explored, PolicyFile, explore
from tests.report.accessibility import faults_of, read
from tests.report.conftest import CANARY, RARE_INCOME, document

RAW = [{"k_anonymity": {"k": 1}}, {"distinct_l_diversity": {"column": "illness", "l": 1}}]


@pytest.fixture(scope="session")
def explored(home: Path) -> Explored:
    return explore(Policy.from_dict(document(home)), most=5)


def test_settings_are_levels_around_the_one_that_the_search_takes(explored: Explored) -> None:
    first = explored.data.settings[0]
    assert first.current
    assert [each.current for each in explored.data.settings[1:]] == [False] * 4
    assert len({str(each.setting) for each in explored.data.settings}) == 5
    losses = [each.loss for each in explored.data.settings if each.may_be_chosen]
    assert first.loss == min(each for each in losses if each is not None)
    assert explored.data.space is not None
    assert explored.data.space["points"][0]["levels"] == first.setting


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_is_read_by_everybody(explored: Explored, lang: Language) -> None:
    page = explorer_page(explored.data, lang)
    assert faults_of(page) == []
    assert read(page).lang == lang
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    holding = sum(each.may_be_chosen for each in explored.data.settings)
    assert page.count("<form ") == page.count("<button ") == holding > 1
    for said in ("written", "refused"):
        assert read(answer_page(said, "a < b\nc", lang)).lang == lang


def test_no_marked_value_and_no_small_count_is_shown(explored: Explored) -> None:
    shown = explorer_page(explored.data) + repr(explored.data)
    for rare in (CANARY, str(RARE_INCOME), f"{RARE_INCOME:,}"):
        assert rare not in shown
    least = explored.data.threshold
    assert least == 5
    for each in explored.data.settings:
        assert each.suppressed is None or each.suppressed == 0 or each.suppressed >= least
        assert each.report is not None
        assert set(each.report.distributions) == {"age", "town", "illness", "income"}
        lines = [line for column in each.report.distributions.values() for line in column["lines"]]
        assert lines
        assert all(not count or count >= least for line in lines for count in line["counts"])


def test_a_mean_does_not_give_a_masked_part_away() -> None:
    """Two risks, of 300 and of 2 records in 1,000: the second counts as the five that it may be."""
    parts = {"sample_uniqueness": 0.002, "risky_cells": 0.3}
    point = Point(setting={}, outcome="pass", risk=0.151, loss=0.4, figures={**parts, "information_loss.ncp": 0.4})
    weights = dict.fromkeys(parts, 0.5)
    found = RiskUtilityMap(points=(point,), risk_weights=weights, loss_weights={"information_loss.ncp": 1.0})
    verdict = {"records": 1000, "passed": True, "guarantees": [], "measures": []}
    report = ReportData.of(RunDocuments("", verdict))
    data = ExplorerData.of("p", found, [report], shown=[{"a": 1}], current=0, space=None, threshold=5)
    [setting] = data.settings
    assert (setting.few_risk, setting.few_loss, setting.loss) == (True, False, 0.4)
    assert setting.risk == pytest.approx((0.005 + 0.3) / 2)


def test_marked_values_stay_hidden_where_nothing_is_protected(home: Path) -> None:
    """Guarantees that a raw table meets: every rare value is released, and none is shown."""
    asked = document(home, guarantees=RAW, report={"threshold": 10})
    found = explore(Policy.from_dict(asked), {"transform[0].generalize.suppress_at_most": [0, 0.01]})
    page = explorer_page(found.data)
    assert found.data.threshold == 10
    assert [each.outcome for each in found.data.settings] == ["pass", "pass"]
    assert not any(rare in page for rare in (CANARY, str(RARE_INCOME), f"{RARE_INCOME:,}"))


def test_a_setting_without_a_solution_is_reported_without_small_counts(home: Path) -> None:
    asked = document(home)
    place = "transform[0].generalize.suppress_at_most"
    found = explore(Policy.from_dict(asked), {"guarantees[0].k_anonymity.k": [2, 700], place: [0.2]})
    none = found.data.settings[1]
    assert none.outcome == "no_solution"
    assert not none.may_be_chosen
    page = explorer_page(found.data)
    assert faults_of(page) == []
    assert page.count("<button ") == 1


def test_a_policy_that_gives_levels_has_others_next_to_them(home: Path) -> None:
    given = {"generalize": {"levels": {"age": 2, "town": 3}, "suppress_at_most": 0.05}}
    found = explore(Policy.from_dict(document(home, transform=[given])), most=3)
    assert found.data.settings[0].setting == {"age": 2, "town": 3}
    assert found.data.settings[0].current
    assert len(found.data.settings) == 3


def test_a_policy_without_levels_is_explored_by_sizes_of_classes(home: Path) -> None:
    found = explore(Policy.from_dict(document(home, transform=[{"mondrian": {"score": "loss"}}])))
    assert [each.setting for each in found.data.settings] == [
        {"guarantees[0].k_anonymity.k": k} for k in (2, 5, 10, 20)
    ]
    assert [each.current for each in found.data.settings] == [False, True, False, False]
    assert faults_of(explorer_page(found.data)) == []
    losses = [each.loss for each in found.data.settings if each.loss is not None]
    assert losses == sorted(losses)
    assert len(losses) >= 2


def test_what_cannot_be_explored_is_reported(home: Path) -> None:
    with pytest.raises(UsageError, match="--grid FILE"):
        explore(Policy.from_dict(document(home, transform=[])))
    cells = document(home, transform=[{"generalize": {"approach": "AG_CS"}}])
    with pytest.raises(UnsupportedError, match="AG_CS"):
        explore(Policy.from_dict(cells))


def test_a_policy_that_measures_nothing_has_axes(home: Path) -> None:
    found = explore(Policy.from_dict(document(home, measures=[])), most=2)
    assert (found.data.risk, found.data.loss) == (("prosecutor_risk",), ("cell_loss",))
    assert all(each.loss is not None for each in found.data.settings)


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_every_engine_shows_the_same(home: Path, engine: str) -> None:
    pytest.importorskip("dask" if engine == "dask" else "pyspark")
    found, embedded = (explore(Policy.from_dict(document(home)), most=2, engine=each) for each in (engine, "embedded"))
    for each, other in zip(found.data.settings, embedded.data.settings, strict=True):
        assert (each.setting, each.outcome, each.few_risk) == (other.setting, other.outcome, other.few_risk)
        assert (each.risk, each.loss) == pytest.approx((other.risk, other.loss))
        assert each.report is not None
        assert other.report is not None
        assert each.report.distributions == other.report.distributions


def policy_file(home: Path, place: Path, **changes: Any) -> PolicyFile:
    text = Policy.from_dict(document(home, **changes)).to_yaml()
    path = place / "release.yaml"
    path.write_text(f"# kept\n{text}# end\n", encoding="utf-8")
    return PolicyFile.read(path)


def test_a_written_setting_loads_as_what_was_tried(home: Path, tmp_path: Path) -> None:
    file = policy_file(home, tmp_path)
    (tmp_path / "linked.yaml").symlink_to(file.path)
    file = PolicyFile.read(tmp_path / "linked.yaml")
    found = explore(file.policy(), most=3)
    file.write(file.with_setting(found.settings[2]))
    again = Policy.load(tmp_path / "linked.yaml")
    assert (tmp_path / "linked.yaml").is_symlink()
    assert again.digest() == found.settings[2].policy.digest()
    text = file.path.read_text(encoding="utf-8")
    assert text.startswith("# kept\n")
    assert text.endswith("# end\n")
    with pytest.raises(UsageError, match="changed since it was read"):
        file.write(b"")
    assert file.path.read_text(encoding="utf-8") == text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["linked.yaml", "release.yaml"]


def test_a_setting_that_would_change_more_than_itself_is_refused(home: Path, tmp_path: Path) -> None:
    file = policy_file(home, tmp_path)
    text = file.path.read_text(encoding="utf-8")
    shared = (
        "guarantees:\n- k_anonymity: &same {k: 5}\n- k_anonymity: *same\n"
        "- distinct_l_diversity: {column: illness, l: 2}\nmeasures: []\n"
    )
    start, end = text.index("guarantees:"), text.index("sink:")
    file.path.write_text(text[:start] + shared + text[end:], encoding="utf-8")
    file = PolicyFile.read(file.path)
    found = explore(file.policy(), {"guarantees[1].k_anonymity.k": [5, 6]})
    assert file.with_setting(found.settings[0]) == file.content
    with pytest.raises(UsageError, match="change more than itself"):
        file.with_setting(found.settings[1])
    assert file.path.read_bytes() == file.content


def test_an_officers_policy_holds_what_is_written(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = policy_file(home, tmp_path)
    found = explore(file.policy(), {"guarantees[0].k_anonymity.k": [4, 6]})
    officer = tmp_path / "officer.yaml"
    officer.write_text("version: 1\nallow_insecure_seed: true\nguarantees:\n- k_anonymity: {k: 5}\n")
    monkeypatch.setenv("PRIVPIPE_OFFICER_POLICY", str(officer))
    with pytest.raises(PolicyError, match="officer"):
        file.with_setting(found.settings[0])
    assert b"k: 6" in file.with_setting(found.settings[1])
