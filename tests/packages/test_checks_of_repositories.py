"""What other repositories take from this one: the hook of pre-commit, the workflow, and how to cite it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.packages.asked import PROJECT, project

SOUND = """\
version: 1
name: towns
columns:
  town: {role: quasi_identifier}
  illness: {role: insensitive}
guarantees:
  - k_anonymity: {k: %d}
"""


def read(name: str) -> Any:
    return YAML(typ="safe").load((PROJECT / name).read_text(encoding="utf-8"))


def ended(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command as a shell gives it, with `privpipe` on the path."""
    bin_ = folder / "bin"
    bin_.mkdir(exist_ok=True)
    (bin_ / "privpipe").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m privpipe "$@"\n')
    (bin_ / "privpipe").chmod(0o755)
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_hook_refuses_a_wrong_policy_and_passes_a_sound_one(tmp_path: Path) -> None:
    (hook,) = read(".pre-commit-hooks.yaml")
    scripts = project()["scripts"]
    assert hook["language"] == "python"
    assert hook["entry"].split()[0] in scripts
    assert all(re.search(hook["files"], name) for name in ("release.yaml", "a/policy-visits.yml"))
    assert not re.search(hook["files"], "mkdocs.yml")
    (tmp_path / "policy.yaml").write_text(SOUND % 2)
    (tmp_path / "policy-2.yaml").write_text(SOUND.replace("guarantees", "garantees") % 2)
    done = ended(f"{hook['entry']} policy.yaml", tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    done = ended(f"{hook['entry']} policy.yaml policy-2.yaml", tmp_path)
    assert done.returncode == 2
    assert "policy-2.yaml:6: garantees: unknown key; did you mean 'guarantees'?" in done.stderr
    assert "1 of 2 policies cannot be used" in done.stderr


@pytest.mark.deep
@pytest.mark.parametrize(("k", "code"), [(2, 0), (3, 5)])
def test_the_workflow_fails_where_a_table_breaks_its_policy(tmp_path: Path, k: int, code: int) -> None:
    steps = read("pipelines/ci/privpipe.yml")["jobs"]["guarantees"]["steps"]
    for folder in ("policies", "tables"):
        (tmp_path / folder).mkdir()
    (tmp_path / "policies" / "towns.yaml").write_text(SOUND % k)
    (tmp_path / "tables" / "towns.csv").write_text("town,illness\nUlm,flu\nUlm,gout\n")
    commands = [each["run"] for each in steps if "run" in each]
    assert commands.pop(0) == f"pip install {project()['name']}"
    assert [ended(each, tmp_path).returncode for each in commands] == [0, code]


def test_the_citation_is_of_this_version() -> None:
    cited, held = read("CITATION.cff"), project()
    assert (cited["version"], cited["license"]) == (held["version"], held["license"])
    assert [each["name"] for each in cited["authors"]] == [each["name"] for each in held["authors"]]


@pytest.mark.deep
def test_a_command_writes_nothing_of_others_to_stderr(tmp_path: Path) -> None:
    """Every line is one of ours: DuckDB 2.0.0 ended with a list of leaks, and solvers write banners."""
    (tmp_path / "policy.yaml").write_text(
        SOUND.replace("guarantees", "transform:\n  - suppress_cells: {method: optimal}\nguarantees") % 2
        + "source: {path: towns.csv}\nsink: {path: published/towns}\n"
    )
    (tmp_path / "towns.csv").write_text(
        "town,illness\n" + "Ulm,flu\nUlm,gout\nBonn,flu\nBonn,flu\nKiel,flu\nTrier,flu\n"
    )
    done = ended("privpipe release policy.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    ours = re.compile(r"(warning|note|next|PUBLISHED|private record|report)\b.*:")
    assert [line for line in done.stderr.splitlines() if not ours.match(line)] == []
    done = ended("privpipe doctor", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
