"""A public edition next to the data, a private one where only who ran the release can read it."""

from __future__ import annotations

import copy
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli.app import app
from privpipe.errors import DataError, PolicyError, Refused, SinkError, UsageError
from privpipe.gx.tables import read_stages
from privpipe.running.run_documents import input_commitment, plan_commitment

KILLED = """
import os, signal, sys
import privpipe as pp
pp.release(sys.argv[1], progress=lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == sys.argv[2] else None)
"""


@pytest.fixture
def policy(tmp_path: Path) -> dict[str, Any]:
    """120 records, a search, a figure of the release, one next to the source."""
    frame = pd.DataFrame(
        {
            "age": [20 + at % 40 for at in range(120)],
            "town": [["Ash", "Barrow", "Crewe"][at % 3] for at in range(120)],
            "ill": [["flu", "cold", "gout", "asthma"][at % 7 % 4] for at in range(120)],
        }
    )
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "rows.parquet")},
        "columns": {
            "age": {
                "role": "quasi_identifier",
                "type": "integer",
                "hierarchy": {"intervals": {"start": 20, "widths": [10, 20]}},
            },
            "town": {"role": "quasi_identifier"},
            "ill": {"role": "sensitive"},
        },
        "transform": [{"generalize": {"suppress_at_most": 0.1}}],
        "guarantees": [{"k_anonymity": {"k": 6}}, {"t_closeness": {"column": "ill", "t": 0.9}}],
        "measures": [{"average_risk": {}}, {"distinct_l_diversity": {"column": "ill"}}],
        "sink": {"path": str(tmp_path / "out")},
    }


def document(folder: str | Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, f"{name}.json").read_text(encoding="utf-8"))
    return found


def test_figures_next_to_the_source_are_private(policy: dict[str, Any]) -> None:
    result = pp.release(policy)
    public, private = document(f"{result.path}/_privpipe", "verdict"), document(result.record, "verdict")
    assert (public["edition"], private["edition"]) == ("public", "private")
    assert private == result.verdict_document
    _, size, close = public["guarantees"]
    assert public["guarantees"][0] == private["guarantees"][0]
    assert size == private["guarantees"][1]
    assert close["outcome"] == "pass"
    assert close["threshold"] == 0.9
    assert private["guarantees"][2]["observed"] > 0
    assert [close[name] for name in ("observed", "failing_classes", "failing_records", "failing_share")] == [None] * 4
    assert close["reason"] == "held; the figure compares with the source and is in the private record."
    average, diverse = public["measures"]
    assert average == private["measures"][0]
    assert private["measures"][1]["observed"] < 6  # below the largest k asked for
    assert diverse["observed"] is None


@pytest.mark.parametrize(("figure", "shown"), [(0, 0), (1, None), (4, None), (5, 5), (0.049, None), (0.05, 0.05)])
def test_what_rests_on_one_to_four_records_is_withheld(figure: float, shown: float | None) -> None:
    from privpipe.blocks.public_edition import PublicRules

    assert PublicRules(columns=frozenset(), least=5).reported(figure, 100) == shown


def test_notes_of_the_source_are_private() -> None:
    from privpipe.blocks.public_edition import PublicRules
    from privpipe.judging import Assessment

    judged = Assessment(verdicts=(), records=9, notes=("of the policy",), source_notes=("of the source",))
    assert judged.public_dict(PublicRules(columns=frozenset()))["notes"] == ["of the policy"]
    assert judged.to_dict()["notes"] == ["of the policy", "of the source"]


def test_persons_that_no_released_column_shows_keep_their_figures_private(policy: dict[str, Any]) -> None:
    frame = pd.read_parquet(policy["source"]["path"]).assign(who=[f"p{at // 2}" for at in range(120)])
    frame.to_parquet(policy["source"]["path"], index=False)
    policy["columns"]["who"] = {"role": "identifier"}
    policy["person_id"] = "who"
    policy["guarantees"] = [{"k_anonymity": {"k": 3}}, {"distinct_l_diversity": {"column": "ill", "l": 1}}]
    result = pp.release(policy)
    assert result.assessment.verdicts[0].observed >= 3
    assert document(f"{result.path}/_privpipe", "verdict")["guarantees"][1]["observed"] is None


