"""The Adult data of the pipelines: the clean file is the raw one, and the hierarchies cover it."""

from __future__ import annotations

import csv
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ADULT = Path(__file__).resolve().parents[2] / "pipelines" / "adult"
HIERARCHIES = sorted((ADULT / "hierarchies").glob("*.csv"), key=lambda file: file.stem)


@pytest.fixture(scope="module")
def prepare() -> dict[str, Any]:
    return runpy.run_path(str(ADULT / "prepare.py"))


@pytest.fixture(scope="module")
def records() -> list[dict[str, str]]:
    with (ADULT / "data" / "adult.csv").open(encoding="utf-8", newline="") as clean:
        return list(csv.DictReader(clean, delimiter=";"))


def test_the_clean_file_is_made_of_the_raw_one_byte_for_byte(tmp_path: Path) -> None:
    target = tmp_path / "adult.csv"
    script = [sys.executable, str(ADULT / "prepare.py"), str(ADULT / "data" / "adult.data"), str(target)]
    subprocess.run(script, check=True, capture_output=True, timeout=60)
    assert target.read_bytes() == (ADULT / "data" / "adult.csv").read_bytes()


def test_the_raw_file_is_the_published_one(shared: Path) -> None:
    published = (shared / "data" / "uci_adult" / "adult.data").read_bytes()
    assert (ADULT / "data" / "adult.data").read_bytes() == published


def test_counts_are_the_publishers(records: list[dict[str, str]]) -> None:
    """32,561 records; missing values and classes as in the repository's description of the data set."""
    assert len(records) == 32_561
    missing = Counter(name for record in records for name, value in record.items() if not value)
    assert missing == {"workclass": 1_836, "occupation": 1_843, "native_country": 583}
    assert Counter(record["income"] for record in records) == {"<=50K": 24_720, ">50K": 7_841}
    assert not any(value != value.strip() or value == "?" for record in records for value in record.values())


def test_the_attribution_is_next_to_the_data() -> None:
    text = (ADULT / "data" / "README.md").read_text(encoding="utf-8")
    for part in ("R. Kohavi and B. Becker", "UCI Machine Learning Repository", "1996", "10.24432/C5XW20", "CC BY 4.0"):
        assert part in text


@pytest.mark.parametrize(
    ("raw", "place"),
    [("1, 2, 3", "line 1: 3 fields"), ("\n" + ", ".join(["a;b"] * 15), "line 2: a field holds")],
    ids=["ragged", "delimiter inside"],
)
def test_a_bad_line_is_an_error_that_shows_no_value(prepare: dict[str, Any], raw: str, place: str) -> None:
    with pytest.raises(ValueError, match=place) as caught:
        prepare["clean_lines"](raw)
    assert "a;b" not in str(caught.value)


@pytest.mark.parametrize("file", HIERARCHIES, ids=lambda file: file.stem)
def test_a_hierarchy_is_well_formed_and_covers_the_data(file: Path, records: list[dict[str, str]]) -> None:
    """The conditions straight from their definition: every level is a function of the one below, the last is `*`."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines, delimiter=";"))
    width = len(rows[0])
    assert all(len(row) == width for row in rows)
    assert len({row[0] for row in rows}) == len(rows)
    for level in range(width - 1):
        upwards = {(row[level], row[level + 1]) for row in rows}
        assert len(upwards) == len({below for below, _ in upwards})
    sizes = [len({row[level] for row in rows}) for level in range(width)]
    assert sizes == sorted(set(sizes), reverse=True), "each level merges something"
    assert {row[-1] for row in rows} == {"*"}
    assert {record[file.stem] for record in records} - {""} <= {row[0] for row in rows}


def test_a_label_names_one_thing_in_a_hierarchy() -> None:
    for file in HIERARCHIES:
        rows = [line.split(";") for line in file.read_text(encoding="utf-8").splitlines()]
        places = {(label, level) for row in rows for level, label in enumerate(row)}
        assert len(places) == len({label for label, _ in places}), file.stem


def test_the_age_hierarchy_is_wide_enough_for_a_later_table() -> None:
    ages = [int(line.partition(";")[0]) for line in (ADULT / "hierarchies" / "age.csv").read_text().splitlines()]
    assert ages == list(range(1, 101))
