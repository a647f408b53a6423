"""`privpipe gx check` and `privpipe gx protect` on the files of a context, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("great_expectations")
pytestmark = pytest.mark.gx
CONFIGURATION = """# of the team
stores:
  suites:
    class_name: ExpectationsStore
    store_backend:
      class_name: TupleFilesystemStoreBackend
      base_directory: expectations/
expectations_store_name: suites
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A context of one suite with one privacy expectation, saved by us."""
    (tmp_path / "gx/expectations").mkdir(parents=True)
    (tmp_path / "gx/great_expectations.yml").write_text(CONFIGURATION)
    suite = {
        "name": "visits",
        "expectations": [{"type": "expect_k_anonymity", "kwargs": {"k": 2, "quasi_identifiers": ["age"]}}],
        "meta": {"privpipe": {"privacy_expectations": 1}},
    }
    (tmp_path / "gx/expectations/visits.json").write_text(json.dumps(suite))
    return tmp_path


def test_check_and_protect(run: Any, context: Path) -> None:
    done = run("gx", "check", str(context))
    assert done.exit_code == 3
    assert "UNPROTECTED" in done.stdout
    assert "`privpipe gx protect`" in done.stdout
    assert run("gx", "protect", str(context)).exit_code == 0
    assert run("gx", "check", str(context)).exit_code == 0
    assert json.loads(run("gx", "check", "--json", str(context)).stdout) == {"findings": []}
    assert "nothing changed" in run("gx", "protect", str(context)).stderr


def test_a_suite_that_lost_its_expectation(run: Any, context: Path) -> None:
    path = context / "gx/expectations/visits.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"expectations": []}))
    done = run("gx", "check", "--json", str(context))
    assert done.exit_code == 3
    assert [each["kind"] for each in json.loads(done.stdout)["findings"]] == ["unprotected", "lost"]


def test_a_broken_suite_and_no_context(run: Any, context: Path, tmp_path: Path) -> None:
    (context / "gx/expectations/visits.json").write_text("{")
    assert run("gx", "check", str(context)).exit_code == 2
    (context / "gx/great_expectations.yml").write_text("stores: {}")
    assert run("gx", "check", str(context)).exit_code == 2
    assert run("gx", "protect", str(tmp_path / "nothing")).exit_code == 2
