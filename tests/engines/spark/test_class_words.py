"""Classes are distinguished by their words exactly as by their values, and are whole wherever batches end."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassQuery, Facts, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Source
from privpipe.engines.base.class_blocks import COUNT
from privpipe.engines.distributed import class_parts
from privpipe.engines.distributed.class_parts import WORDS, CellReader
from privpipe.engines.spark import SparkEngine, driver_memory
from privpipe.engines.spark.class_cells import class_words
from privpipe.engines.spark.driver_memory import result_limit
from privpipe.errors import DataError
from privpipe.models import KAnonymity

pytestmark = pytest.mark.spark


def test_a_null_is_a_value_of_its_place(spark_engine: SparkEngine) -> None:
    """The native hash skips nulls: by it alone, the first four would be one class."""
    rows = pa.table({"a": ["x", None, None, "", None], "b": [None, "x", None, None, ""], "c": [None] * 5})
    table = spark_engine.scan(Source(data=rows))
    query = ClassQuery(keys=("a", "b", "c"))
    words = table.frame.select(*class_words(table, query, 1)).toArrow()
    assert len(set(zip(*(words.column(name).to_pylist() for name in WORDS), strict=True))) == 5


def test_words_of_many_keys(spark_engine: SparkEngine) -> None:
    """More keys than a mask has bits, each null once."""
    width = 70
    rows = pa.table({f"k{at}": pa.array([None if at == row else "x" for row in range(width)]) for at in range(width)})
    table = spark_engine.scan(Source(data=rows))
    (block,) = spark_engine.classes(table, ClassQuery(keys=tuple(rows.column_names)))
    assert block.sizes.tolist() == [1] * width


def test_words_are_salted(spark_engine: SparkEngine) -> None:
    table = spark_engine.scan(Source(data=pa.table({"a": ["x"]})))
    first, second = (
        table.frame.select(*class_words(table, ClassQuery(keys=("a",)), salt)).toArrow().to_pylist() for salt in (1, 2)
    )
    assert all(first[0][name] != second[0][name] for name in WORDS)


def sorted_cells(sizes: list[int]) -> pa.Table:
    """Cells of classes with so many values each, sorted by class."""
    words = np.repeat(np.arange(len(sizes)), sizes)
    values = np.concatenate([np.arange(size) for size in sizes]) if sizes else np.zeros(0, np.int64)
    return pa.table({WORDS[0]: words // 2, WORDS[1]: words, "c0": values, COUNT: values + 1})


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("block", [1, 4, 1000])
def test_classes_are_whole_however_batches_are_cut(step: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_parts, "BLOCK_CELLS", block)
    sizes = [1, 2, 1, 9, 1, 1, 4, 3]
    reader = CellReader(ClassQuery(keys=("k",), columns=("v",)), (pa.int64(),))
    found = list(reader.blocks(iter(sorted_cells(sizes).to_batches(max_chunksize=step))))
    widths = np.concatenate([np.diff(part.cells["v"].offsets) for part, _ in found]).tolist()
    assert widths == sizes
    assert np.concatenate([words[:, 1] for _, words in found]).tolist() == list(range(len(sizes)))
    assert sum(part.records for part, _ in found) == sum(size * (size + 1) // 2 for size in sizes)


def test_no_batch_no_block() -> None:
    reader = CellReader(ClassQuery(keys=("k",)), ())
    assert list(reader.blocks(iter([]))) == []
    assert list(reader.blocks(iter(sorted_cells([]).to_batches() or []))) == []


def test_the_marked_class_is_known_in_place(spark_engine: SparkEngine) -> None:
    rows = pa.table({"a": ["*", "*", "x", "*", None], "b": ["*", "*", "*", None, "*"]})
    table = spark_engine.scan(Source(data=rows))
    query = ClassQuery(keys=("a", "b"), mark="*")
    (block,) = spark_engine.classes(table, query)
    assert block.marked is not None
    assert block.sizes[block.marked].tolist() == [2]
    kept = spark_engine.keep_classes(table, query, lambda part: ~part.marked)
    assert Counter(row["a"] for row in spark_engine.collect(kept).to_pylist()) == {"x": 1, "*": 1, None: 1}
    (plain,) = spark_engine.classes(table, ClassQuery(keys=("a", "b")))
    assert plain.marked is None


def test_what_is_amiss_is_counted_over_the_whole_table(spark_engine: SparkEngine) -> None:
    rows = pa.table({"k": list(range(50)), "v": [f"v{at}" for at in range(50)], "w": [1.0] * 47 + [None] * 3})
    table = spark_engine.scan(Source(data=rows))
    known = spark_engine.facts(spark_engine.scan(Source(data=rows.slice(0, 9))), FactsRequest(histograms=("v",)))
    for where in ("driver", "engine"):
        with pytest.raises(DataError, match="41 distinct values"):
            spark_engine.reduce_classes(
                table,
                ClassQuery(keys=("k",), columns=("v",), dictionaries=known.histograms),
                KAnonymity(k=2),
                Facts(),
                where=where,
            )
        with pytest.raises(DataError, match="3 missing"):
            spark_engine.reduce_classes(
                table,
                ClassQuery(keys=("k",), weight="w"),
                KAnonymity(k=2),
                Facts(),
                where=where,
            )


def test_keeping_classes_keeps_the_ids(spark_engine: SparkEngine) -> None:
    rows = pa.table({"a": [1, 1, None, None, 2]})
    table = spark_engine.with_record_ids(spark_engine.scan(Source(data=rows)), None, Seed.insecure(1))
    kept = spark_engine.keep_classes(table, ClassQuery(keys=("a",)), lambda block: block.sizes == 2)
    assert kept.has_record_ids
    assert [row["a"] for row in sorted(spark_engine.collect(kept).to_pylist(), key=repr)] == [1, 1, None, None]


def test_the_driver_is_chosen_for_few_records(spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    table = spark_engine.scan(Source(data=spark_engine.session.range(2)))
    assert not driver_memory.fits_here(table, Facts())
    assert driver_memory.fits_here(table, Facts(records=2))
    spark_engine.count(table)
    assert driver_memory.fits_here(table, Facts())
    fewer = spark_engine.keep_classes(table, ClassQuery(keys=("id",)), lambda block: block.sizes > 1)
    assert driver_memory.fits_here(spark_engine.select(fewer, ["id"]), Facts())
    monkeypatch.setattr(driver_memory, "RECORDS_HERE", 1)
    assert not driver_memory.fits_here(table, Facts())


@pytest.mark.parametrize(
    ("said", "bytes_"), [("0", 0), ("1m", 1 << 20), ("2g", 2 << 30), ("512MB", 512 << 20), ("77", 77), ("1.5g", 0)]
)
def test_the_limit_of_what_is_collected_is_the_sessions(said: str, bytes_: int) -> None:
    class Conf:
        def get(self, name: str, default: str) -> str:
            return said

    assert result_limit(type("Session", (), {"conf": Conf()})()) == bytes_
