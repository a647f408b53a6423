"""What the commands say of tables of table formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privpipe.cli.file_kinds import described_lake
from privpipe.policy.grammar import LAKES
from tests.engines.lakes import deltas


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_format_is_explained_by_its_keys(run: Any, name: str) -> None:
    said = run("explain", name).stdout
    assert said.startswith(f"{name} - table format of a source\n")
    document = json.loads(run("explain", name, "--json").stdout)
    assert {each["name"] for each in document["parameters"]} <= set(LAKES)
    assert all(f"\n  {each['name']}: " in said for each in document["parameters"])


def test_every_key_of_a_format_is_explained(run: Any) -> None:
    documents = [json.loads(run("explain", name, "--json").stdout) for name in ("delta", "iceberg")]
    assert {each["name"] for document in documents for each in document["parameters"]} == set(LAKES)


def test_a_delta_table_is_reported_with_its_source(tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="needs deltalake")
    folder = deltas.vectors(deltas.overwritten(tmp_path / "t").with_name("v"))
    assert described_lake(str(tmp_path / "t")) == (
        "ok",
        "a Delta table at version 2 of 1 live file(s)",
        f"source: {{path: {tmp_path / 't'}, format: delta}}",
    )
    told = described_lake(str(folder))
    assert told is not None
    assert told[1].endswith("of 1 live file(s), 1 of them with a deletion vector")
    assert described_lake(str(deltas.mapped(tmp_path / "m", 3, "id")))[0] == "failed"  # type: ignore[index]


def test_what_is_in_a_table_or_above_it_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lake" / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "t" / "part.parquet").touch()
    (tmp_path / "plain").mkdir()
    for place in (tmp_path / "lake", tmp_path / "lake" / "t" / "part.parquet"):
        told = described_lake(str(place))
        assert told is not None
        assert told[0] == "failed"
        assert "Delta table" in told[1]
        assert told[2].startswith("give the table's own folder")
    assert described_lake(str(tmp_path / "plain")) is None


def test_doctor_and_init_know_a_delta_table(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="needs deltalake")
    folder = deltas.overwritten(tmp_path / "t")
    assert "a Delta table at version 2 of 1 live file(s)" in run("doctor", str(folder)).stdout
    drafted = run("init", str(folder), "--bare").stdout
    assert "format: delta" in drafted
    assert run("doctor", str(folder / "_delta_log")).exit_code == 4


def test_validate_judges_an_older_version(run: Any, tmp_path: Path) -> None:
    pytest.importorskip("deltalake", reason="needs deltalake")
    folder = deltas.overwritten(tmp_path / "t")
    deltas.write(folder, deltas.ROWS.set_column(0, "n", [[at // 8 for at in range(16)]]), mode="overwrite")
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "columns: {n: {role: quasi_identifier}, sex: {role: insensitive}}\nguarantees: [{k_anonymity: {k: 3}}]\n"
    )
    assert run("validate", str(folder), str(policy)).exit_code == 0
    assert run("validate", str(folder), str(policy), "--at", "version=1").exit_code == 5
    assert run("validate", str(folder), str(policy), "--at", "version=9").exit_code == 3
    for wrong in (
        ["--at", "version"],
        ["--at", "verison=1"],
        ["--at", "version=x"],
        ["--at", "version=1", "--at", "version=2"],
        ["--at", "version=1", "--at", "tag=x"],
        ["--at", "version=1", "--format", "csv"],
    ):
        assert run("validate", str(folder), str(policy), *wrong).exit_code == 2