def test_the_public_plan_holds_levels_and_is_not_a_plan_to_apply(policy: dict[str, Any], tmp_path: Path) -> None:
    result = pp.release(policy)
    public = document(f"{result.path}/_privpipe", "plan")
    assert public["edition"] == "public"
    assert [stage["detail"] for stage in public["stages"]] == [{"levels": result.plan.levels}]
    with pytest.raises(UsageError, match="public edition"):
        pp.Plan.from_json(json.dumps(public))
    with pytest.raises(DataError, match="public edition"):
        read_stages(f"{result.path}/_privpipe/plan.json")
    assert pp.Plan.from_json(Path(result.record, "plan.json").read_text()) == result.plan
    assert read_stages(f"{result.record}/plan.json")[0]["detail"]["optimal"] is True


def test_commitments_are_bound_to_the_run_and_checked_with_the_seed(policy: dict[str, Any]) -> None:
    policy["seed"] = {"from_env": "PRIVPIPE_TEST_SEED"}
    seed = pp.Policy.from_dict(policy).seed.resolve()  # type: ignore[union-attr]
    told = []
    for _ in range(2):
        result = pp.release(policy)
        public, private = document(f"{result.path}/_privpipe", "manifest"), document(result.record, "manifest")
        assert public["seed_commitment"] == seed.commitment(result.run_id)
        seen = private["input"]["fingerprint"]
        assert public["input"] == {"records": 120, "fingerprint": input_commitment(seed, result.run_id, seen)}
        assert public["private_plan"] == plan_commitment(seed, result.run_id, result.plan.digest)
        told.append([public["seed_commitment"], public["private_plan"], public["input"]["fingerprint"], seen])
    assert not set(told[0][:3]) & set(told[1][:3])
    assert told[0][3] == told[1][3]


def test_private_records_are_for_their_owner_alone(policy: dict[str, Any], tmp_path: Path) -> None:
    result = pp.release(policy)
    home = Path(result.record)
    assert home.parent == tmp_path / ".out.privpipe" / "records"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home.parent, home)] == [0o700] * 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}
    assert not list(home.parent.glob("*.pending"))


def test_a_folder_of_ones_own_keeps_the_records_of_several_sinks(policy: dict[str, Any], tmp_path: Path) -> None:
    policy["records"] = str(tmp_path / "kept" / "here")
    first = pp.release(policy)
    other = copy.deepcopy(policy)
    other["sink"]["path"] = str(tmp_path / "other")
    second = pp.release(other)
    assert {path.name for path in (tmp_path / "kept" / "here").iterdir()} == {first.run_id, second.run_id}
    assert not (tmp_path / ".out.privpipe" / "records").exists()
    assert pp.Policy.from_dict(policy).digest() == pp.Policy.from_dict({**policy, "records": "else"}).digest()


@pytest.mark.parametrize("inside", ["out", "out/private", "s3://lake/records"])
def test_records_among_the_readers_are_refused(policy: dict[str, Any], tmp_path: Path, inside: str) -> None:
    policy["records"] = inside if "://" in inside else str(tmp_path / inside)
    with pytest.raises(PolicyError, match="records"):
        pp.Policy.from_dict(policy)


