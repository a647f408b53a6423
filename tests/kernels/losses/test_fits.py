"""Fits of models to both files, from their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from privpipe.kernels.losses.distributions import independent_columns, interval_overlap, propensity


def test_propensities_of_groups_are_their_shares() -> None:
    """An intercept and an indicator fit each group's share of the release."""
    before, after = np.repeat([0.0, 1.0], [30, 10]), np.repeat([0.0, 1.0], [5, 15])
    design = [np.column_stack([np.ones(len(side)), side]) for side in (before, after)]
    found = propensity(*design)
    share, shares = 20 / 60, np.array([5 / 35, 15 / 25])
    wanted = (35 * (shares[0] - share) ** 2 + 25 * (shares[1] - share) ** 2) / 60
    assert found.pmse == pytest.approx(wanted, rel=1e-4)
    assert found.ratio == pytest.approx(wanted / ((1 - share) ** 2 * share / 60), rel=1e-4)
    assert found.rank == 2


def test_columns_that_others_explain_have_no_coefficient() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 20))
    design = np.column_stack([np.ones(20), a, 2 * a - 1, np.zeros(20), b, a + b])
    assert independent_columns(design).tolist() == [0, 1, 4]
    assert independent_columns(design[:3]).tolist() == [0, 1, 4]


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_overlap_is_that_of_two_regressions(confidence: float) -> None:
    rng = np.random.default_rng(2)
    designs = [np.column_stack([np.ones(n), rng.normal(50, 9, n), rng.integers(0, 2, n)]) for n in (12, 15)]
    responses = [design @ [3.0, 0.5, -2.0] + rng.normal(0, 3, len(design)) for design in designs]
    ends = []
    for design, response in zip(designs, responses, strict=True):
        inverse = np.linalg.inv(design.T @ design)
        found = inverse @ design.T @ response
        free = len(design) - 3
        variance = ((response - design @ found) ** 2).sum() / free
        half = t.ppf((1 + confidence) / 2, free) * np.sqrt(variance * np.diag(inverse))
        ends.append((found - half, found + half))
    overlap = np.minimum(ends[0][1], ends[1][1]) - np.maximum(ends[0][0], ends[1][0])
    wanted = sum(overlap / (high - low) for low, high in ends) / 2
    found = interval_overlap(*designs, *responses, confidence)
    assert found.overlaps == pytest.approx(wanted, rel=1e-6)
    assert found.kept.tolist() == [0, 1, 2]
