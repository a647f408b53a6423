"""Groups of one column: optimal by exhaustion on small tables, by either method, and the published figure."""

from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.refine import group_sse
from privpipe.kernels.microaggregation.univariate import fixed_groups, path_ends, sorted_ends, univariate_groups
from tests.tiers import at_most

VALUES = st.lists(st.integers(-1000, 1000), min_size=1, max_size=30)


def exact_sse(values: list[int]) -> Fraction:
    mean = Fraction(sum(values), len(values))
    return sum(((value - mean) ** 2 for value in values), Fraction(0))


def least_sse(values: list[int], k: int) -> Fraction:
    """The least SSE over all partitions into groups of k or more: sorted runs are enough."""
    ordered = sorted(values)

    @functools.cache
    def best(e: int) -> Any:
        if e == 0:
            return Fraction(0)
        costs = [best(a) + exact_sse(ordered[a:e]) for a in range(e - k + 1) if best(a) is not None]
        return min(costs, default=None)

    cost: Fraction = best(len(ordered))
    return cost


def sse_of(values: NDArray[np.float64], ends: NDArray[np.int64]) -> float:
    return group_sse(values[:, None], np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0)))


@settings(max_examples=at_most(200))
@given(VALUES, st.integers(1, 7))
def test_no_partition_is_better(values: list[int], k: int) -> None:
    column = np.array(values, dtype=np.float64)
    if len(values) < k:
        with pytest.raises(UsageError):
            univariate_groups(column, k)
        return
    labels = univariate_groups(column, k)
    best = pytest.approx(float(least_sse(values, k)), rel=1e-9, abs=1e-9)
    sizes = np.bincount(labels)
    assert sizes.min() >= k
    assert sizes.max() <= 2 * k - 1
    assert group_sse(column[:, None], labels) == best
    assert sse_of(np.sort(column), sorted_ends(np.sort(column), k)) == best
    assert all(column[labels == g].max() <= column[labels == g + 1].min() for g in range(len(sizes) - 1))


@pytest.mark.parametrize("k", [51, 80, 333])
@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_both_methods_agree_for_large_k(k: int, scale: float) -> None:
    generator = np.random.default_rng(k)
    clusters = generator.integers(0, 6, 3000) + scale * generator.normal(size=3000)
    for values in (np.sort(generator.lognormal(0, 2, 3000)), np.sort(clusters)):
        long, fast = sse_of(values, path_ends(values[:, None], k)), sse_of(values, sorted_ends(values, k))
        assert fast == pytest.approx(long, rel=1e-9)
        labels = univariate_groups(values, k)
        assert group_sse(values[:, None], labels) == fast
        assert k <= np.bincount(labels).min() <= np.bincount(labels).max() < 2 * k


def test_ties_take_the_longest_last_group() -> None:
    assert path_ends(np.zeros((7, 1)), 2).tolist() == [2, 4, 7]
    assert sorted_ends(np.zeros(7), 2).tolist() == [2, 4, 7]


@given(st.lists(st.integers(0, 6), min_size=4, max_size=40), st.integers(1, 4), st.booleans())
def test_kept_ties_stay_in_one_group(values: list[int], k: int, fixed: bool) -> None:
    column = np.array(values, dtype=np.float64)
    labels = (fixed_groups if fixed else univariate_groups)(column, k, keep_ties=True)
    assert np.bincount(labels).min() >= k
    for value in set(values):
        assert len(set(labels[column == value].tolist())) == 1


def test_fixed_groups_have_k_records_and_the_last_the_rest() -> None:
    labels = fixed_groups(np.array([3.0, 1.0, 2.0, 7.0, 6.0, 5.0, 4.0]), 2)
    assert labels.tolist() == [1, 0, 0, 2, 2, 2, 1]
    assert fixed_groups(np.arange(6.0), 2).tolist() == [0, 0, 1, 1, 2, 2]
    assert fixed_groups(np.arange(3.0), 2).tolist() == [0, 0, 0]


def test_equal_values_go_by_position() -> None:
    assert fixed_groups(np.zeros(6), 2).tolist() == [0, 0, 1, 1, 2, 2]
    assert univariate_groups(np.zeros(6), 2).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(("name", "expected"), [("census", 0.337516697146718), ("tarragona", 8.54464693978584)])
def test_fixed_groups_of_each_column_lose_what_the_reference_program_loses(
    shared: Path, name: str, expected: float
) -> None:
    """Source: reference/sdcmicro.json, sdcMicro 5.8.1, method onedims, k = 5."""
    values = pd.read_csv(shared / f"data/casc/{name}.csv").to_numpy(dtype=np.float64)
    points = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    sse = sum(group_sse(column[:, None], fixed_groups(column, 5)) for column in points.T)
    assert 100 * sse / ((len(points) - 1) * points.shape[1]) == pytest.approx(expected, abs=1e-4)
    optimal = sum(group_sse(column[:, None], univariate_groups(column, 5)) for column in points.T)
    assert optimal < sse
