"""The gate sees every column of a judged table: none without a role, none that is an identifier."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import DataError
from tests.validated_frames import batch_of

POLICY: dict[str, Any] = {
    "version": 1,
    "columns": {
        "name": {"role": "identifier"},
        "zip": {"role": "quasi_identifier"},
        "illness": {"role": "sensitive"},
    },
    "guarantees": [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "illness", "l": 2}}],
}
NAMED = pd.DataFrame(
    {
        "name": ["Ann", "Bob", "Cy", "Di", "Ed", "Fay"],
        "zip": ["a", "a", "a", "b", "b", "b"],
        "illness": ["flu", "cold", "flu", "gout", "flu", "cold"],
    }
)


@pytest.mark.usual
def test_a_table_with_names_fails_first_of_all(engine: Engine) -> None:
    """Row of the table: `validate` of a table with a column `name`."""
    found = pp.assess(NAMED, POLICY, engine=engine)
    first = found.to_dict()["guarantees"][0]
    assert not found.passed
    assert (first["name"], first["outcome"], first["observed"], first["threshold"]) == ("no_identifiers", "fail", 1, 0)
    assert "'name'" in first["reason"]
    assert [verdict.outcome for verdict in found.verdicts] == ["fail", "pass", "pass"]
    assert found.built_in == ()
    with pytest.raises(pp.errors.Refused, match="NoIdentifiers"):
        found.raise_if_failed()


def test_without_them_it_passes_and_says_so_first(engine: Engine) -> None:
    found = pp.assess(NAMED.drop(columns="name"), POLICY, engine=engine)
    assert found.passed
    assert found.to_dict()["guarantees"][0]["name"] == "no_identifiers"
    assert [verdict.name for verdict in found.verdicts] == ["k_anonymity", "distinct_l_diversity"]
    assert [verdict.outcome for verdict in found.built_in] == ["pass"]


def test_a_column_without_a_role_is_an_error(engine: Engine) -> None:
    table = NAMED.rename(columns={"name": "ssn"})
    with pytest.raises(DataError, match=r"1 column\(s\) of the table have no role: 'ssn'"):
        pp.assess(table, POLICY, engine=engine)


def test_undeclared_note_turns_the_error_into_a_note(engine: Engine) -> None:
    table = NAMED.rename(columns={"name": "ssn"})
    found = pp.assess(table, {**POLICY, "undeclared": "note"}, engine=engine)
    assert found.passed
    assert [note for note in found.notes if "'ssn'" in note] == [
        "columns without a role, which were not looked at: 'ssn'"
    ]


def test_undeclared_has_two_words() -> None:
    with pytest.raises(pp.errors.PolicyError, match="undeclared"):
        pp.Policy.from_dict({**POLICY, "undeclared": "pass"})


def test_the_policy_s_own_source_is_raw_and_its_identifiers_are_noted(engine: Engine, tmp_path: Path) -> None:
    NAMED.to_csv(tmp_path / "raw.csv", index=False)
    policy = {**POLICY, "source": {"path": str(tmp_path / "raw.csv")}}
    found = pp.assess(None, policy, engine=engine)
    assert found.passed
    assert "identifiers of the source, which no release holds: 'name'" in found.notes
    assert not pp.assess(tmp_path / "raw.csv", policy, engine=engine).passed


def test_the_source_of_a_release_needs_every_role_whatever_the_gate_says(engine: Engine, tmp_path: Path) -> None:
    NAMED.assign(ssn=1).to_csv(tmp_path / "raw.csv", index=False)
    policy = {**POLICY, "undeclared": "note", "source": {"path": str(tmp_path / "raw.csv")}}
    policy["sink"] = {"path": str(tmp_path / "published")}
    with pytest.raises(DataError, match="'ssn'"):
        pp.release(policy, engine=engine)
    assert not (tmp_path / "published").exists()


def test_pseudonyms_of_the_policy_may_stay(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVPIPE_TEST_KEY", "7c" * 32)
    NAMED.to_csv(tmp_path / "raw.csv", index=False)
    stage = {"pseudonymise": {"columns": ["name"], "key": {"from_env": "PRIVPIPE_TEST_KEY"}, "domain": "tests"}}
    policy = {
        **POLICY,
        "source": {"path": str(tmp_path / "raw.csv")},
        "sink": {"path": str(tmp_path / "published")},
        "transform": [stage],
    }
    result = pp.release(policy, engine=engine)
    assert [verdict.name for verdict in result.assessment.built_in] == ["no_identifiers"]
    again = pp.assess(result.path, policy, engine=engine)
    assert again.passed
    without = {name: each for name, each in policy.items() if name != "transform"}
    assert not pp.assess(result.path, without, engine=engine).passed


@pytest.mark.usual
def test_every_release_is_judged_by_it(engine: Engine, tmp_path: Path) -> None:
    NAMED.to_csv(tmp_path / "raw.csv", index=False)
    policy = {**POLICY, "source": {"path": str(tmp_path / "raw.csv")}, "sink": {"path": str(tmp_path / "published")}}
    pp.release(policy, engine=engine)
    verdict = json.loads((tmp_path / "published/_privpipe/verdict.json").read_text())
    assert (verdict["guarantees"][0]["name"], verdict["guarantees"][0]["outcome"]) == ("no_identifiers", "pass")


def test_a_policy_that_lists_it_is_judged_by_it_once() -> None:
    guarantees = [*POLICY["guarantees"], {"no_identifiers": {"columns": ["illness"]}}]
    found = pp.assess(NAMED.drop(columns="name"), {**POLICY, "guarantees": guarantees})
    assert [verdict.name for verdict in found.verdicts] == ["no_identifiers", "k_anonymity", "distinct_l_diversity"]
    assert (found.verdicts[0].outcome, found.built_in) == ("fail", ())


@pytest.mark.parametrize(
    ("columns", "code", "said"),
    [(["name", "ssn"], 3, "'ssn'"), (["name"], 5, "NoIdentifiers"), ([], 0, "NoIdentifiers")],
    ids=["undeclared", "identifier", "neither"],
)
def test_the_command_ends_as_the_gate_says(tmp_path: Path, columns: list[str], code: int, said: str) -> None:
    NAMED.assign(ssn=range(6))[[*columns, "zip", "illness"]].to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "p.yaml").write_text(json.dumps(POLICY))
    command = [sys.executable, "-m", "privpipe", "validate", str(tmp_path / "d.csv"), str(tmp_path / "p.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Ann" not in done.stdout + done.stderr


def test_what_no_guarantee_protects_is_noted_on_every_face(tmp_path: Path) -> None:
    columns = {**POLICY["columns"], "sex": {"role": "quasi_identifier"}}
    guarantees = [{"k_anonymity": {"k": 1, "quasi_identifiers": ["zip"]}}, POLICY["guarantees"][1]]
    guarantees[1] = {"distinct_l_diversity": {"column": "illness", "l": 1, "quasi_identifiers": []}}
    policy = {**POLICY, "columns": columns, "guarantees": guarantees}
    wanted = {
        "no guarantee looks at the quasi-identifier 'sex'",
        "k_anonymity with k = 1 protects no one",
        "distinct_l_diversity with l = 1 protects no one",
        "distinct_l_diversity takes all records as one class, whatever they hold",
    }
    found = pp.assess(NAMED.drop(columns="name").assign(sex="f"), policy)
    assert wanted <= set(found.notes)
    assert wanted <= set(found.to_dict()["notes"])
    assert len(set(found.notes)) == len(found.notes)
    NAMED.drop(columns="name").assign(sex="f").to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "p.yaml").write_text(json.dumps(policy))
    command = [sys.executable, "-m", "privpipe", "validate", str(tmp_path / "d.csv"), str(tmp_path / "p.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert all(f"note: {note}" in done.stdout for note in wanted)


def test_a_policy_without_quasi_identifiers_is_noted() -> None:
    columns = {"zip": {"role": "insensitive"}, "illness": {"role": "sensitive"}}
    guarantees = [{"distinct_l_diversity": {"column": "illness", "l": 2, "quasi_identifiers": []}}]
    found = pp.assess(NAMED.drop(columns="name"), {"columns": columns, "guarantees": guarantees})
    assert "no column is a quasi-identifier: no attacker is taken to know anything of a person" in found.notes


class TestExpectations:
    """Great Expectations: an expectation names roles itself."""

    gx = pytest.importorskip("great_expectations")

    def results(self, frame: pd.DataFrame, *expectations: Any) -> list[Any]:
        batch = batch_of(frame)
        return [batch.validate(each) for each in expectations]

    def test_an_identifier_fails_every_expectation_that_is_told_of_it(self) -> None:
        import privpipe.gx as ppgx

        told = {"quasi_identifiers": ["zip"], "sensitive": ["illness"], "identifiers": ["name"]}
        found = self.results(NAMED, ppgx.ExpectNoIdentifiers(**told), ppgx.ExpectKAnonymity(k=3, **told))  # type: ignore[attr-defined]
        assert [each.success for each in found] == [False, False]
        assert found[0].result["observed_value"] == 1
        assert found[1].result["details"]["outcome"] == "fail"
        assert "'name'" in found[1].result["details"]["reason"]

    def test_a_column_without_a_role_is_noted_or_refused(self) -> None:
        import privpipe.gx as ppgx

        told: dict[str, Any] = {"quasi_identifiers": ["zip"], "sensitive": ["illness"]}
        found = self.results(
            NAMED,
            ppgx.ExpectKAnonymity(k=3, **told),  # type: ignore[attr-defined]
            ppgx.ExpectKAnonymity(k=3, undeclared="refuse", **told),  # type: ignore[attr-defined]
            ppgx.ExpectNoIdentifiers(**told),  # type: ignore[attr-defined]
            ppgx.ExpectNoIdentifiers(undeclared="note", **told),  # type: ignore[attr-defined]
        )
        assert [each.success for each in found] == [True, False, False, True]
        assert found[0].result["details"]["notes"] == ["columns without a role, which were not looked at: 'name'"]
        assert "'name'" in found[1].result["details"]["reason"]

    def test_a_suite_of_the_whole_table_begins_with_it(self) -> None:
        import privpipe.gx as ppgx

        policy = pp.Policy.from_dict(POLICY)
        suite = ppgx.suite_of(policy.guarantees, policy.released_roles, name="whole", undeclared="refuse")
        types = [each.expectation_type for each in suite.expectations]
        assert types[0] == "expect_no_identifiers"
        clean = NAMED.drop(columns="name")
        assert [each.success for each in self.results(clean, *suite.expectations)] == [True, True, True]
        assert not any(each.success for each in self.results(NAMED, *suite.expectations))
        assert not self.results(clean.assign(extra=1), suite.expectations[0])[0].success
