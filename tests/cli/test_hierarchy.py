"""`hierarchy` checks, shows and writes out, and withholds values unless requested."""

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


def test_every_broken_file_is_reported(run: Any, files: Path) -> None:
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


def test_a_file_alone_is_checked_and_shown(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "job.csv"
    file.write_text("name,group,all\nnurse,health,*\nsurgeon,health,*\nclerk,office,*\n")
    done = run("hierarchy", "check", file, "--delimiter", ",", "--header")
    assert (done.exit_code, done.stdout) == (0, "job.csv, height 2, labels 3 > 2 > 1\n")
    shown = run("hierarchy", "show", file, "--delimiter", ",", "--header").stdout
    assert "level 1 (group): 2 labels: health, office" in shown
    assert "nurse" not in shown
    wrong = run("hierarchy", "check", file)
    assert wrong.exit_code == 3
    assert 'write `delimiter: ","`' in wrong.stderr
    assert run("hierarchy", "check", file, "--add-root").exit_code == 3  # one column, of which no value is a job
    assert run("hierarchy", "check", file, "--add-root", "--delimiter", ",").exit_code == 0
    assert run("hierarchy", "check", tmp_path / "none.csv").exit_code == 3
    assert run("hierarchy", "check", tmp_path / "none.yaml").exit_code == 2


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("canary;x;*\nb;*\n", "ragged", "line 2 has 2 fields"),
        ("canary;x;*\ncanary;y;*\n", "duplicate", "line 2 repeats the raw value of line 1"),
        ("canary;x;u;*\nb;x;v;*\n", "not_functional", "line 1 and line 2 share their label at level 1"),
        ("canary;x\nb;y\n", "no_root", "level 1, the last, has 2 labels"),
        ("canary;*\n", "type", "line 1 is not of type integer"),
    ],
)
def test_what_is_wrong_with_a_file_is_reported_by_line_and_level(
    run: Any, tmp_path: Path, text: str, kind: str, where: str
) -> None:
    (tmp_path / "h.csv").write_text(text)
    done = run("hierarchy", "check", tmp_path / "h.csv", "--json", *(["--type", "integer"] if kind == "type" else []))
    assert done.exit_code == 3
    assert json.loads(done.stdout)[0]["kind"] == kind
    assert where in done.stderr
    assert "h.csv" in done.stderr
    assert "canary" not in done.output


def test_a_builder_is_built_over_a_table(run: Any, tmp_path: Path) -> None:
    (tmp_path / "ages.yaml").write_text("intervals: {widths: [10, 50]}\nmax_level: 2\n")
    (tmp_path / "people.csv").write_text("age,zip\n17,1\n21,2\n64,1\n")
    arguments = ("hierarchy", "build", tmp_path / "ages.yaml")
    out = tmp_path / "ages.csv"
    done = run(*arguments, "age", "--data", tmp_path / "people.csv", "--type", "integer", "--out", out, "--header")
    assert done.exit_code == 0, done.output
    made = Hierarchy.read_csv(out, header=True)
    assert (made.values, made.level_names[1]) == (("17", "21", "64"), "width 10")
    assert run(*arguments, "--out", out).exit_code == 2, "no values"
    assert run(*arguments, "--data", tmp_path / "people.csv", "--out", out).exit_code == 2, "no column"
    assert run(*arguments, "aeg", "--data", tmp_path / "people.csv", "--out", out).exit_code == 3
    (tmp_path / "ages.yaml").write_text("intervals: {widht: [10]}\n")
    assert run("hierarchy", "check", tmp_path / "ages.yaml").exit_code == 2
    (tmp_path / "ages.yaml").write_text("just text\n")
    assert run("hierarchy", "check", tmp_path / "ages.yaml").exit_code == 2


def test_values_outside_are_listed_when_asked(run: Any, tmp_path: Path) -> None:
    (tmp_path / "zips.csv").write_text("1;*\n")
    (tmp_path / "people.csv").write_text("age,zip\n17,1\n21,canary\n64,1\n")
    arguments = ("hierarchy", "check", tmp_path / "zips.csv", "zip", "--data", tmp_path / "people.csv")
    done = run(*arguments)
    assert done.exit_code == 3
    assert "1 distinct values of the data (1 records)" in done.stderr
    assert "canary" not in done.output
    assert "values outside: canary" in run(*arguments, "--show-values").stdout


def test_options_of_a_file_say_nothing_of_a_policy(run: Any, files: Path) -> None:
    done = run("hierarchy", "check", files, "--header")
    assert done.exit_code == 2
    assert "--header is for a hierarchy file" in done.stderr
    assert "name the column" in run("hierarchy", "show", files).stderr


def test_a_padded_leaf_is_a_value_and_stays_hidden(run: Any, tmp_path: Path) -> None:
    (tmp_path / "tree.yaml").write_text('tree: {"*": {Europe: {France: [Paris]}, Asia: [Tokyo]}}\n')
    shown = run("hierarchy", "show", tmp_path / "tree.yaml")
    assert shown.exit_code == 0, shown.output
    assert "level 1 (level 1): 2 labels: France" in shown.stdout
    assert "Tokyo" not in shown.stdout
    assert "Tokyo" in run("hierarchy", "show", tmp_path / "tree.yaml", "--show-values").stdout
