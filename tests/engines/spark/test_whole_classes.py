"""Cells come sorted by the first word of their class; classes are whole, also those that share it by chance."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.distributed.class_parts import WORDS, whole_classes
from privpipe.engines.spark.output import ORDER, _in_order

CELLS = st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 1), st.integers(1, 9)), max_size=30)


def batch(cells: list[tuple[int, int, int]]) -> pa.RecordBatch:
    columns = zip(*cells, strict=True) if cells else ([], [], [])
    return pa.record_batch([pa.array(each, pa.int64()) for each in columns], names=[*WORDS, "count"])


@given(cells=CELLS, size=st.integers(1, 7), least=st.integers(1, 12))
def test_every_class_comes_in_one_piece_and_in_order(cells: list[tuple[int, int, int]], size: int, least: int) -> None:
    cells = sorted(cells, key=lambda cell: cell[0])
    batches = [batch(cells[at : at + size]) for at in range(0, len(cells), size)]
    pieces = [list(zip(*each.to_pydict().values(), strict=True)) for each in whole_classes(iter(batches), len, least)]
    assert sorted(cell for piece in pieces for cell in piece) == sorted(cells)
    words = [[cell[:2] for cell in piece] for piece in pieces]
    assert words == [sorted(piece) for piece in words]
    met = [word for piece in words for word in set(piece)]
    assert len(met) == len(set(met))


@pytest.mark.parametrize("ties", [False, True])
def test_rows_of_a_part_are_sorted_by_their_words_and_then_by_their_ids(ties: bool) -> None:
    rng = np.random.default_rng(5)
    top = 20 if ties else 2**60
    order = rng.integers(-top, top, 500)
    ids = rng.permutation(np.arange(-250, 250)), rng.integers(-5, 5, 500)
    if ties:
        ids = ids[1], ids[0]
    rows = pa.record_batch([order, *ids, np.arange(500)], names=[ORDER, *ID_COLUMNS, "row"])
    expected = sorted(range(500), key=lambda at: (order[at], ids[0][at], ids[1][at]))
    assert _in_order(rows).column("row").to_pylist() == expected
