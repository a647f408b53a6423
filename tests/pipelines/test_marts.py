"""The marts: published cells are counts of the source by a program of the test, and hidden ones are on every engine."""

from __future__ import annotations

import csv
import importlib.util
import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from tests.validated_frames import batch_of

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
MARTS = PIPELINES / "marts"
DIMS = ("education", "occupation", "sex")
ENGINES = pytest.mark.parametrize(
    "engine",
    [
        "embedded",
        pytest.param("dask", marks=[pytest.mark.dask, pytest.mark.deep]),
        pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep]),
    ],
)
Published = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, seeded: Path, run: Any) -> Published:
    """The folder that a policy published on an engine; each is run once."""
    home = tmp_path_factory.mktemp("marts")

    def by(policy: str, engine: str) -> Path:
        target = home / f"{policy}-{engine}"
        if not target.exists():
            if engine != "embedded" and importlib.util.find_spec("pyspark" if engine == "spark" else engine) is None:
                pytest.skip(f"{engine} is not installed")
            if engine == "spark" and shutil.which("java") is None:
                pytest.skip("Spark: no Java 17 on this machine")
            file = seeded / "marts" / f"{policy}.yaml"
            ended = run("privpipe", "release", file, "--target", target, "--engine", engine)
            assert ended.returncode == 0, ended.stderr
        return target

    return by


def workforce() -> dict[tuple[str, ...], tuple[int, int]]:
    """Persons and hours of each cell that has any, record by record."""
    with (PIPELINES / "adult" / "hierarchies" / "education.csv").open(encoding="utf-8", newline="") as file:
        schooling = {row[0]: row[1] for row in csv.reader(file, delimiter=";")}
    cells: dict[tuple[str, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    with (PIPELINES / "adult" / "data" / "adult.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            labels = (schooling[row["education"]], row["occupation"] or "(missing)", row["sex"])
            for shown in product(*(("Total", label) for label in labels)):
                count, hours = cells[shown]
                cells[shown] = (count + 1, hours + int(row["hours_per_week"]))
    return cells


@ENGINES
def test_published_cells_are_the_counts_of_the_source(published: Published, engine: str) -> None:
    cells, hidden = workforce(), 0
    rows = pd.read_parquet(published("release", engine) / "workforce.parquet").to_dict("records")
    assert len(rows) == 8 * 16 * 3
    for row in rows:
        count, hours = cells.get(tuple(row[name] for name in DIMS), (0, 0))
        statuses = {row[f"{name}_status"] for name in ("count", "hours", "mean_hours")}
        if pd.isna(row["count"]):
            hidden += 1
            assert count > 0
            assert statuses == {"c"}
            assert pd.isna(row["hours"])
            assert pd.isna(row["mean_hours"])
            continue
        assert (row["count"], row["hours"]) == (count, hours)
        assert count == 0 or count >= 10
        assert count == 0 or row["mean_hours"] == pytest.approx(hours / count)
        assert statuses == ({"published"} if count else {"zero"})
    small = sum(0 < count < 10 for count, _ in cells.values())
    assert small <= hidden <= 3 * small


def turnovers() -> dict[tuple[str, str], dict[str, int]]:
    """Of each cell the turnover of each holding."""
    with (MARTS / "hierarchies" / "industry.csv").open(encoding="utf-8", newline="") as file:
        section = {row[0]: row[1] for row in csv.reader(file, delimiter=";")}
    cells: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    with (MARTS / "data" / "establishments.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            industries = ("Total", section[row["industry"]], row["industry"])
            for cell in product(industries, ("Total", row["region"])):
                cells[cell][row["holding"]] += int(row["turnover"])
    return cells


@ENGINES
def test_no_published_turnover_gives_a_holding_away(published: Published, engine: str) -> None:
    cells, shown = turnovers(), 0
    with (published("turnover", engine) / "turnover.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            held = sorted(cells.get((row["industry"], row["region"]), {}).values(), reverse=True)
            if row["turnover"]:
                shown += 1
                assert int(row["turnover"]) == sum(held)
                assert not held or len(held) >= 3
                assert not held or 10 * sum(held[2:]) >= held[0]
    assert shown > len(cells) / 2


def test_a_stranger_works_out_no_blank_of_the_published_tables(published: Published, seeded: Path) -> None:
    """Without the true figures each blank counts as unsafe: none may follow, not even one that was hidden in vain."""
    judged = pp.validate(published("release", "embedded"), seeded / "marts" / "release.yaml")
    assert judged.passed
    turnover = pp.validate(published("turnover", "embedded"), seeded / "marts" / "turnover.yaml")
    assert {each.name: each.outcome for each in turnover.verdicts} == {
        "minimum_frequency": "error",
        "p_percent": "error",
        "table_audit": "pass",
    }
    for assessment in (judged, turnover):
        assert "blank figures can be worked out" in str(assessment.verdicts[-1].reason)


@ENGINES
@pytest.mark.parametrize(("policy", "file"), [("release", "workforce.parquet"), ("turnover", "turnover.csv")])
def test_every_engine_publishes_the_same_table(published: Published, engine: str, policy: str, file: str) -> None:
    assert (published(policy, engine) / file).read_bytes() == (published(policy, "embedded") / file).read_bytes()


def test_two_tables_without_a_small_cell_are_refused_for_their_difference(tmp_path: Path, run: Any) -> None:
    ended = run("privpipe", "release", MARTS / "refused.yaml", "--target", tmp_path / "target", "--json")
    assert ended.returncode == 5
    found = {each["name"]: each for each in json.loads(ended.stdout)["guarantees"]}
    assert found["minimum_frequency"]["outcome"] == "pass"
    assert found["minimum_frequency"]["observed"] == 9
    assert (found["table_audit"]["outcome"], found["table_audit"]["observed"]) == ("fail", 1)
    assert "1 populations implied by margins are unsafe" in found["table_audit"]["reason"]
    assert not (tmp_path / "target").exists()
    assert "Priv-house-serv" not in ended.stdout + ended.stderr


def test_establishments_are_those_of_the_script(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("marts_prepare", MARTS / "prepare.py")
    assert spec is not None
    assert spec.loader is not None
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    for folder in ("data", "hierarchies"):
        (tmp_path / folder).mkdir()
    prepare.write(tmp_path)
    for file in ("data/establishments.csv", "hierarchies/industry.csv"):
        assert (tmp_path / file).read_bytes() == (MARTS / file).read_bytes()


@pytest.mark.gx
@pytest.mark.filterwarnings("default")
def test_the_suite_passes_on_the_mart_and_fails_before_cells_are_hidden(published: Published, tmp_path: Path) -> None:
    pytest.importorskip("great_expectations")
    import privpipe.gx as ppgx

    cells = workforce()
    table = pd.read_parquet(published("release", "embedded") / "workforce.parquet")[[*DIMS, "count"]]
    before = table.assign(count=[cells.get(tuple(row), (0, 0))[0] for row in table[list(DIMS)].to_numpy().tolist()])
    before.to_parquet(tmp_path / "original.parquet")

    def outcomes(frame: pd.DataFrame) -> list[bool]:
        suite = ppgx.load_suite(PIPELINES.parent / "expectations" / "marts.json")
        parameters = {"original": str(tmp_path / "original.parquet")}
        return [each.success for each in batch_of(frame).validate(suite, expectation_parameters=parameters).results]

    assert outcomes(table) == [True, True]
    assert outcomes(before) == [False, False]
    shown = table.index[table["count"].isna()][0]
    assert outcomes(table.assign(count=table["count"].where(table.index != shown, before["count"])))[1] is False
