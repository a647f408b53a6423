"""Run commands in this process, and a policy to run them on."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from privpipe.cli import app
from privpipe.cli.console import SETTINGS

POLICY = """\
version: 1
name: small
source: {path: data.csv, delimiter: ";"}
columns:
  age: {role: quasi_identifier, type: integer, hierarchy: {intervals: {widths: [10, 50]}}}
  zip: {role: quasi_identifier, hierarchy: {redact: {keep: left}}}
  illness: {role: sensitive}
transform:
  - generalize: {search: optimal, suppress_at_most: 0.2}
guarantees:
  - k_anonymity: {k: 3}
  - distinct_l_diversity: {column: illness, l: 2}
measures:
  - average_risk: {}
sink: {path: published/small}
"""
ILLNESSES = ("asthma", "flu", "gout")
ROWS = [f"{20 + at % 7};{80330 + at % 5};{ILLNESSES[at % 3]}" for at in range(60)]
Run = Callable[..., Result]


@pytest.fixture
def run() -> Iterator[Run]:
    """Run `privpipe` with these arguments; stdout and stderr apart."""
    filters = list(warnings.filters)
    log = logging.getLogger("privpipe")
    before = (log.level, log.propagate, list(log.handlers))
    yield lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
    warnings.filters[:] = filters
    log.level, log.propagate = before[:2]
    log.handlers[:] = before[2]
    SETTINGS.verbose = SETTINGS.debug = False


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with `release.yaml` and the data it names."""
    (tmp_path / "release.yaml").write_text(POLICY)
    (tmp_path / "data.csv").write_text("\n".join(["age;zip;illness", *ROWS]) + "\n")
    return tmp_path
