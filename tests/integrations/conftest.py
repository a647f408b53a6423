"""The examples under `pipelines/` run by the real tools, each in its own environment: `make test-integrations`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
CANARIES = (b"Holand-Netherlands", b"Never-married", b"Armed-Forces", b"284582")
"""Cells of the table: two countries and ranks of few people, and one survey weight."""

collect_ignore = ["attacks_on_airflow.py"]  # Airflow reads it

Tool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test of this folder has its mark."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.integrations)
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def pipelines() -> Path:
    """The examples, where they lie."""
    return PIPELINES


@pytest.fixture(scope="session")
def tool() -> Tool:
    """A program of the environment under test; the test reads how it ended."""
    programs = Path(sys.executable).parent

    def start(
        *command: object, env: Mapping[str, str], cwd: Path, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        program, *arguments = map(str, command)
        return subprocess.run(
            [str(programs / program), *arguments],
            cwd=cwd,
            env={**os.environ, **env, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return start


@pytest.fixture(scope="session")
def holds_no_cell() -> Callable[[Path], None]:
    """What a tool keeps in a folder holds no cell of the data."""

    def look(folder: Path) -> None:
        files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        assert files, "nothing was kept, so nothing was looked at"
        found = [(path.name, cell) for path in files for cell in CANARIES if cell in path.read_bytes()]
        assert not found

    return look
