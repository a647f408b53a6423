"""`hierarchy` checks, shows and writes out, and keeps values to itself unless told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privpipe.hierarchies import Hierarchy

FILES = """\
version: 1
columns:
  job: {role: quasi_identifier, hierarchy: {file: job.csv}}
  sex: {role: quasi_identifier, hierarchy: {tree: {"*": [f, m]}}}
guarantees:
  - k_anonymity: {k: 2}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A policy without data whose hierarchies are files."""
    (tmp_path / "release.yaml").write_text(FILES)
    (tmp_path / "job.csv").write_text("nurse;health;*\nsurgeon;health;*\nclerk;office;*\n")
    return tmp_path / "release.yaml"


def test_files_are_checked_without_data(run: Any, files: Path) -> None:
    done = run("hierarchy", "check", files)
    assert done.exit_code == 0, done.output
    assert "job: job.csv, height 2, labels 3 > 2 > 1" in done.stdout


def test_every_broken_file_is_told(run: Any, files: Path) -> None:
    (files.parent / "job.csv").write_text("nurse;health;*\nnurse;office;*\nclerk\n")
    done = run("hierarchy", "check", files, "--json")
    assert done.exit_code == 3
    assert "job.csv" in done.stderr
    assert "nurse" not in done.output
    by_column = {document["column"]: document for document in json.loads(done.stdout)}
    assert by_column["job"]["kind"] in ("ragged", "duplicate")
    assert "error" not in by_column["sex"]


def test_labels_are_shown_and_values_only_when_asked(run: Any, files: Path) -> None:
    done = run("hierarchy", "show", files, "job")
    assert "level 1" in done.stdout
    assert "health, office" in done.stdout
    assert "nurse" not in done.stdout
    assert "nurse" in run("hierarchy", "show", files, "job", "--show-values").stdout
    shown = json.loads(run("hierarchy", "show", files, "job", "--json").stdout)
    assert list(shown["labels"]) == ["1", "2"]


def test_a_hierarchy_is_written_out_and_reads_back(run: Any, files: Path) -> None:
    out = files.parent / "written.csv"
    done = run("hierarchy", "build", files, "job", "--out", out)
    assert done.exit_code == 0, done.output
    assert Hierarchy.read_csv(out).values == Hierarchy.read_csv(files.parent / "job.csv").values
    assert run("hierarchy", "build", files, "job", "--out", files.parent / "none" / "x.csv").exit_code == 4


def test_an_unknown_column_is_a_usage_error(run: Any, files: Path) -> None:
    done = run("hierarchy", "show", files, "jop")
    assert done.exit_code == 2
    assert "did you mean 'job'?" in done.stderr


def test_builders_are_checked_over_the_source(run: Any, place: Path) -> None:
    done = run("hierarchy", "check", place / "release.yaml")
    assert done.exit_code == 0, done.output
    assert "age: intervals, height 3" in done.stdout
    # What redaction leaves of a code is made from the data.
    shown = run("hierarchy", "show", place / "release.yaml", "zip").stdout
    assert "8033" not in shown


def test_values_the_file_lacks_are_counted_not_shown(run: Any, place: Path) -> None:
    text = (place / "release.yaml").read_text().replace("{redact: {keep: left}}", "{file: zip.csv}")
    (place / "release.yaml").write_text(text)
    (place / "zip.csv").write_text("80330;*\n80331;*\n")
    done = run("hierarchy", "check", place / "release.yaml")
    assert done.exit_code == 3
    assert "36" in done.stderr, "records outside"
    assert "8033" not in done.output
