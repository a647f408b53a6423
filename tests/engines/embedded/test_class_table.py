"""The class table of the embedded engine: the same by every route, within a memory limit, and from many threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.engines import Engine, Source
from privpipe.engines.base.class_blocks import COUNT, block_of_cells, grouping_columns, histogram_of
from privpipe.engines.embedded import EmbeddedEngine, class_table
from privpipe.engines.embedded.class_table import JointCells
from privpipe.engines.embedded.session import OutOfMemory
from privpipe.errors import DataError

RNG = np.random.default_rng(5)
N = 5000
ROWS = pa.table(
    {
        "a": pa.array(RNG.choice(["x", "y", "*"], N), mask=RNG.random(N) < 0.1),
        "b": pa.array(RNG.choice(["*", "q"], N)),
        "x": pa.array(RNG.choice([0.0, -0.0, 1.5, np.nan], N)),
        "s": pa.array(RNG.integers(0, 300, N), mask=RNG.random(N) < 0.05),
        "t": pa.array(RNG.choice(["u", "v"], N)),
    }
)
QUERIES = [
    ClassQuery(keys=("a", "b"), columns=("s", "t"), mark="*"),
    ClassQuery(keys=("a", "b"), mark="*"),
    ClassQuery(keys=("a", "x"), columns=("t",)),
    ClassQuery(keys=(), columns=("s",)),
    ClassQuery(keys=("a", "s"), columns=("s", "a")),
]


@pytest.fixture
def engine() -> Iterator[EmbeddedEngine]:
    with EmbeddedEngine.open({"threads": 2}) as engine:
        yield engine


def shape(blocks: Iterator[ClassBlock]) -> Counter[Any]:
    """What of a class table no numbering of values changes."""
    found: Counter[Any] = Counter()
    for block in blocks:
        for c, size in enumerate(block.sizes.tolist()):
            cells = tuple(
                tuple(sorted(own.counts[own.offsets[c] : own.offsets[c + 1]].tolist())) for own in block.cells.values()
            )
            found[(size, bool(block.marked is not None and block.marked[c]), cells)] += 1
    return found


def counted(engine: EmbeddedEngine, table: Any, query: ClassQuery) -> pa.Table:
    """The joint cells of a query, by themselves."""
    names = grouping_columns(query)
    return engine.distinct(table, names).rename_columns([*names, COUNT])


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_every_route_gives_the_same_classes(
    engine: EmbeddedEngine, query: ClassQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = engine.scan(Source(data=ROWS))
    whole = shape(engine.classes(table, query))
    assert whole == shape(iter([block_of_cells(counted(engine, table, query), query)]))
    monkeypatch.setattr(class_table, "CELL_BYTES", 10 * engine.session.memory / N)
    assert len(list(JointCells(engine.session, table, query).rounds(list))) == (64 if query.keys else 1)
    assert shape(engine.classes(table, query)) == whole


class Sizes:
    def measure(self, block: ClassBlock, facts: Facts) -> tuple[int, int]:
        return len(block), block.records

    def merge(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]


def test_running_out_of_memory_means_more_rounds(engine: EmbeddedEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = engine.scan(Source(data=ROWS))
    query = ClassQuery(keys=("a", "b", "s"), columns=("t",))
    wanted = engine.reduce_classes(table, query, Sizes(), Facts())
    rounds: list[int] = []
    real = class_table.JointCells.sql

    def scarce(self: Any, of: int, number: int) -> str:
        rounds.append(of)
        if of < 64:
            raise OutOfMemory("too little")
        return real(self, of, number)

    monkeypatch.setattr(class_table.JointCells, "sql", scarce)
    table = engine.scan(Source(data=ROWS))
    assert engine.reduce_classes(table, query, Sizes(), Facts()) == wanted
    assert Counter(rounds) == {1: 1, 4: 4, 16: 16, 64: 64}

    def hopeless(self: Any, of: int, number: int) -> str:
        raise OutOfMemory("too little")

    monkeypatch.setattr(class_table.JointCells, "sql", hopeless)
    with pytest.raises(OutOfMemory):
        engine.reduce_classes(table, query, Sizes(), Facts())
    with pytest.raises(OutOfMemory):
        list(engine.classes(table, query))


def test_a_class_table_beyond_the_memory_limit() -> None:
    n = 400_000
    rng = np.random.default_rng(1)
    rows = pa.table(
        {"k": [f"a rather long key of some class {i}" for i in rng.integers(0, n, n)], "s": rng.integers(0, 9, n)}
    )
    with EmbeddedEngine.open({"memory_limit": "60MB", "threads": 2}) as engine:
        table = engine.scan(Source(data=rows))
        found = engine.reduce_classes(table, ClassQuery(keys=("k",), columns=("s",)), Sizes(), Facts())
    assert found == (len(set(rows.column("k").to_pylist())), n)


def test_a_dictionary_must_fit(engine: EmbeddedEngine) -> None:
    table = engine.scan(Source(data=ROWS))
    narrow = histogram_of(pa.array([1, 2, None], pa.int64()))
    query = ClassQuery(keys=("a",), columns=("s",), dictionaries={"s": narrow})
    with pytest.raises(DataError, match="'s' holds 298 distinct values"):
        list(engine.classes(table, query))
    twice = Histogram(pa.array([1, 1], pa.int64()), np.array([1, 1]))
    with pytest.raises(DataError, match="repeats"):
        list(engine.classes(table, ClassQuery(keys=(), columns=("s",), dictionaries={"s": twice})))
    alien = histogram_of(pa.array(["flu"]))
    with pytest.raises(DataError, match="'s'"):
        list(engine.classes(table, ClassQuery(keys=(), columns=("s",), dictionaries={"s": alien})))


def test_one_engine_serves_many_threads(engine: EmbeddedEngine) -> None:
    table = engine.scan(Source(data=ROWS))
    facts = engine.facts(table, FactsRequest(histograms=("s",)))
    query = ClassQuery(keys=("a", "x"), columns=("s",), dictionaries=facts.histograms)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: engine.reduce_classes(table, query, Sizes(), facts), range(32)))
    assert set(found) == {engine.reduce_classes(table, query, Sizes(), facts)}


def test_equal_keys_hash_alike(embedded: Engine) -> None:
    assert isinstance(embedded, EmbeddedEngine)
    assert embedded.session.value("SELECT hash(0.0::DOUBLE, NULL) = hash(-0.0::DOUBLE, NULL)")
