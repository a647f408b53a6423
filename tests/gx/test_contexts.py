"""A process that did not import `privpipe.gx` judges nothing; `protect` prevents it and `check` finds it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import DataError, UsageError

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]
UNIQUE = pd.DataFrame({"age": [1, 1, 2], "zip": ["a", "a", "b"]})
RUN = """
import sys
import great_expectations as gx
context = gx.get_context(mode="file", project_root_dir=sys.argv[1])
print("SUCCESS", context.checkpoints.get("plain").run().success)
"""
CHANGE = """
import sys
import great_expectations as gx
context = gx.get_context(mode="file", project_root_dir=sys.argv[1])
context.suites.get("visits").add_expectation(gx.expectations.ExpectColumnToExist(column="age"))
"""


def made(folder: Path, suite: Any, *actions: Any) -> Path:
    """A file context with a CSV of three records, one unique, and a checkpoint over them."""
    UNIQUE.to_csv(folder / "visits.csv", index=False)
    context = gx.get_context(mode="file", project_root_dir=folder / "context")
    files = context.data_sources.add_pandas_filesystem("files", base_directory=folder)
    data = files.add_csv_asset("visits").add_batch_definition_path("all", path="visits.csv")
    definition = gx.ValidationDefinition(name="gate", data=data, suite=context.suites.add(suite))
    check = context.validation_definitions.add(definition)
    context.checkpoints.add(gx.Checkpoint(name="plain", validation_definitions=[check], actions=list(actions)))
    return folder / "context"


def anonymous(k: int = 2) -> Any:
    roles = pp.Roles(quasi_identifiers=["age", "zip"])
    return ppgx.suite_of([pp.models.KAnonymity(k=k)], roles, name="visits")


def fresh(code: str, context: Path) -> Any:
    """The code in a process of its own, which imports nothing of ours by itself."""
    command = [sys.executable, "-W", "ignore", "-c", code, str(context)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.deep
def test_only_a_protected_context_judges_without_the_import(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous())
    assert "SUCCESS True" in fresh(RUN, context).stdout, "Great Expectations no longer passes over what it lacks"
    assert [finding.kind for finding in ppgx.check(context)] == ["unprotected", "does_not_stop"]
    assert ppgx.protect(context)
    assert not ppgx.protect(context)
    assert "SUCCESS False" in fresh(RUN, context).stdout
    assert [finding.kind for finding in ppgx.check(context)] == ["does_not_stop"]


@pytest.mark.deep
def test_a_loss_is_found_and_a_protected_context_refuses_the_suite(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous(), ppgx.RaiseOnFailure(name="gate"))
    assert not fresh(CHANGE, context).returncode
    found = {finding.kind: str(finding) for finding in ppgx.check(context)}
    assert set(found) == {"lost", "unprotected"}
    assert "visits: holds 0 of the 1 privacy expectations" in found["lost"]
    ppgx.protect(context)
    with pytest.raises(DataError, match="holds 0 of the 1"):
        gx.get_context(mode="file", project_root_dir=context).expectations_store.get(
            gx.get_context(mode="file", project_root_dir=context).expectations_store.get_key("visits")
        )
    assert fresh(RUN, context).returncode


@pytest.mark.deep
def test_a_protected_context_keeps_the_suite_and_its_number(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous())
    ppgx.protect(context)
    assert not fresh(CHANGE, context).returncode
    opened = gx.get_context(mode="file", project_root_dir=context)
    suite = opened.suites.get("visits")
    assert [each.expectation_type for each in suite.expectations] == ["expect_k_anonymity", "expect_column_to_exist"]
    suite.delete_expectation(suite.expectations[0])
    assert len(opened.suites.get("visits").expectations) == 1
    assert [finding.kind for finding in ppgx.check(context)] == []


@pytest.mark.deep
def test_an_unknown_type_in_a_protected_context_is_refused(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous())
    ppgx.protect(context)
    path = context / "gx/expectations/visits.json"
    document = json.loads(path.read_text())
    document["expectations"][0]["type"] = "expect_what_nobody_knows"
    path.write_text(json.dumps(document))
    done = fresh(RUN, context)
    assert "SUCCESS" not in done.stdout
    with pytest.raises(DataError, match="1 of its 1 expectations are of no type"):
        store = gx.get_context(mode="file", project_root_dir=context).expectations_store
        store.get(store.get_key("visits"))


def test_a_suite_that_does_not_say_its_number_is_named(tmp_path: Path) -> None:
    suite = anonymous()
    context = made(tmp_path, gx.ExpectationSuite(name="visits", expectations=suite.expectations))
    assert "undeclared" in {finding.kind for finding in ppgx.check(context)}


def test_the_configuration_keeps_its_comments_and_other_keys(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous())
    path = context / "gx/great_expectations.yml"
    before = path.read_text().splitlines()
    ppgx.protect(context)
    after = path.read_text().splitlines()
    assert [line for line in after if line not in before] == ["    module_name: privpipe.gx.store"]
    assert [line for line in before if line not in after] == []


@pytest.mark.parametrize("call", [ppgx.check, ppgx.protect])
def test_what_is_not_a_context_is_said(call: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a data context"):
        call(tmp_path)


def test_a_foreign_store_is_not_taken_over(tmp_path: Path) -> None:
    context = made(tmp_path, anonymous())
    path = context / "gx/great_expectations.yml"
    path.write_text(path.read_text().replace("class_name: ExpectationsStore", "class_name: TheirStore", 1))
    with pytest.raises(UsageError, match="'TheirStore'"):
        ppgx.protect(context)
