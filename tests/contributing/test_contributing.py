"""CONTRIBUTING.md is true: its files are put into a copy of the project, and its commands are given there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

BLOCK = re.compile(r"^`([\w./]+)`[^\n]*\n\n((?:```\w+\n.*?^```\n\n?)+)", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
OTHERS = (
    "tests/architecture/test_rooms.py",
    "tests/blocks/test_catalogue.py",
    "tests/cli/test_explain.py",
    "tests/conformance/test_catalogues.py",
    "tests/leaving/test_public_plans.py",
    "tests/reference/test_coverage.py",
)
"""Tests that go through the catalogues next to those that the text names, and which of them a new entry could upset."""
UPSET = (
    "catalogue or top_share or keep_prefix or worst_guess or complete or unique or oracle or site_says or imports "
    "or explained"
)
WORKED = ("A model", "A transformer", "A measure", "A hierarchy builder", "An engine", "Planting a fault")


@pytest.fixture(scope="module")
def sections(project: Path) -> dict[str, str]:
    """Text of each section by its title."""
    return dict(SECTION.findall((project / "CONTRIBUTING.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def clone(project: Path, sections: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with every worked example in its place."""
    place = tmp_path_factory.mktemp("contributing") / "privpipe"
    place.mkdir()
    for name in ("privpipe", "tests"):
        shutil.copytree(project / name, place / name)
    (place / "docs").mkdir()
    for name in ("pyproject.toml", "README.md", "Makefile", "docs/checked-against.md"):
        shutil.copy2(project / name, place / name)
    for title in WORKED:
        for path, kind, body in files(sections[title]):
            put(place / path, kind, body)
    return place


def files(text: str) -> Iterator[tuple[str, str, str]]:
    """Path, kind and body of every block that a path heads."""
    for path, blocks in BLOCK.findall(text):
        yield from ((path, kind, body) for kind, body in FENCE.findall(blocks) if kind != "console")


def put(path: Path, kind: str, body: str) -> None:
    """A new file, or lines added to one that is there."""
    if kind != "diff":
        assert not path.exists(), f"{path} is not a new file"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        return
    lines = body.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
    after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{path} has not these lines once"
    path.write_text(text.replace(before, after), encoding="utf-8")


def commands(text: str) -> list[list[str]]:
    return [shlex.split(line) for kind, body in FENCE.findall(text) if kind == "console" for line in body.splitlines()]


def run(clone: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone), "HYPOTHESIS_PROFILE": "privpipe"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("title", "room", "test"),
    [
        ("A model", "privpipe/models/", "tests/models/"),
        ("A transformer", "privpipe/transforms/", "tests/transforms/"),
        ("A measure", "privpipe/measures/", "tests/measures/"),
    ],
)
def test_an_entry_is_itself_its_test_and_a_line(sections: dict[str, str], title: str, room: str, test: str) -> None:
    found = {path: (kind, body) for path, kind, body in files(sections[title])}
    [new] = [path for path, (kind, _) in found.items() if kind == "python" and path.startswith(room)]
    [tested] = [path for path in found if path.startswith(test)]
    assert set(found) == {new, tested, f"{room}__init__.py"}
    assert found[f"{room}__init__.py"][1].count("\n+") == 1
    assert Path(tested).name == f"test_{Path(new).name}"


@pytest.mark.deep
@pytest.mark.parametrize("title", WORKED)
def test_each_worked_example_works(clone: Path, sections: dict[str, str], title: str) -> None:
    given = commands(sections[title])
    assert given
    for python, *words in given:
        assert python == "python"
        printed = run(clone, *words, *(["-q", "-p", "no:cacheprovider"] if "pytest" in words else []))
        assert " passed" in printed or "pytest" not in words, printed


@pytest.mark.deep
def test_no_list_of_the_tests_has_to_be_told(clone: Path, sections: dict[str, str]) -> None:
    """What is derived from the catalogues holds with the new entries, once the table is written."""
    for _, *words in commands(sections["A model"])[:1]:
        run(clone, *words)
    run(clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", *OTHERS, "-m", "not spark and not dask", "-k", UPSET)


@pytest.mark.deep
def test_the_examples_keep_the_rules_of_the_house(clone: Path, sections: dict[str, str]) -> None:
    made = [path for title in WORKED for path, kind, _ in files(sections[title]) if kind == "python"]
    run(clone, "-m", "ruff", "check", "--no-cache", *made)
    run(clone, "-m", "ruff", "format", "--no-cache", "--check", *made)
    run(clone, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache")
    run(clone, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(path for path in made if path.startswith("privpipe")))


def test_the_commands_of_the_set_up_are_targets(project: Path, sections: dict[str, str]) -> None:
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    for make, target in commands(sections["Set-up"]):
        assert make == "make"
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


@pytest.mark.deep
def test_readers_can_be_fuzzed(clone: Path, sections: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZ_SECONDS", "1")
    fuzz, replay = commands(sections["Fuzzing"])
    assert [line.split("|")[-1].strip() for line in run(clone, *fuzz[1:]).splitlines()] == ["violations", "0", "0"]
    assert " passed" in run(clone, *replay[1:], "-q", "-p", "no:cacheprovider")


def test_folders_of_tests_are_there(project: Path, sections: dict[str, str]) -> None:
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", sections["Tests"], re.MULTILINE)))
    assert listed
    assert not [name for name in listed if not (project / "tests" / name).is_dir()]


@pytest.mark.deep
def test_the_plug_in_is_the_sample_and_its_commands_run(project: Path, sections: dict[str, str]) -> None:
    [(path, _, body)] = files(sections["A plug-in"])
    assert body in (project / path).read_text(encoding="utf-8")
    for privpipe, *words in commands(sections["A plug-in"]):
        assert run(project, "-m", privpipe, *words)
