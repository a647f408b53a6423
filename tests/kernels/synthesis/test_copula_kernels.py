"""Optimal scores and latent correlations, beside their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from privpipe.kernels.synthesis.copula import (
    category_scores,
    grouped_correlation,
    interval_terms,
    latent_correlation,
    optimal_scores,
    within_share,
)


def by_rectangles(rho: float, first: list[float], second: list[float]) -> float:
    """Correlation of interval scores from the bivariate distribution function."""
    parts = []
    for shares in (first, second):
        ends = np.concatenate([[0.0], np.cumsum(shares)])
        scores = norm.ppf((ends[:-1] + ends[1:]) / 2)
        mean = float(scores @ np.array(shares))
        sd = np.sqrt(float((scores - mean) ** 2 @ np.array(shares)))
        parts.append(((scores - mean) / sd, np.clip(norm.ppf(np.clip(ends, 0, 1)), -9, 9)))
    (a, x), (b, y) = parts
    both = multivariate_normal(cov=[[1, rho], [rho, 1]])
    total = 0.0
    for i, j in itertools.product(range(len(a)), range(len(b))):
        corners = both.cdf([x[i + 1], y[j + 1]]) - both.cdf([x[i], y[j + 1]])
        corners += both.cdf([x[i], y[j]]) - both.cdf([x[i + 1], y[j]])
        total += corners * a[i] * b[j]
    return float(total)


@pytest.mark.parametrize("rho", [-0.8, -0.3, 0.2, 0.6, 0.9])
def test_the_series_is_the_correlation_of_grouped_variables(rho: float) -> None:
    for first, second in itertools.combinations([[0.5, 0.5], [0.9, 0.1], [0.2, 0.3, 0.5], [0.05, 0.9, 0.05]], 2):
        terms = interval_terms(first)[None], interval_terms(second)[None]
        exact = by_rectangles(rho, first, second)
        assert grouped_correlation(np.array([rho]), *terms)[0] == pytest.approx(exact, abs=2e-4)
        latent = latent_correlation(np.array([exact]), *terms)
        assert grouped_correlation(latent, *terms)[0] == pytest.approx(
            exact, abs=4e-3
        )  # as near as 200 terms reach at 1
        assert abs(rho) > 0.7 or latent[0] == pytest.approx(rho, abs=5e-3)  # near 1 other cuts tell no more


def test_two_halves_follow_the_arcsine_law() -> None:
    """Sheppard: the correlation of two signs is 2/pi asin(rho)."""
    rho = np.linspace(-0.9, 0.9, 19)
    halves = np.repeat(interval_terms([0.5, 0.5])[None], 19, axis=0)
    assert grouped_correlation(rho, halves, halves) == pytest.approx(2 / np.pi * np.arcsin(rho), abs=1e-6)
    assert latent_correlation(2 / np.pi * np.arcsin(rho), halves, halves) == pytest.approx(rho, abs=1e-6)


def test_ends_and_what_does_not_vary() -> None:
    halves, nothing = interval_terms([0.5, 0.5])[None], interval_terms([1.0])[None]
    assert latent_correlation(np.array([1.0]), halves, halves).tolist() == [1.0]
    assert latent_correlation(np.array([-1.0]), halves, halves).tolist() == [-1.0]
    assert latent_correlation(np.array([0.7]), halves, nothing).tolist() == [0.0]
    assert latent_correlation(np.array([0.0]), halves, halves).tolist() == [0.0]
    fine = interval_terms(np.full(50_000, 1 / 50_000))
    assert fine[0] == pytest.approx(1.0, abs=2e-3)  # so many intervals are the variable itself
    assert latent_correlation(np.array([0.5]), fine[None], fine[None])[0] == pytest.approx(0.5, abs=2e-3)


@given(st.integers(0, 10_000))
def test_scores_are_a_stationary_point_of_the_sum_of_cubes(seed: int) -> None:
    """From the definition: no single column can do better by small changes of its scores."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 3)
    hidden = rng.normal(size=300)
    codes = [np.searchsorted(np.sort(rng.normal(size=k - 1)), hidden + rng.normal(size=300)) for k in sizes]
    mixed = [rng.permutation(k)[code] for k, code in zip(sizes, codes, strict=True)]
    pairs = {}
    for a, b in itertools.combinations(range(3), 2):
        pairs[a, b] = np.zeros((sizes[a], sizes[b]), np.int64)
        np.add.at(pairs[a, b], (mixed[a], mixed[b]), 1)
    counts = [np.bincount(code, minlength=k) for code, k in zip(mixed, sizes, strict=True)]
    scores = optimal_scores(pairs, counts, {})

    def total(tried: list[np.ndarray]) -> float:
        r = [np.corrcoef(tried[a][mixed[a]], tried[b][mixed[b]])[0, 1] for a, b in pairs]
        return float(np.nansum(np.abs(r) ** 3))

    best = total(scores)
    for at, score in enumerate(scores):
        assert score @ counts[at] == pytest.approx(0, abs=1e-5)
        for step in np.eye(len(score)) * 1e-3:
            for tried in (score + step, score - step):
                assert total([*scores[:at], tried, *scores[at + 1 :]]) <= best + 1e-5


