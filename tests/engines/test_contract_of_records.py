"""What every engine must do alike with single records: ids, maps, groups, ranks, pairs, part files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, PairBlock, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Engine, Source
from privpipe.engines.base.contract import fingerprint

from .conftest import TABLES, counted, multiset

STREAM = Stream(bytes(range(16)))


def test_ids_are_unique_and_know_no_partition(engine: Engine, hostile: Any, scanned: Any) -> None:
    seed = Seed.insecure("conformance")
    found = []
    for parts, shuffled in ((1, False), (7, True)):
        table = engine.with_record_ids(scanned(hostile.rows, parts, shuffled=shuffled), None, seed)
        assert table.has_record_ids
        found.append((ids_of(engine, table), fingerprint(engine, table, seed)))
    assert found[0] == found[1]
    assert len(set(found[0][0])) == len(hostile.plain)


def ids_of(engine: Engine, table: Any) -> list[tuple[int, int]]:
    class Ids:
        def measure(self, block: RowBlock, facts: Facts) -> list[tuple[int, int]]:
            return [tuple(pair) for pair in block.record_ids.tolist()]

        def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
            return left + right

    return sorted(engine.reduce_rows(table, [], Ids(), Facts()) or [])


def test_rows_are_given_with_their_ids(engine: Engine) -> None:
    rows = pa.table({"word 0": [3, None, 3], "Word 1": ["a", "b", None]})
    given = engine.given(rows, np.array([[7, 1], [-(2**63), 2**63 - 1], [0, 0]]))
    assert given.has_record_ids
    assert given.schema.equals(rows.schema)
    assert engine.count(given) == 3
    assert ids_of(engine, given) == [(-(2**63), 2**63 - 1), (0, 0), (7, 1)]
    assert multiset(engine.collect(given)) == multiset(rows)
    mapped = engine.map_rows(given, lambda block: block.take(np.flatnonzero(block.record_ids[:, 0] >= 0)), given.schema)
    assert engine.collect(mapped).to_pylist() == [rows.to_pylist()[at] for at in (2, 0)]
    assert engine.count(engine.given(rows.slice(0, 0), np.zeros((0, 2), np.int64))) == 0


def test_rows_are_mapped_and_may_go(engine: Engine, scanned: Any, ordinary: Any) -> None:
    rows = ordinary(11, 100)
    table = engine.with_record_ids(scanned(rows, 4), None, Seed.insecure(1))

    def older(block: RowBlock) -> RowBlock:
        ages = block.column("age").to_numpy()
        return (
            block.drop(["pay"]).replace("age", np.where(ages == 21, np.nan, ages * 1.5)).take(np.flatnonzero(ages > 20))
        )

    schema = pa.schema(
        [f if f.name != "age" else pa.field("age", pa.float64()) for f in table.schema if f.name != "pay"]
    )
    found = engine.map_rows(table, older, schema)
    wanted = Counter(
        tuple((k, (None if v == 21 else v * 1.5) if k == "age" else v) for k, v in row.items() if k != "pay")
        for row in rows.to_pylist()
        if row["age"] > 20
    )
    assert found.schema.equals(schema)
    assert multiset(engine.collect(found)) == wanted
    assert set(ids_of(engine, found)) <= set(ids_of(engine, table))


def test_a_group_is_mapped_whole(engine: Engine, scanned: Any, ordinary: Any) -> None:
    rows = ordinary(12, 300)
    table = engine.with_record_ids(scanned(rows, 6, shuffled=True), None, Seed.insecure(1))

    def key(block: RowBlock) -> Any:
        return block.column("age").to_numpy() * 10 - 200

    def size(block: RowBlock, at: int) -> RowBlock:
        return block.replace("age", np.full(len(block), at * 1000 + len(block)))

    sizes = Counter(row["age"] for row in rows.to_pylist())
    wanted = Counter((row["age"] * 10 - 200) * 1000 + sizes[row["age"]] for row in rows.to_pylist())
    found = engine.map_groups(table, key, size, table.schema)
    assert Counter(engine.collect(found).column("age").to_pylist()) == wanted
    assert ids_of(engine, found) == ids_of(engine, table)


@pytest.mark.parametrize("column", ["pay", "ill", "age"])
def test_ranks_are_global_and_ties_keyed(engine: Engine, column: str, scanned: Any, ordinary: Any) -> None:
    rows = ordinary(13, 300)
    table = engine.with_record_ids(scanned(rows, 6), None, Seed.insecure(1))
    schema = pa.schema([*table.schema, pa.field("rank", pa.int64())])

    def ranked(block: RowBlock, ranks: Any) -> RowBlock:
        batch = block.batch
        named = pa.record_batch([*batch.columns, pa.array(ranks)], names=[*batch.schema.names, "rank"])
        return RowBlock(named, block.record_ids)

    found = engine.map_ranked(table, column, STREAM, ranked, schema)
    seen = [(counted(v), r, tuple(i)) for v, r, i in zip(*column_rank_ids(engine, found, column), strict=True)]
    order = STREAM.order(np.array([i for _, _, i in seen], dtype=np.int64)).tolist()
    rest = [(v, o, i, r) for (v, r, i), o in zip(seen, order, strict=True) if v is not None]
    assert [r for *_, r in sorted(rest)] == list(range(len(rest)))
    assert {r for v, r, _ in seen if v is None} <= {-1}
    assert len(seen) == 300


def column_rank_ids(engine: Engine, table: Any, column: str) -> list[list[Any]]:
    class Rows:
        def measure(self, block: RowBlock, facts: Facts) -> list[list[Any]]:
            return [block.column(column).to_pylist(), block.column("rank").to_pylist(), block.record_ids.tolist()]

        def merge(self, left: list[list[Any]], right: list[list[Any]]) -> list[list[Any]]:
            return [a + b for a, b in zip(left, right, strict=True)]

    return engine.reduce_rows(table, [column, "rank"], Rows(), Facts()) or [[], [], []]


def test_pairs_meet_by_id(engine: Engine, scanned: Any) -> None:
    rows = pa.table({"key": pa.array(range(500)), "x": pa.array([float(i % 7) for i in range(500)])})
    seed = Seed.insecure(3)
    original = engine.with_record_ids(scanned(rows, 3), "key", seed)

    def masked(block: RowBlock) -> RowBlock:
        kept = np.flatnonzero(block.column("key").to_numpy() % 5 != 0)
        return block.replace("x", block["x"] + block["key"]).take(kept)

    released = engine.select(engine.map_rows(original, masked, original.schema), ["x"])

    class Pairs:
        def measure(self, block: PairBlock, facts: Facts) -> list[float]:
            assert (block.original.record_ids == block.released.record_ids).all()
            return (block.released["x"] - block.original["x"]).tolist()

        def merge(self, left: list[float], right: list[float]) -> list[float]:
            return left + right

    found = engine.reduce_pairs(original, released, ["x"], Pairs(), Facts())
    assert sorted(found or []) == [float(i) for i in range(500) if i % 5]


@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_writing_hides_the_order_and_keeps_the_rows(engine: Engine, format: Any, scanned: Any, tmp_path: Path) -> None:
    hostile = TABLES["other types"]
    types = {"d": "date", "t": "timestamp", "m": "decimal", "b": "boolean"}
    written_rows = []
    for parts, shuffled in ((1, False), (4, True)):
        table = engine.with_record_ids(scanned(hostile.rows, parts, shuffled=shuffled), None, Seed.insecure(1))
        folder = tmp_path / f"out{parts}"
        folder.mkdir()
        report = engine.write(table, str(folder), format, STREAM)
        assert report.records == len(hostile.plain)
        assert sorted(p.name for p in folder.iterdir() if p.name[0] not in "._") == sorted(report.files)
        again = engine.scan(Source(data=str(folder), format=format, types=types if format != "parquet" else {}))
        assert again.schema.names == table.schema.names
        assert multiset(engine.collect(again)) == multiset(engine.collect(table))
        written_rows.append(
            b"".join((folder / name).read_bytes() for name in report.files) if format != "parquet" else b""
        )
    assert written_rows[0].splitlines()[1:] == written_rows[1].splitlines()[1:] or len(report.files) > 1
