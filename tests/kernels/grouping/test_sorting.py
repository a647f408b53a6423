"""The small sorts against the library's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.grouping.sorting import sort_integers, sort_places


@given(st.lists(st.integers(-50, 50), max_size=200), st.integers(0, 200))
def test_the_first_integers_are_sorted_and_the_others_left(values: list[int], count: int) -> None:
    count = min(count, len(values))
    array = np.array(values, dtype=np.int64)
    sort_integers(array, count)
    assert array.tolist() == sorted(values[:count]) + values[count:]


@given(st.lists(st.integers(0, 9), max_size=200))
def test_places_are_sorted_by_key_then_place(keys: list[int]) -> None:
    places = np.arange(len(keys))[::-1].copy()
    sort_places(places, np.array(keys, dtype=np.float64))
    assert places.tolist() == sorted(range(len(keys)), key=lambda place: (keys[place], place))


@pytest.mark.parametrize("n", [10_000, 100_001])
def test_long_arrays(n: int) -> None:
    values = np.random.default_rng(n).integers(0, 10**9, n)
    expected = np.sort(values)
    sort_integers(values, n)
    assert (values == expected).all()