def test_scores_are_the_weighted_means_of_the_others_however_weak_these_are() -> None:
    """From the definition, record by record: one more step moves no score."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        hidden = rng.normal(size=500)
        codes = [rng.permutation(4)[np.digitize(hidden + 2 * rng.normal(size=500), [-1, 0, 1])] for _ in range(3)]
        pairs = {}
        for a, b in itertools.combinations(range(3), 2):
            pairs[a, b] = np.zeros((4, 4), np.int64)
            np.add.at(pairs[a, b], (codes[a], codes[b]), 1)
        scores = optimal_scores(pairs, [np.bincount(code, minlength=4) for code in codes], {})
        for at, code in enumerate(codes):
            mixed = np.zeros(500)
            for other in {0, 1, 2} - {at}:
                r = np.corrcoef(scores[at][code], scores[other][codes[other]])[0, 1]
                assert abs(r) < 0.5
                mixed += abs(r) * r * scores[other][codes[other]]
            means = np.array([mixed[code == each].mean() for each in range(4)])
            again = (means[code] - means[code].mean()) / means[code].std()
            assert again == pytest.approx(scores[at][code], abs=2e-3)


def test_given_scores_stay_and_unrelated_columns_have_none() -> None:
    table = np.array([[5, 1, 1], [1, 5, 1], [1, 1, 5]])
    found = optimal_scores({(0, 1): table}, [table.sum(1), table.sum(0)], {0: np.array([3.0, 1.0, 2.0])})
    assert np.argsort(found[0]).tolist() == [1, 2, 0]
    assert np.argsort(found[1]).tolist() in ([1, 2, 0], [0, 2, 1])
    alone = optimal_scores({}, [np.array([4, 2]), np.array([3])], {})
    assert [each.tolist() for each in alone] == [[0.0, 0.0], [0.0]]
    empty = optimal_scores({(0, 1): np.zeros((2, 2), np.int64)}, [np.zeros(2, np.int64)] * 2, {})
    assert [each.tolist() for each in empty] == [[0.0, 0.0], [0.0, 0.0]]


def test_ends_of_shares_stay_inside() -> None:
    """An empty category at either end has a score all the same, and nothing lies at the end of its interval."""
    scores = category_scores([0.0, 1.0, 0.0])
    assert scores[0] == pytest.approx(-scores[2], rel=1e-6)
    assert scores[1] == pytest.approx(0.0, abs=1e-12)
    assert within_share(np.array([1.0, 0.0]), np.array([0, 0]), [1.0]).tolist() == [1.0 - 2.0**-53, 0.0]
