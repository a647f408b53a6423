"""The installation steps: what the images, `make` and `.ci/run` do, without Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
STEPS = PROJECT / "docker" / "steps.sh"
TOOLS = ("bash", "cat", "cp", "dirname", "find", "head", "id", "mkdir", "mktemp", "rm", "sed", "touch")
NO_NETWORK = re.compile(r"NewConnectionError|Name or service not known|Temporary failure in name resolution")

Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def programs(tmp_path: Path) -> Callable[[str, str], None]:
    """A folder that is the whole PATH: a few tools, and the programs a test writes into it."""
    home = tmp_path / "bin"
    home.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (home / name).symlink_to(found)

    def write(name: str, body: str) -> None:
        program = home / name
        program.unlink(missing_ok=True)  # not through the link
        program.write_text(f"#!{shutil.which('bash')}\n{body}\n", encoding="utf-8")
        program.chmod(0o755)

    return write


@pytest.fixture
def shell(tmp_path: Path, programs: object) -> Shell:
    def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", *command],
            env={"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "LOG": str(tmp_path / "log"), **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_the_scripts_are_bash_and_can_be_started() -> None:
    for script in (STEPS, PROJECT / ".ci" / "run"):
        subprocess.run(["bash", "-n", str(script)], check=True, timeout=60)
        assert os.access(script, os.X_OK)


@pytest.mark.parametrize(("until", "ending"), [("0", "1 skipped"), ("inf", "1 passed")])
def test_no_test_begins_after_the_time_for_a_run(until: str, ending: str) -> None:
    test = "tests/docker/test_steps.py::test_the_scripts_are_bash_and_can_be_started"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", test],
        cwd=PROJECT,
        env={**os.environ, "PRIVPIPE_TESTS_UNTIL": until},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ending in found.stdout
    assert ("PRIVPIPE_TESTS_UNTIL" in found.stdout) == (until == "0")


@pytest.mark.parametrize(
    "arguments", [(), ("cli",), ("java", "x"), ("gpu", "x"), ("kernels",), ("sbom", "x")], ids=repr
)
def test_a_wrong_call_shows_the_right_one(shell: Shell, arguments: tuple[str, ...]) -> None:
    ended = shell(str(STEPS), *arguments)
    assert ended.returncode == 2
    assert ended.stderr.startswith("usage: steps.sh cli|dask|spark|stores|kernels VENV, steps.sh sbom VENV KIND,")


@pytest.mark.parametrize(
    ("version", "enough"), [("1.8.0_402", False), ("11.0.22", False), ("17.0.1", True), ("21", True)]
)
def test_java_is_left_alone_when_it_is_new_enough(
    shell: Shell, programs: Callable[[str, str], None], version: str, enough: bool
) -> None:
    programs("java", f"echo 'openjdk version \"{version}\" 2025-01-01' >&2")
    ended = shell(str(STEPS), "java")
    assert (ended.returncode == 0) == enough
    assert ended.stderr.count("\n") == (0 if enough else 1)


def test_without_root_java_is_one_clear_line(shell: Shell, programs: Callable[[str, str], None]) -> None:
    programs("id", "echo 1000")
    programs("apt-get", "exit 1")
    programs("sudo", "exit 1")
    ended = shell(str(STEPS), "java")
    assert ended.returncode == 1
    assert ended.stderr == "Java 17 or newer is missing and cannot be installed from here (it takes apt and root).\n"


@pytest.mark.parametrize(("user", "prefix"), [("0", ""), ("1000", "sudo -n ")])
def test_java_comes_through_apt_as_root_or_by_sudo(
    shell: Shell, programs: Callable[[str, str], None], tmp_path: Path, user: str, prefix: str
) -> None:
    programs("id", f"echo {user}")
    programs("mkdir", "exit 0")
    programs("sudo", 'shift; [ "$1" = true ] || { printf "sudo -n " >> "$LOG"; "$@"; }')
    # The release that has no Java 17 any more has 21.
    programs("apt-get", 'echo "apt-get $*" >> "$LOG"; case "$*" in *openjdk-17*) exit 100 ;; esac')
    assert shell(str(STEPS), "java").returncode == 0
    install = "apt-get install -y -qq --no-install-recommends openjdk"
    assert (tmp_path / "log").read_text(encoding="utf-8").splitlines() == [
        f"{prefix}apt-get update -qq",
        f"{prefix}{install}-17-jre-headless",
        f"{prefix}{install}-21-jre-headless",
    ]


@pytest.mark.parametrize("kind", ["cli", "dask", "spark", "stores"])
def test_each_image_installs_what_its_lock_says_with_hashes(
    shell: Shell, programs: Callable[[str, str], None], tmp_path: Path, kind: str
) -> None:
    """A stand-in for the interpreter notes what pip is asked for; the test below runs the real one."""
    venv = tmp_path / "venv"
    programs(
        "python3",
        'case "$*" in *"-m venv"*) for last; do :; done; mkdir -p "$last/bin" "$last/lib"; '
        'cp "$0" "$last/bin/python" ;; '
        '*" wheel "*) mkdir -p "$TMPDIR/wheels" ;; esac; echo "$*" >> "$LOG"',
    )
    ended = shell(str(STEPS), kind, str(venv), TMPDIR=str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    calls = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    locks = re.escape(str(PROJECT / "docker" / "locks"))
    wheels = r"-m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir \S+/wheels "
    assert [call for call in calls if "-m pip" not in call][1:] == [
        calls[1],
        f"-m venv --without-pip {venv}",
        f"-m compileall -q {venv}/lib",
    ]
    pips = [call for call in calls if "-m pip" in call]
    assert len(pips) == 4
    assert re.fullmatch(rf"-m pip install --quiet --require-hashes --requirement {locks}/build\.lock", pips[0])
    assert re.fullmatch(rf"{wheels}--require-hashes --requirement {locks}/{kind}\.lock", pips[1])
    assert re.fullmatch(rf"{wheels}\S+/sources", pips[2])
    assert pips[3].startswith(f"-m pip --python {venv}/bin/python install --quiet --no-index --no-deps --no-compile ")


def test_an_old_python_is_one_clear_line(shell: Shell, programs: Callable[[str, str], None], tmp_path: Path) -> None:
    programs("python3", "exit 1")
    ended = shell(str(STEPS), "cli", str(tmp_path / "venv"))
    assert ended.returncode == 1
    assert ended.stderr.startswith("steps.sh: Python 3.11 or newer is needed")
    assert ended.stderr.count("\n") == 1


def test_make_says_which_python_it_needs(tmp_path: Path) -> None:
    old = tmp_path / "python-old"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    command = [
        "make",
        "--no-print-directory",
        "-C",
        str(PROJECT),
        "setup",
        f"PYTHON={old}",
        f"VENV={tmp_path / 'venv'}",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("privpipe needs Python 3.11 or newer; none of")


def test_ci_runs_the_tests_of_make(shell: Shell, programs: Callable[[str, str], None], tmp_path: Path) -> None:
    programs("make", 'echo "$PWD $*" >> "$LOG"; exit 3')
    assert shell(str(PROJECT / ".ci" / "run")).returncode == 1
    calls = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert calls == [f"{PROJECT} --no-print-directory {target}" for target in ("test", "test-deep")]


def test_constraints_name_what_the_package_asks_for() -> None:
    """A range of constraints.txt is inside the one of pyproject.toml, else nothing could be installed."""
    wanted = (PROJECT / "pyproject.toml").read_text(encoding="utf-8")
    for line in (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name = re.split(r"[<>=]", line)[0]
            assert re.search(rf'"{re.escape(name)}(\[[\w-]+\])?[">]', wanted), name
            assert "==" not in line


@pytest.mark.rare
def test_a_fresh_environment_has_the_command_line_and_no_engine_but_its_own(tmp_path: Path) -> None:
    """The very steps of `docker/Dockerfile`, in a temporary place: what they install can publish the Adult release."""
    venv = tmp_path / "venv"
    ended = subprocess.run(
        ["bash", str(STEPS), "cli", str(venv)],
        env={**os.environ, "PYTHON": sys.executable, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    if ended.returncode and NO_NETWORK.search(ended.stderr):
        pytest.skip("no package index can be reached")
    assert ended.returncode == 0, ended.stderr
    installed = {folder.name for folder in next((venv / "lib").iterdir()).joinpath("site-packages").iterdir()}
    assert "privpipe" in installed
    assert not installed & {"pyspark", "dask", "great_expectations", "pip", "setuptools", "hatchling"}
    policy, target = PROJECT / "pipelines" / "adult" / "release.yaml", tmp_path / "released"
    command = [str(venv / "bin" / "privpipe"), "release", str(policy), "--target", str(target)]
    published = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert published.returncode == 0, published.stderr
    assert target.exists()
