"""A wheel for one platform brings compiled kernels, and is never built without them."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def built(kernels: Path, place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)]
    named = {**os.environ, "PRIVPIPE_WHEEL_KERNELS": str(kernels)}
    return subprocess.run(command, cwd=PROJECT, env=named, capture_output=True, text=True, timeout=300, check=False)


def test_the_wheel_of_a_platform_has_the_kernels_of_the_folder(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    (kernels / "digest").mkdir(parents=True)
    (kernels / "digest" / "one.nbc").write_bytes(b"code")
    done = built(kernels, tmp_path / "dist")
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{python}-{python}-" in wheel.name, "compiled for one Python"
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("privpipe/machine_code/digest/one.nbc") == b"code"
        (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/WHEEL")]
        assert "Root-Is-Purelib: false" in archive.read(about).decode()


def test_no_wheel_is_built_for_a_folder_without_kernels(tmp_path: Path) -> None:
    done = built(tmp_path, tmp_path / "dist")
    assert done.returncode != 0
    assert "has no compiled kernels: run `privpipe warm" in done.stderr
    assert not list(tmp_path.glob("dist/*.whl"))
