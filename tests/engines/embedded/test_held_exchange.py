"""Values that change places where the rows are in memory: the bytes of the exchange by stream, for hostile columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import ID_COLUMNS, ClassQuery, RankExchange
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, ranks, stored_rows
from privpipe.engines.embedded.ranks import exchange_held
from privpipe.errors import DataError, EngineError
from privpipe.transforms.swapping.segment_swap import SegmentPermutation
from tests.tiers import at_most

STREAM = Stream(bytes(16))


class Nearly(Stream):
    """A stream whose keyed order takes three values that differ in their last bits alone."""

    def order(self, ids: Any) -> Any:
        return super().order(ids) % 3 - 1


def column(kind: str, n: int, distinct: int, seed: int) -> pa.Array:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, distinct, n)
    if kind == "number":
        values = np.concatenate([[-0.0, 0.0, 1e-310, -1e-310, 1e300], rng.normal(size=distinct)])[codes]
    elif kind == "date":
        values = rng.integers(-30_000, 30_000, distinct).astype(np.int32)[codes]
    else:
        most = 2**55 if kind == "timestamp" else 2**62
        values = rng.integers(-most, most, distinct)[codes]
    types = {"number": pa.float64(), "integer": pa.int64(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC")}
    return pa.array(values, mask=rng.random(n) < rng.choice([0.0, 0.1, 1.0], p=[0.5, 0.4, 0.1])).cast(types[kind])


@settings(max_examples=at_most(30))
@given(
    kind=st.sampled_from(["number", "integer", "date", "timestamp"]),
    n=st.sampled_from([1, 2, 3, 60, 500]),
    distinct=st.sampled_from([1, 2, 50, 10**5]),
    seed=st.integers(0, 10**6),
    tied=st.booleans(),
)
def test_rows_in_memory_receive_what_they_would_by_stream(
    kind: str, n: int, distinct: int, seed: int, tied: bool
) -> None:
    rows = pa.table({"x": column(kind, n, distinct, seed), "row": range(n)})
    stream = Nearly(bytes(16)) if tied else STREAM
    with EmbeddedEngine.open({"threads": 3}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=rows)), "row", Seed.insecure(1))
        records = n - rows.column("x").null_count
        exchange = RankExchange(records, max(records // 2, 2), 7, SegmentPermutation(stream, 7, "unswapped"))
        held = exchange_held(engine.session, table, "x", stream, exchange)
        assert held is not None
        found = engine.collect(held)
        assert found.equals(engine.collect(ranks.exchange_streamed(engine.session, table, "x", stream, exchange)))
        assert held.schema == table.schema
        if kind == "number":
            zeros = found.column("x").drop_null().to_numpy()
            assert not np.signbit(zeros[zeros == 0]).any()


def test_another_table_is_refused_before_anything_moves() -> None:
    with EmbeddedEngine.open({"threads": 2}) as engine:
        table = engine.with_record_ids(
            engine.scan(Source(data=pa.table({"x": [1.0, 2.0, None]}))), None, Seed.insecure(1)
        )
        for records in (1, 3):
            exchange = RankExchange(records, 3, 1, SegmentPermutation(STREAM, 1, "unswapped"))
            with pytest.raises(DataError, match="made for another table"):
                engine.exchange_ranks(table, "x", STREAM, exchange)


def test_without_room_or_a_number_rows_go_by_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [1.0, 2.0, 3.0], "d": pa.array([1, 2, 3]).cast(pa.decimal128(38, 2))})
    with EmbeddedEngine.open({"threads": 2}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1))
        exchange = RankExchange(3, 3, 1, SegmentPermutation(STREAM, 1, "unswapped"))
        assert exchange_held(engine.session, table, "d", STREAM, exchange) is None
        assert exchange_held(engine.session, table, "x", STREAM, exchange) is not None
        monkeypatch.setattr(type(engine.session), "room", lambda _: 100)
        assert exchange_held(engine.session, table, "x", STREAM, exchange) is None
        swapped = engine.exchange_ranks(table, "x", STREAM, exchange)
        assert sorted(engine.collect(swapped).column("x").to_pylist()) == [1.0, 2.0, 3.0]


def test_rows_in_memory_count_until_no_one_holds_them() -> None:
    with EmbeddedEngine.open({"threads": 2, "memory_limit": "800MB"}) as engine:
        before = engine.session.room()
        assert before == pytest.approx(100e6, rel=0.01)
        table = engine.with_record_ids(
            engine.scan(Source(data=pa.table({"x": np.arange(1000.0)}))), None, Seed.insecure(1)
        )
        assert engine.session.room() == pytest.approx(before - 24_000, abs=1000)
        exchange = RankExchange(1000, 1000, 9, SegmentPermutation(STREAM, 9, "unswapped"))
        swapped = engine.exchange_ranks(table, "x", STREAM, exchange)
        del table
        assert engine.session.room() == pytest.approx(
            before - 32_000, abs=1000
        )  # the ids are those of the table before
        del swapped
        assert engine.session.room() == before


def test_rows_are_brought_into_memory_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"x": [3.0, 1.0, None], "s": ["a", "bb", None], "b": [True, None, False]})
    with EmbeddedEngine.open({"threads": 2}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=rows)), None, Seed.insecure(1))
        chosen = engine.select(table, ["s", "x"])
        assert chosen.rows is not None
        assert chosen.rows.column_names == ["s", "x", *ID_COLUMNS]
        kept = engine.keep_classes(table, ClassQuery(keys=("x",)), lambda block: block.sizes > 0)
        derived = kept.derived(f"SELECT * FROM {kept.source}")
        assert derived.rows is None
        monkeypatch.setattr(stored_rows, "MEMORY_BYTES", 3 * (8 + 32 + 16) * 2)
        assert stored_rows.brought(engine.session, derived) is derived
        monkeypatch.undo()
        brought = stored_rows.brought(engine.session, derived)
        assert brought.rows is not None
        assert engine.collect(brought).equals(engine.collect(table))
        assert stored_rows.brought(engine.session, brought) is brought


def test_memory_that_runs_out_is_an_engine_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any) -> Any:
        raise MemoryError

    with EmbeddedEngine.open({"threads": 2}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=pa.table({"x": [1.0, 2.0]}))), None, Seed.insecure(1))
        exchange = RankExchange(2, 2, 1, SegmentPermutation(STREAM, 1, "unswapped"))
        monkeypatch.setattr(ranks, "positions_by_value", exhausted)
        monkeypatch.setattr(stored_rows, "positions_by_code", exhausted)
        for work in (
            lambda: engine.exchange_ranks(table, "x", STREAM, exchange),
            lambda: engine.map_groups(
                table, lambda rows: np.zeros(len(rows), np.int64), lambda rows, _: rows, table.schema
            ),
        ):
            with pytest.raises(EngineError, match="more memory than the limit"):
                work()
