"""Ranks over several ranges are those of one sort, whatever the ties."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark import ranks as ranking
from privpipe.engines.spark.spark_table import SparkTable

STREAM = Stream(bytes(range(16)))
N = 400
RANDOM = np.random.default_rng(3)
COLUMNS = {
    "unique": pa.array(RANDOM.permutation(N)),
    "all tied": pa.array(["same"] * N),
    "a huge tie": pa.array(np.where(RANDOM.random(N) < 0.9, 0.0, RANDOM.normal(size=N))),
    "text": pa.array(RANDOM.choice(["é", "z", "a", "", "ä"], N), mask=RANDOM.random(N) < 0.2),
    "zeros": pa.array(RANDOM.choice([0.0, -0.0, np.nan, np.inf, -1.0], N)),
    "decimal": pa.array(RANDOM.integers(0, 50, N)).cast(pa.decimal128(20, 0)),
    "boolean": pa.array(RANDOM.random(N) < 0.5),
    "no value": pa.nulls(N, pa.float64()),
}


@pytest.fixture(scope="module")
def placed(spark_engine: SparkEngine) -> Iterator[tuple[SparkTable, Any]]:
    """All columns in one table, computed once, and its ids by row."""
    rows = pa.table({**COLUMNS, "row": pa.array(range(N))})
    table = spark_engine.with_record_ids(spark_engine.scan(Source(data=rows)), None, Seed.insecure(1))
    table = replace(table, frame=table.frame.persist())
    yield table, ids_by_row(spark_engine, table)
    table.frame.unpersist()


@pytest.mark.spark
@pytest.mark.parametrize("name", COLUMNS)
def test_ranks_over_many_ranges(
    spark_engine: SparkEngine,
    placed: tuple[SparkTable, Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranking, "ROWS_PER_RANGE", 30)
    ranges: list[Any] = []
    counted = ranking._ranges
    monkeypatch.setattr(ranking, "_ranges", lambda *given: ranges.append(counted(*given)) or ranges[0])
    table, ids = placed
    kept = spark_engine.select(table, [name, "row"])
    found = spark_engine.map_ranked(kept, name, STREAM, with_rank, pa.schema({"row": pa.int64(), "rank": pa.int64()}))
    assert len(ranges[0].cuts) > 2 or name == "no value"
    keys = [
        (value + 0.0 if isinstance(value, float) else value, int(order), row)
        for row, (value, order) in enumerate(zip(COLUMNS[name].to_pylist(), STREAM.order(ids), strict=True))
        if value is not None and value == value
    ]
    wanted = {row: rank for rank, (_, _, row) in enumerate(sorted(keys))}
    assert {row["row"]: row["rank"] for row in spark_engine.collect(found).to_pylist()} == {
        row: wanted.get(row, -1) for row in range(N)
    }


def with_rank(block: RowBlock, ranks: Any) -> RowBlock:
    batch = pa.record_batch([block.column("row"), pa.array(ranks)], names=["row", "rank"])
    return RowBlock(batch, block.record_ids)


def ids_by_row(engine: SparkEngine, table: Any) -> Any:
    class Ids:
        def measure(self, block: RowBlock, facts: Facts) -> dict[int, list[int]]:
            return dict(zip(block.column("row").to_pylist(), block.record_ids.tolist(), strict=True))

        def merge(self, left: dict[int, list[int]], right: dict[int, list[int]]) -> dict[int, list[int]]:
            return left | right

    found = engine.reduce_rows(table, ["row"], Ids(), Facts()) or {}
    return np.array([found[row] for row in range(N)], dtype=np.int64)


def test_a_sample_is_the_same_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "SAMPLE", 10)
    values, order, ids = pa.array(range(100)), np.arange(100), np.random.default_rng(1).permutation(100)
    whole = ranking._Sample.of(values, order, ids)
    halves = [ranking._Sample.of(values[part], order[part], ids[part]) for part in (slice(50, 100), slice(0, 50))]
    merged = halves[0].merge(halves[1])
    assert merged.records == whole.records == 100
    assert merged.cuts(4).equals(whole.cuts(4))
    assert len(whole.cuts(4)) == 3


@pytest.mark.spark
def test_ranks_need_ids(spark_engine: SparkEngine) -> None:
    table = spark_engine.scan(Source(data=pa.table({"v": [1]})))
    with pytest.raises(LookupError, match="record ids"):
        spark_engine.map_ranked(table, "v", STREAM, with_rank, table.schema)
