"""A copy of the pipelines with a seed of its own, and the ways to run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
SEED = "7d1c9a3e5b8f2046d1e7c3a95f80b264"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pipelines/` with `seed: {from_env: PRIVPIPE_SEED}` in every policy; data and hierarchies are links."""
    home = tmp_path_factory.mktemp("pipelines")
    for folder in (folder for folder in PIPELINES.iterdir() if folder.is_dir()):
        copy = home / folder.name
        copy.mkdir()
        for part in ("data", "hierarchies"):
            if (folder / part).exists():
                (copy / part).symlink_to(folder / part)
        for policy in folder.glob("*.yaml"):
            text = policy.read_text(encoding="utf-8")
            (copy / policy.name).write_text(text + "seed: {from_env: PRIVPIPE_SEED}\n", encoding="utf-8")
    return home


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A program of the environment under test, from a folder that holds nothing; the test reads its exit code."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    programs = Path(sys.executable).parent

    def start(*command: object, timeout: float = 500) -> subprocess.CompletedProcess[str]:
        program, *arguments = map(str, command)
        found = sys.executable if program == "python" else str(programs / program)
        return subprocess.run(
            [found, *arguments],
            cwd=elsewhere,
            env={**os.environ, "PRIVPIPE_SEED": SEED, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return start
