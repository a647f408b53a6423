"""Records of failing classes are kept for who corrects them, where no other user reads, and the rest is published."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Engine
from privpipe.errors import NoSolutionError, PolicyError, UsageError
from privpipe.running.run import STEPS

SAFE, ALONE = [("081", "flu")] * 6 + [("082", "cold")] * 5, [("999", "gout"), (None, "flu"), ("998", "gout")]
KILLED = """
import os, signal, sys
import privpipe as pp

def progress(step):
    if step == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

pp.release(sys.argv[1], progress=progress)
"""


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    rows = [*ALONE[:1], *SAFE, *ALONE[1:]]
    table = pa.table(
        {
            "name": [f"person {at}" for at in range(len(rows))],
            "zip": [row[0] for row in rows],
            "illness": [row[1] for row in rows],
        }
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "rows.parquet")
    return {
        "version": 1,
        "source": {"path": str(tmp_path / "in" / "rows.parquet")},
        "columns": {
            "name": {"role": "identifier"},
            "zip": {"role": "quasi_identifier", "hierarchy": {"redact": {"keep": "left"}}},
            "illness": {"role": "insensitive"},
        },
        "transform": [{"suppress_records": {"suppress_at_most": 0.3}}],
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "sink": {"path": str(tmp_path / "out")},
        "failing": {"sink": {"path": str(tmp_path / "held")}},
    }


def kept(folder: str | Path) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in pq.read_table(folder).to_pylist()), key=str)


def wanted(tmp_path: Path) -> list[tuple[Any, ...]]:
    """By the definition: the records of the source whose class is smaller than five."""
    rows = pq.read_table(tmp_path / "in" / "rows.parquet").to_pylist()
    sizes = {row["zip"]: sum(other["zip"] == row["zip"] for other in rows) for row in rows}
    return sorted((tuple(row.values()) for row in rows if sizes[row["zip"]] < 5), key=str)


def test_records_of_failing_classes_are_kept_as_they_came_in(
    engine: Engine, document: dict[str, Any], tmp_path: Path
) -> None:
    found = pp.release(document, engine=engine)
    assert found.assessment.records == len(SAFE)
    assert (found.quarantined, kept(found.quarantine)) == (len(ALONE), wanted(tmp_path))
    home = tmp_path / "held"
    assert [path.name for path in home.iterdir()] == [found.run_id]
    for path in (home, *home.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    public = "".join(path.read_text() for path in (tmp_path / "out" / "_privpipe").glob("*.json"))
    assert "held" not in public


def test_records_that_stay_as_rows_of_marks_are_kept_too(document: dict[str, Any], tmp_path: Path) -> None:
    document["transform"] = [{"generalize": {"levels": {"zip": 0}, "suppress_at_most": 0.3, "mark": True}}]
    found = pp.release(document)
    assert kept(found.quarantine) == wanted(tmp_path)


def test_a_run_that_leaves_nothing_out_keeps_nothing(document: dict[str, Any], tmp_path: Path) -> None:
    document["guarantees"] = [{"k_anonymity": {"k": 1}}]
    assert pp.release(document).quarantine == ""
    assert list((tmp_path / "held").iterdir()) == []


def test_a_run_over_its_budget_or_refused_keeps_nothing(document: dict[str, Any], tmp_path: Path) -> None:
    document["transform"] = [{"suppress_records": {"suppress_at_most": 0.1}}]
    with pytest.raises(NoSolutionError, match="suppress_at_most"):
        pp.release(document)
    document["transform"] = [{"suppress_records": {"suppress_at_most": 0.3}}]
    document["utility"] = {"column_loss": {"at_most": 0, "on_alarm": "refuse"}}
    document["transform"].append({"pram": {"columns": ["illness"], "diagonal": 0.5}})
    with pytest.raises(pp.errors.Refused):
        pp.release(document)
    assert list((tmp_path / "held").iterdir()) == []
    assert not (tmp_path / "out").exists()


def test_a_dry_run_keeps_nothing(document: dict[str, Any], tmp_path: Path) -> None:
    assert pp.release(document, dry_run=True).quarantine == ""
    assert not (tmp_path / "held").exists()


@pytest.mark.deep
@pytest.mark.parametrize("step", [pytest.param("judge", marks=pytest.mark.rare), "publish", "judge again"])
def test_a_killed_run_keeps_what_its_release_left_out_and_nothing_else(
    step: str, document: dict[str, Any], tmp_path: Path
) -> None:
    old = pp.release(document)
    (tmp_path / "policy.yaml").write_text(json.dumps(document))
    command = [sys.executable, "-c", KILLED, str(tmp_path / "policy.yaml"), step]
    run = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert run.returncode == -signal.SIGKILL
    seen = json.loads((tmp_path / "out" / "_privpipe" / "manifest.json").read_text())["run_id"]
    assert (seen != old.run_id) == (STEPS.index(step) > STEPS.index("publish"))
    new = pp.release(document)
    home = tmp_path / "held"
    assert {path.name for path in home.iterdir()} == {old.run_id, seen, new.run_id}
    assert all(kept(path) == wanted(tmp_path) for path in home.iterdir())


@pytest.mark.parametrize("place", ["out", "out/held", ".", "in", "s3://bucket/held", "records", "records/held"])
def test_a_place_that_others_read_is_refused(place: str, document: dict[str, Any], tmp_path: Path) -> None:
    path = place if "://" in place else os.path.normpath(tmp_path / place)
    document |= {"failing": {"sink": {"path": path}}, "records": str(tmp_path / "records")}
    with pytest.raises(PolicyError, match=r"failing\.sink\.path"):
        pp.Policy.from_dict(document)


@pytest.mark.parametrize("place", ["link", ".out.privpipe/releases/held"])
def test_a_place_that_leads_into_the_sink_is_refused(place: str, document: dict[str, Any], tmp_path: Path) -> None:
    pp.release(document)
    (tmp_path / "link").symlink_to(tmp_path / "out")
    document["failing"] = {"sink": {"path": str(tmp_path / place)}}
    for dry_run in (True, False):
        with pytest.raises(UsageError, match=r"failing\.sink\.path: .*where readers"):
            pp.release(document, dry_run=dry_run)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "no stage suppresses failing classes"),
        ([{"suppress_records": {"suppress_at_most": 0.0}}], "no stage suppresses failing classes"),
        ([{"suppress_records": {"suppress_at_most": 0.1}}, {"sample": {"fraction": 0.5}}], "are of no failing class"),
    ],
)
def test_a_policy_under_which_no_failing_class_goes_is_refused(
    stages: Any, message: str, document: dict[str, Any]
) -> None:
    document["transform"] = stages
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(document)
