"""Orders of records against Python's sort, in one bucket and in several."""

from __future__ import annotations

import itertools
import struct
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.grouping import sorting
from privpipe.kernels.grouping.sorting import (
    give_by_rank,
    positions_by_code,
    positions_by_value,
    sortable_words,
    sorted_values,
)

FLOATS = st.floats(allow_nan=False) | st.sampled_from([-0.0, 0.0, -1.5, 1.5, 5e-324, -5e-324])
TIES = [0, 1, 2, 3, 2**63, 2**63 + 1, 2**64 - 1]


@given(st.lists(st.integers(0, 4), max_size=30))
def test_records_of_a_code_keep_their_order(codes: list[int]) -> None:
    found = positions_by_code(np.array(codes, np.int32), 5)
    assert found.tolist() == sorted(range(len(codes)), key=codes.__getitem__)


@given(st.lists(FLOATS, max_size=30))
def test_words_of_floats_are_ordered_like_them(values: list[float]) -> None:
    array = np.array(values, np.float64)
    words = sortable_words(array)
    for (one, first), (other, second) in itertools.product(zip(values, words.tolist(), strict=True), repeat=2):
        assert (one < other) == (first < second)
    back = sorted_values(words, np.float64)
    assert [struct.pack("d", each) for each in back] == [struct.pack("d", each + 0.0) for each in values]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_words_of_integers_are_ordered_like_them(values: list[int]) -> None:
    words = sortable_words(np.array(values, np.int64))
    assert words.tolist() == [value + 2**63 for value in values]
    assert sorted_values(words, np.int64).tolist() == values


@pytest.mark.parametrize(("stretch", "buckets", "sampled"), [(1 << 18, 256, 1 << 15), (8, 4, 16), (64, 16, 7)])
@pytest.mark.parametrize("seed", range(12))
def test_records_lie_by_word_then_tie_word_then_as_settled(
    monkeypatch: pytest.MonkeyPatch, seed: int, stretch: int, buckets: int, sampled: int
) -> None:
    monkeypatch.setattr(sorting, "STRETCH", stretch)
    monkeypatch.setattr(sorting, "BUCKETS", buckets)
    monkeypatch.setattr(sorting, "SAMPLED", sampled)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 200))
    words = rng.choice(np.array([0, 1, 5, 2**63, 2**64 - 1, *range(9, 60)], np.uint64)[: int(rng.integers(1, 60))], n)
    ties = rng.choice(np.array(TIES, np.uint64), n)
    with ThreadPoolExecutor(2) as pool:
        order, dealt = positions_by_value(words, lambda: ties, lambda some: np.sort(some)[::-1], pool)
    assert order.tolist() == sorted(range(n), key=lambda at: (int(words[at]), int(ties[at]), -at))
    assert dealt.tolist() == sorted(words.tolist())


def test_tie_words_are_made_only_where_words_are_equal() -> None:
    asked: list[str] = []

    def ties() -> Any:
        asked.append("ties")
        return np.zeros(3, np.uint64)

    with ThreadPoolExecutor(1) as pool:
        positions_by_value(np.array([3, 1, 2], np.uint64), ties, np.sort, pool)
        assert asked == []
        positions_by_value(np.array([3, 1, 3], np.uint64), ties, np.sort, pool)
    assert asked == ["ties"]


def test_each_record_receives_the_word_of_the_rank_it_is_given() -> None:
    positions, words, out = (
        np.array([2, 0, 1, 3], np.int32),
        np.array([10, 20, 30, 40], np.uint64),
        np.zeros(4, np.uint64),
    )
    give_by_rank(positions, words, np.array([3, 1]), 1, out)
    assert out.tolist() == [40, 20, 0, 0]
