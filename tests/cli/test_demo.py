"""The demo publishes one release and sees another refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

FAILING = """\
version: 1
name: refused
source: {path: ../adult/data.csv, delimiter: ";"}
columns:
  age: {role: quasi_identifier}
  zip: {role: quasi_identifier}
  illness: {role: sensitive}
guarantees:
  - k_anonymity: {k: 5}
  - distinct_l_diversity: {column: illness, l: 2}
sink: {path: published/refused}
"""


@pytest.fixture
def pipelines(place: Path) -> Path:
    """Two small pipelines, one sound and one not."""
    folder = place / "pipelines"
    (folder / "adult").mkdir(parents=True)
    (folder / "refused").mkdir()
    for name in ("release.yaml", "data.csv"):
        shutil.move(place / name, folder / "adult" / name)
    (folder / "refused" / "release.yaml").write_text(FAILING)
    return folder


def test_one_is_published_and_one_refused(run: Any, pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = pipelines / "adult" / "release.yaml"
    policy.write_text(policy.read_text() + "seed: {from_env: DEMO_SEED}\n")
    monkeypatch.delenv("DEMO_SEED", raising=False)
    done = run("demo", "--pipelines", pipelines)
    monkeypatch.delenv("DEMO_SEED", raising=False)
    assert done.exit_code == 0, done.output
    assert "DEMO_SEED is not set: a seed was drawn" in done.stderr
    assert "--- exit code 0" in done.stderr
    assert "--- exit code 5" in done.stderr
    assert (pipelines / "adult" / "published" / "small").exists()
    assert not (pipelines / "refused" / "published" / "refused").exists()


def test_the_demo_fails_when_either_goes_another_way(run: Any, pipelines: Path) -> None:
    text = FAILING.replace("k: 5", "k: 1").replace("l: 2", "l: 1")
    (pipelines / "refused" / "release.yaml").write_text(text)
    assert run("demo", "--pipelines", pipelines).exit_code == 1
    (pipelines / "adult" / "release.yaml").write_text(FAILING)
    assert run("demo", "--pipelines", pipelines).exit_code != 0


def test_without_the_pipelines_it_says_where_to_run(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("demo")
    assert done.exit_code == 2
    assert "--pipelines" in done.stderr
