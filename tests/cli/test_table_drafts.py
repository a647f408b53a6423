"""Drafts about tables: of a finished table, and of records that are to be published as tables; each runs unedited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.policy import Policy


def run(*words: object) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(map(str, words)))
    return found.exit_code, found.output


def cells(blank: bool = True) -> pd.DataFrame:
    rows = [(region, sex) for region in ("All", "N", "S", "W") for sex in ("All", "f", "m")]
    figures = [140, 75, 65, 45, 25, 20, 45, 30, 15, 50, 20, 30]
    frame = pd.DataFrame(rows, columns=["region", "sex"]).assign(count=pd.array(figures, dtype="Int64"))
    hidden = pd.Series(range(12)).isin([4, 5, 10, 11]) & blank
    return frame.assign(count=frame["count"].mask(hidden))


TREE = [("Total", 90), ("Making", 60), ("Food", 25), ("Steel", 35), ("Serving", 30), ("Banks", 18), ("Hotels", 12)]
AFTER = [("Food", 25), ("Steel", 35), ("Making", 60), ("Banks", 18), ("Hotels", 12), ("Serving", 30), ("Total", 90)]
CODES = [("Total", 90), ("B", 30), ("A1", 25), ("B2", 12), ("A", 60), ("B1", 18), ("A2", 35)]
PARENTS = {"Food": "Making", "Steel": "Making", "Banks": "Serving", "Hotels": "Serving"}


@pytest.mark.parametrize("kind", ["csv", "parquet", "wide"])
def test_the_draft_of_a_finished_table_judges_it_unedited(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"visits.{'parquet' if kind == 'parquet' else 'csv'}"
    frame = cells()
    if kind == "wide":
        frame = frame.pivot(index="region", columns="sex", values="count").reset_index()
    frame.to_parquet(file, index=False) if kind == "parquet" else frame.to_csv(file, index=False)
    code, output = run("tables", "draft", file, "--out", tmp_path / "policy.yaml")
    assert code == 0, output
    policy = Policy.load(str(tmp_path / "policy.yaml"))
    assert policy.tables is not None
    [spec] = policy.tables.aggregate.specs().values()
    assert spec.by == ("region", "column" if kind == "wide" else "sex")
    assert spec.total == "All"
    assert policy.tables.aggregate.layout == ("wide" if kind == "wide" else "long")
    code, output = run("validate", file, tmp_path / "policy.yaml")
    assert code == 0, output
    assert "12 cells judged" in output
    assert run("tables", "draft", file, "--out", tmp_path / "policy.yaml")[0] == 2


@pytest.mark.parametrize("rows", [TREE, AFTER, CODES], ids=["before", "after", "codes"])
def test_trees_are_found_by_what_adds_up(rows: list[tuple[str, int]], tmp_path: Path) -> None:
    pd.DataFrame(rows, columns=["industry", "count"]).to_csv(tmp_path / "table.csv", index=False)
    code, output = run("tables", "draft", tmp_path / "table.csv", "--out", tmp_path / "policy.yaml")
    assert code == 0, output
    spec = Policy.load(str(tmp_path / "policy.yaml")).columns["industry"]
    assert spec.hierarchy is not None
    expected = PARENTS if rows is not CODES else {"A1": "A", "A2": "A", "B1": "B", "B2": "B"}
    assert {row[0]: row[1] for row in spec.hierarchy.to_dict()["rows"]} == expected
    assert run("validate", tmp_path / "table.csv", tmp_path / "policy.yaml")[0] == 0


def test_sums_and_means_are_told_from_counts(tmp_path: Path) -> None:
    frame = cells(blank=False).assign(cost=lambda t: t["count"] * 7, mean_cost=7.0)
    frame.to_csv(tmp_path / "table.csv", index=False)
    assert run("tables", "draft", tmp_path / "table.csv", "--out", tmp_path / "policy.yaml")[0] == 0
    policy = Policy.load(str(tmp_path / "policy.yaml"))
    assert policy.tables is not None
    [spec] = policy.tables.aggregate.specs().values()
    assert [(each.kind, each.name) for each in spec.responses] == [
        ("count", "count"),
        ("sum", "cost"),
        ("mean", "mean_cost"),
    ]
    assert run("validate", tmp_path / "table.csv", tmp_path / "policy.yaml")[0] == 0


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (cells(False).assign(count=lambda t: t["count"].where(t.index != 3, 46)), "no nesting of its labels adds up"),
        (cells(False).iloc[1:].loc[lambda t: t["region"] != "All"], "could be that of the total"),
        (pd.concat([cells(False)] * 2), "a cell occurs twice"),
        (pd.DataFrame({"name": ["a", "b"], "of": ["c", "d"]}), "columns of labels and columns of figures"),
    ],
)
def test_anything_but_a_table_gets_no_draft(frame: pd.DataFrame, message: str, tmp_path: Path) -> None:
    frame.to_csv(tmp_path / "table.csv", index=False)
    code, output = run("tables", "draft", tmp_path / "table.csv")
    assert code == 3
    assert message in output


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    draws = np.random.default_rng(3)
    persons = pd.DataFrame({"patient_id": range(400), "sex": draws.choice(["f", "m"], 400)})
    persons["region"] = draws.choice(list("ABC"), 400, p=[0.6, 0.35, 0.05])
    frame = persons.loc[draws.integers(0, 400, 900)].reset_index(drop=True)
    frame.assign(cost=np.round(draws.lognormal(5, 1, 900), 2)).to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def test_the_draft_of_records_releases_tables_unedited(visits: Path) -> None:
    home = visits.parent
    code, output = run("init", visits, "--aggregate", "--out", home / "policy.yaml")
    assert code == 0, output
    policy = Policy.load(str(home / "policy.yaml"))
    assert policy.tables is not None
    assert policy.person_id == "patient_id"
    asked = [(each.name(), getattr(each, "at_least", None), each.tables) for each in policy.tables.guarantees]
    assert asked == [
        ("minimum_frequency", 10, ("counts",)),
        ("minimum_frequency", 3, ("sums",)),
        ("p_percent", 10, ("sums",)),
        ("table_audit", None, None),
    ]
    text = (home / "policy.yaml").read_text()
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("  - ") and "guarantees:" in lines[:at]:
            assert lines[at - 1].startswith("  #"), line  # each has its reason
    code, output = run("release", home / "policy.yaml")
    assert code == 0, output
    published = pp.read_release(str(home / "published" / "visits"), table="counts").to_pandas()
    assert published["count"].dropna().loc[lambda counts: counts > 0].min() >= 10
    code, output = run("validate", home / "published" / "visits", home / "policy.yaml")
    assert code == 5  # contributions are in no finished table, so p_percent is an error there
    assert "p_percent: PPercent" in output


def test_persons_in_several_cells_are_bounded(visits: Path) -> None:
    frame = pd.read_csv(visits)
    frame.assign(sex=np.random.default_rng(1).choice(["f", "m"], len(frame))).to_csv(visits, index=False)
    code, output = run("init", visits, "--aggregate")
    assert code == 0
    assert "contribution_bound: 1" in output


def test_records_without_any_dimension_get_no_table(tmp_path: Path) -> None:
    pd.DataFrame({"income": np.random.default_rng(1).normal(size=200)}).to_csv(tmp_path / "t.csv", index=False)
    code, output = run("init", tmp_path / "t.csv", "--aggregate")
    assert code == 3
    assert "by which records could be counted" in output