def test_records_inside_another_target_are_refused_too(policy: dict[str, Any], tmp_path: Path) -> None:
    policy["records"] = str(tmp_path / "elsewhere" / "private")
    with pytest.raises(UsageError, match="readers of the release look"):
        pp.release(policy, target=str(tmp_path / "elsewhere"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_remote_sink_holds_no_private_record(policy: dict[str, Any], tmp_path: Path) -> None:
    policy["sink"]["path"] = f"file://{tmp_path}/lake"
    result = pp.release(pp.Policy.from_dict(policy, base_dir=tmp_path))
    assert Path(result.record).parent == tmp_path / ".lake.privpipe" / "records"
    for path in (tmp_path / "lake").rglob("*.json"):
        assert json.loads(path.read_text())["edition"] == "public"
    policy["guarantees"][0] = {"k_anonymity": {"k": 1000}}
    policy["transform"] = []
    with pytest.raises(Refused):
        pp.release(pp.Policy.from_dict(policy, base_dir=tmp_path))
    refused = [path for path in Path(result.record).parent.iterdir() if path.name != result.run_id]
    assert [document(path, "verdict")["passed"] for path in refused] == [False]
    assert not [path for path in (tmp_path / "lake").rglob("*") if "refused" in path.name]


@pytest.mark.deep
@pytest.mark.parametrize(("step", "kept"), [("publish", False), ("judge again", True)])
def test_a_killed_run_keeps_its_record_exactly_if_it_published(
    policy: dict[str, Any], tmp_path: Path, step: str, kept: bool
) -> None:
    (tmp_path / "release.yaml").write_text(json.dumps(policy))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "release.yaml"), step]
    assert subprocess.run(command, timeout=120, check=False, capture_output=True).returncode < 0
    home, out = tmp_path / ".out.privpipe" / "records", tmp_path / "out"
    [killed] = [path for path in home.iterdir() if path.is_dir()]
    assert out.exists() == kept
    if kept:
        assert document(out / "_privpipe", "verdict")["run_id"] == killed.name
    after = pp.release(policy)
    assert killed.exists() == kept
    assert {path.name for path in home.iterdir()} == {after.run_id, *([killed.name] if kept else [])}


def test_what_cannot_be_recorded_is_not_published(policy: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    policy["records"] = str(tmp_path / "file")
    with pytest.raises(SinkError, match="private record"):
        pp.release(policy)
    assert not (tmp_path / "out").exists()


def test_a_report_says_which_edition_it_shows(policy: dict[str, Any]) -> None:
    result, say = pp.release(policy), CliRunner()
    public, private = (say.invoke(app, ["report", path]).stdout for path in (result.path, result.record))
    assert "| edition | public:" in public
    assert "| edition | private:" in private
    assert "| t_closeness | column: ill, t: 0.9 | - | at most 0.9 | pass | - |" in public
    assert "| t_closeness | column: ill, t: 0.9 | 0." in private
    compared = say.invoke(app, ["compare", result.path, result.record, "--json"])
    assert json.loads(compared.stdout)["about"]["edition"] == ["public", "private"]


def test_nothing_of_the_source_is_counted_under_differential_privacy(tmp_path: Path) -> None:
    """One person more or less in a source changes the numbers of input, drawn and suppressed records, which no public
    document tells; the published folder is judged from its public documents.
    """
    frame = pd.DataFrame({"town": [["Ash", "Barrow"][at % 2] for at in range(700)]})
    levels = {"town": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left", "length": 6}}}}
    policy = {
        "version": 1,
        "columns": levels,
        "transform": [{"safepub": {"epsilon": 1.0, "delta": 1e-3}}],
        "guarantees": [{"differential_privacy": {"epsilon": 1.0, "delta": 1e-3}}],
        "seed": {"from_env": "PRIVPIPE_TEST_SEED"},
    }
    for name, rows in (("with", [*frame["town"], "Dover"]), ("without", frame["town"])):
        pd.DataFrame({"town": rows}).to_parquet(tmp_path / f"{name}.parquet", index=False)
        policy["source"] = {"path": str(tmp_path / f"{name}.parquet")}
        result = pp.release({**policy, "sink": {"path": str(tmp_path / name)}})
        public = {part: document(f"{result.path}/_privpipe", part) for part in ("verdict", "manifest", "plan")}
        assert public["manifest"]["input"]["records"] is None
        assert public["verdict"]["suppressed_records"] is public["manifest"]["output"]["suppressed_records"] is None
        text, whole = json.dumps(public), document(result.record, "plan")
        assert whole["records"] == len(rows)
        assert whole["stages"][0]["detail"]["process"]["drawn"] >= result.assessment.records
        assert not [number for number in (len(rows), result.plan.suppressed_records) if f": {number}," in text]
        assert "drawn" not in text
        finished = {**policy, "columns": {"town": {"role": "quasi_identifier"}}}
        assert pp.assess(result.path, finished).passed
