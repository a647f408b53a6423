"""`history` and `verify` of releases in tables: through the sink, and without a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privpipe as pp
from privpipe.cli import app
from privpipe.record import history, verify
from privpipe.running.run_documents import sealed
from privpipe.sinks.records import document_text
from tests.record.conftest import Written


def outcomes(found: Any) -> dict[str, str]:
    return {check.name: check.outcome for check in found.checks}


@pytest.fixture
def delta(place: Path, document: dict[str, Any], written: Written) -> Path:
    pytest.importorskip("deltalake")
    document["sink"] = {"path": str(place / "lake" / "people"), "format": "delta"}
    file = written(document)
    for _ in range(2):
        pp.release(file)
    return file


@pytest.fixture
def database(place: Path, document: dict[str, Any], written: Written) -> Path:
    document["sink"] = {"database": str(place / "public.duckdb"), "table": "people_public"}
    file = written(document)
    for _ in range(2):
        pp.release(file)
    return file


def test_a_delta_table_by_its_folder_and_by_its_policy(delta: Path, place: Path) -> None:
    for name in (str(place / "lake" / "people"), str(delta)):
        listed = history(name)
        assert [row["verdict"] for row in listed.releases] == ["passed", "passed"]
        assert not listed.problems
        found = verify(name, policy=pp.Policy.load(delta))
        assert found.sound, found.broken
        assert {outcomes(found)[name] for name in ("files", "manifest", "chain", "seal")} == {"holds"}


def test_a_changed_file_of_a_delta_table_is_found(delta: Path, place: Path) -> None:
    run_id = verify(str(delta)).run_id
    part = next((place / "lake" / "people" / str(run_id)).glob("*.parquet"))
    part.chmod(0o600)
    part.write_bytes(part.read_bytes()[::-1])
    assert {check.name for check in verify(str(delta)).broken} == {"files"}


def test_a_table_of_a_database(database: Path) -> None:
    listed = history(str(database))
    assert [row["verdict"] for row in listed.releases] == ["passed", "passed"]
    found = verify(str(database), policy=pp.Policy.load(database))
    assert found.sound, found.broken
    assert outcomes(found)["files"] == "not_checked"
    assert {outcomes(found)[name] for name in ("manifest", "chain", "seal", "private record")} == {"holds"}


def test_no_manifest_talks_its_files_out_of_being_checked(written: Written, document: dict[str, Any]) -> None:
    released = Path(pp.release(written(document)).path)
    path = released / "_privpipe" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["output"]["table"] = "db.people"
    path.write_text(document_text({**manifest, "checksum": sealed(manifest, None)["checksum"]}))
    next(released.glob("*.parquet")).write_bytes(b"other")
    assert "files" in {check.name for check in verify(str(released)).broken}


def test_a_policy_with_a_folder_represents_it(written: Written, document: dict[str, Any]) -> None:
    file = written(document)
    pp.release(file)
    assert verify(str(file), policy=pp.Policy.load(file)).sound
    assert len(history(str(file)).releases) == 1


def test_what_cannot_be_read_says_so(written: Written, document: dict[str, Any], place: Path) -> None:
    document["sink"] = {"database": str(place / "public.duckdb"), "table": "people_public"}
    (place / "other.txt").write_text("no policy")
    view = written({**document, "sink": {"table": "db.people"}}, "view.yaml")
    for command in ("verify", "history"):
        for name in (written(document), place / "other.txt", view):
            done = CliRunner().invoke(app, [command, str(name)])
            assert done.exit_code in (2, 4), (name, done.stderr)
            assert "Traceback" not in done.stderr
