"""A release published into an Iceberg table: one commit, read by pyiceberg as any reader does."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.errors import DataError, Refused, SinkError
from tests.engines.lakes import icebergs
from tests.running.iceberg.tables import NAMES, TABLE, content, rows, standing


def test_two_releases_in_a_row(release: Callable[..., Any], table: Callable[[], Any], tmp_path: Path) -> None:
    first = release()
    assert first.path == f"lake.{TABLE}"
    found = table()
    assert content(found.scan().to_arrow()) == content(rows())
    (snapshot,) = found.snapshots()
    said = snapshot.summary.additional_properties
    assert said["privpipe.run_id"] == first.run_id
    assert said["privpipe.verdict"] == "passed"
    assert said["privpipe.policy_hash"] == first.public["manifest"]["policy_hash"]
    documents = Path(found.properties["privpipe.documents"].removeprefix("file://"))
    for name, document in first.public.items():
        assert json.loads((documents / f"{name}.json").read_text()) == document
    (file,) = list(found.scan().plan_files())
    listed = first.public["manifest"]["output"]
    assert Path(file.file.file_path).name == listed["files"][0]["name"]
    assert Path(file.file.file_path.removeprefix("file://")).stat().st_size == listed["files"][0]["bytes"]
    assert (listed["table"], listed["mode"]) == (f"lake.{TABLE}", "replace")
    assert json.loads(Path(first.record, "verdict.json").read_text()) == first.verdict_document

    second = release(rows(300))
    found = table()
    assert content(found.scan().to_arrow()) == content(rows(300))
    assert len(found.snapshots()) == 2
    assert content(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == content(rows())
    assert any("snapshots" in note for note in second.assessment.notes)
    assert not list(tmp_path.rglob("*pending-*"))


def test_a_refused_release_leaves_nothing(release: Callable[..., Any], table: Callable[[], Any], lake: Path) -> None:
    empty = standing(lake, table)
    with pytest.raises(Refused):
        release(k=50)
    assert standing(lake, table) == empty
    release()
    before = standing(lake, table)
    with pytest.raises(Refused):
        release(rows(300), k=50)
    with pytest.raises(Refused):
        release(rows(300), k=50, sink={"mode": "append"})
    assert standing(lake, table) == before


ILL = {"ill": {"role": "sensitive"}, "age": {"role": "quasi_identifier"}}


def of_one_illness(age: int, ill: str, records: int = 20) -> pa.Table:
    return pa.table({"age": [age] * records, "ill": [ill] * records})


def test_a_batch_that_passes_alone_is_refused_where_the_whole_table_would_fail(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    asked: dict[str, Any] = {
        "columns": ILL,
        "guarantees": [{"t_closeness": {"column": "ill", "t": 0.2, "base": "released"}}, {"k_anonymity": {"k": 5}}],
        "sink": {"mode": "append"},
    }
    first = release(of_one_illness(20, "flu"), **asked)
    assert first.assessment.passed
    before = standing(lake, table)
    with pytest.raises(Refused, match="the whole table"):
        release(of_one_illness(30, "cold"), **asked)
    assert standing(lake, table) == before
    again = release(of_one_illness(20, "flu", 30), **asked)
    assert again.assessment.whole.records == 50
    assert again.assessment.records == 30
    assert table().scan().to_arrow().num_rows == 50
    assert len(table().snapshots()) == 2
    assert again.public["manifest"]["output"]["mode"] == "append"


def test_a_batch_that_fails_alone_is_refused_though_the_whole_table_would_pass(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    release()
    before = standing(lake, table)
    with pytest.raises(Refused) as refused:
        release(rows(20), sink={"mode": "append"})
    assert "the whole table" not in str(refused.value)
    assert standing(lake, table) == before


def test_columns_change_only_where_it_is_declared(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    release()
    before = standing(lake, table)
    more = rows().append_column("shop", pa.array([f"shop {at % 3}" for at in range(200)]))
    text = rows().set_column(2, "cost", pa.array(["a"] * 200))
    for data, says in (
        (more, "write `schema: evolve`"),
        (rows().drop_columns(["cost"]), "it lacks 'cost'"),
        (text, "'cost' was double and is string"),
    ):
        for mode in ("replace", "append"):
            with pytest.raises(DataError, match=says):
                release(data, sink={"mode": mode})
    assert standing(lake, table) == before
    release(more, sink={"mode": "append", "schema": "evolve"})
    found = table().scan().to_arrow()
    assert found.num_rows == 400
    assert found["shop"].null_count == 200
    assert [field.field_id for field in table().schema().fields] == [1, 2, 3, 4, 5]
    again = release(more.select(["shop", "day", "cost", "town", "age"]), sink={"mode": "append"})
    assert again.assessment.whole.records == 600
    assert table().scan().to_arrow()["shop"].null_count == 200


def test_types_that_iceberg_lacks_are_published_where_nothing_is_lost(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    import decimal

    data = pa.table(
        {
            "age": pa.array([1, 2] * 10, pa.int16()),
            "share": pa.array([0.5] * 20, pa.float32()),
            "town": pa.array(["a", "b"] * 10).dictionary_encode(),
            "paid": pa.array([decimal.Decimal("1.25")] * 20, pa.decimal128(9, 2)),
            "at": pa.array([1_700_000_000_000_000_000] * 20, pa.timestamp("ns")),
            "seen": pa.array([1_700_000_000] * 20, pa.timestamp("s", "UTC")),
            "ok": pa.array([True, None] * 10),
        }
    )
    release(data)
    found = table().scan().to_arrow()
    assert found["age"].to_pylist().count(1) == 10
    assert str(found.schema.field("at").type) == "timestamp[us]"
    assert found["ok"].null_count == 10
    with pytest.raises(DataError, match="column 'at'"):
        release(data.set_column(4, "at", pa.array([1_700_000_000_000_000_001] * 20, pa.timestamp("ns"))))
    assert len(table().snapshots()) == 1


def test_no_namespace_no_catalogue_and_unfit_names(release: Callable[..., Any]) -> None:
    with pytest.raises(SinkError, match="has no namespace 'nowhere'"):
        release(sink={"iceberg": "nowhere.visits"})
    with pytest.raises(pp.errors.UsageError, match="does not open"):
        release(sink={"catalog": "nowhere"})
    for name in ("db.a#b", "db.a?b", "db.a/b", "db.50%"):
        with pytest.raises(pp.errors.UsageError, match="in its name"):
            release(sink={"iceberg": name})


@pytest.mark.parametrize("name", ["db.my visits", "db.o'brien", 'db.the "best"', "db.größe & co"])
def test_names_with_spaces_and_quotes(
    name: str, release: Callable[..., Any], table: Callable[..., Any], tmp_path: Path
) -> None:
    for _ in range(2):
        release(rows().rename_columns(["age", "town", "my cost", "o'day"]), sink={"iceberg": name})
    assert table(name).scan().to_arrow().num_rows == 200
    judged = pp.validate({"iceberg": name, "catalog": icebergs.CATALOG}, tmp_policy())
    assert judged.records == 200


def tmp_policy() -> dict[str, Any]:
    return {
        "columns": {"age": {"role": "quasi_identifier"}, "town": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 5}}],
        "undeclared": "note",
    }


def test_a_published_table_is_the_source_of_another_run(release: Callable[..., Any], tmp_path: Path) -> None:
    release()
    source = {"iceberg": TABLE, "catalog": icebergs.CATALOG}
    second = release(source=source, sink={"iceberg": "db.second"})
    assert second.manifest["input"]["records"] == 200
    assert second.manifest["input"]["versions"]["source"]["snapshot"]
    with pytest.raises(pp.errors.PolicyError, match="is the table of `source:`"):
        release(source=source)


def test_a_dry_run_judges_the_whole_table_and_publishes_nothing(
    release: Callable[..., Any], table: Callable[[], Any], lake: Path
) -> None:
    empty = standing(lake, table)
    assert not release(dry_run=True).published
    assert standing(lake, table) == empty
    release()
    before = standing(lake, table)
    rehearsed = release(rows(300), dry_run=True, sink={"mode": "append"})
    assert rehearsed.target == f"lake.{TABLE}"
    assert rehearsed.assessment.whole.records == 500
    with pytest.raises(DataError, match="schema: evolve"):
        release(rows().append_column("shop", pa.array(["x"] * 200)), dry_run=True)
    assert standing(lake, table) == before


def test_the_rows_are_in_the_keyed_order_that_files_have(
    release: Callable[..., Any], table: Callable[[], Any], tmp_path: Path
) -> None:
    release()
    (task,) = table().scan().plan_files()
    found = pq.read_table(task.file.file_path.removeprefix("file://"))
    sink = {"iceberg": None, "catalog": None, "path": str(tmp_path / "files")}
    release(sink=sink)
    assert found.select(NAMES).to_pylist() == pq.read_table(tmp_path / "files" / "part-00000.parquet").to_pylist()
    assert found.select(NAMES).to_pylist() != rows().to_pylist()
    assert not found.schema.metadata


@pytest.mark.parametrize("mode", ["replace", "append"])
@pytest.mark.parametrize("name", ["dask_engine", pytest.param("spark_engine", marks=pytest.mark.spark)])
def test_every_engine_publishes_the_same(
    name: str, mode: str, release: Callable[..., Any], table: Callable[..., Any], request: pytest.FixtureRequest
) -> None:
    engine = request.getfixturevalue(name)
    other = [release(rows(size), engine=engine, sink={"mode": mode, "iceberg": "db.other"}) for size in (200, 300)]
    ours = [release(rows(size), sink={"mode": mode}) for size in (200, 300)]
    assert table("db.other").scan().to_arrow().to_pylist() == table().scan().to_arrow().to_pylist()
    assert table("db.other").schema() == table().schema()
    for one, another in zip(ours, other, strict=True):
        assert [each.to_dict() for each in one.assessment.verdicts] == [
            each.to_dict() for each in another.assessment.verdicts
        ]
        if one.assessment.whole is not None:
            assert one.assessment.whole.records == another.assessment.whole.records == 500


def test_no_one_else_reads_the_work_area(release: Callable[..., Any], tmp_path: Path) -> None:
    release()
    (area,) = [path for path in tmp_path.iterdir() if path.name.endswith(".privpipe")]
    assert area.stat().st_mode & 0o077 == 0
    assert not os.path.lexists(area / "staging")


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ({"iceberg": "db.t", "path": "out"}, "is given in addition to `path:`"),
        ({"iceberg": "db.t", "table": "db.t"}, "is given in addition to `table:`"),
        ({"iceberg": "db.t", "format": "csv"}, "is for files"),
        ({"iceberg": "db.t", "mode": "merge"}, "must be one of replace, append"),
        ({"iceberg": "db.t", "schema": "any"}, "must be one of same, evolve"),
        ({"iceberg": "db.t", "tag": "x"}, "unknown key"),
        ({"iceberg": "t"}, "with its namespace"),
        ({"path": "out", "catalog": "lake"}, "is for an Iceberg table"),
    ],
)
def test_keys_that_do_not_fit_are_reported(sink: dict[str, str], says: str) -> None:
    with pytest.raises(pp.errors.PolicyError, match=says):
        pp.Policy.from_dict({**tmp_policy(), "sink": sink})


def test_a_ledger_and_a_guarantee_that_cannot_judge_the_whole_do_not_go_with_such_a_table(tmp_path: Path) -> None:
    ledger = {"complementary_release": {"ledger": str(tmp_path / "ledger"), "key": {"from_env": "KEY"}, "k": 2}}
    with pytest.raises((pp.errors.PolicyError, pp.errors.UnsupportedError), match="ledger"):
        pp.Policy.from_dict(
            {**tmp_policy(), "guarantees": [{"k_anonymity": {"k": 5}}, ledger], "sink": {"iceberg": "db.t"}}
        )
    population = {"guarantees": [{"k_map": {"k": 5}}, {"k_anonymity": {"k": 5}}], "population": {"path": "all.csv"}}
    sink = {"iceberg": "db.t", "mode": "append"}
    with pytest.raises((pp.errors.PolicyError, pp.errors.UnsupportedError), match="whole table"):
        pp.Policy.from_dict({**tmp_policy(), **population, "sink": sink})


def test_a_table_that_is_replaced_again_and_again_carries_no_emptied_manifests(
    release: Callable[..., Any], table: Callable[[], Any]
) -> None:
    for start in range(20, 25):
        release(rows(start=start))
    found = table()
    assert len(found.current_snapshot().manifests(found.io)) == 2  # of the files that came, and of those that went
    assert sorted(found.scan().to_arrow()["age"].unique().to_pylist()) == list(range(24, 34))
    assert [each.summary.additional_properties["total-records"] for each in found.snapshots()] == ["200"] * 5
