"""Suites from templates and policies, written into a project; each template passes and fails as it should."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import Refused, UnsupportedError, UsageError
from tests.validated_frames import batch_of, gate, passing, quiet_context

gx = pytest.importorskip("great_expectations")

import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]
VISITS = pd.DataFrame(
    {"age": ["30-40"] * 5 + ["50-60"] * 5, "illness": ["flu", "cold"] * 5, "cost": [float(each) for each in range(10)]}
)
ROLES = {"quasi_identifiers": ["age"], "insensitive": ["cost"], "identifiers": []}
GIVEN: dict[str, dict[str, Any]] = {
    "k_anonymity": {**ROLES, "sensitive": ["illness"], "k": 5},
    "research_file": {**ROLES, "sensitive": ["illness"], "column": "illness", "k": 5, "l": 2},
    "safe_harbor": {**ROLES, "sensitive": ["illness"], "vouched": []},
}
BAD = {
    "k_anonymity": (VISITS.head(9), "expect_k_anonymity (observed 4, required at least 5"),
    "research_file": (VISITS.assign(illness="flu"), "expect_distinct_l_diversity (observed 1, required at least 2"),
    "safe_harbor": (VISITS.assign(illness="ann@example.org"), "column 'illness' seems to hold e-mail addresses"),
}


@pytest.mark.parametrize("name", sorted(GIVEN))
def test_a_saved_template_is_that_of_the_code_and_judges(name: str, project: Path, tmp_path: Path) -> None:
    ppgx.save_suite(ppgx.template(name), tmp_path / "made.json")
    made, saved = (
        json.loads(path.read_text()) for path in (tmp_path / "made.json", project / f"expectations/{name}.json")
    )
    for document in (made, saved):
        document["meta"].pop("great_expectations_version", None)
    assert made == saved

    def loaded(context: Any) -> Any:
        return context.suites.add(ppgx.load_suite(project / f"expectations/{name}.json"))

    context = quiet_context()
    assert passing(gate(loaded(context), context), VISITS, **GIVEN[name]).success
    frame, said = BAD[name]
    for refused, why in ((frame, said), (VISITS.assign(surname="Abel"), "'surname'")):
        context = quiet_context()
        with pytest.raises(Refused, match=re.escape(why)) as refusal:
            passing(gate(loaded(context), context), refused, **GIVEN[name])
        assert "ann@" not in str(refusal.value)


def test_safe_harbor_passes_over_no_empty_batch() -> None:
    context = quiet_context()
    suite = context.suites.add(ppgx.template("safe_harbor", **GIVEN["safe_harbor"]))
    with pytest.raises(Refused, match=r"expect_safe_harbor \(the table has no records"):
        passing(gate(suite, context), VISITS.head(0))


def test_what_a_person_vouches_for_is_not_found() -> None:
    frame = VISITS.assign(illness="ann@example.org")
    for vouched, success in (([], False), (["illness"], True)):
        suite = ppgx.template("safe_harbor", **{**GIVEN["safe_harbor"], "vouched": vouched})
        assert batch_of(frame).validate(suite.expectations[1]).success is success


def test_init_writes_a_template_that_a_fresh_context_runs(tmp_path: Path) -> None:
    made = ppgx.init("k_anonymity", tmp_path, quasi_identifiers=["age"], insensitive=["cost"], sensitive=["illness"])
    assert (made.suite, made.expectations, made.awaited) == ("k_anonymity", 2, [])
    assert ppgx.check(tmp_path) == []
    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    assert type(context.suites.get("k_anonymity").expectations[1]).__name__ == "ExpectKAnonymity"
    with pytest.raises(Refused, match="observed 4, required at least 5"):
        passing(gate(context.suites.get("k_anonymity"), context), VISITS.head(9))
    assert ppgx.check(context) == []  # saving a data source has kept the protection


def test_init_names_what_each_run_must_give(tmp_path: Path) -> None:
    made = ppgx.init("research_file", tmp_path, name="visits", k=3)
    assert made.awaited == ["column", "quasi_identifiers", "sensitive"]
    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    given = {"column": "illness", "quasi_identifiers": ["age"], "sensitive": ["illness"]}
    with pytest.raises(Refused, match="'cost'"):  # no role was given to it
        passing(gate(context.suites.get("visits"), context), VISITS, **given)


def test_init_writes_the_suite_of_a_policy(tmp_path: Path) -> None:
    document: dict[str, Any] = {
        "version": 1,
        "name": "visits",
        "columns": {
            "age": {"role": "quasi_identifier"},
            "illness": {"role": "sensitive"},
            "cost": {"role": "insensitive"},
        },
        "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
    }
    policy = pp.Policy.from_dict(document)
    made = ppgx.init(policy, tmp_path)
    assert (made.suite, made.left_out) == ("visits", {})
    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    assert passing(gate(context.suites.get("visits"), context), VISITS).success
    with pytest.raises(UsageError, match="the project has a suite 'visits'"):
        ppgx.init(policy, tmp_path)
    assert ppgx.init(policy, tmp_path, replace=True).expectations == made.expectations
    columns = {**document["columns"], "illness": {"role": "insensitive"}}
    sized = {**document, "columns": columns, "guarantees": [{"k_anonymity": {"k": 5}}]}
    wildcard = pp.Policy.from_dict({**sized, "nulls": "wildcard"})
    with pytest.raises(UnsupportedError, match="wildcard"):
        ppgx.init(wildcard, tmp_path / "other")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda folder: ppgx.init("k_anonimity", folder), "did you mean 'k_anonymity'"),
        (lambda folder: ppgx.init("k_anonymity", folder, q=3), "has no parameter 'q'"),
        (lambda folder: ppgx.template("safe_harbour"), "did you mean 'safe_harbor'"),
    ],
)
def test_what_there_is_not_is_said(call: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_protect_takes_an_open_context_and_survives_what_it_saves(tmp_path: Path) -> None:
    context = gx.get_context(mode="file", project_root_dir=tmp_path)
    assert ppgx.protect(context)
    context.data_sources.add_pandas("p")  # rewrites the configuration from the context's own copy
    assert "module_name: privpipe.gx.store" in (tmp_path / "gx/great_expectations.yml").read_text()
    assert not ppgx.protect(context)
    with pytest.raises(UsageError, match="EphemeralDataContext keeps no files"):
        ppgx.protect(quiet_context())


def test_a_refusal_of_a_sql_source_gives_the_reason(tmp_path: Path) -> None:
    import sqlite3

    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("CREATE TABLE visits (age TEXT)")
        connection.execute("INSERT INTO visits VALUES ('secret-age')")
    connection.close()
    context = quiet_context()
    table = context.data_sources.add_sqlite("s", connection_string=f"sqlite:///{tmp_path / 'x.db'}")
    batches = table.add_table_asset("visits", table_name="visits").add_batch_definition_whole_table("all")
    foreign = gx.expectations.ExpectColumnValuesToBeInSet(column="age", value_set=["other"])
    suite = gx.ExpectationSuite(name="s", expectations=[ppgx.ExpectKAnonymity(k=2, quasi_identifiers=["age"]), foreign])
    definition = gx.ValidationDefinition(name="gate", data=batches, suite=context.suites.add(suite))
    checkpoint = gx.Checkpoint(
        name="gate",
        validation_definitions=[context.validation_definitions.add(definition)],
        actions=[ppgx.RaiseOnFailure(name="gate")],
    )
    with pytest.raises(Refused, match="a SQL data source cannot be judged in place") as refusal:
        context.checkpoints.add(checkpoint).run()
    assert "2 of 2 expectation(s) failed: expect_column_values_to_be_in_set; expect_k_anonymity (not" in str(
        refusal.value
    )
    assert "secret-age" not in str(refusal.value)
