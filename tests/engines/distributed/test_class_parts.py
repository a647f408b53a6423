"""Parts of classes without a session: what workers count and what who gathers them makes of it, next to joint cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.class_blocks import COUNT, block_of_cells, histogram_of
from privpipe.engines.distributed import class_parts
from privpipe.engines.distributed.class_parts import WORDS, PartReader
from privpipe.engines.distributed.columns import column_name
from privpipe.errors import DataError

Shapes = Counter[tuple[Any, ...]]
MARKED = (-5, 7)


def rows_of(rows: int, classes: int) -> pa.Table:
    """Classes under two words, the last of which has the mark; two columns, of text and of numbers with holes."""
    rng = np.random.default_rng([rows, classes])
    key = rng.integers(0, classes, rows)
    pool = [None, float("nan"), -0.0, 0.0, 1.5, *range(2, 60)]
    return pa.table(
        {
            "k": key,
            "ill": rng.choice(["flu", "hiv", "ok"], rows),
            "pay": pa.array([pool[at] for at in rng.integers(0, len(pool), rows)], pa.float64()),
        }
    )


def batches_of(table: pa.Table, classes: int, rows: int) -> Iterator[pa.RecordBatch]:
    """The rows as Spark hands them over."""
    key = table.column("k").to_numpy()
    # Two classes share their first word, as one in 2^32 classes may.
    words = np.column_stack([key // 2, key])
    words[key == classes - 1] = MARKED
    arrays = [pa.array(words[:, 0]), pa.array(words[:, 1]), table.column("ill"), table.column("pay")]
    yield from pa.table(arrays, names=[*WORDS, column_name(0), column_name(1)]).to_batches(max_chunksize=rows)


def gathered(parts: list[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Parts in the order of their classes."""
    table = pa.Table.from_batches(parts)
    order = np.lexsort((table.column(WORDS[1]).to_numpy(), table.column(WORDS[0]).to_numpy()))
    yield from table.take(pa.array(order)).combine_chunks().to_batches(max_chunksize=rows)


def shapes(block: ClassBlock, coded: bool) -> Shapes:
    """Classes as a multiset; without dictionaries a code only distinguishes values of a class."""
    found: Shapes = Counter()
    for at in range(len(block)):
        shape: list[Any] = [int(block.sizes[at])]
        for cells in block.cells.values():
            own = slice(int(cells.offsets[at]), int(cells.offsets[at + 1]))
            codes, counts = cells.codes[own].tolist(), cells.counts[own].tolist()
            assert codes == sorted(set(codes))
            shape.append(tuple(zip(codes, counts, strict=True)) if coded else tuple(sorted(counts)))
        found[tuple(shape)] += 1
    return found


@pytest.mark.parametrize("coded", [True, False], ids=["dictionaries", "any codes"])
@pytest.mark.parametrize(
    ("rows", "classes", "chunk", "block"), [(900, 7, 100, 64), (900, 600, 250, 4096), (1, 1, 9, 9)]
)
def test_parts_make_the_classes_of_joint_cells(
    monkeypatch: pytest.MonkeyPatch, coded: bool, rows: int, classes: int, chunk: int, block: int
) -> None:
    monkeypatch.setattr(class_parts, "CHUNK_ROWS", chunk)
    monkeypatch.setattr(class_parts, "BLOCK_BYTES", block)
    table = rows_of(rows, classes)
    histograms = {name: histogram_of(table.column(name)) for name in ("ill", "pay")} if coded else {}
    query = ClassQuery(keys=("k",), columns=("ill", "pay"), dictionaries=histograms)
    reader = PartReader(query, (pa.string(), pa.float64()), MARKED)
    parts = list(reader.parts(batches_of(table, classes, 70)))
    assert len(parts) == -(-rows // chunk) or len(parts) > 1
    found = [block for block, words in reader.blocks(gathered(parts, 40)) if len(words) == len(block)]
    joint = block_of_cells(table.append_column(COUNT, pa.array(np.ones(rows, np.int64))), query)
    assert sum((shapes(each, coded) for each in found), Counter()) == shapes(joint, coded)
    assert len(found) > 1 or rows == 1
    marked = [int(size) for each in found for size in each.sizes[each.marked]]
    assert marked == [table.column("k").to_pylist().count(classes - 1)]


def test_a_batch_larger_than_a_chunk_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_parts, "CHUNK_ROWS", 10)
    reader = PartReader(ClassQuery(keys=("k",)), ())
    parts = list(reader.parts(batches_of(rows_of(35, 3), 3, 1000)))
    assert [sum(part.column(2).to_pylist()) for part in parts] == [10, 10, 10, 5]


def test_a_chunk_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_parts, "CHUNK_BYTES", 1000)
    reader = PartReader(ClassQuery(keys=("k",)), ())
    parts = list(reader.parts(batches_of(rows_of(200, 3), 3, 10)))
    sizes = [sum(part.column(2).to_pylist()) for part in parts]
    assert sum(sizes) == 200
    assert 10 < max(sizes) < 100


def test_no_records_are_not_a_block() -> None:
    reader = PartReader(ClassQuery(keys=("k",), columns=("ill",)), (pa.string(),))
    empty = pa.schema([(WORDS[0], pa.int64()), (WORDS[1], pa.int64()), (column_name(0), pa.string())]).empty_table()
    assert list(reader.parts(iter(empty.to_batches() or [pa.RecordBatch.from_pylist([], empty.schema)]))) == []
    assert list(reader.blocks(iter([]))) == []


def test_a_value_the_dictionary_lacks_is_reported_where_parts_are_gathered() -> None:
    table = rows_of(50, 4)
    histograms = {"ill": histogram_of(pa.array(["flu", "ok"]))}
    query = ClassQuery(keys=("k",), columns=("ill",), dictionaries=histograms)
    reader = PartReader(query, (pa.string(),))
    parts = list(reader.parts(batches_of(table, 4, 50)))
    with pytest.raises(DataError, match="column 'ill' holds 1 distinct value"):
        list(reader.blocks(gathered(parts, 50)))
