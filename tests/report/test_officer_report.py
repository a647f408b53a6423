"""The officer's report answers what an officer asks, from one page, and shows nothing that rests on few records."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.errors import NoSolutionError, UsageError
from privpipe.judging.report_counts import AT_RISK
from privpipe.reporting import report
from privpipe.reporting.officer.languages import LANGUAGES
from privpipe.reporting.officer.page import CHANGES, PERTURBING, SECTIONS, report_page
from privpipe.reporting.officer.report_data import ReportData
from privpipe.reporting.run_documents import RunDocuments
from privpipe.transforms import CATALOGUE
from tests.report.accessibility import faults_of, read
from tests.report.conftest import CANARY, RARE_INCOME, document, people

RUNS = ("adult", "released", "public", "refused", "waiting", "masked")


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, documents: dict[str, RunDocuments]) -> RunDocuments:
    return documents[request.param]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_page_has_all_sections_and_no_fault(run: RunDocuments, lang: Any) -> None:
    page = report_page(ReportData.of(run), lang)
    found = read(page)
    assert {"verdict", *SECTIONS} <= found.ids
    assert faults_of(page) == []
    assert found.lang == lang
    assert len(page.encode()) < 1_000_000


def test_no_page_reaches_elsewhere(run: RunDocuments) -> None:
    page = report_page(ReportData.of(run))
    assert not re.search(r"https?:|//|\bsrc=|url\(|@import|<script|<link|<iframe|\bon\w+=", page)


def test_an_officer_finds_the_answers(documents: dict[str, RunDocuments]) -> None:
    page = text_of(documents["released"])
    for said in (
        "Published",
        "Every guarantee of the policy holds over the published files (4 of 4).",
        "names a person by itself, or is treated as if it did; never released unchanged",
        "generalization, level",
        "at least 5",
        "to spare",
        "At least 5 records look the same",
        "Prosecutor: knows that a certain person is in the data, and her quasi-identifiers",
        "highest risk of a record",
        "Size of the group",
        "Records before",
        "chosen",
        "It proved that none has a smaller loss.",
        "Information loss",
        "Small losses are good.",
        "Small figures are good: a risk is the chance that the right person is found.",
        "a value like any other (own_value)",
        "Ready to copy.",
        "The published files were judged, and these guarantees hold",
        "Hash of the policy",
        "Signature",
        "then,",
    ):
        assert said in page, said


def test_the_report_of_adult_says_why_columns_are_held_back(documents: dict[str, RunDocuments]) -> None:
    page = text_of(documents["adult"])
    for said in (
        "Columns released 9 of 15",
        "The policy says: tells sex and marital status",
        "The policy says: survey weight, nearly a number of the record",
        "At least 5 records look the same",
        "Prosecutor: knows that a certain person is in the data, and her quasi-identifiers highest risk of a record",
        "It proved that none has a smaller loss.",
        "No settings were compared.",
        "The policy has no attack.",
        "No earlier release was found at the sink.",
    ):
        assert said in page, said


def test_a_refusal_says_why_in_one_sentence(documents: dict[str, RunDocuments]) -> None:
    page = text_of(documents["refused"])
    assert "Refused k-anonymity requires at least 5, and 1 was achieved: nothing was published." in page
    assert "missed by 4" in page
    assert "Nothing was published, so there is no method to describe." in page
    assert "Records judged" in page
    assert "Would have been released" in page
    assert "Columns released" not in page


def test_a_figure_that_is_not_there_is_withheld_from_the_public_alone(documents: dict[str, RunDocuments]) -> None:
    for name, word in (("released", "not measured"), ("public", "withheld")):
        run = documents[name]
        rows = [{**row, "observed": None} for row in run.verdict["measures"]]
        page = text_of(RunDocuments(run.path, {**run.verdict, "measures": rows}, run.manifest, run.report))
        assert f"Uniqueness in the data {word}" in page


def test_a_masked_release_shows_attacks_and_warns_of_counts(documents: dict[str, RunDocuments]) -> None:
    page = text_of(documents["masked"])
    assert "Record linkage" in page
    assert "What the attacker was assumed to know" in page
    assert "were perturbed" in page
    assert "Some values were exchanged between records. Such values are not exact for a single record" in page


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("microaggregate", "Some values were replaced by one value for each small group of similar records."),
        ("add_noise", "Some values were changed at random."),
        ("a_plug_in", "Some values were changed."),
    ],
)
def test_the_method_is_described_as_its_kind_changes_values(
    documents: dict[str, RunDocuments], name: str, said: str
) -> None:
    data = ReportData.of(documents["masked"])
    [stage] = data.stages
    page = read(report_page(replace(data, stages=({**stage, "name": name},)))).text
    assert f"{said} Such values are not exact" in page
    assert "exchanged between records" not in page


def test_every_stage_that_perturbs_has_its_sentence() -> None:
    perturbing = {name for name in CATALOGUE.built_in if CATALOGUE[name].taxon in PERTURBING}
    assert perturbing == set(CHANGES)


def test_a_run_that_waits_says_for_whose_signature(documents: dict[str, RunDocuments], waiting: Path) -> None:
    page = text_of(documents["waiting"])
    for said in ("Waiting for signature", "This release waits for: Ada.", f"privpipe sign {waiting}", "Ready to copy."):
        assert said in page, said


def test_a_signature_that_was_given_is_next_to_those_that_are_missing(documents: dict[str, RunDocuments]) -> None:
    asked = {
        "state": "waiting",
        "required": ["officer"],
        "signed": [
            {"name": "A. Steward", "role": "steward", "time": "2026-11-23T10:00:00+00:00", "decision": "approved"}
        ],
    }
    data = ReportData.of(documents["released"], sign_off=asked)
    page = report_page(data)
    assert data.state == "waiting"
    assert "Waiting for signature" in page
    assert "This release waits for: officer." in page
    assert "A. Steward" in page
    assert faults_of(page) == []


def test_marked_values_are_in_no_page_and_in_no_document_of_a_report(
    released: Any, refused: Path, waiting: Path
) -> None:
    told = [path.read_text(encoding="utf-8") for path in Path(released.path, "_privpipe").iterdir()]
    for record in (Path(released.record), refused, waiting):
        told += [path.read_text(encoding="utf-8") for path in record.rglob("report*")]
    assert len(told) == 10  # five next to the data, and a page and its figures for each of the others
    for text in told:
        assert CANARY not in text
        assert str(RARE_INCOME) not in text
        assert f"{RARE_INCOME:,}" not in text


def test_no_count_of_a_report_is_small(documents: dict[str, RunDocuments]) -> None:
    for run in documents.values():
        data = ReportData.of(run)
        bins = [count for each in (data.classes or {}).get("bins", ()) for count in each["counts"]]
        lines = [
            count for column in data.distributions.values() for line in column["lines"] for count in line["counts"]
        ]
        assert all(not count or count >= data.threshold for count in (*bins, *lines))
    assert bins or lines


def test_class_sizes_and_risks_are_those_of_the_tables(released: Any, documents: dict[str, RunDocuments]) -> None:
    """An oracle by pandas: groups of the source and of the published files."""
    data = ReportData.of(documents["released"])
    tables = {"before": people(), "after": pd.read_parquet(released.path)}
    assert data.classes is not None
    assert data.risks is not None
    for at, (side, table) in enumerate(tables.items()):
        sizes = table.groupby(["age", "town"], dropna=False)["income"].transform("size")
        assert data.classes["records"][at] == len(table)
        assert sum(each["counts"][at] for each in data.classes["bins"]) == len(table)
        for each in data.classes["bins"]:
            held = sizes.between(each["from"], each["to"] or len(table))
            assert each["counts"][at] == held.sum()
        found = data.risks[side]["prosecutor"]
        assert found["highest"] == pytest.approx(1 / sizes.min())
        assert found["average"] == pytest.approx((1 / sizes).mean())
        assert found["at_risk"] == pytest.approx((1 / sizes > AT_RISK + 1e-12).mean())


def test_distributions_are_those_of_the_tables(released: Any, documents: dict[str, RunDocuments]) -> None:
    shown = ReportData.of(documents["released"]).distributions
    for at, table in enumerate((people(), pd.read_parquet(released.path))):
        counts = table["illness"].value_counts()
        lines = {line["label"]: line["counts"][at] for line in shown["illness"]["lines"] if line["kind"] == "label"}
        assert lines == {label: counts[label] for label in lines}
        assert sum(line["counts"][at] for line in shown["illness"]["lines"]) == len(table)
        for line in shown["income"]["lines"]:
            low, _, high = line["label"].partition(":")
            held = table["income"].between(float(low or "-inf"), float(high or "inf"), inclusive="left")
            assert line["counts"][at] == held.sum()


def test_the_internal_page_is_its_owners_alone(released: Any) -> None:
    page = Path(released.record, "report.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.read_text(encoding="utf-8") == pp.report(released.record, format="html")
    public = Path(released.path, "_privpipe", "report.html")
    assert public.read_text(encoding="utf-8") == pp.report(released, format="html")


def test_the_public_page_says_nothing_that_public_documents_do_not(documents: dict[str, RunDocuments]) -> None:
    run = documents["public"]
    data = ReportData.of(run)
    assert data.edition == "public"
    assert (data.classes, data.risks, data.distributions, data.space, data.changes) == (None, None, {}, None, None)
    assert all(row.loss is None and row.labels_before is None for row in data.columns)
    # Not even where someone lays a private document next to it.
    private = RunDocuments(run.path, run.verdict, run.manifest, documents["released"].report)
    assert report_page(ReportData.of(private)) == report_page(data)


def test_what_changed_since_the_last_release_is_reported(documents: dict[str, RunDocuments]) -> None:
    changes = ReportData.of(documents["released"]).changes
    assert changes is not None
    assert changes["same_policy"] is False
    rows = {row["entry"]: row for row in changes["figures"]}
    assert rows["average_risk"]["before"] is None
    assert rows["k_anonymity"]["before"] == rows["k_anonymity"]["now"]


def test_no_report_where_none_is_wanted(home: Path) -> None:
    asked = document(home, sink={"path": str(home / "none" / "people")})
    for result in (pp.release(asked, report=False), pp.release({**asked, "report": {"write": False}})):
        assert not list(Path(result.record).glob("report.*"))
        assert not Path(result.path, "_privpipe", "report.html").exists()


def test_threshold_and_language_come_from_the_policy(home: Path) -> None:
    asked = document(home, sink={"path": str(home / "german" / "people")}, report={"threshold": 40, "lang": "de"})
    result = pp.release(asked)
    data = ReportData.of(RunDocuments.read(result.record))
    assert data.threshold == 40
    counts = [count for column in data.distributions.values() for line in column["lines"] for count in line["counts"]]
    assert all(not count or count >= 40 for count in counts)
    assert '<html lang="de">' in pp.report(result.record, format="html")
    assert '<html lang="fr">' in pp.report(result.record, format="html", lang="fr")
    plain = pp.release(document(home, sink={"path": str(home / "german" / "people")}))
    assert plain.plan.to_dict()["stages"] == result.plan.to_dict()["stages"]


@pytest.mark.parametrize("wrong", [{"threshold": 0}, {"lang": "it"}, {"write": "no"}, {"colour": "red"}])
def test_a_wrong_report_section_is_reported(home: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="report"):
        pp.Policy.from_dict(document(home, report=wrong))


def test_settings_that_were_compared_are_shown(released: Any, home: Path) -> None:
    grid = pp.compare(
        None, policy=document(home), grid={"guarantees[0].k_anonymity.k": [2, 20]}, risk=["marketer_risk"]
    )
    page = pp.report(released.record, format="html", tried=grid.to_dict())
    assert "guarantees[0].k_anonymity.k: 20" in page
    assert faults_of(page) == []
    assert "k_anonymity.k: 20" not in pp.report(released, format="html", tried=grid.to_dict())
    with pytest.raises(UsageError, match="the map is not what"):
        pp.report(released, tried={"points": 3})


def test_without_anything_that_prints_a_clear_line_says_so(
    released: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "browser", lambda: None)
    monkeypatch.setattr(report.importlib.util, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["report", released.path, "--pdf", str(tmp_path / "a.pdf")])
    assert done.exit_code == 2
    assert "name a browser in PRIVPIPE_BROWSER, or print the HTML report from any browser" in done.stderr
    assert not (tmp_path / "a.pdf").exists()


def test_a_hundred_columns_stay_below_a_megabyte(tmp_path: Path) -> None:
    table = people(400)
    wide = {f"column_{at:03}_with_a_long_name": (table["income"] * (at + 3)) % 7919 for at in range(100)}
    table = pd.concat([table, pd.DataFrame(wide)], axis=1)
    table.drop(columns=["name"]).to_csv(tmp_path / "wide.csv", index=False)
    columns = {
        name: {"role": "insensitive", "type": "integer"} for name in table.columns if name not in ("name", "town")
    }
    columns["town"] = {"role": "quasi_identifier"}
    result = pp.release(
        {
            "version": 1,
            "source": {"path": str(tmp_path / "wide.csv")},
            "columns": {**columns, "illness": {"role": "insensitive"}},
            "guarantees": [{"k_anonymity": {"k": 2}}],
            "sink": {"path": str(tmp_path / "out")},
        }
    )
    page = Path(result.record, "report.html").read_bytes()
    assert 100_000 < len(page) < 1_000_000
    assert faults_of(page.decode()) == []


def test_a_damaged_document_of_a_report_is_reported(released: Any, tmp_path: Path) -> None:
    for name in ("verdict", "manifest"):
        (tmp_path / f"{name}.json").write_bytes(Path(released.record, f"{name}.json").read_bytes())
    sound = json.loads(Path(released.record, "report.json").read_text(encoding="utf-8"))
    for changed in ({**sound, "classes": []}, {**sound, "distributions": {"age": {"lines": 3}}}, {}):
        (tmp_path / "report.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(UsageError, match=r"report\.json"):
            pp.report(tmp_path)


def text_of(run: RunDocuments) -> str:
    return read(report_page(ReportData.of(run))).text


def test_neighbours_of_the_chosen_levels_are_shown_with_what_they_would_have_come_to(
    documents: dict[str, RunDocuments], home: Path
) -> None:
    """An oracle: each neighbour as a release of its own levels."""
    space = ReportData.of(documents["released"]).space
    assert space is not None
    chosen = space["points"][0]
    near = [point for point in space["points"] if point["role"] == "neighbour"]
    assert chosen["role"] == "chosen"
    assert near
    for point in near:
        assert sum(abs(level - chosen["levels"][name]) for name, level in point["levels"].items()) == 1
        asked = document(home)
        stage = {"generalize": {"levels": point["levels"], "suppress_at_most": 0.05}}
        try:
            plan = pp.plan(None, {**asked, "transform": [stage]})
        except NoSolutionError:
            assert not point["meets"]
            continue
        assert point["meets"]
        assert point["few"] or plan.suppressed_records == point["suppressed"]
