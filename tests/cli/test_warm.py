"""`privpipe warm`: kernels compiled ahead of time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privpipe.cli import app, warm

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PRIVPIPE_KERNELS", "NUMBA_CPU_NAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_a_folder_that_cannot_be_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = RUNNER.invoke(app, ["warm", str(tmp_path / "file" / "kernels")])
    assert found.exit_code == 2
    assert "name a folder: privpipe warm FOLDER" in found.output


def test_a_folder_is_filled_for_any_processor_and_the_rest_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def entries(workers: int) -> list[str]:
        seen.append((workers, os.environ.get("PRIVPIPE_KERNELS"), os.environ.get("NUMBA_CPU_NAME")))
        return []

    monkeypatch.setattr(warm, "compiled_entries", entries)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert RUNNER.invoke(app, ["warm", "--workers", "3"]).exit_code == 0
    folder = tmp_path / "kernels"
    assert RUNNER.invoke(app, ["warm", str(folder), "--workers", "3"]).exit_code == 0
    assert seen == [(3, None, None), (3, str(folder), "generic")]


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        pytest.param("drop_identifiers", "", marks=pytest.mark.deep),
        pytest.param(warm.TABLES, "kernels.integer_tableaus", marks=pytest.mark.rare),
    ],
)
def test_what_one_entry_needs_is_compiled(tmp_path: Path, name: str, kernel: str) -> None:
    code = f"from privpipe.cli.warm import _run; print(_run({name!r}))"
    environment = {**os.environ, "PRIVPIPE_KERNELS": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert found.stdout.strip() == f"[{name!r}]"
    assert list(tmp_path.rglob(f"{kernel}*.nbc"))
