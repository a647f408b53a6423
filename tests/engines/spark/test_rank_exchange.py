"""Values given away by rank reach the records that a plain sort gives them to, over any ranges and segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import Facts, RankExchange, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine, rank_exchange, ranks
from privpipe.engines.spark.ranks import spread_keys
from privpipe.engines.spark.spark_table import SparkTable
from privpipe.errors import DataError
from privpipe.kernels.rank_swapping import swap_segment

STREAM = Stream(bytes(range(16)))
N = 400
RANDOM = np.random.default_rng(3)
FEW = RANDOM.integers(0, 7, N)
COLUMNS = {
    "unique": pa.array(RANDOM.permutation(N)),
    "beyond 2^53": pa.array(2**62 + RANDOM.permutation(N)),
    "a huge tie": pa.array(np.where(RANDOM.random(N) < 0.9, 0.0, RANDOM.normal(size=N))),
    "zeros": pa.array(RANDOM.choice([0.0, -0.0, np.nan, np.inf, -np.inf, -1.0], N)),
    "decimal": pa.array([Decimal(int(each)) / 4 for each in FEW], pa.decimal128(10, 2), mask=RANDOM.random(N) < 0.2),
    "wide decimal": pa.array([Decimal(int(each) - 3) * 10**30 for each in FEW], pa.decimal128(38, 0)),
    "date": pa.array(RANDOM.integers(-9000, 9000, N).astype("datetime64[D]")),
    "timestamp": pa.array(RANDOM.integers(-9, 9, N).astype("datetime64[us]"), mask=RANDOM.random(N) < 0.2),
    "no value": pa.nulls(N, pa.float64()),
}


class Cells:
    """The cells of some columns by record."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def measure(self, block: RowBlock, facts: Facts) -> dict[Any, Any]:
        columns = [block.column(name) for name in self.columns]
        cells = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in columns]
        ids = map(tuple, block.record_ids.tolist())
        return dict(zip(ids, zip(*(each.to_pylist() for each in cells), strict=True), strict=True))

    def merge(self, left: dict[Any, Any], right: dict[Any, Any]) -> dict[Any, Any]:
        return left | right


def cells(engine: SparkEngine, table: SparkTable, columns: list[str]) -> dict[Any, Any]:
    return engine.reduce_rows(table, columns, Cells(columns), Facts()) or {}


@pytest.fixture(scope="module")
def placed(spark_engine: SparkEngine) -> Iterator[tuple[SparkTable, dict[Any, Any]]]:
    """All columns in one table, computed once, and its cells by record."""
    rows = pa.table({**COLUMNS, "row": pa.array(range(N))})
    table = spark_engine.with_record_ids(spark_engine.scan(Source(data=rows)), None, Seed.insecure(1))
    table = replace(table, frame=table.frame.repartition(3).persist())
    yield table, cells(spark_engine, table, list(rows.column_names))
    table.frame.unpersist()


def swapped(start: int, stop: int) -> Any:
    return swap_segment(start, stop, 40, STREAM, partner="content")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "segment", "bins"),
    [*((name, 170, 1024) for name in COLUMNS), ("unique", 400, 1024), ("unique", 11, 14), ("timestamp", 170, 14)],
)
def test_values_go_where_a_plain_sort_sends_them(
    spark_engine: SparkEngine,
    placed: tuple[SparkTable, dict[Any, Any]],
    name: str,
    segment: int,
    bins: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rank_exchange, "ROWS_PER_RANGE", 60)
    monkeypatch.setattr(rank_exchange, "LEAST_ROWS", 60)
    monkeypatch.setattr(rank_exchange, "BINS_PER_RANGE", 2)
    monkeypatch.setattr(rank_exchange, "LEAST_BINS", bins)
    monkeypatch.setattr(ranks, "SAMPLED", 200)
    table, before = placed
    at = list(COLUMNS).index(name)
    known = [(row[at], int(STREAM.order(np.array([of]))[0]), of) for of, row in before.items() if row[at] is not None]
    ranked = sorted(known)
    exchange = RankExchange(len(ranked), segment, 40, swapped)
    pi = [of for number in range(-(-len(ranked) // segment)) for of in exchange.of_segment(number).tolist()]
    wanted = {of: (None if row[at] is None else ..., row[-1]) for of, row in before.items()}
    wanted |= {ids: (ranked[of][0], before[ids][-1]) for (_, _, ids), of in zip(ranked, pi, strict=True)}
    found = spark_engine.exchange_ranks(table, name, STREAM, exchange)
    received = cells(spark_engine, found, [name, "row"])
    assert received == wanted
    assert "-0.0" not in {str(value) for value, _ in received.values()}
    assert found.schema.equals(table.schema)


@pytest.mark.spark
@pytest.mark.parametrize("most", [60, 1000])
def test_a_column_with_other_values_than_planned_is_refused(
    spark_engine: SparkEngine, placed: tuple[SparkTable, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_exchange, "ROWS_PER_RANGE", most)
    monkeypatch.setattr(rank_exchange, "LEAST_ROWS", most)
    with pytest.raises(DataError, match="another table: column 'unique'"):
        found = spark_engine.exchange_ranks(placed[0], "unique", STREAM, RankExchange(N - 1, N - 1, 40, swapped))
        spark_engine.count(found)


@pytest.mark.spark
def test_each_range_has_a_partition_of_its_own(spark_engine: SparkEngine) -> None:
    keys = pa.table({"key": pa.array(spread_keys(23))})
    frame = spark_engine.session.createDataFrame(keys).repartition(23, "key")
    found = frame.mapInArrow(lambda batches: (b for b in batches if b.num_rows), "key bigint")
    assert [row[0] for row in found.collect()] == list(spread_keys(23))


def test_bins_split_ties_by_keyed_order() -> None:
    words = np.repeat(np.arange(5, dtype=np.uint64) + np.uint64(7), [1, 400, 3, 60, 1])
    ties = np.random.default_rng(1).integers(0, 2**63, len(words)).astype(np.uint64) << np.uint64(1)
    bins = ranks.KeyBins.cutting(words[::2], ties[::2], 1000)
    found = bins.of(words, lambda at: ties[at])
    order = np.lexsort((ties, words))
    assert (np.diff(found[order]) >= 0).all()
    assert np.bincount(found).max() <= 12
    assert len(bins) > 200
