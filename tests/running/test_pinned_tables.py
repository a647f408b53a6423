"""Every table that a run reads is read at one version, whatever another writer commits meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import Source
from privpipe.errors import DataError, UsageError
from privpipe.gx import handle
from privpipe.gx.tables import OtherTable, held
from privpipe.running import run_context
from tests.engines.lakes import deltas

pytest.importorskip("deltalake", reason="needs deltalake")

ROWS = pa.table({"n": [at // 4 for at in range(16)], "sex": ["f", "m"] * 8})
OTHERS = pa.table({"n": [40 + at for at in range(16)], "sex": ["f"] * 16})
POLICY: dict[str, Any] = {
    "columns": {"n": {"role": "quasi_identifier"}, "sex": {"role": "insensitive"}},
    "guarantees": [{"k_anonymity": {"k": 2}}],
    "seed": {"insecure": "a seed for tests only"},
    "allow_insecure_seed": True,
}


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A Delta table with the rows of the source at its version 1, and others before."""
    deltas.write(tmp_path / "beside", OTHERS)
    deltas.write(tmp_path / "beside", ROWS, mode="overwrite")
    return tmp_path / "beside"


@pytest.fixture
def another_writer(beside: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Someone who commits as soon as the run has begun."""
    begun = run_context.pinned_tables

    def meanwhile(policy: pp.Policy) -> pp.Policy:
        found = begun(policy)
        deltas.write(beside, OTHERS, mode="overwrite")
        return found

    def arm() -> None:
        for module in ("verbs", "frames"):
            monkeypatch.setattr(f"privpipe.running.{module}.pinned_tables", meanwhile)

    return arm


def entries(part: str, path: str) -> dict[str, Any]:
    return {
        "base": {
            "columns": {**POLICY["columns"], "sex": {"role": "sensitive"}},
            "guarantees": [{"t_closeness": {"column": "sex", "t": 0.4, "base": {"file": path}}}],
        },
        "earlier": {"measures": [{"complementary_release": {"earlier": [path]}}]},
        "holdout": {"measures": [{"closest_record": {"holdout": path, "columns": ["n"], "sample": None}}]},
        "population": {
            "population": {"path": path},
            "guarantees": [{"k_map": {"k": 2}}, {"k_anonymity": {"k": 2}}],
        },
        "original": {
            "original": {"path": path},
            "columns": {**POLICY["columns"], "sex": {"role": "sensitive"}},
            "guarantees": [{"t_closeness": {"column": "sex", "t": 0.4}}],
        },
    }[part]


def figures(judged: Any) -> list[Any]:
    return [each.to_dict()["observed"] for each in (*judged.verdicts, *judged.measures)]


@pytest.mark.parametrize(
    ("part", "place"),
    [
        ("base", "guarantees[0].t_closeness.base"),
        ("earlier", "measures[0].complementary_release.earlier[0]"),
        ("holdout", "measures[0].closest_record.holdout"),
        ("population", "population"),
    ],
)
def test_a_table_beside_is_read_at_the_version_that_it_had_and_the_private_manifest_names_it(
    part: str, place: str, beside: Path, tmp_path: Path, another_writer: Callable[[], None]
) -> None:
    pq.write_table(ROWS, tmp_path / "live.parquet")
    own = {**POLICY, "source": {"path": str(tmp_path / "live.parquet")}}
    expected = pp.release(
        {**own, **entries(part, str(tmp_path / "live.parquet")), "sink": {"path": str(tmp_path / "a")}}
    )
    another_writer()
    found = pp.release({**own, **entries(part, str(beside)), "sink": {"path": str(tmp_path / "b")}})
    assert figures(found.assessment) == figures(expected.assessment)
    assert found.manifest["input"]["versions"] == {place: {"version": 1}}
    public = json.loads((Path(found.path) / "_privpipe" / "manifest.json").read_text())
    assert "versions" not in public["input"]


def test_validate_reads_the_original_at_one_version(
    beside: Path, tmp_path: Path, another_writer: Callable[[], None]
) -> None:
    pq.write_table(ROWS, tmp_path / "live.parquet")
    live = str(tmp_path / "live.parquet")
    expected = pp.validate(live, {**POLICY, **entries("original", live)})
    another_writer()
    found = pp.validate(live, {**POLICY, **entries("original", str(beside))})
    assert figures(found) == figures(expected)


def test_policies_over_frames_are_pinned_too(beside: Path, tmp_path: Path, another_writer: Callable[[], None]) -> None:
    policy = pp.Policy.from_dict({**POLICY, "sink": {"path": str(tmp_path / "out")}})
    another_writer()
    assert policy.apply(str(beside)).num_rows == 16
    deltas.write(beside, ROWS, mode="overwrite")
    assert policy.release(beside).manifest["input"]["versions"] == {"source": {"version": 3}}


def test_the_digest_does_not_depend_on_versions_of_tables_beside(beside: Path) -> None:
    policy = pp.Policy.from_dict({**POLICY, **entries("base", str(beside))})
    pinned = run_context.pinned_tables(policy)
    assert pinned.versions == {str(beside): 1}
    assert pinned.digest() == policy.digest()
    assert pinned.run_digest() == policy.run_digest()


def test_a_mapping_names_one_version_wherever_a_path_goes(beside: Path) -> None:
    deltas.write(beside, OTHERS, mode="overwrite")
    old = {"path": str(beside), "version": 1}
    assert pp.k_anonymity(old, ["n"]) == 4
    assert pp.k_anonymity(str(beside), ["n"]) == 1
    assert pp.assess(old, POLICY).passed
    assert pp.validate(old, POLICY).passed
    assert not pp.validate({"path": str(beside)}, POLICY).passed
    assert pp.Policy.from_dict(POLICY).apply(old).num_rows == 16
    assert pp.assess(old, POLICY, original=old).passed
    # Declared types hold as for any path.
    typed = {**POLICY, "columns": {**POLICY["columns"], "sex": {"role": "insensitive", "type": "text"}}}
    assert pp.assess(old, typed).passed


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "visits", "verison": 1}, "did you mean 'version'"),
        ({"path": "visits", "version": "1"}, "version must be a whole number"),
        ({"path": "visits", "version": True}, "version must be a whole number"),
        ({"path": "visits", "version": -1}, "0 or more"),
        ({"path": "visits", "version": 1, "timestamp": "2026-01-01"}, "exclude one another"),
        ({"path": "visits", "format": "csv"}, "names a Delta table"),
        ({"path": "visits", "tag": "x"}, "is for an Iceberg table"),
        ({"iceberg": "db.visits", "version": 1}, "not for an Iceberg table"),
        ({"iceberg": "db.visits", "tag": "x", "branch": "y"}, "exclude one another"),
        ({"version": 1}, "give `path` or `iceberg`"),
    ],
)
def test_a_mapping_that_names_no_table_is_an_error(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        pp.assess(given, POLICY)
    with pytest.raises(UsageError, match=says):
        handle(given)


def test_a_version_that_is_not_there_is_an_error_of_the_data(beside: Path) -> None:
    with pytest.raises(DataError, match="at version 9"):
        pp.assess({"path": str(beside), "version": 9}, POLICY)


def test_a_handle_keeps_the_version_that_the_table_had(beside: Path) -> None:
    frame = handle(str(beside))
    old = handle({"path": beside.as_posix(), "version": 0})
    deltas.write(beside, OTHERS, mode="overwrite")
    assert held(frame) == Source(data=str(beside), version=1)
    assert held(old).version == 0


def test_tables_next_to_a_batch_are_pinned_once(beside: Path) -> None:
    given = OtherTable.read("original_source", str(beside)).now()
    deltas.write(beside, OTHERS, mode="overwrite")
    assert given.source().version == 1
    old = OtherTable.read("original_source", {"path": str(beside), "version": 0})
    assert old.now().source().version == 0


def test_an_expectation_takes_the_keys_of_an_iceberg_table() -> None:
    given = OtherTable.read("original_source", {"iceberg": "db.visits", "catalog": "lake", "tag": "audited"})
    assert given.described is not None
    assert str(given.described.iceberg) == "db.visits"
    with pytest.raises(UsageError, match="one of the two"):
        OtherTable.read("original_source", {"iceberg": "db.visits", "path": "visits"})
