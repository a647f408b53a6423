"""Numbers sorted by their bits, against the library's sort."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privpipe.kernels.grouping import sorting
from privpipe.kernels.grouping.sorting import sort_numbers

ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**62, 2**63 - 2, 2**63 - 1]
FLOATS = [float("-inf"), -1e308, -1.5, -5e-324, 5e-324, 1.0, 1.5, 1e308, float("inf")]
N = 300_000


@cache
def _tables() -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "whole range": rng.integers(-(2**63), 2**63 - 1, N),
        "both ends": rng.choice(np.array(ENDS), N),
        "one value": np.full(N, -4),
        "two far values": np.where(rng.random(N) < 0.5, -(2**63), 2**63 - 1),
        "few values": rng.integers(0, 90, N),
        "one value and some": np.where(rng.random(N) < 0.999, 5, rng.integers(-(2**40), 2**40, N)),
        "long tail": np.minimum(rng.zipf(1.2, N), 2**62),
        "ascending": np.arange(N),
        "descending": np.arange(N)[::-1].copy(),
        "unsigned": rng.integers(0, 2**64 - 1, N, np.uint64, endpoint=True),
        "floats": rng.choice(np.array(FLOATS), N),
        "normal": rng.normal(0.0, 1e-3, N),
        "with NaN": np.where(rng.random(N) < 0.3, np.nan, rng.lognormal(10, 1, N)),
    }


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", _tables())
def test_it_is_the_sort_of_the_library(name: str, threads: int) -> None:
    values = _tables()[name].copy()
    expected = np.sort(values)
    sort_numbers(values, threads)
    np.testing.assert_array_equal(values, expected)


def test_nan_of_either_sign_comes_last() -> None:
    values = np.linspace(-5.0, 5.0, N)
    values[::7] = np.nan
    values[3::7] = -np.nan
    kept = np.sort(values[~np.isnan(values)])
    sort_numbers(values, 2)
    assert np.isnan(values[len(kept) :]).all()
    np.testing.assert_array_equal(values[: len(kept)], kept)


@given(
    hnp.arrays(np.int64, st.integers(1, 400), elements=st.sampled_from(ENDS) | st.integers(-300, 300)),
    st.integers(1, 3),
)
def test_short_arrays_are_dealt_too(values: Any, threads: int) -> None:
    """As long ones are, when no array counts as short."""
    expected = np.sort(values)
    few, sorting.FEW = sorting.FEW, 0
    try:
        sort_numbers(values, threads)
    finally:
        sorting.FEW = few
    assert values.tolist() == expected.tolist()


def test_a_short_array_and_none() -> None:
    for values in (np.zeros(0, np.int64), np.array([3.0, -1.0]), np.array([2, 1], np.uint64)):
        expected = np.sort(values)
        sort_numbers(values, 4)
        assert values.tolist() == expected.tolist()


def test_what_lies_beside_a_stretch_is_left() -> None:
    values = np.random.default_rng(1).integers(0, 2**50, N + 20)
    before = values.copy()
    sort_numbers(values[10:-10], 2)
    assert values[:10].tolist() == before[:10].tolist()
    assert values[-10:].tolist() == before[-10:].tolist()
    np.testing.assert_array_equal(values[10:-10], np.sort(before[10:-10]))
