"""Faces of policies about related tables: judged as they are, made of Python objects, drafted, explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.cli.explain import described
from privpipe.errors import PolicyError, Refused, UsageError
from privpipe.policy.grammar import MEMBER
from privpipe.reporting.run_comparison import compare_runs
from privpipe.reporting.run_documents import RunDocuments
from tests.relations.test_related_release import document, tables_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def asking(k: int) -> dict[str, Any]:
    return document(guarantees=[{"joint_k_anonymity": {"k": k}}, *document()["guarantees"][1:]])


def joint() -> pp.Assessment:
    """The same tables, judged without a policy."""
    return pp.relations.assess(
        tables_of(),
        [pp.relations.JointKAnonymity(k=5), pp.relations.JointAlpha(column="patients.illness", alpha=0.9)],
        relations=[{"from": "visits.patient", "to": "patients"}],
        keys={"patients": "patient"},
        quasi_identifiers={"patients": ["age"], "visits": ["ward"]},
    )


@pytest.mark.parametrize("engine", ["embedded", "dask"])
def test_the_sources_are_judged_as_they_are(folder: Path, engine: str) -> None:
    found = pp.assess(None, pp.Policy.from_dict(asking(5), folder), engine=engine)
    assert [each.observed for each in found.verdicts] == [each.observed for each in joint().verdicts]
    assert found.records == 360
    assert any("identifiers of the source" in note and "visits" in note for note in found.notes)
    assert not (folder / "published").exists()


def test_frames_are_judged_and_checked_by_name() -> None:
    frames = {name: table.to_pandas() for name, table in tables_of().items()}
    found = pp.assess(frames, asking(5))
    assert [each.observed for each in found.verdicts] == [each.observed for each in joint().verdicts]
    assert pp.check(frames, asking(2)).passed
    with pytest.raises(Refused):
        pp.check(frames, asking(100))
    with pytest.raises(UsageError, match="without an original"):
        pp.assess(frames, asking(2), original=frames)
    with pytest.raises(UsageError, match="not a frame whose rows can be held"):
        pp.check(frames, asking(2), hold=True)


def test_finished_tables_hold_no_identifier_but_their_keys() -> None:
    frames = tables_of()
    policy = asking(2)
    policy["tables"]["patients"]["columns"]["name"] = {"role": "identifier"}
    assert pp.validate(frames, policy).passed
    named = frames["patients"].append_column("name", frames["patients"]["patient"])
    found = pp.validate({**frames, "patients": named}, policy)
    assert not found.passed
    assert [each.name for each in found.failed] == ["no_identifiers"]
    assert "table 'patients'" in found.failed[0].reason


RELATED = [{"from": "visits.patient", "to": "patients"}]


def of_objects(**changes: Any) -> pp.Policy:
    """The policy of `asking(5)` from Python objects."""
    tables = {
        "patients": pp.Policy(
            roles=pp.Roles(identifiers=["patient"], quasi_identifiers=["age"], sensitive=["illness"]),
            hierarchies={"age": {"intervals": {"widths": [100], "start": 0}}},
            transform=[pp.transforms.Generalize(levels={"age": 1})],
            guarantees=[pp.models.DistinctLDiversity(column="illness", l=2)],
            types={"age": "integer"},
        ),
        "visits": {"roles": pp.Roles(identifiers=["patient"], quasi_identifiers=["ward"])},
    }
    given: dict[str, Any] = {
        "name": "clinic",
        "tables": tables,
        "keys": {"patients": "patient"},
        "relations": RELATED,
        "transform": [
            pp.relations.CapRows(table="visits", at_most=2),
            pp.relations.SuppressPersons(at_most=0.5),
        ],
        "guarantees": [pp.relations.JointKAnonymity(k=5)],
    }
    return pp.Policy(**{**given, **changes})


def test_a_policy_of_python_objects_is_the_document_that_says_the_same(tmp_path: Path) -> None:
    policy = of_objects()
    file = tmp_path / "clinic.yaml"
    file.write_text(policy.to_yaml())
    again = pp.Policy.load(file)
    assert (again.digest(), again.related) == (policy.digest(), policy.related)
    found = policy.apply({name: table.to_pandas() for name, table in tables_of().items()})
    assert {name: list(frame.columns) for name, frame in found.items()} == {
        "patients": ["age", "illness"],
        "visits": ["ward"],
    }
    assert set(found["patients"]["age"]) == {"0-99"}
    assert pp.check(tables_of(), of_objects(guarantees=[pp.relations.JointKAnonymity(k=2)])).passed


def test_a_table_of_objects_may_be_a_document() -> None:
    tables = {"patients": document()["tables"]["patients"], "visits": of_objects().document["tables"]["visits"]}
    joint = [pp.relations.JointKAnonymity(k=2), pp.relations.JointAlpha(column="patients.illness", alpha=0.9)]
    policy = of_objects(tables=tables, keys=None, transform=[], guarantees=joint)
    assert policy.related is not None
    assert policy.related.tree.tables["patients"].key == ("patient",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roles": pp.Roles()}, "roles: belongs to one table"),
        ({"tables": None}, "roles: the roles of the columns are missing"),
        ({"tables": None, "roles": pp.Roles()}, "relations: belongs to a policy about related tables"),
        ({"tables": {"patients": 3}}, r"tables\.patients: must be a policy or a mapping, not int"),
        ({"guarantees": [pp.models.KAnonymity(k=2)]}, r"guarantees\[0\]: must be a joint guarantee, not k_anonymity"),
        ({"transform": [pp.transforms.Generalize()]}, r"transform\[0\]: must be a stage over related tables"),
        ({"keys": {}}, "has no `key:`"),
        ({"base_dir": "/elsewhere"}, r"tables\.patients: its relative paths start in another folder"),
    ],
)
def test_what_no_policy_of_objects_is(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        of_objects(**changes)


CLINIC = Path(__file__).resolve().parents[2] / "pipelines" / "clinic" / "release.yaml"


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        ({}, True),
        (
            {"joined": True, "orphans": "drop", "measures": [{"joint_t_closeness": {"column": "patients.illness"}}]},
            True,
        ),
        ({"transform": [{"cap_rows": {"table": "visits", "at_most": 3}}]}, True),
        ({"relations": [{"from": "visits", "to": "patients"}]}, False),
        ({"relations": [{"from": "visits.patient", "too": "patients"}]}, False),
        ({"orphans": "keep"}, False),
        ({"guarantees": []}, False),
        ({"guarantees": [{"joint_k_anonymity": {}}]}, False),
        ({"guarantees": [{"k_anonymity": {"k": 2}}]}, False),
        ({"transform": [{"generalize": {}}]}, False),
        ({"tables": {**document()["tables"], "visits": {"sink": {"path": "x"}, "columns": {}}}}, False),
        ({"columns": {"age": {"role": "quasi_identifier"}}}, False),
        ({"tables": {**document()["tables"], "patients": {"columns": {"a": {"role": "identifer"}}}}}, False),
    ],
    ids=str,
)
def test_the_schema_says_of_related_tables_what_the_reader_says(changes: dict[str, Any], right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    judged = {**document(), **changes}
    assert jsonschema.Draft202012Validator(pp.policy.json_schema()).is_valid(judged) is right
    if right:
        pp.Policy.from_dict(judged)
    else:
        with pytest.raises(PolicyError):
            pp.Policy.from_dict(judged)


@pytest.mark.parametrize("name", ["tables", "relations", "orphans"])
def test_the_sections_of_related_tables_are_explained(name: str) -> None:
    found = described(name)
    assert found["kind"] == "section of a policy about related tables"
    assert found["example"].startswith(f"{name}: ")
    if name == "tables":
        assert [each["name"] for each in found["parameters"]] == ["key", *MEMBER]


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("transform", ["transform", CLINIC, "--plan", "grid.yaml", "--target", "unjudged"]),
        ("plan --cost", ["plan", CLINIC, "--cost"]),
        ("compare --grid", ["compare", CLINIC, "--grid", "grid.yaml"]),
        ("compare --suggest", ["compare", CLINIC, "--suggest"]),
        ("explore", ["explore", CLINIC]),
        ("assess --show-records", ["assess", CLINIC, "--show-records", "risks.csv"]),
    ],
)
def test_commands_for_one_table_say_what_to_use(
    verb: str, arguments: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text("guarantees[0].joint_k_anonymity.k: [2, 5]\n")
    done = CliRunner().invoke(app, [str(each) for each in arguments])
    assert done.exit_code == 2
    assert f"{verb}: policy 'clinic' is about related tables" in done.stderr
    assert "`assess` for the sources" in done.stderr


def test_assess_judges_the_clinic_unchanged() -> None:
    done = CliRunner().invoke(app, ["assess", str(CLINIC)])
    assert done.exit_code == 5
    assert "FAIL  JointKAnonymity" in done.stdout
    assert "guarantees[0].joint_k_anonymity" in done.stderr
    assert "built in" not in done.stderr


def test_two_releases_of_a_set_are_compared_table_by_table(folder: Path) -> None:
    """A guarantee of one table is never set against that of another."""
    tables = document()["tables"]
    tables["visits"] |= {"guarantees": [{"k_anonymity": {"k": 5}}]}
    both = {**tables, "patients": {**tables["patients"], "guarantees": [{"k_anonymity": {"k": 3}}]}}
    cap = [{"cap_rows": {"table": "visits", "at_most": 1}}]
    alpha = [document()["guarantees"][0], {"joint_alpha": {"column": "patients.illness", "alpha": 1.0}}]
    for name, changes in (
        ("one", {"tables": both}),
        ("two", {"tables": tables, "transform": cap, "guarantees": alpha}),
    ):
        pp.release(pp.Policy.from_dict(document(**changes, sink={"path": name}, records="records"), folder))
    done = CliRunner().invoke(app, ["compare", str(folder / "one"), str(folder / "two"), "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    figures = {row["entry"]: row for row in found["figures"]}
    assert figures["k_anonymity table=patients"]["right"] is None
    assert figures["k_anonymity table=patients"]["right_outcome"] == ""
    assert figures["k_anonymity table=visits"]["difference"] == (
        figures["k_anonymity table=visits"]["right"] - figures["k_anonymity table=visits"]["left"]
    )
    assert figures["joint_alpha column=patients.illness"]["right_outcome"] == "pass"
    assert found["about"]["records of patients"] == [120, 120]
    assert found["about"]["records of visits"][0] > found["about"]["records of visits"][1]
    assert found["settings"]["transform[0].cap_rows.at_most"] == [None, 1]
    records = sorted(str(each) for each in (folder / "records").iterdir())
    page = folder / "page.html"
    assert CliRunner().invoke(app, ["compare", *records, "--html", str(page)]).exit_code == 0
    assert "k-anonymity (visits)" in page.read_text()


def test_stages_of_compared_sets_keep_their_places() -> None:
    stages = [("round", {"table": "patients", "base": 2}), ("round", {"table": "visits", "base": 3})]
    stages.append(("cap_rows", {"table": "visits", "at_most": 1}))
    rows = {"tables": {"patients": {"rows": 1}, "visits": {"rows": 1}}}
    verdict = {"run_id": "a", "guarantees": [], "measures": []}

    def run(*kept: tuple[str, dict[str, object]]) -> RunDocuments:
        plan = {"stages": [{"name": name, "parameters": own} for name, own in kept]}
        return RunDocuments("a", verdict, {"plan": plan, "output": rows})

    assert compare_runs(run(*stages), run(*stages[1:])).settings == {
        "tables.patients.transform[0].round.base": (2, None)
    }
    assert compare_runs(run(*stages), run(*stages[:2])).settings == {
        "transform[0].cap_rows.table": ("visits", None),
        "transform[0].cap_rows.at_most": (1, None),
    }
