"""The face that type checkers see takes right calls, and it refuses every wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
MARK = "# wrong"


@pytest.fixture(scope="module", autouse=True)
def stubs() -> None:
    """The stubs of the catalogues as they are now, next to the modules."""
    subprocess.run([sys.executable, "-m", "stubs"], cwd=PROJECT, check=True, timeout=120)


@pytest.mark.deep
def test_mypy_refuses_every_wrong_call_and_no_other() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--output=json"]
    run = subprocess.run(
        [*command, "--cache-dir", str(PROJECT / ".mypy_cache"), "wrong_calls.py", "right_calls.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.returncode == 1, run.stderr
    assert _lines(found, "file", lambda each: each["line"]) == _marked()


@pytest.mark.deep
def test_pyright_refuses_every_wrong_call_and_no_other() -> None:
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(
        [*command, "wrong_calls.py", "right_calls.py"],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    diagnostics = json.loads(run.stdout)["generalDiagnostics"]
    found = [each for each in diagnostics if each["severity"] == "error"]
    assert _lines(found, "file", lambda each: each["range"]["start"]["line"] + 1) == _marked()


def _lines(found: list[dict[str, object]], file: str, line: object) -> set[tuple[str, int]]:
    return {(Path(str(each[file])).name, line(each)) for each in found}  # type: ignore[operator]


def _marked() -> set[tuple[str, int]]:
    return {
        (name, at)
        for name in ("wrong_calls.py", "right_calls.py")
        for at, text in enumerate((HERE / name).read_text(encoding="utf-8").splitlines(), 1)
        if text.endswith(MARK)
    }
