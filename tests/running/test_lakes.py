"""Policies over tables of table formats: what is judged, what the record says, and what a path argument means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Source
from privpipe.errors import PolicyError, UsageError
from privpipe.running import run_context
from privpipe.running.run_context import finished_source, read_as_source
from tests.engines.lakes import deltas

COLUMNS = {"n": {"role": "quasi_identifier"}, "sex": {"role": "insensitive"}}
TWINS = deltas.ROWS.set_column(0, "n", pa.array([at // 4 for at in range(16)]))


def policy(**sections: Any) -> dict[str, Any]:
    return {
        "columns": COLUMNS,
        "guarantees": [{"k_anonymity": {"k": 3}}],
        "seed": {"insecure": "a seed for tests only"},
        "allow_insecure_seed": True,
        **sections,
    }


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    pytest.importorskip("deltalake", reason="needs deltalake")
    return deltas.overwritten(tmp_path / "table")


def test_sixteen_unique_records_overwritten_three_times_are_not_threes(delta: Path) -> None:
    for judged in (
        pp.assess(None, policy(source={"path": str(delta)})),
        pp.assess(None, policy(source={"path": str(delta), "format": "delta"})),
        pp.assess(str(delta), policy()),
        pp.assess(delta, policy(source={"path": "elsewhere", "format": "delta"})),
    ):
        assert not judged.passed
        assert (judged.verdicts[0].observed, judged.records) == (1, 16)


@pytest.mark.parametrize("part", ["original", "population", "base"])
def test_every_part_of_a_policy_reads_the_live_rows(delta: Path, tmp_path: Path, part: str) -> None:
    pq.write_table(deltas.ROWS, tmp_path / "live.parquet")
    live = str(tmp_path / "live.parquet")

    def judged(path: str) -> Any:
        if part == "population":
            entries = [{"k_map": {"k": 2}}, {"k_anonymity": {"k": 1}}]
            return pp.assess(None, policy(source={"path": live}, population={"path": path}, guarantees=entries))
        if part == "base":
            entry = {"t_closeness": {"column": "sex", "t": 0.5, "base": {"file": path}}}
            columns = {**COLUMNS, "sex": {"role": "sensitive"}}
            return pp.assess(None, policy(source={"path": live}, columns=columns, guarantees=[entry]))
        return pp.assess(live, policy(measures=[{"information_loss": {"measure": "il1s"}}]), original=path)

    found, expected = judged(str(delta)), judged(live)
    assert [each.observed for each in found.verdicts] == [each.observed for each in expected.verdicts]


def test_a_release_reads_one_version_and_the_private_record_names_it(
    delta: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltas.write(delta, TWINS, mode="overwrite")
    pinned = run_context.pinned

    def meanwhile(source: Source) -> Source:
        found = pinned(source)
        deltas.write(delta, deltas.ROWS, mode="append")
        return found

    monkeypatch.setattr(run_context, "pinned", meanwhile)
    released = pp.release(policy(source={"path": str(delta)}, sink={"path": str(tmp_path / "out")}))
    assert released.manifest["input"]["versions"] == {"source": {"version": 3}}
    assert released.manifest["input"]["records"] == 16
    public = json.loads((Path(released.path) / "_privpipe" / "manifest.json").read_text())
    assert "versions" not in public["input"]


def test_an_old_version_is_judged_as_it_was(delta: Path) -> None:
    deltas.write(delta, TWINS, mode="overwrite")
    assert pp.assess(None, policy(source={"path": str(delta)})).passed
    assert not pp.assess(None, policy(source={"path": str(delta), "version": 2})).passed
    assert pp.assess(str(delta), policy(source={"path": "other", "version": 2})).passed  # of another table


def test_a_policy_is_the_same_whatever_version_it_reads(delta: Path) -> None:
    read = pp.Policy.from_dict(policy(source={"path": str(delta)}))
    before = run_context.pinned_tables(read)
    deltas.write(delta, TWINS, mode="overwrite")
    after = run_context.pinned_tables(read)
    assert before.digest() == after.digest() == read.digest()
    assert before.source is not None
    assert after.source is not None
    assert (before.source.version, after.source.version) == (2, 3)


def test_the_format_of_a_policy_holds_for_paths_that_tell_none(tmp_path: Path) -> None:
    def format_of(path: str, **source: Any) -> str:
        read = pp.Policy.from_dict(policy(source={"path": "data", **source}))
        return read_as_source(path, read).resolved_format

    assert format_of("table", format="csv") == "csv"
    assert format_of("table.dat", format="json") == "json"
    assert format_of("table.csv", format="json") == "csv"
    assert format_of("table.csv.gz", format="parquet") == "csv"
    assert format_of("table") == "parquet"
    pq.write_table(TWINS, tmp_path / "people.dat")
    assert pp.assess(str(tmp_path / "people.dat"), policy(source={"path": "raw", "format": "parquet"})).passed


def test_a_finished_folder_without_an_ending_is_as_the_sink_writes(tmp_path: Path) -> None:
    sections = {"source": {"path": "raw", "format": "csv"}, "sink": {"path": str(tmp_path / "out")}}
    read = pp.Policy.from_dict(policy(**sections))
    (tmp_path / "copy").mkdir()
    assert finished_source(str(tmp_path / "copy"), read).resolved_format == "parquet"
    assert finished_source(str(tmp_path / "copy.dat"), read).resolved_format == "csv"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"path": "a.csv", "version": 1, "format": "csv"}, "is for Delta tables; the format here is csv"),
        ({"path": "a", "version": 1, "timestamp": "2026-01-01"}, "is given in addition to `version:`"),
        ({"path": "a", "version": -1}, "must be 0 or more"),
        ({"path": "a", "tag": "x"}, "is for an Iceberg table"),
        ({"iceberg": "db.t", "path": "a"}, "is given in addition to `path:`"),
        ({"iceberg": "db.t", "delimiter": ";"}, "is for files"),
        ({"iceberg": "db.t", "version": 1}, "is for files"),
        ({"iceberg": "db.t", "tag": "x", "branch": "y"}, "exclude one another"),
        ({"iceberg": "t"}, "with its namespace"),
        ({"table": "db.t", "tag": "x"}, "is for files"),
    ],
)
def test_keys_that_do_not_fit_are_reported(source: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        pp.Policy.from_dict(policy(source=source))


def test_an_iceberg_table_is_judged_and_its_snapshot_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg", reason="needs pyiceberg")
    pytest.importorskip("sqlalchemy", reason="the catalogue of these tests is SQLite")
    import pyiceberg.catalog

    from tests.engines.lakes import icebergs

    for name, value in icebergs.environment(tmp_path / "lake").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", type(pyiceberg.catalog._ENV_CONFIG)())
    table = icebergs.quietly(icebergs.overwritten, tmp_path / "lake")
    source = {"iceberg": "db.people", "catalog": icebergs.CATALOG}
    judged = pp.assess(None, policy(source=source))
    assert (judged.verdicts[0].observed, judged.records) == (1, 16)
    icebergs.quietly(lambda _: table.overwrite(TWINS), tmp_path)
    released = pp.release(policy(source=source, sink={"path": str(tmp_path / "out")}))
    snapshot = table.refresh().current_snapshot().snapshot_id
    assert released.manifest["input"]["versions"] == {"source": {"snapshot": snapshot}}


def test_a_sink_next_to_the_policy_overlaps_with_no_iceberg_table() -> None:
    read = pp.Policy.from_dict(policy(source={"iceberg": "db.people"}, sink={"path": "out"}))
    assert read.source is not None
    assert str(read.source.iceberg) == "db.people"
    assert pp.Policy.from_dict(read.document).digest() == read.digest()


def test_a_table_of_a_catalogue_that_is_not_described_is_an_error() -> None:
    with pytest.raises(UsageError, match="(?i)iceberg"):
        pp.assess(None, policy(source={"iceberg": "db.people", "catalog": "nowhere"}))
