"""The sample distribution, built and installed into a folder of its own, and programs that run next to it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parent / "sample"
Runner = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample as pip installs it; without the network, and without pip its wheel unpacked."""
    place = tmp_path_factory.mktemp("installed")
    if importlib.util.find_spec("pip") is not None:
        options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(place), str(SAMPLE)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return place
    script = "import sys; sys.path.insert(0, sys.argv[1]); import backend; print(backend.build_wheel(sys.argv[2]))"
    command = [sys.executable, "-c", script, str(SAMPLE), str(place)]
    wheel = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    with zipfile.ZipFile(place / wheel) as archive:
        archive.extractall(place)
    return place


@pytest.fixture(scope="session")
def python(installed: Path, project: Path) -> Runner:
    """Run Python where the sample is installed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), str(installed)]), "COLUMNS": "200"}

    def run(*arguments: str, cwd: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *arguments],
            cwd=cwd or installed,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr[-3000:] + done.stdout[-1000:]
        return done

    return run
