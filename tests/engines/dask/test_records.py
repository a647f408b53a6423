"""Ids, ranks, groups and files: functions of the records alone, whatever the partitioning and wherever it runs."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, Facts, FactsRequest, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines.base import Source
from privpipe.engines.dask import DaskEngine
from privpipe.errors import DataError, EngineError
from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id

from .conftest import hostile, rows_of

SEED = Seed.insecure("spring")
STREAM = Stream(bytes(range(16)))


@pytest.fixture(scope="module", params=[(1, True), (2, True), (7, False), (64, True)], ids=str)
def parted(request: pytest.FixtureRequest) -> Any:
    """Threads, with frames in so many partitions, results kept or made again for each use."""
    npartitions, cache = request.param
    with DaskEngine.open({"scheduler": "threads", "npartitions": npartitions, "cache": cache}) as engine:
        yield engine


def doubled(rows: int = 150) -> pa.Table:
    """A shuffled table with identical rows."""
    frame = pa.concat_tables([hostile(rows), hostile(rows), hostile(rows // 2)])
    return frame.take(np.random.default_rng(5).permutation(len(frame)))


def ids_of(engine: DaskEngine, table: Any) -> list[tuple[int, int]]:
    class Ids:
        def measure(self, rows: RowBlock, facts: Facts) -> list[Any]:
            return [tuple(pair) for pair in rows.record_ids.tolist()]

        def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
            return left + right

    return sorted(engine.reduce_rows(table, [], Ids(), Facts()) or [])


def test_ids_are_those_of_one_place(parted, scan):
    frame = doubled()
    words = content_hash(scan_logical(frame), SEED)
    expected = sorted(map(tuple, record_id(words, ordinals(words), SEED).tolist()))
    table = parted.with_record_ids(scan(parted, frame), None, SEED)
    assert ids_of(parted, table) == expected
    assert len(set(expected)) == len(frame)


def scan_logical(frame: pa.Table) -> pa.Table:
    with DaskEngine.open({"scheduler": "synchronous"}) as engine:
        return engine.collect(engine.scan(Source(data=frame)))


def test_a_declared_id_must_be_unique_and_complete(dasks, scan):
    frame = pa.table({"k": ["a", "b", None, "b", "a", None], "v": range(6)})
    with pytest.raises(DataError, match="2 of 6 records have no value, 2 repeat one"):
        dasks.with_record_ids(scan(dasks, frame), "k", SEED)
    table = dasks.with_record_ids(scan(dasks, frame), "v", SEED)
    assert len(set(ids_of(dasks, table))) == 6


def with_rank(rows: RowBlock, ranks: Any) -> RowBlock:
    return rows.replace("who", np.asarray(ranks))


@pytest.mark.parametrize("column", ["x", "zip", "age", "pay", "day", "ok"])
def test_ranks_are_those_of_one_sort(parted, scan, column):
    frame = doubled()
    table = parted.with_record_ids(scan(parted, frame), None, SEED)
    ranked = parted.map_ranked(table, column, STREAM, with_rank, table.schema)
    seen: list[tuple[Any, int, int]] = []

    class Look:
        def measure(self, rows: RowBlock, facts: Facts) -> None:
            order = STREAM.order(rows.record_ids).tolist()
            values = [row[column] for row in rows_of(pa.Table.from_batches([rows.batch]))]
            seen.extend(zip(values, order, rows.column("who").to_pylist(), strict=True))

        def merge(self, left: None, right: None) -> None:
            return None

    parted.reduce_rows(ranked, table.schema.names, Look(), Facts())
    present = sorted((value, order, rank) for value, order, rank in seen if value is not None)
    assert [rank for _value, _order, rank in present] == list(range(len(present)))
    assert {rank for value, _order, rank in seen if value is None} == {-1}
    assert len(seen) == len(frame)


def test_released_files_hold_the_same_rows_in_the_same_order(parted, dasks, scan, tmp_path):
    frame = doubled()
    written = []
    for number, engine in enumerate((parted, dasks)):
        table = engine.with_record_ids(scan(engine, frame), None, SEED)
        folder = tmp_path / str(number)
        folder.mkdir()
        done = engine.write(table, str(folder), "csv", STREAM)
        assert done.records == len(frame)
        lines = [(folder / name).read_bytes().splitlines() for name in done.files]
        assert len({part[0] for part in lines}) == 1
        written.append([line for part in lines for line in part[1:]])
    assert written[0] == written[1]


def test_large_tables_are_written_in_several_files(threads, scan, tmp_path, monkeypatch):
    monkeypatch.setattr("privpipe.engines.base.part_files.ROWS_PER_FILE", 100)
    frame = doubled()
    table = threads.with_record_ids(scan(threads, frame), None, SEED)
    done = threads.write(table, str(tmp_path), "parquet", STREAM)
    assert done.files == tuple(f"part-{at:05d}.parquet" for at in range(-(-len(frame) // 100)))
    parts = [pq.read_table(tmp_path / name) for name in done.files]
    assert sum(map(len, parts)) == len(frame)
    assert all(part.schema.names == frame.column_names for part in parts)
    assert b"pandas" not in (tmp_path / done.files[0]).read_bytes()
    hashes = [content_hash(part, SEED) for part in parts]
    assert len(np.concatenate(hashes)) == len(frame)


def test_without_ids_rows_are_written_in_the_order_of_their_values(threads, scan, tmp_path):
    frame = hostile()
    done = threads.write(scan(threads, frame), str(tmp_path), "parquet", STREAM)
    rows = rows_of(pa.concat_tables([pq.read_table(tmp_path / name) for name in done.files]))
    keys = [tuple((value is None, 0 if value is None else value) for value in row.values()) for row in rows]
    assert keys == sorted(keys)
    assert Counter(map(repr, rows)) == Counter(map(repr, rows_of(frame)))


def test_a_folder_that_cannot_be_written_is_an_engine_error(threads, scan, tmp_path):
    with pytest.raises(EngineError, match="cannot be written: No such file"):
        threads.write(scan(threads, hostile(9)), str(tmp_path / "nowhere"), "csv", STREAM)


def test_what_goes_in_comes_out(dasks, scan):
    import dask.dataframe as dd
    import pandas as pd

    frame = pa.table({"n": pa.array([2**53 + 1, None, 2], pa.int64()), "t": ["a", "b", None]})
    table = dasks.with_record_ids(scan(dasks, frame), None, SEED)
    lazy = dasks.collect(table, like=dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1))
    assert type(lazy).__module__.startswith("dask")
    assert [str(kind) for kind in lazy.dtypes] == ["int64[pyarrow]", "string[pyarrow]"]
    with dasks._runtime.client.as_current() if dasks._runtime.distributed else contextlib.nullcontext():
        assert sorted(lazy.compute()["n"].dropna().tolist()) == [2, 2**53 + 1]
    assert isinstance(dasks.collect(table, like=pd.DataFrame()), pd.DataFrame)
    assert dasks.collect(table).equals(dasks.collect(table))


def test_groups_are_whole_and_the_result_is_kept(dasks, scan):
    frame = pa.table({"v": list(range(200))})
    table = dasks.with_record_ids(scan(dasks, frame), None, SEED)

    def key(rows: RowBlock) -> Any:
        return rows.column("v").to_numpy() // 7 - 3

    def total(rows: RowBlock, at: int) -> RowBlock:
        return rows.replace("v", np.full(len(rows), 1000 * at + len(rows)))

    found = dasks.collect(dasks.map_groups(table, key, total, table.schema)).column("v").to_pylist()
    assert Counter(found) == Counter(1000 * (v // 7 - 3) + (7 if v < 196 else 4) for v in range(200))


def test_a_large_plan_is_sent_once_and_not_with_every_task(dasks, scan):
    plan = np.arange(600_000)
    table = scan(dasks, pa.table({"v": list(range(50))}))

    def look_up(rows: RowBlock) -> RowBlock:
        return rows.replace("v", plan[rows.column("v").to_numpy() + 500_000])

    found = dasks.collect(dasks.map_rows(table, look_up, table.schema)).column("v").to_pylist()
    assert sorted(found) == list(range(500_000, 500_050))


def test_distinct_combinations_of_wide_columns_are_sorted_too(threads, scan):
    rng = np.random.default_rng(2)
    frame = pa.table({f"k{i}": rng.permutation(3000) for i in range(6)})
    found = threads.distinct(scan(threads, frame), frame.column_names)
    assert found.drop_columns(["__count"]).equals(frame.sort_by([(name, "ascending") for name in frame.column_names]))


def test_a_stage_that_breaks_its_promise_is_distinguished_from_bad_data(threads, scan):
    table = scan(threads, hostile(9))
    with pytest.raises(EngineError, match="promised the columns"):
        threads.count(threads.map_rows(table, lambda rows: rows.drop(["zip"]), table.schema))


def test_functions_that_fail_tell_no_value(dasks, scan, caplog):
    def fail(rows: RowBlock) -> RowBlock:
        raise ValueError(f"canary {rows.column('zip').to_pylist()}")

    table = scan(dasks, pa.table({"zip": ["canary-1", "canary-2"]}))
    with pytest.raises(EngineError, match="dask engine: could not map rows: ValueError") as raised:
        dasks.collect(dasks.map_rows(table, fail, table.schema))
    assert raised.value.__context__ is None
    assert "canary" not in str(raised.value) + caplog.text


def test_interrupts_are_not_swallowed(threads, scan):
    def stop(rows: RowBlock) -> RowBlock:
        raise KeyboardInterrupt

    table = scan(threads, hostile(9))
    with pytest.raises(KeyboardInterrupt):
        threads.collect(threads.map_rows(table, stop, table.schema))


def test_handles_and_plans_show_no_value(threads, scan, caplog):
    caplog.set_level("DEBUG")
    frame = pa.table({"zip": ["canary-1", "canary-2"], "ill": ["canary-3", "canary-3"]})
    table = threads.with_record_ids(scan(threads, frame), None, SEED)
    facts = threads.facts(table, FactsRequest(histograms=("ill",)))
    query = ClassQuery(keys=("zip",), columns=("ill",), dictionaries=facts.histograms)
    list(threads.classes(table, query))
    shown = repr(table) + str(table) + caplog.text
    assert "canary" not in shown
    assert "spring" not in shown
