"""The notebook: it holds no output, and its cells do in one process what its text promises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import privpipe as pp

pytestmark = pytest.mark.deep
PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
NOTEBOOK = json.loads((PIPELINES / "notebook" / "release.ipynb").read_text(encoding="utf-8"))
KEYS = ("age", "sex", "race", "marital_status", "education")
TOLD = """
import json
print(json.dumps({
    "raw": raw, "tried": [pp.k_anonymity(tried, KEYS), pp.uniqueness(tried, KEYS)], "refusal": str(refusal),
    "made": made, "applied": len(released), "digest": policy.digest(), "seed": os.environ["PRIVPIPE_SEED"],
    "rows": comparison.rows, "lost": lost.rows, "again": len(again), "report": report,
    "levels": plan.to_dict()["stages"][1]["detail"]["levels"],
}))
"""


def cells(kind: str) -> list[dict[str, Any]]:
    return [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == kind]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder next to a link to the data, as the notebook's own is."""
    home = tmp_path_factory.mktemp("pipelines")
    (home / "adult").symlink_to(PIPELINES / "adult")
    (home / "notebook").mkdir()
    return home / "notebook"


@pytest.fixture(scope="module")
def told(place: Path) -> dict[str, Any]:
    """What the cells leave behind, run in their order by one process without a seed of its own."""
    program = "\n".join(["".join(cell["source"]) for cell in cells("code")] + [TOLD])
    environment = {name: value for name, value in os.environ.items() if name != "PRIVPIPE_SEED"}
    command = [sys.executable, "-W", "error", "-c", program]
    ended = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1]) | {"printed": ended.stdout}


@pytest.fixture(scope="module")
def published(place: Path, told: dict[str, Any]) -> list[dict[str, Any]]:
    return pq.read_table(place / "published" / "adult").to_pylist()


def test_it_is_a_notebook_that_was_never_run() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    assert {cell["cell_type"] for cell in NOTEBOOK["cells"]} == {"code", "markdown"}
    assert all((cell["outputs"], cell["execution_count"]) == ([], None) for cell in cells("code"))


def test_the_raw_table_and_what_stages_alone_make_are_not_safe(told: dict[str, Any]) -> None:
    assert (told["raw"]["smallest class"], told["raw"]["fewest occupations in a class"]) == (1, 1)
    least, alone = told["tried"]
    assert least == 1
    assert 0 < alone < told["raw"]["alone in their class"]
    assert "KAnonymity(k=5): observed 1" in told["refusal"]
    assert "Nothing was given back" in told["refusal"]


def test_what_is_published_holds_the_guarantees(published: list[dict[str, Any]]) -> None:
    """Counted without this package's code."""
    classes = Counter(tuple(row[name] for name in KEYS) for row in published)
    pairs = {(*(row[name] for name in KEYS), row["occupation"]) for row in published}
    occupations = Counter(pair[:-1] for pair in pairs)
    assert min(classes.values()) >= 5
    assert min(occupations.values()) >= 3
    assert max(row["hours_per_week"] for row in published) == 80


def test_little_is_left_out_and_what_is_applied_is_published(
    told: dict[str, Any], published: list[dict[str, Any]]
) -> None:
    assert 32_561 * 0.95 <= told["applied"] == len(published)
    assert told["made"]["records left out"] == pytest.approx(1 - len(published) / 32_561)
    assert (told["made"]["smallest class"] >= 5, told["made"]["alone in their class"]) == (True, 0)


def test_settings_are_compared_and_a_plan_shows_what_it_costs(told: dict[str, Any]) -> None:
    none, some = told["rows"]
    assert [none["outcome"], some["outcome"]] == ["pass", "pass"]
    assert none["loss"] > some["loss"]
    lost = {row["column"]: row for row in told["lost"]}
    assert set(lost) == {*KEYS, "occupation", "hours_per_week", "income"}
    assert lost["income"]["loss"] == 0.0
    assert all((lost[name]["loss"] > 0) == (level > 0) for name, level in told["levels"].items())
    assert told["again"] == told["applied"]


def test_the_report_is_a_page_without_the_seed(place: Path, told: dict[str, Any]) -> None:
    assert (place / "published" / "adult.html").read_text(encoding="utf-8") == told["report"]
    assert told["report"].startswith("<!doctype html>")
    assert told["seed"] not in told["report"]


def test_the_document_is_the_policy_and_holds_no_seed(place: Path, told: dict[str, Any]) -> None:
    file = place / "published" / "release.yaml"
    assert pp.Policy.load(file).digest() == told["digest"]
    text = file.read_text(encoding="utf-8")
    assert text in told["printed"]
    assert told["seed"] not in text
    assert "from_env: PRIVPIPE_SEED" in text
