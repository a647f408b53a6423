"""Every block of the README is true: Python runs, policies load, commands exist, tables are the catalogues'."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from privpipe.policy import Policy
from privpipe.report.__main__ import with_tables

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(project: Path, kind: str) -> list[str]:
    text = (project / "README.md").read_text(encoding="utf-8")
    return [body for label, body in FENCE.findall(text) if label.strip() == kind]


def run(code: str, tmp_path: Path) -> str:
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


def test_the_python_of_the_readme_runs(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("dask")
    pytest.importorskip("great_expectations")
    printed = run("\n".join(blocks(project, "python")), tmp_path)
    assert "refused" in printed


@pytest.mark.spark
def test_the_spark_of_the_readme_runs(project: Path, tmp_path: Path, spark_engine: object) -> None:
    first = blocks(project, "python")[0]
    run(first + "\n".join(blocks(project, "python spark")), tmp_path)


def test_the_policy_of_the_readme_loads(project: Path) -> None:
    (text,) = blocks(project, "yaml")
    policy = Policy.from_dict(YAML(typ="safe").load(text))
    assert len(policy.guarantees) == 2


def test_the_commands_of_the_readme_exist(project: Path) -> None:
    commands = [line.split("#")[0].split(">")[0] for body in blocks(project, "console") for line in body.splitlines()]
    makefile = (project / "Makefile").read_text(encoding="utf-8")
    for command in commands:
        words = shlex.split(command)
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


def test_a_refusal_reads_as_the_readme_says(project: Path, tmp_path: Path) -> None:
    (shown,) = blocks(project, "text")
    first = blocks(project, "python")[0].split("assert not")[0]
    judging = "try:\n    pp.assess(visits, policy).raise_if_failed()\n"
    code = first + judging + "except pp.errors.Refused as refusal:\n    print(refusal)"
    assert run(code, tmp_path).strip() == shown.strip()


def test_the_tables_are_those_of_the_catalogues(project: Path) -> None:
    text = (project / "README.md").read_text(encoding="utf-8")
    assert with_tables(text) == text, "run: python -m privpipe.report README.md"
