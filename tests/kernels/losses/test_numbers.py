"""Losses of numbers, from their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.kernels.losses.column_losses import moment_loss, relative_loss, squared_loss

X = np.array([1.0, np.nan, 4.0, 0.0, -7.0, 2.0])
Y = np.array([2.0, 3.0, 9.0, 5.0, -6.0, np.nan])


def test_squares_are_on_the_scale_of_the_original() -> None:
    [(sse, sst)] = squared_loss([X], [Y], [0.5], [4.0])
    assert sse == pytest.approx((1 + 25 + 25 + 1) / 16)
    assert sst == pytest.approx((0.25 + 12.25 + 0.25 + 56.25) / 16)
    assert np.isnan(squared_loss([X], [Y], [0.5], [0.0])).all()


def test_relative_errors_leave_out_zeros_and_blanks() -> None:
    [(loss, cells)] = relative_loss([X], [Y])
    assert (loss, cells) == (pytest.approx((1 + 5 / 4 + 1 / 7) / 3), 3)


def test_moments_are_compared_in_deviations_of_the_original() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(1e6, 2.0, 30), rng.normal(1e6 + 5, 6.0, 40)
    sd = x.std(ddof=1)
    mads = [float(np.median(np.abs(side - np.median(side)))) for side in (x, y)]
    wanted = {
        "mean": abs(y.mean() - x.mean()) / sd,
        "sd": abs(y.std(ddof=1) - sd) / sd,
        "median": abs(np.median(y) - np.median(x)) / sd,
        "mad": abs(mads[1] - mads[0]) / sd,
    }
    assert moment_loss(np.append(x, np.nan), y) == pytest.approx(wanted, rel=1e-6)
    assert moment_loss(np.array([3.0, 3.0]), np.array([3.0, 4.0])) == {
        "mean": 1.0,
        "sd": 1.0,
        "median": 1.0,
        "mad": 1.0,
    }
