"""Consoles that are full, closed or not read: the exit code and the sentence are those of the outcome."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from privpipe.cli.console import outcome_stands
from tests.tiers import deep, deep_beyond

REDIRECTS = deep_beyond(1, (">/dev/full", ">&- 2>&-", "2>/dev/full", "2>&-"))
TARGET = "published/small"
POLICY = """\
version: 1
name: small
source: {path: data.csv}
columns:
  town: {role: quasi_identifier}
  illness: {role: insensitive}
guarantees:
  - k_anonymity: {k: %d}
sink: {path: published/small}
seed: {from_env: PRIVPIPE_SEED}
"""
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")


@pytest.fixture
def towns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of which `holds.yaml` publishes all and `fails.yaml` nothing."""
    monkeypatch.setenv("PRIVPIPE_SEED", "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f")
    (tmp_path / "data.csv").write_text("town,illness\n" + "Ulm,flu\nUlm,gout\nBonn,flu\nBonn,asthma\n" * 5)
    (tmp_path / "holds.yaml").write_text(POLICY % 10)
    (tmp_path / "fails.yaml").write_text(POLICY % 11)
    return tmp_path


def ended(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """A command of a shell, in a process that starts with the streams that the shell gives it."""
    said = ["bash", "-c", f"exec {sys.executable} -m privpipe {command}"]
    return subprocess.run(said, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@needs_full
@pytest.mark.parametrize("json", ["", deep("--json")])
@pytest.mark.parametrize("redirect", REDIRECTS)
def test_a_release_that_is_published_ends_so(towns: Path, redirect: str, json: str) -> None:
    done = ended(towns, f"release holds.yaml {json} {redirect}")
    assert (towns / TARGET).exists()
    assert done.returncode == 0
    assert "nothing was published" not in done.stderr
    assert "crashed" not in done.stderr
    if "2>" not in redirect:
        assert "PUBLISHED: " in done.stderr
        assert ("No space left on device" in done.stderr) == ("full" in redirect)


@needs_full
@pytest.mark.parametrize("json", ["", deep("--json")])
@pytest.mark.parametrize("redirect", REDIRECTS)
def test_a_release_that_is_refused_ends_so(towns: Path, redirect: str, json: str) -> None:
    done = ended(towns, f"release fails.yaml {json} {redirect}")
    assert not (towns / TARGET).exists()
    assert done.returncode == 5
    if "2>" not in redirect:
        assert "REFUSED: a guarantee does not hold. Nothing was published." in done.stderr
        assert "private record: " in done.stderr


@pytest.mark.deep
@needs_full
@pytest.mark.parametrize("json", ["", deep("--json")])
@pytest.mark.parametrize("redirect", REDIRECTS)
def test_a_verdict_ends_with_its_code(towns: Path, redirect: str, json: str) -> None:
    assert ended(towns, f"validate data.csv fails.yaml {json} {redirect}").returncode == 5


@needs_full
@pytest.mark.parametrize("redirect", [deep(""), *REDIRECTS])
def test_a_verdict_that_passes_ends_with_0(towns: Path, redirect: str) -> None:
    done = ended(towns, f"validate data.csv holds.yaml {redirect}")
    assert done.returncode == 0
    if "2>" not in redirect:
        assert ("warning: the verdict stands" in done.stderr) == ("full" in redirect)


@needs_full
@pytest.mark.parametrize("redirect", deep_beyond(1, ("2>/dev/full", "2>&-")))
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--verbose release holds.yaml", 0),
        deep("release absent.yaml", 2),
        deep("release holds.yaml --progress", 0),
        deep("release --no-such-option", 2),
        deep("schema", 0),
    ],
)
def test_a_stderr_that_takes_nothing_changes_no_exit_code(towns: Path, command: str, code: int, redirect: str) -> None:
    assert ended(towns, f"{command} {redirect}").returncode == code


def test_a_reader_that_leaves_does_not_change_that_a_release_is_published(towns: Path) -> None:
    command = f"set -o pipefail; {sys.executable} -m privpipe release holds.yaml --json | true"
    done = subprocess.run(["bash", "-c", command], cwd=towns, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, (towns / TARGET).exists()) == (0, True)
    assert "PUBLISHED: " in done.stderr


@pytest.mark.parametrize("error", [ValueError("canary-4711"), OSError(5, "canary-4711"), KeyboardInterrupt()])
def test_what_cannot_be_shown_of_a_release_does_not_unpublish_it(
    run: Any, place: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def show(*_: Any, **__: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(importlib.import_module("privpipe.cli.release"), "show_assessment", show)
    done = run("release", place / "release.yaml")
    assert (done.exit_code, (place / TARGET).exists()) == (0, True)
    assert "warning: the release is published; not all of its messages could be written" in done.stderr
    assert "PUBLISHED: " in done.stderr
    assert "nothing was published" not in done.stderr
    assert "canary" not in done.stderr


def test_an_outcome_that_can_be_shown_is_shown_without_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with outcome_stands("the release is published"):
        print("shown")
    assert capsys.readouterr() == ("shown\n", "")
