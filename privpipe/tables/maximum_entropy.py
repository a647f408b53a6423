"""Probabilities of greatest entropy under linear conditions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import NoSolutionError

__all__ = ["most_even"]

Floats = NDArray[np.float64]
STEPS = 200
CLOSE = 1e-13
SHORTEN = 0.995


def most_even(equal: Floats, right: Floats, below: Floats, most: Floats) -> Floats:
    """The p > 0 of greatest entropy with `equal` p = `right` and `below` p <= `most`, within 1e-12.

    Newton's method on the conditions of an optimum, with products of slacks and multipliers that go to 0.

    Parameters
    ----------
    equal, below : ndarray of float64, shape (conditions, probabilities)
        One of the equalities says that all probabilities are 1 together.

    Raises
    ------
    NoSolutionError
        If the conditions leave no room.

    Examples
    --------
    >>> ones = np.ones((1, 2))
    >>> most_even(ones, np.ones(1), np.array([[1.0, 0.0]]), np.array([0.25])).round(12).tolist()
    [0.25, 0.75]
    """
    count = equal.shape[1]
    p = np.full(count, 1.0 / count)
    y = np.zeros(len(right))
    slack, z = np.maximum(most - below @ p, 1e-2), np.ones(len(most))
    for _ in range(STEPS):
        gap = float(slack @ z) / max(len(z), 1)
        dual = np.log(p) + 1.0 + equal.T @ y + below.T @ z
        primal, inside = equal @ p - right, below @ p + slack - most
        error = max(np.abs(dual).max(), np.abs(primal).max(), np.abs(inside).max(initial=0.0))
        if error < CLOSE and gap < CLOSE * CLOSE:
            return p
        centre = min(0.1, np.sqrt(gap)) * gap
        product = slack * z - centre
        ratio = z / slack
        curvature = np.diag(1.0 / p) + below.T @ (ratio[:, None] * below)
        towards = -dual - below.T @ ((z * inside - product) / slack)
        size = len(right)
        system = np.block([[curvature, equal.T], [equal, np.zeros((size, size))]])
        try:
            step = np.linalg.solve(system, np.concatenate([towards, -primal]))
        except np.linalg.LinAlgError:
            break
        dp, dy = step[:count], step[count:]
        ds = -inside - below @ dp
        dz = (-product - z * ds) / slack
        reach = min(1.0, SHORTEN * _longest(p, dp), SHORTEN * _longest(slack, ds), SHORTEN * _longest(z, dz))
        if not np.isfinite(reach) or reach < 1e-14:
            break
        p, y, slack, z = p + reach * dp, y + reach * dy, slack + reach * ds, z + reach * dz
    # The last steps gain nothing where rounding errors of the multipliers are larger than the tolerance.
    if max(np.abs(equal @ p - right).max(), (below @ p - most).max(initial=0.0)) < 1e-11 and gap < 1e-13:
        return p
    raise NoSolutionError("no probabilities meet the conditions with room to spare")


def _longest(value: Floats, step: Floats) -> float:
    """The longest step that keeps all values above 0."""
    falling = step < 0
    return float((value[falling] / -step[falling]).min(initial=np.inf))
