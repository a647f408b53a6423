"""The minimum covariance determinant: all subsets of small tables, published outliers, another program, planes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from privpipe.kernels.noise import minimum_covariance as kernel
from privpipe.kernels.noise.minimum_covariance import chi_square_quantile, minimum_covariance

HBK = """
10.1 19.6 28.3  9.5 20.5 28.9 10.7 20.2 31.0  9.9 21.5 31.7 10.3 21.1 31.1 10.8 20.4 29.2 10.5 20.9 29.1  9.9 19.6 28.8
 9.7 20.7 31.0  9.3 19.7 30.3 11.0 24.0 35.0 12.0 23.0 37.0 12.0 26.0 34.0 11.0 34.0 34.0  3.4  2.9  2.1  3.1  2.2  0.3
 0.0  1.6  0.2  2.3  1.6  2.0  0.8  2.9  1.6  3.1  3.4  2.2  2.6  2.2  1.9  0.4  3.2  1.9  2.0  2.3  0.8  1.3  2.3  0.5
 1.0  0.0  0.4  0.9  3.3  2.5  3.3  2.5  2.9  1.8  0.8  2.0  1.2  0.9  0.8  1.2  0.7  3.4  3.1  1.4  1.0  0.5  2.4  0.3
 1.5  3.1  1.5  0.4  0.0  0.7  3.1  2.4  3.0  1.1  2.2  2.7  0.1  3.0  2.6  1.5  1.2  0.2  2.1  0.0  1.2  0.5  2.0  1.2
 3.4  1.6  2.9  0.3  1.0  2.7  0.1  3.3  0.9  1.8  0.5  3.2  1.9  0.1  0.6  1.8  0.5  3.0  3.0  0.1  0.8  3.1  1.6  3.0
 3.1  2.5  1.9  2.1  2.8  2.9  2.3  1.5  0.4  3.3  0.6  1.2  0.3  0.4  3.3  1.1  3.0  0.3  0.5  2.4  0.9  1.8  3.2  0.9
 1.8  0.7  0.7  2.4  3.4  1.5  1.6  2.1  3.0  0.3  1.5  3.3  0.4  3.4  3.0  0.9  0.1  0.3  1.1  2.7  0.2  2.8  3.0  2.9
 2.0  0.7  2.7  0.2  1.8  0.8  1.6  2.0  1.2  0.1  0.0  1.1  2.0  0.6  0.3  1.0  2.2  2.9  2.2  2.5  2.3  0.6  2.0  1.5
 0.3  1.7  2.2  0.0  2.2  1.6  0.3  0.4  2.6
"""
"""The explanatory variables of Hawkins, Bradu, Kass, Technometrics 26(3), 1984: records 1 to 14 are the outliers."""


def hbk() -> np.ndarray[Any, Any]:
    return np.array(HBK.split(), dtype=float).reshape(75, 3)


def oracle(points: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """By the definition: every subset of h points."""
    n, s = points.shape
    subsets = [list(each) for each in combinations(range(n), (n + s + 1) // 2)]
    best = min(subsets, key=lambda each: np.linalg.det(np.cov(points[each].T, bias=True)))
    near = weighed(points, points[best].mean(0), np.cov(points[best].T))
    return near.mean(0), squared(points, near.mean(0), np.cov(near.T))


def weighed(
    points: np.ndarray[Any, Any], centre: np.ndarray[Any, Any], scatter: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The points within the .975 quantile of raw distances whose median is that of the distribution."""
    raw = squared(points, centre, scatter)
    s = points.shape[1]
    return points[raw * chi2.ppf(0.5, s) / np.median(raw) <= chi2.ppf(0.975, s)]


