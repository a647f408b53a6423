"""Officers' policies over tables: what they ask of cells, and that nothing of them is passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import privpipe as pp
from privpipe.errors import PolicyError, UnsupportedError
from privpipe.policy.officer import PINNED, read_officer

CELLS = [{"minimum_frequency": {"at_least": 5}, "reason": "no group of four"}, {"table_audit": {}}]
RECORDS = [{"k_anonymity": {"k": 5}}]


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A job that publishes counts, under an officer's policy."""
    pd.DataFrame({"region": ["N"] * 12 + ["S"] * 9}).to_parquet(tmp_path / "visits.parquet")

    def made(*guarantees: Any, officer: Any = None, **more: Any) -> dict[str, Any]:
        document = {
            "version": 1,
            "columns": {"region": {"role": "quasi_identifier"}},
            "source": {"path": str(tmp_path / "visits.parquet")},
            "sink": {"path": str(tmp_path / "out")},
            "seed": {"insecure": "tables"},
            "allow_insecure_seed": True,
            "transform": [{"aggregate": {"by": ["region"], "responses": ["count"]}}],
            "guarantees": list(guarantees),
        }
        if officer is not None:
            written = {"version": 1, "name": "officer", "guarantees": officer, "allow_insecure_seed": True, **more}
            (tmp_path / "officer.yaml").write_text(json.dumps(written))
            document["policy"] = str(tmp_path / "officer.yaml")
        return document

    return made


def test_a_job_that_asks_for_as_much_is_released(job: Callable[..., dict[str, Any]]) -> None:
    document = job({"minimum_frequency": {"at_least": 8}}, {"table_audit": {"time_limit": 5}}, officer=CELLS)
    result = pp.release(document)
    assert result.published
    manifest = json.loads((Path(result.path) / "_privpipe" / "manifest.json").read_text())
    assert manifest["officer_policy"]["name"] == "officer"


LOOSER = {
    "a lower threshold": (
        [{"minimum_frequency": {"at_least": 4}}, {"table_audit": {}}],
        "is 4; .*at least 5.*no gr",
    ),
    "no audit": ([{"minimum_frequency": {"at_least": 5}}], r"lacks TableAudit\(\)"),
    "an audit that only warns": (
        [{"minimum_frequency": {"at_least": 5}}, {"table_audit": {"severity": "warn"}}],
        "is warn",
    ),
    "an audit without populations": (
        [{"minimum_frequency": {"at_least": 5}}, {"table_audit": {"implied": False}}],
        "is False",
    ),
    "a rule on one table alone": (
        [{"minimum_frequency": {"at_least": 5, "tables": ["table"]}}, {"table_audit": {}}],
        "is \\['table'\\]",
    ),
}


@pytest.mark.parametrize("name", LOOSER)
def test_a_job_that_asks_for_less_is_refused(job: Callable[..., dict[str, Any]], name: str) -> None:
    guarantees, message = LOOSER[name]
    with pytest.raises(PolicyError, match=message):
        pp.Policy.from_dict(job(*guarantees, officer=CELLS))


@pytest.mark.parametrize("name", LOOSER)
def test_the_policy_of_the_environment_holds_for_tables(
    job: Callable[..., dict[str, Any]], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job(officer=CELLS)
    monkeypatch.setenv(PINNED, str(tmp_path / "officer.yaml"))
    guarantees, message = LOOSER[name]
    with pytest.raises(PolicyError, match=message):
        pp.release(job(*guarantees))
    assert not (tmp_path / "out").exists()


def test_an_officer_who_asks_for_records_alone_lets_no_table_leave(job: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(PolicyError, match="asks for guarantees on records alone"):
        pp.Policy.from_dict(job({"minimum_frequency": {"at_least": 9}}, officer=RECORDS))
    asked = job({"minimum_frequency": {"at_least": 9}}, {"table_audit": {}}, officer=[*RECORDS, *CELLS])
    assert pp.Policy.from_dict(asked).officer is not None


def test_what_is_asked_of_cells_is_not_asked_of_records(job: Callable[..., dict[str, Any]]) -> None:
    records = {**job({"k_anonymity": {"k": 5}}, officer=[*RECORDS, *CELLS]), "transform": []}
    assert pp.Policy.from_dict(records).officer is not None


def test_a_secret_threshold_is_not_asked_by_a_policy_with_a_public_hash(
    job: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    job(officer=[*CELLS, {"p_percent": {"at_least": 10}}])
    with pytest.raises(PolicyError, match="has a threshold that is in no public document"):
        read_officer(str(tmp_path / "officer.yaml"), tmp_path)


def test_tables_do_not_wait_for_a_sign_off(job: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0CrzAUrCVuBFXvcdo/Tmtjt5PKOjdAzG40ywuvDm6Z"
    document = job(
        {"minimum_frequency": {"at_least": 9}},
        {"table_audit": {}},
        officer=CELLS,
        sign_off={"by": [{"name": "Ada", "key": key}]},
    )
    with pytest.raises(UnsupportedError, match="a release of tables cannot wait"):
        pp.release(document)
    assert not (tmp_path / "out").exists()
