"""Groups of equal rows, counting sorts, ranges and 128-bit sums against plain Python."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.grouping.word_groups import add_hashes, group_rows, ordered_by_group, ranges_of, split_order

EDGES = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)]
WORDS = st.one_of(st.sampled_from(EDGES), st.integers(-3, 3))


def matrix(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), width)


@given(
    st.integers(1, 4).flatmap(
        lambda width: st.lists(st.tuples(*[WORDS] * width), max_size=60).map(lambda r: (width, r))
    )
)
def test_rows_are_in_one_group_exactly_when_equal(drawn):
    width, rows = drawn
    groups, firsts = group_rows(matrix(rows, width))
    assert len(firsts) == len(set(rows))
    assert [rows[firsts[group]] for group in groups] == rows
    assert all(first == rows.index(rows[first]) for first in firsts.tolist())


@pytest.mark.parametrize("distinct", [1, 7, 3000, 200_000])
def test_many_rows_in_many_buckets(distinct):
    words = np.random.default_rng(distinct).integers(0, distinct, (100_000, 1)) * 2**40
    groups, firsts = group_rows(words)
    assert len(firsts) == len(np.unique(words))
    assert (words[firsts][groups] == words).all()


def test_slices_and_read_only_arrays_will_do():
    words = np.arange(12).reshape(4, 3)
    words.flags.writeable = False
    assert len(group_rows(words[::2, 1:])[1]) == 2


@given(st.lists(st.integers(0, 5), max_size=40))
def test_the_order_is_that_of_a_stable_sort(groups):
    order, offsets = ordered_by_group(np.array(groups, dtype=np.int64), 6)
    assert order.tolist() == sorted(range(len(groups)), key=groups.__getitem__)
    assert np.diff(offsets).tolist() == [groups.count(group) for group in range(6)]


@given(st.lists(WORDS, max_size=40), st.integers(1, 9))
def test_parts_are_equal_ranges_of_all_words(words, parts):
    order, offsets = split_order(np.array(words, dtype=np.int64), parts)
    expected = [((word + 2**63) * parts) >> 64 for word in words]
    assert np.repeat(np.arange(parts), np.diff(offsets)).tolist() == [expected[row] for row in order]


@given(st.lists(st.tuples(WORDS, WORDS), max_size=30), st.lists(st.tuples(WORDS, WORDS), max_size=6))
def test_a_range_counts_the_cuts_that_are_not_above(rows, cuts):
    cuts = sorted(cuts)
    found = ranges_of(matrix(rows, 2), matrix(cuts, 2))
    assert found.tolist() == [bisect.bisect_right(cuts, row) for row in rows]


@given(st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=5), st.lists(st.integers(0, 2**128 - 1), max_size=8))
def test_hashes_add_up_modulo_2_to_the_128(table, totals):
    def words(numbers: list[int]) -> np.ndarray:
        return np.array([[n >> 64, n & (2**64 - 1)] for n in numbers], dtype=np.uint64).reshape(len(numbers), 2)

    codes = np.arange(len(totals)) % len(table)
    found = words(totals)
    add_hashes(found, words(table).view(np.int64), codes)
    expected = [(total + table[code]) % 2**128 for total, code in zip(totals, codes.tolist(), strict=True)]
    assert [(int(high) << 64) + int(low) for high, low in found] == expected


def test_a_row_of_zeros_carries_nothing():
    total = np.zeros((1, 2), np.uint64)
    add_hashes(total, np.array([[3, 5]]), np.array([0]))
    assert total.tolist() == [[3, 5]], "the sum is the summand, and nothing wrapped around"


def test_rows_of_one_hash_are_told_apart():
    """Rows that differ in their second word and, so that the hashes are equal all the same, in their last."""

    def state(row: list[int]) -> int:
        h = 0x9E3779B97F4A7C15
        for word in row:
            h = ((h ^ word) * 0xBF58476D1CE4E5B9) % 2**64
            h ^= h >> 32
        return h

    rows = []
    for at in range(3000):  # more than plain Python takes
        rows += [[at, 1, 2, 3], [at, 9, 2, 3 ^ state([at, 1, 2]) ^ state([at, 9, 2])]]
    assert state(rows[0]) == state(rows[1])
    words = np.array(rows, dtype=np.uint64).view(np.int64)
    groups, firsts = group_rows(words)
    assert len(firsts) == 6000
    assert (words[firsts][groups] == words).all()
