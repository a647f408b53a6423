"""What is left of a column: the coefficients beside their definitions over single records."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.losses.column_losses import counted_pairs, rank_correlation, rank_ratio, uncertainty

Cells = list[tuple[int, int]]
CELLS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40)


def dense(values: list[int]) -> np.ndarray:
    """Codes without gaps, in the order of the values."""
    return np.unique(np.array(values), return_inverse=True)[1].astype(np.int64)


def pairs_of(cells: Cells):  # type: ignore[no-untyped-def]
    x, y = (dense([cell[side] for cell in cells]) for side in (0, 1))
    return counted_pairs(x, y, int(y.max()) + 1)


def ranks(values: list[int]) -> list[float]:
    times = Counter(values)
    return [sum(other < value for other in values) + (times[value] + 1) / 2 for value in values]


def spread(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values)


def entropy(values: list[object]) -> float:
    n = len(values)
    return -sum(count / n * math.log(count / n) for count in Counter(values).values())


@given(CELLS)
def test_pairs_count_every_record_once(cells: Cells) -> None:
    pairs = pairs_of(cells)
    x, y = (dense([cell[side] for cell in cells]).tolist() for side in (0, 1))
    found = zip(pairs.before.tolist(), pairs.after.tolist(), pairs.counts.tolist(), strict=True)
    assert {(a, b): count for a, b, count in found} == Counter(zip(x, y, strict=True))


@given(CELLS)
def test_rank_correlation_is_pearson_of_mid_ranks(cells: Cells) -> None:
    x, y = (ranks([cell[side] for cell in cells]) for side in (0, 1))
    a, b = sum(x) / len(x), sum(y) / len(y)
    whole = math.sqrt(spread(x) * spread(y))
    expected = sum((v - a) * (w - b) for v, w in zip(x, y, strict=True)) / whole if whole else 0.0
    assert rank_correlation(pairs_of(cells)) == pytest.approx(expected, abs=1e-12)


@given(CELLS)
def test_rank_ratio_is_that_of_an_analysis_of_variance(cells: Cells) -> None:
    x, y = ranks([cell[0] for cell in cells]), [cell[1] for cell in cells]
    n, groups = len(x), sorted(set(y))
    found = rank_ratio(pairs_of(cells))
    if n < 2 * len(groups) or n < 2:
        assert found is None
    elif len(groups) < 2 or not spread(x):
        assert found == 0.0
    else:
        within = sum(spread([v for v, own in zip(x, y, strict=True) if own == group]) for group in groups)
        square = 1 - within / spread(x) * (n - 1) / (n - len(groups))
        # The square root is steep at 0: squares are compared.
        assert found is not None
        assert found**2 == pytest.approx(max(0.0, square), abs=1e-12)


@given(CELLS)
def test_uncertainty_is_the_share_of_entropy_told(cells: Cells) -> None:
    x, y = ([cell[side] for cell in cells] for side in (0, 1))
    r, c = len(set(x)), len(set(y))
    found = uncertainty(pairs_of(cells))
    chance = (r - 1) * (c - 1) / (2 * len(cells))
    if r < 2 or c < 2:
        assert found == 0.0
    elif found is None:
        assert entropy(list(x)) <= 2 * chance + 1e-12
    else:
        told = entropy(list(x)) + entropy(list(y)) - entropy(list(cells)) - chance
        assert found == pytest.approx(min(1.0, max(0.0, told / (entropy(list(x)) - chance))), abs=1e-9)


def test_the_published_example_of_spearman() -> None:
    """IQ and hours of television: rho = -29/165 (Wikipedia, Spearman's rank correlation coefficient)."""
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert rank_correlation(pairs_of(list(zip(iq, hours, strict=True)))) == pytest.approx(-29 / 165)


def test_sums_beyond_64_bits_are_exact() -> None:
    n = 400_000
    order = np.arange(n)
    pairs = counted_pairs(order, order[::-1].copy(), n)
    assert rank_correlation(pairs) == -1.0


def test_labels_that_are_shuffled_tell_nothing() -> None:
    draw = np.random.default_rng(3)
    x = draw.integers(0, 12, 5000)
    pairs = counted_pairs(x, draw.permutation(x), 12)
    found = uncertainty(pairs)
    assert found is not None
    assert found < 0.01
