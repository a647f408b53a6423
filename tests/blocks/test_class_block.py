"""Class blocks: whole classes as offsets, codes and counts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks import Cells, ClassBlock
from privpipe.testing import block_of

MATRICES = st.integers(1, 4).flatmap(
    lambda values: st.lists(
        st.lists(st.integers(0, 3), min_size=values, max_size=values).filter(any), min_size=1, max_size=8
    )
)


def contents(block: ClassBlock, column: str) -> list[dict[int, int]]:
    """Counts by code of each class."""
    cells = block.cells[column]
    return [
        dict(zip(cells.codes[start:stop].tolist(), cells.counts[start:stop].tolist(), strict=True))
        for start, stop in zip(cells.offsets[:-1], cells.offsets[1:], strict=True)
    ]


def test_records_are_the_sum_of_sizes() -> None:
    block = block_of(illness=[[2, 1], [0, 4]])
    assert (len(block), block.records, len(block.cells["illness"])) == (2, 7, 2)


@given(MATRICES, st.data())
def test_take_keeps_whole_classes(matrix: list[list[int]], data: st.DataObject) -> None:
    block = block_of(illness=matrix)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=len(matrix), max_size=len(matrix))), dtype=bool)
    taken = block.take(chosen)
    kept = [row for row, keep in zip(contents(block, "illness"), chosen, strict=True) if keep]
    assert contents(taken, "illness") == kept
    assert taken.sizes.tolist() == [sum(row.values()) for row in kept]


@given(MATRICES, st.integers(1, 9))
def test_split_loses_no_class(matrix: list[list[int]], size: int) -> None:
    block = block_of(illness=matrix)
    parts = list(block.split(size))
    assert all(len(part) <= size for part in parts)
    assert [row for part in parts for row in contents(part, "illness")] == contents(block, "illness")


def test_take_carries_every_array() -> None:
    block = ClassBlock(
        np.array([3, 2]),
        {},
        marked=np.array([True, False]),
        population=np.array([30, 20]),
        weights=np.array([1.5, 2.5]),
    )
    taken = block.take(np.array([False, True]))
    assert taken.marked is not None
    assert taken.population is not None
    assert taken.weights is not None
    assert (taken.sizes[0], taken.marked[0], taken.population[0], taken.weights[0]) == (2, False, 20, 2.5)


def test_released_leaves_the_suppressed_class_out() -> None:
    block = ClassBlock(np.array([3, 2]), marked=np.array([True, False]))
    assert block.released().sizes.tolist() == [2]
    plain = ClassBlock(np.array([3]))
    assert plain.released() is plain


def test_a_figure_is_computed_once_a_block() -> None:
    calls = []

    def count(cells: Cells) -> int:
        calls.append(1)
        return len(cells)

    cells = block_of(illness=[[1, 1]]).cells["illness"]
    assert (cells.once("classes", count), cells.once("classes", count), len(calls)) == (1, 1, 1)


def test_pickling_leaves_the_memory_behind() -> None:
    cells = block_of(illness=[[1, 2]]).cells["illness"]
    cells.once("kept", lambda _: object())
    again = pickle.loads(pickle.dumps(cells))
    assert (again.counts.tolist(), again.once("kept", lambda _: "anew")) == ([1, 2], "anew")


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_a_small_block_is_not_split(classes: int) -> None:
    block = block_of(illness=[[1]])
    assert list(block.split(classes)) == [block]
