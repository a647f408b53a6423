"""Every block of the README is true: Python runs, policies load, commands exist; and it stays short."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from privpipe.policy import Policy
from tests.tiers import deep_beyond

from ..docs.page_blocks import blocks, run


def test_the_readme_is_for_newcomers(project: Path) -> None:
    assert (project / "README.md").read_text(encoding="utf-8").count("\n") <= 150


def test_the_python_of_the_readme_runs_and_refuses_as_it_says(project: Path, tmp_path: Path) -> None:
    printed = run("\n".join(blocks(project / "README.md", "python")), tmp_path)
    (shown,) = blocks(project / "README.md", "text")
    assert printed.strip() == shown.strip()


def test_the_picture_shows_what_its_example_gives(project: Path, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "docs/site/picture.py", str(tmp_path / "release.svg")], cwd=project, check=True, timeout=120
    )
    assert (tmp_path / "release.svg").read_text() == (project / "docs" / "release.svg").read_text()
    for page in ("README.md", "docs/index.md"):
        assert "release.svg)" in (project / page).read_text(encoding="utf-8")


def test_the_files_that_the_readme_names_are_there(project: Path) -> None:
    text = (project / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(((?!https?:)[^)#]+)\)", text) + re.findall(r"`((?:[\w-]+/)*[A-Z]+\.(?:md|cff))`", text)
    assert len(named) > 30
    assert not [name for name in named if not (project / name).exists()]


def test_the_policy_of_the_readme_loads(project: Path) -> None:
    (text,) = blocks(project / "README.md", "yaml")
    policy = Policy.from_dict(YAML(typ="safe").load(text))
    assert len(policy.guarantees) == 2


@pytest.mark.parametrize("page", deep_beyond(1, ("README.md", "docs/reference/policy.md", "docs/start.md")))
def test_the_commands_of_a_page_exist(project: Path, page: str) -> None:
    commands = [
        line.split("#")[0].split(">")[0] for body in blocks(project / page, "console") for line in body.splitlines()
    ]
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        words = shlex.split(command)
        if words[0] == "pip":
            continue
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), command
            continue
        shown = subprocess.run(
            [sys.executable, "-m", "privpipe", words[1], "--help"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert shown.returncode == 0, command
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.stdout, command