def squared(
    points: np.ndarray[Any, Any], centre: np.ndarray[Any, Any], scatter: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    return np.einsum("ij,jk,ik->i", points - centre, np.linalg.inv(scatter), points - centre)


@pytest.mark.parametrize("seed", range(8))
def test_small_tables_by_all_subsets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(12, 2 + seed % 2)) @ rng.normal(size=(2 + seed % 2, 2 + seed % 2))
    points[: seed % 4] += 6
    centre, distances = oracle(points)
    found = minimum_covariance(points)
    assert found.centre == pytest.approx(centre, abs=1e-9)
    assert found.squared_distances(points) == pytest.approx(distances, rel=1e-7)


def test_the_published_outliers_are_found() -> None:
    """Rousseeuw, van Zomeren, JASA 85, 1990: robust distances tell records 1 to 14 of 75, classical ones hide most."""
    points = hbk()
    cut = chi_square_quantile(0.975, 3)
    assert np.flatnonzero(minimum_covariance(points).squared_distances(points) > cut).tolist() == list(range(14))
    assert (squared(points, points.mean(0), np.cov(points.T)) > cut).sum() < 14


def test_the_least_determinant_another_program_found() -> None:
    """DIALS (test_fast_mcd.py, after R robustbase): raw centre and scatter of the same 75 records, divisor h - 1."""
    points = hbk()[np.lexsort(hbk().T)]
    wanted = np.array([1.5333333333333334, 2.4564102564102566, 1.6076923076923078])
    scatter = np.array(
        [
            [1.18964912281, 0.00464912280702, 0.217368421053],
            [0.00464912280702, 0.37620782726, 0.182186234818],
            [0.217368421053, 0.182186234818, 0.910728744939],
        ]
    )
    chosen = points[kernel._best(points, 39)]
    assert chosen.mean(0) == pytest.approx(wanted)
    assert np.cov(chosen.T) == pytest.approx(scatter)
    assert minimum_covariance(points).centre == pytest.approx(weighed(points, wanted, scatter).mean(0))


def test_another_program_finds_the_same_centre() -> None:
    covariance = pytest.importorskip("sklearn.covariance")
    rng = np.random.default_rng(3)
    points = rng.normal(size=(300, 4)) @ np.tril(np.ones((4, 4)))
    points[:60] += 9
    other = covariance.MinCovDet(random_state=0, support_fraction=(300 + 5) // 2 / 300).fit(points)
    far = minimum_covariance(points).squared_distances(points) > chi2.ppf(0.975, 4)
    assert far[:60].all()
    assert minimum_covariance(points).centre == pytest.approx(other.location_, abs=0.1)
    assert np.mean(far == (other.mahalanobis(points) > chi2.ppf(0.975, 4))) > 0.97


def test_who_lies_off_a_plane_that_holds_most_is_far() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(2, 200))
    points = np.stack([a, b, a + b], axis=1)
    points[:5, 2] += 0.01
    found = minimum_covariance(points)
    assert found.rank == 2
    distances = found.squared_distances(points)
    assert distances[:5].min() > 1e4
    assert (distances[5:] > chi_square_quantile(0.975, 2)).mean() < 0.1


@pytest.mark.parametrize("n", [60, 2000])
def test_the_order_of_the_points_changes_no_bit(n: int) -> None:
    rng = np.random.default_rng(5)
    points = np.round(rng.normal(size=(n, 3)), 1)
    one, other = minimum_covariance(points), minimum_covariance(rng.permutation(points))
    assert one.centre.tolist() == other.centre.tolist()
    assert one.axes.tolist() == other.axes.tolist()


def test_points_without_a_square_are_far_and_no_more() -> None:
    points = np.random.default_rng(6).normal(size=(60, 2))
    near, far = points.copy(), points.copy()
    near[:4], far[:4] = 1e6, [[1e300, 0], [-1e200, 1e200], [np.inf, 0], [0, 1e160]]
    assert minimum_covariance(far).centre == pytest.approx(minimum_covariance(near).centre)
    assert minimum_covariance(far).axes == pytest.approx(minimum_covariance(near).axes)


def test_the_quantile_is_that_of_the_distribution() -> None:
    assert chi_square_quantile(0.975, 3) == pytest.approx(chi2.ppf(0.975, 3), rel=1e-12)
