"""Shells complete names, formats and policies by environment variables, and nothing heavy is loaded for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from privpipe.cli import arguments
from privpipe.engines.base import Format
from privpipe.hierarchies.spec import BUILDERS
from privpipe.policy.catalogues import Catalogues
from tests.tiers import deep, deep_beyond

from .test_help import HEAVY, PROBE

PROTOCOLS = {
    "bash": lambda line: {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)},
    "zsh": lambda line: {"_TYPER_COMPLETE_ARGS": line},
    "fish": lambda line: {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


def completed(shell: str, line: str, folder: Path) -> tuple[str, set[str]]:
    """What the shell receives, and the modules that were loaded for it."""
    told = {**PROTOCOLS[shell](line), "_PRIVPIPE_COMPLETE": f"complete_{shell}"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=folder,
        env={**os.environ, **told},
    )
    return done.stdout, set(json.loads(done.stderr))


@pytest.mark.parametrize("shell", deep_beyond(1, PROTOCOLS))
def test_each_shell_is_told_names_and_nothing_heavy_is_loaded(shell: str, tmp_path: Path) -> None:
    text, modules = completed(shell, "privpipe explain k_anon", tmp_path)
    assert "k_anonymity" in text
    assert "l_diversity" not in text
    assert not (HEAVY - {"pydantic"}) & modules


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        deep("privpipe rel", ["release"]),
        ("privpipe release re", ["rest/", "release.yaml"]),
        deep("privpipe release rest/", ["rest/other.json"]),
        ("privpipe release release.yaml --engine d", ["dask"]),
        deep("privpipe validate a.csv release.yaml --format p", ["parquet"]),
        deep("privpipe report out --format h", ["html"]),
        ("privpipe explain quant", ["quantiles"]),
    ],
)
def test_what_is_completed(line: str, wanted: list[str], tmp_path: Path) -> None:
    (tmp_path / "rest").mkdir()
    for name in ("release.yaml", "readers.csv", "rest/other.json", "rest/data.parquet"):
        (tmp_path / name).write_text("")
    text, _ = completed("bash", line, tmp_path)
    assert [word.strip() for word in text.split("\n") if word.strip()] == wanted


def test_names_are_those_that_the_package_has() -> None:
    rooms = Catalogues.shipped()
    entries = [name for room in (rooms.models, rooms.transforms, rooms.measures) for name in room.built_in]
    assert set(arguments.explained("")) == {*entries, *BUILDERS, *arguments.SECTIONS}
    assert arguments.formats("") == list(get_args(Format))


def test_hidden_names_and_missing_folders(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / ".secret.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    assert arguments.policies("") == []
    assert arguments.policies(".s") == [".secret.yaml"]
    assert arguments.policies("nowhere/x") == []


@pytest.mark.parametrize("shell", deep_beyond(1, PROTOCOLS))
def test_the_script_is_shown(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "privpipe", "--show-completion", shell],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "_PRIVPIPE_COMPLETE=complete_" in done.stdout
