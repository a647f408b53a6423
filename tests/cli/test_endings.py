"""Each kind of error has its exit code; no message of a foreign error is ever printed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from privpipe import errors

CANARY = "canary-4711"
CODES = {
    errors.PrivpipeError: 1,
    errors.UsageError: 2,
    errors.PolicyError: 2,
    errors.RolesError: 2,
    errors.UnsupportedError: 2,
    errors.DataError: 3,
    errors.HierarchyError: 3,
    errors.EngineError: 4,
    errors.SinkError: 4,
    errors.InternalError: 1,
    errors.Refused: 5,
    errors.ColumnsLost: 5,
    errors.NoSolutionError: 6,
    errors.SignOffMissing: 7,
    errors.NotWithdrawn: 8,
}


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Let `assess` end in this error."""

    def judge(*_: Any, **__: Any) -> NoReturn:
        raise error

    # By the module itself: `privpipe.release` as an attribute is the function.
    monkeypatch.setattr(importlib.import_module("privpipe.running.verbs"), "assess", judge)


def test_every_error_has_its_code() -> None:
    named = {getattr(errors, name) for name in errors.__all__}
    assert set(CODES) == {found for found in named if isinstance(found, type) and issubclass(found, Exception)}


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_the_exit_code_is_that_of_the_error(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, kind: type[errors.PrivpipeError], code: int
) -> None:
    failing(monkeypatch, kind("what, where, how many"))
    done = run("assess", place / "release.yaml", "--json")
    assert done.exit_code == code == kind.exit_code
    assert done.stdout == ""
    assert "what, where, how many" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("options", [[], ["--debug"], ["--verbose"]])
def test_a_crash_shows_type_and_place_and_never_a_value(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as inner:
            raise ValueError(f"cannot convert {CANARY}") from inner
    except ValueError as error:
        failing(monkeypatch, error)
    done = run(*options, "assess", place / "release.yaml")
    assert done.exit_code == 1
    assert "privpipe crashed: ValueError at privpipe.cli.gate:" in done.stderr
    assert CANARY not in done.output
    assert ("KeyError:" in done.stderr) == ("--debug" in options)
    assert (" in judge" in done.stderr) == ("--debug" in options)


def test_an_interrupt_ends_with_130(run: Any, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, KeyboardInterrupt())
    done = run("assess", place / "release.yaml")
    assert done.exit_code == 130
    assert "interrupted" in done.stderr


def test_a_reader_that_leaves_is_not_a_crash() -> None:
    command = f"{sys.executable} -m privpipe schema | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "{\n"
    assert done.stderr == ""


def test_a_policy_error_shows_every_problem_on_stderr(run: Any, place: Path) -> None:
    (place / "release.yaml").write_text("version: 2\ncolums: {}\n")
    done = run("release", place / "release.yaml", "--json")
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "release.yaml:1: version: is 2" in done.stderr
    assert "release.yaml:2: colums: unknown key; did you mean 'columns'?" in done.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device", f"/private/{CANARY}/part-00000.csv"), "No space left on device"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
        (MemoryError(), "memory ran out"),
    ],
)
def test_faults_of_the_machine_are_not_a_crash(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    failing(monkeypatch, error)
    done = run("assess", place / "release.yaml")
    assert done.exit_code == 4
    assert words in done.stderr
    assert CANARY not in done.output


def test_a_full_disk_behind_stdout_is_not_a_crash() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    command = f"{sys.executable} -m privpipe schema > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 4
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
