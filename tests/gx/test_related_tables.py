"""A checkpoint with one batch per related table judges each alone and all together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import Refused, UsageError
from tests.relations.test_related_release import document, tables_of

gx = pytest.importorskip("great_expectations")
import privpipe.gx as ppgx  # noqa: E402  # after the check that great_expectations is there

pytestmark = [pytest.mark.gx, pytest.mark.filterwarnings("default")]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name, table in tables_of().items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    return tmp_path


def policy(k: int) -> pp.Policy:
    joint = [{"joint_k_anonymity": {"k": k}}, *document()["guarantees"][1:]]
    return pp.Policy.from_dict(document(guarantees=joint))


def definitions(context: Any, lake: Path) -> dict[str, Any]:
    """A batch definition of each table."""
    files = context.data_sources.add_pandas_filesystem("lake", base_directory=lake)
    return {
        name: files.add_parquet_asset(name).add_batch_definition_path("all", path=f"{name}.parquet")
        for name in tables_of()
    }


def checkpoint(context: Any, batches: dict[str, Any], suites: dict[str, Any]) -> Any:
    checks = [
        context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batches[name], suite=context.suites.add(suite))
        )
        for name, suite in suites.items()
    ]
    actions = [ppgx.RaiseOnFailure(name="gate")]
    return context.checkpoints.add(gx.Checkpoint(name="clinic", validation_definitions=checks, actions=actions))


def results(found: Any) -> dict[str, Any]:
    """Results by type of expectation and suite."""
    return {
        (run.suite_name, each.expectation_config.type): each
        for run in found.run_results.values()
        for each in run.results
    }


def test_a_checkpoint_judges_the_tables_alone_and_together(lake: Path) -> None:
    context = gx.get_context(mode="ephemeral")
    batches = definitions(context, lake)
    suites = ppgx.suites_of(policy(2), batches)
    assert [each.expectation_type for each in suites["visits"].expectations] == ["expect_no_identifiers"]
    run = checkpoint(context, batches, suites)
    found = results(run.run())
    same = pp.validate({name: lake / f"{name}.parquet" for name in tables_of()}, policy(2))
    for verdict in same.verdicts:
        each = found["clinic.patients", f"expect_{verdict.name}"]
        assert each.success
        assert each.result["observed_value"] == verdict.observed
        assert each.result["element_count"] == 120
    least = int(same.verdicts[0].observed)
    again = gx.get_context(mode="ephemeral")
    batches = definitions(again, lake)
    with pytest.raises(Refused, match=rf"observed {least}, required at least {least + 1}; \d+ of 120 persons fail"):
        checkpoint(again, batches, ppgx.suites_of(policy(least + 1), batches)).run()
    more = tables_of()["visits"].append_column("surname", tables_of()["visits"]["ward"])
    pq.write_table(more, lake / "visits.parquet")
    with pytest.raises(Refused, match="expect_no_identifiers"):  # of the child alone
        run.run()


def test_what_cannot_be_judged_together_fails(lake: Path) -> None:
    context = gx.get_context(mode="ephemeral")
    batches = definitions(context, lake)
    suites = ppgx.suites_of(policy(2), batches)
    run = checkpoint(context, batches, suites)
    orphans = tables_of()["visits"].slice(0, 1)
    pq.write_table(orphans.set_column(0, "patient", [["nobody known"]]), lake / "visits.parquet")
    with pytest.raises(Refused, match="table 'visits': 1 record belongs to no record of 'patients'") as caught:
        run.run()
    assert "nobody known" not in str(caught.value)
    (lake / "visits.parquet").unlink()
    lost = context.validation_definitions.get("patients").run()
    assert [each.success for each in lost.results] == [True, False, False]
    said = lost.results[1].result["details"]
    assert said["outcome"] == "error"
    assert said["reason"].startswith("table 'visits': batch definition 'all' of asset 'visits' of data source 'lake'")


def test_parts_of_an_asset_are_not_judged_together(lake: Path) -> None:
    context = gx.get_context(mode="ephemeral")
    batches = definitions(context, lake)
    files = context.data_sources.get("lake")
    pq.write_table(tables_of()["visits"], lake / "visits_2026-01.parquet")
    monthly = files.add_parquet_asset("months").add_batch_definition_monthly(
        "month", regex=r"visits_(?P<year>\d{4})-(?P<month>\d{2})\.parquet"
    )
    suites = ppgx.suites_of(policy(2), {"visits": monthly})
    with pytest.raises(Refused, match="table 'visits': its batch is one part of its asset"):
        checkpoint(context, batches, {"patients": suites["patients"]}).run()


def test_frames_are_found_by_handles(tmp_path: Path) -> None:
    frames = {name: table.to_pandas() for name, table in tables_of().items()}
    ppgx.hold("clinic visits", frames["visits"])
    suite = ppgx.suites_of(policy(2), {"visits": {"handle": "clinic visits"}})["patients"]
    ppgx.save_suite(suite, tmp_path / "suite.json")
    kept = json.loads((tmp_path / "suite.json").read_text())
    assert [each["meta"]["privpipe"]["threshold"] for each in kept["expectations"][1:]] == [{"k": 2}, {"alpha": 0.9}]
    context = gx.get_context(mode="ephemeral")
    asset = context.data_sources.add_pandas("frames").add_dataframe_asset("patients")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frames["patients"]})
    assert batch.validate(ppgx.load_suite(tmp_path / "suite.json")).success
    ppgx.let_go("clinic visits")
    lost = batch.validate(ppgx.load_suite(tmp_path / "suite.json"))
    assert not lost.success
    assert "no data is held under 'clinic visits'" in lost.results[1].result["details"]["reason"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": None}, "k: is required"),
        ({"k": 0}, "k must be an integer >= 1"),
        ({"root": "visits"}, "the rows of 'patients' are the persons"),
        ({"relations": []}, "lead to no other table"),
        ({"tables": {"visits": tables_of()["visits"]}}, "tables: visits must be a path, or a mapping"),
        ({"knows": {"visits": 9}}, "must be 0 to 3, or all"),
    ],
    ids=["no threshold", "zero", "child as root", "no relation", "a table itself", "too much known"],
)
def test_expectations_that_cannot_be_made(changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "k": 2,
        "root": "patients",
        "tables": {"patients": "p.parquet", "visits": "v.parquet"},
        "relations": [{"from": "visits.patient", "to": "patients"}],
        "keys": {"patients": "patient"},
        "quasi_identifiers": {"patients": ["age"], "visits": ["ward"]},
    }
    with pytest.raises(ValueError, match=message):
        ppgx.ExpectJointKAnonymity(**{**given, **changes})


def test_a_policy_is_written_into_a_project(lake: Path) -> None:
    file = lake / "clinic.yaml"
    file.write_text(policy(2).to_yaml())
    done = CliRunner().invoke(app, ["gx", "init", str(file), str(lake / "project")])
    assert done.exit_code == 0, done.stderr
    assert "suites 'clinic.patients', 'clinic.visits'" in done.stderr
    context = gx.get_context(mode="file", project_root_dir=lake / "project")
    joint = context.suites.get("clinic.patients").expectations[1]
    assert joint.expectation_type == "expect_joint_k_anonymity"
    assert joint.tables["visits"]["path"] == str(lake / "published" / "visits")
    assert ppgx.check(lake / "project") == []
    with pytest.raises(UsageError, match="the project has a suite 'clinic.patients'"):
        ppgx.init(file, lake / "project")
    with pytest.raises(UsageError, match="no table 'vists'; did you mean 'visits'"):
        ppgx.suites_of(policy(2), {"vists": "v.parquet"})
