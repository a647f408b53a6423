"""Exact sums against fractions, in any order and partition, and rounded once."""

from __future__ import annotations

import functools
import math
import pickle
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.exact_sums import ExactSums, measure_sums, rounded_sqrt

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TAME = st.floats(-1e150, 1e150, allow_nan=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def rounded(fraction: Any) -> float:
    try:
        return float(fraction)
    except OverflowError:
        return math.inf if fraction > 0 else -math.inf


def root_is_nearest(root: float, square: Any) -> bool:
    """Whether no double is nearer to the square root, in exact arithmetic."""
    halves = [(Fraction(root) + Fraction(math.nextafter(root, end))) / 2 for end in (0.0, math.inf)]
    return bool(halves[0] ** 2 <= square <= halves[1] ** 2)


@given(st.lists(FLOATS, min_size=2, max_size=60))
def test_one_column_of_any_doubles(values: list[float]) -> None:
    sums = measure_sums([np.array(values)])
    exact = [Fraction(value) for value in values]
    n, total = len(exact), sum(exact)
    assert sums.count == n
    assert sums.sum() == rounded(total)
    assert sums.mean() == rounded(total / n)
    variance = (n * sum(x * x for x in exact) - total * total) / (n * (n - 1))
    assert sums.variance() == rounded(variance)
    if variance and math.isfinite(sums.sd()):
        assert root_is_nearest(sums.sd(), variance)
    assert (sums.minima, sums.maxima) == ((min(values),), (max(values),))


@given(st.lists(INTEGERS, min_size=2, max_size=60), st.integers(0, 15))
def test_integers_of_64_bits_and_decimals(values: list[int], decimals: int) -> None:
    sums = measure_sums([np.array(values, dtype=np.int64)], decimals=[decimals])
    exact = [Fraction(value, 10**decimals) for value in values]
    assert sums.mean() == float(Fraction(sum(exact), len(exact)))
    assert sums.variance() == float(statistics.variance(exact))
    assert sums.sd() == statistics.stdev(exact)


@given(st.lists(st.tuples(TAME, TAME, st.integers(-(10**12), 10**12)), min_size=2, max_size=40))
def test_cross_products(rows: list[tuple[float, float, int]]) -> None:
    a, b, c = zip(*rows, strict=True)
    sums = measure_sums([np.array(a), np.array(b), np.array(c)])
    n = len(rows)
    columns = [[Fraction(value) for value in column] for column in (a, b, c)]

    def spread(i: int, j: int) -> Any:
        products = sum(x * y for x, y in zip(columns[i], columns[j], strict=True))
        return (n * products - sum(columns[i]) * sum(columns[j])) / (n * (n - 1))

    covariance, correlation = sums.covariance(), sums.correlation()
    for i in range(3):
        for j in range(3):
            assert covariance[i, j] == rounded(spread(i, j))
            if not spread(i, i) * spread(j, j):
                assert math.isnan(correlation[i, j])
                continue
            assert (correlation[i, j] < 0) == (spread(i, j) < 0 and correlation[i, j] != 0)
            if spread(i, j):
                assert root_is_nearest(abs(correlation[i, j]), spread(i, j) ** 2 / (spread(i, i) * spread(j, j)))
    if spread(0, 0):
        assert correlation[0, 0] == 1.0


@given(
    st.lists(st.tuples(st.floats(), st.one_of(st.none(), INTEGERS)), max_size=50),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
)
def test_any_partition_and_order_gives_the_same_state(
    rows: list[tuple[float, int | None]], parts: int, shuffler: Any
) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)

    def measure(block: list[tuple[float, int | None]]) -> ExactSums:
        first = np.array([row[0] for row in block], dtype=np.float64)
        second = np.array([row[1] or 0 for row in block], dtype=np.int64)
        gaps = np.array([row[1] is None for row in block], dtype=np.bool_)
        return measure_sums([first, second], missing=[None, gaps])

    blocks = [measure(shuffled[i::parts]) for i in range(parts)]
    shuffler.shuffle(blocks)
    merged = functools.reduce(ExactSums.merge, blocks)
    whole = measure(rows)
    assert repr(merged) == repr(whole)  # NaN extremes are equal as text
    assert pickle.loads(pickle.dumps(whole)).totals == whole.totals
    assert whole.infinite == (sum(math.isinf(x) for x, _ in rows), 0)
    assert whole.missing == sum(math.isnan(x) or n is None for x, n in rows)


def test_chunks_of_a_long_column_are_joined() -> None:
    values = np.random.default_rng(0).lognormal(0, 5, 50_000)
    sums = measure_sums([values])
    assert sums.sum() == math.fsum(values)
    assert sums.mean() == pytest.approx(values.mean())
    assert sums.sd() == pytest.approx(values.std(ddof=1))


def test_cancelling_values_lose_nothing() -> None:
    sums = measure_sums([np.array([1e308, 1.0, -1e308, 2.0**-1074])])
    assert sums.sum() == 1.0
    shifted = measure_sums([1e15 + np.arange(5.0)])
    assert shifted.variance() == 2.5


def test_undefined_figures_are_not_numbers() -> None:
    none = measure_sums([np.array([np.nan])])
    assert (none.count, none.missing) == (0, 1)
    assert math.isnan(none.mean())
    assert math.isnan(none.sd())
    assert math.isnan(none.minima[0])
    one = measure_sums([np.array([3.0])])
    assert (one.mean(), one.sum()) == (3.0, 3.0)
    assert math.isnan(one.variance())
    empty = measure_sums([np.array([])])
    assert empty.merge(one).mean() == 3.0
    constant = measure_sums([np.array([2.0, 2.0]), np.array([1.0, 2.0])])
    assert constant.sd() == 0.0
    assert math.isnan(constant.correlation()[0, 1])


def test_infinities_are_counted_by_column_and_left_out() -> None:
    sums = measure_sums([np.array([1.0, np.inf, 2.0]), np.array([1.0, 1.0, -np.inf])])
    assert (sums.count, sums.missing, sums.infinite) == (1, 0, (1, 1))


def test_collinear_columns_correlate_exactly() -> None:
    x = np.random.default_rng(1).integers(0, 1000, 100).astype(float)
    assert measure_sums([x, 3 * x + 7, -x]).correlation().tolist() == [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_roots_are_rounded_to_the_nearest(numerator: int, denominator: int) -> None:
    assert root_is_nearest(rounded_sqrt(numerator, denominator), Fraction(numerator, denominator))


def test_figures_of_census_agree_with_numpy(shared: Any) -> None:
    rows = np.loadtxt(shared / "data/casc/census.csv", delimiter=",", skiprows=1)
    sums = measure_sums(list(rows.T))
    assert sums.covariance() == pytest.approx(np.cov(rows.T), rel=1e-12)
    assert [sums.mean(i) for i in range(rows.shape[1])] == pytest.approx(rows.mean(axis=0), rel=1e-14)
