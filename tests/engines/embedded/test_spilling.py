"""Everything that maps rows, once in memory and once through files: the same rows, and no file left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ID_COLUMNS, ClassQuery, Facts, PairBlock, RowBlock
from privpipe.draws import Seed, Stream
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine, stored_rows
from privpipe.engines.embedded import ranks as ranking

N = 3000
RNG = np.random.default_rng(3)
ROWS = pa.table(
    {
        "s": pa.array(RNG.choice(["x", "y", "z"], N), mask=RNG.random(N) < 0.1),
        "x": pa.array(RNG.integers(0, 50, N).astype(float)),
        "n": pa.array(RNG.integers(0, 3, N)),
    }
)
STREAM = Stream(bytes(16))


def ranked(block: RowBlock, ranks: Any) -> RowBlock:
    return block.replace("n", ranks)


def group_size(block: RowBlock, key: int) -> RowBlock:
    return block.replace("n", np.full(len(block), len(block) * 1000 + key))


class PairSum:
    def measure(self, block: PairBlock, facts: Facts) -> float:
        return float((block.original["n"] * block.released["n"]).sum())

    def merge(self, left: float, right: float) -> float:
        return left + right


def written(engine: EmbeddedEngine, table: Any, folder: Path) -> bytes:
    folder.mkdir(exist_ok=True)
    engine.write(table, str(folder), "csv", STREAM)
    return (folder / "part-00000.csv").read_bytes()


JOBS: dict[str, Callable[[EmbeddedEngine, Any, Path], Any]] = {
    "ids": lambda engine, table, _: engine.collect(table),
    "ranked": lambda engine, table, _: engine.collect(engine.map_ranked(table, "x", STREAM, ranked, table.schema)),
    "grouped": lambda engine, table, _: engine.collect(
        engine.map_groups(table, lambda block: block["x"].astype(np.int64), group_size, table.schema)
    ),
    "kept": lambda engine, table, _: engine.collect(
        engine.keep_classes(table, ClassQuery(keys=("s", "x"), columns=("n",)), lambda block: block.sizes % 2 == 0)
    ),
    "pairs": lambda engine, table, _: engine.reduce_pairs(
        table, engine.map_ranked(table, "x", STREAM, ranked, table.schema), ["n"], PairSum(), Facts()
    ),
    "written": lambda engine, table, folder: written(engine, table, folder / "out"),
}


@pytest.mark.parametrize("job", JOBS)
def test_files_and_memory_give_the_same_rows(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for limit in (stored_rows.MEMORY_BYTES, 10):
        monkeypatch.setattr(stored_rows, "MEMORY_BYTES", limit)
        with EmbeddedEngine.open({"threads": 3, "temp_directory": str(tmp_path / "temp")}) as engine:
            table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
            found.append(JOBS[job](engine, table, tmp_path))
            del table
            assert not list((tmp_path / "temp").rglob("*.parquet"))
    assert found[0] == found[1]


class Flat(Stream):
    """A stream in which all records tie."""

    def order(self, ids: Any) -> Any:
        return np.zeros(len(ids), np.int64)


def test_equal_order_words_go_by_id(monkeypatch: pytest.MonkeyPatch) -> None:
    import privpipe.engines.embedded.session as session

    monkeypatch.setattr(session.Session.stream, "__defaults__", (None, 100))
    with EmbeddedEngine.open({"threads": 2}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=ROWS)), None, Seed.insecure(1))
        for column in (None, "s"):
            batches = ranking.ordered_rows(engine.session, table, Flat(bytes(16)), column)
            rows = pa.Table.from_batches(batches).to_pylist()
            assert len(rows) == N

            def place(row: dict[str, Any], column: str | None = column) -> tuple[Any, ...]:
                value = row[column] if column else ""
                return (value is None, value or "", *(row[name] for name in ID_COLUMNS))

            assert rows == sorted(rows, key=place)
