"""Classes over some of the columns, and how many records each has."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.classes.coded_classes import projected_counts, projected_sizes

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5000), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=40
)


@given(ROWS)
def test_records_are_counted_by_what_they_share(rows: list[tuple[int, int, int, int]]) -> None:
    wanted: Counter[tuple[int, ...]] = Counter()
    for *codes, count in rows:
        wanted[tuple(codes)] += count
    codes, counts = np.array([row[:3] for row in rows]), np.array([row[3] for row in rows])
    numbers, records = projected_counts(codes, counts)
    assert records[numbers].tolist() == [wanted[row[:3]] for row in rows]
    assert sorted(projected_sizes(codes, counts).tolist()) == sorted(wanted.values())


@pytest.mark.parametrize("columns", [1, 4, 5, 70])
def test_keys_neither_wrap_nor_sprawl(columns: int) -> None:
    """Of 2^16 values a column: the first would be lost of five columns, were their codes but multiplied."""
    codes = np.zeros((4, columns), np.int64)
    codes[1, 0], codes[2], codes[3] = 1, 2**16 - 1, 2**16 - 1
    numbers, records = projected_counts(codes, np.array([1, 2, 3, 4]))
    assert records[numbers].tolist() == [1, 2, 7, 7]
    assert len(records) < 2000


@pytest.mark.parametrize("columns", [0, 2])
def test_without_records_there_is_no_class(columns: int) -> None:
    numbers, records = projected_counts(np.zeros((0, columns), np.int64), np.zeros(0, np.int64))
    assert (numbers.shape, records.shape) == ((0,), (0,))
    assert (numbers.dtype, records.dtype) == (np.int64, np.int64)


def test_without_columns_all_are_one_class() -> None:
    assert projected_sizes(np.zeros((3, 0), np.int64), np.array([1, 2, 3])).tolist() == [6]
