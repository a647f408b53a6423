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
from privpipe.engines import Engine, Source, open_engine
from privpipe.engines.distributed import rank_exchange
from privpipe.errors import DataError, UnsupportedError
from privpipe.kernels.rank_swapping import swap_segment

pytestmark = pytest.mark.deep_on_spark
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


def cells(engine: Engine, table: Any, columns: list[str]) -> dict[Any, Any]:
    return engine.reduce_rows(table, columns, Cells(columns), Facts()) or {}


ROWS = pa.table({**COLUMNS, "row": pa.array(range(N))})
Placed = tuple[Engine, Any, dict[Any, Any]]


@pytest.fixture(
    scope="module",
    params=[pytest.param("dask", marks=pytest.mark.dask), pytest.param("spark", marks=pytest.mark.spark)],
)
def placed(request: pytest.FixtureRequest) -> Iterator[Placed]:
    """All columns in one table of several partitions, computed once, and its cells by record."""
    if request.param == "spark":
        engine = request.getfixturevalue("spark_engine")
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
        table = replace(table, frame=table.frame.repartition(3).persist())
        yield engine, table, cells(engine, table, ROWS.column_names)
        table.frame.unpersist()
    else:
        with open_engine("dask", {"scheduler": "threads", "npartitions": 3}) as engine:
            table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
            yield engine, table, cells(engine, table, ROWS.column_names)


def swapped(start: int, stop: int) -> Any:
    return swap_segment(start, stop, 40, STREAM, partner="content")


def shuffled(start: int, stop: int) -> Any:
    return start + np.random.default_rng(start).permutation(stop - start)


def shortened(patched: pytest.MonkeyPatch, most: int) -> None:
    """Ranges of so many ranks at most."""
    patched.setattr(rank_exchange, "ROWS_PER_RANGE", most)
    patched.setattr(rank_exchange, "LEAST_ROWS", most)


@pytest.mark.parametrize(
    ("name", "segment", "bins", "reach"),
    [
        *((name, 170, 1024, 40) for name in COLUMNS),
        ("unique", 400, 1024, 40),
        ("unique", 11, 14, 40),
        ("timestamp", 170, 14, 40),
        *((name, 400, 1024, 400) for name in ("unique", "zeros", "wide decimal", "timestamp", "no value")),
        ("unique", 170, 14, 170),
    ],
)
def test_values_go_where_a_plain_sort_sends_them(
    placed: Placed, name: str, segment: int, bins: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch, 60)
    monkeypatch.setattr(rank_exchange, "BINS_PER_RANGE", 2)
    monkeypatch.setattr(rank_exchange, "LEAST_BINS", bins)
    monkeypatch.setattr(rank_exchange, "SAMPLED", 200)
    engine, table, before = placed
    at = list(COLUMNS).index(name)
    known = [(row[at], int(STREAM.order(np.array([of]))[0]), of) for of, row in before.items() if row[at] is not None]
    ranked = sorted(known)
    exchange = RankExchange(len(ranked), min(segment, max(len(ranked), 1)), reach, swapped if reach == 40 else shuffled)
    pi = [of for part in range(-(-len(ranked) // exchange.segment)) for of in exchange.of_segment(part).tolist()]
    wanted = {of: (None if row[at] is None else ..., row[-1]) for of, row in before.items()}
    wanted |= {ids: (ranked[of][0], before[ids][-1]) for (_, _, ids), of in zip(ranked, pi, strict=True)}
    found = engine.exchange_ranks(table, name, STREAM, exchange)
    received = cells(engine, found, [name, "row"])
    assert received == wanted
    assert "-0.0" not in {str(value) for value, _ in received.values()}
    assert found.schema.equals(table.schema)


@pytest.mark.parametrize("most", [60, 1000])
@pytest.mark.parametrize("reach", [40, N])
def test_a_column_with_other_values_than_planned_is_refused(
    placed: Placed, most: int, reach: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shortened(monkeypatch, most)
    engine, table, _ = placed
    with pytest.raises(DataError, match="another table: column 'unique'"):
        engine.count(engine.exchange_ranks(table, "unique", STREAM, RankExchange(N - 1, N - 1, reach, swapped)))


def test_texts_are_refused(placed: Placed) -> None:
    engine = placed[0]
    rows = engine.scan(Source(data=pa.table({"name": ["b", "a"]})))
    table = engine.with_record_ids(rows, None, Seed.insecure(1))
    with pytest.raises(UnsupportedError, match="column 'name' holds string"):
        engine.exchange_ranks(table, "name", STREAM, RankExchange(2, 2, 1, swapped))


@pytest.mark.spark
def test_each_range_has_a_partition_of_its_own(spark_engine: Any) -> None:
    from privpipe.engines.spark.ranks import spread_keys

    keys = pa.table({"key": pa.array(spread_keys(23))})
    frame = spark_engine.session.createDataFrame(keys).repartition(23, "key")
    found = frame.mapInArrow(lambda batches: (b for b in batches if b.num_rows), "key bigint")
    assert [row[0] for row in found.collect()] == list(spread_keys(23))


def test_bins_split_ties_by_keyed_order() -> None:
    words = np.repeat(np.arange(5, dtype=np.uint64) + np.uint64(7), [1, 400, 3, 60, 1])
    ties = np.random.default_rng(1).integers(0, 2**63, len(words)).astype(np.uint64) << np.uint64(1)
    bins = rank_exchange.KeyBins.cutting(words[::2], ties[::2], 1000)
    found = bins.of(words, lambda at: ties[at])
    order = np.lexsort((ties, words))
    assert (np.diff(found[order]) >= 0).all()
    assert np.bincount(found).max() <= 12
    assert len(bins) > 200


@pytest.mark.dask
def test_no_task_holds_more_keys_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker with little memory gets shorter ranges, whatever the values and the window."""
    pytest.importorskip("dask")
    from privpipe.engines.dask import rank_exchange as on_dask

    monkeypatch.setattr(on_dask, "FEWEST", 10)
    longest = 0
    keys = rank_exchange.RankedColumn.keys

    def counted(self: Any, part: int, pieces: Any, own: int | None = None) -> Any:
        nonlocal longest
        longest = max(longest, sum(map(len, pieces)))
        return keys(self, part, pieces, own)

    monkeypatch.setattr(rank_exchange.RankedColumn, "keys", counted)
    share = 50 * on_dask.KEY_BYTES * on_dask.NEIGHBOURS
    with open_engine("dask", {"scheduler": "threads", "npartitions": 2, "collected_bytes": share}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
        for reach in (40, N):
            engine.count(engine.exchange_ranks(table, "a huge tie", STREAM, RankExchange(N, N, reach, swapped)))
    assert 0 < longest <= on_dask.NEIGHBOURS * 50
