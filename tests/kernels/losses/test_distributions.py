"""Distances of distributions, from their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from privpipe.kernels.losses.distributions import hellinger, largest_gap, quantile_bins, total_variation, transport


def test_bins_of_no_numbers_and_of_one() -> None:
    values = np.array([-3.0, 0.0, 2.0, np.nan])
    assert quantile_bins(np.array([np.nan]), values, 4).tolist() == [0, 0, 0, -1], "nothing parts them"
    assert quantile_bins(np.zeros(0), values, 4).tolist() == [0, 0, 0, -1]
    assert quantile_bins(np.array([0.0, 0.0]), values, 4).tolist() == [0, 1, 2, -1], "below it, at it and above it"


@pytest.mark.parametrize("seed", range(4))
def test_distances_are_those_of_the_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 5, 31), rng.integers(1, 7, 17)
    p, q = (np.bincount(side, minlength=7) / len(side) for side in (one, other))
    assert hellinger(one, other) == pytest.approx(math.sqrt(1 - np.sqrt(p * q).sum()))
    assert total_variation(one, other) == pytest.approx(np.abs(p - q).sum() / 2)
    x, y = one.astype(float), other.astype(float)
    assert transport(np.append(x, np.nan), y) == pytest.approx(wasserstein_distance(x, y))
    told = np.repeat([0.0, 1.0], [31, 17])
    assert largest_gap(np.concatenate([x, y]) / 7, told) == pytest.approx(ks_2samp(x, y).statistic)


def test_a_side_of_one_row_or_of_none() -> None:
    assert largest_gap(np.array([0.2, 0.9]), np.array([0.0, 1.0])) == 1.0
    assert largest_gap(np.array([0.2, 0.9]), np.zeros(2)) == 1.0
    assert largest_gap(np.zeros(0), np.zeros(0)) == 0.0
    assert math.isnan(transport(np.array([1.0]), np.array([np.nan])))
