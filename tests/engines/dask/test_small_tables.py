"""With worker processes, tables that are small are worked on by the process that asks; figures are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.blocks import ClassQuery, Facts, FactsRequest, RowBlock
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.dask import DaskEngine

SEED = Seed.insecure(3)
ROWS = pa.table(
    {
        "zip code": pa.array(["a", "b", None, "a"] * 500),
        "age": pa.array(np.arange(2_000) % 7),
        "pay": pa.array([0.0, -0.0, float("nan"), 1.5] * 500),
    }
)
QUERY = ClassQuery(keys=("zip code", "age"))


class Sizes:
    """How many classes have each size, and the processes that counted."""

    def measure(self, block: Any, facts: Facts) -> Counter[int]:
        return Counter(block.sizes.tolist())

    def merge(self, left: Counter[int], right: Counter[int]) -> Counter[int]:
        return left + right


class Processes:
    """The processes that look at rows."""

    def measure(self, block: RowBlock, facts: Facts) -> set[int]:
        import os

        return {os.getpid()}

    def merge(self, left: set[int], right: set[int]) -> set[int]:
        return left | right


@pytest.fixture
def far(cluster: DaskEngine) -> DaskEngine:
    return cluster


@pytest.fixture
def near(cluster: DaskEngine) -> Iterator[DaskEngine]:
    """On the same workers, with the default."""
    with DaskEngine.open({"address": cluster._runtime.client.scheduler.address}) as engine:
        yield engine


def counted(engine: DaskEngine, source: Source) -> dict[str, Any]:
    table = engine.with_record_ids(engine.scan(source), None, SEED)
    book = {"zip code": (pa.array(["a", "b", None]), pa.array(["x", "x", "*"]))}
    coarse = engine.keep_classes(engine.recode(table, book), QUERY, lambda block: block.sizes > 71)
    return {
        "fingerprint": fingerprint(engine, table, SEED),
        "histograms": {
            name: (each.values.to_pylist(), each.counts.tolist())
            for name, each in engine.facts(table, FactsRequest(histograms=tuple(table.schema.names))).histograms.items()
        },
        "sizes": engine.reduce_classes(table, QUERY, Sizes(), Facts()),
        "rows": engine.collect(coarse).to_pylist(),
        "stacked": engine.count(engine.append(coarse, table)),
    }


def processes(engine: DaskEngine, table: Any) -> set[int]:
    return engine.reduce_rows(table, ["age"], Processes(), Facts()) or set()


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv"])
def test_a_small_table_is_worked_on_here(near: DaskEngine, far: DaskEngine, tmp_path: Path, kind: str) -> None:
    import os

    source = written(kind, tmp_path)
    assert processes(near, near.scan(source)) == {os.getpid()}
    assert os.getpid() not in processes(far, far.scan(source))
    assert str(counted(near, source)) == str(counted(far, source))


def written(kind: str, folder: Path) -> Source:
    if kind == "frame":
        return Source(data=ROWS)
    if kind == "parquet":
        pq.write_table(ROWS, folder / "rows.parquet", row_group_size=700)
        return Source(data=str(folder / "rows.parquet"))
    ROWS.to_pandas().to_csv(folder / "rows.csv", index=False)
    return Source(data=str(folder / "rows.csv"), types={"age": "integer", "pay": "number"})


def test_a_small_table_meets_a_large_one_on_the_workers(near: DaskEngine, far: DaskEngine) -> None:
    import os

    small = near.with_record_ids(near.scan(Source(data=ROWS)), None, SEED)
    large = far.with_record_ids(far.scan(Source(data=ROWS)), None, SEED)
    both = near.append(large, small)
    assert near.count(both) == 2 * ROWS.num_rows
    assert os.getpid() not in processes(near, both)
    own: dict[int, int] = near.reduce_classes(both, QUERY, Sizes(), Facts()) or {}
    twice = near.reduce_classes(small, QUERY, Sizes(), Facts()) or {}
    assert own == {2 * size: number for size, number in twice.items()}


def test_large_functions_are_sent_to_workers_and_used_as_they_are_here(near: DaskEngine, far: DaskEngine) -> None:
    labels = pa.array([f"{'label' * 40} {at}" for at in range(8_000)])
    book = {"age": (pa.array(range(8_000), pa.int64()), labels)}
    assert labels.nbytes > 2**20
    found = [engine.collect(engine.recode(engine.scan(Source(data=ROWS)), book)).to_pylist() for engine in (near, far)]
    assert str(found[0]) == str(found[1])
