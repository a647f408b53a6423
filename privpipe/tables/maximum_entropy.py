"""Probabilities of greatest entropy under linear conditions."""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats
from privpipe.errors import NoSolutionError

__all__ = ["most_even"]

STEPS = 500
CLOSE = 1e-13
ENOUGH = 1e-10
SHORTEST = 2.0**-60


def most_even(equal: Floats, right: Floats, below: Floats, most: Floats) -> Floats:
    """The p of sum 1 and greatest entropy with `equal` p = `right` and `below` p <= `most`.

    The dual is solved: p = exp(-conditions' w) / sum for multipliers w, those of inequalities at least 0, which
    minimise log sum exp(-conditions' w) + limits' w. Its gradient is by how much p misses the conditions. Newton's
    method, with the multipliers held at 0 that would become negative.

    Parameters
    ----------
    equal, below : ndarray of float64, shape (conditions, probabilities)
    right, most : ndarray of float64, shape (conditions,)

    Returns
    -------
    ndarray of float64
        Conditions hold to 1e-12 of their largest coefficient wherever floats allow it.

    Raises
    ------
    NoSolutionError
        If no p with all parts above 0 meets the conditions.

    Examples
    --------
    >>> most_even(np.empty((0, 2)), np.empty(0), np.array([[1.0, 0.0]]), np.array([0.25])).round(12).tolist()
    [0.25, 0.75]
    """
    rows = np.vstack([equal, below])
    size = np.maximum(np.abs(rows).max(axis=1, initial=0.0), 1e-300)
    rows, limits = rows / size[:, None], np.concatenate([right, most]) / size
    bounded = np.arange(len(rows)) >= len(equal)
    w = np.zeros(len(rows))
    value, p = _dual(rows, limits, w)
    for _ in range(STEPS):
        gradient = limits - rows @ p
        held = bounded & (w <= 0) & (gradient >= 0)
        error = float(np.abs(np.where(held, 0.0, gradient)).max(initial=0.0))
        if error < CLOSE:
            break
        free = np.flatnonzero(~held)
        spread = rows[free] - (rows[free] @ p)[:, None]
        curvature = (spread * p) @ spread.T
        ridge = 1e-15 * max(float(np.trace(curvature)), 1e-30)
        step = np.zeros(len(w))
        step[free] = np.linalg.lstsq(curvature + ridge * np.eye(len(free)), -gradient[free], rcond=None)[0]
        length = 1.0
        while length > SHORTEST:
            tried = w + length * step
            tried = np.where(bounded, np.maximum(tried, 0.0), tried)
            lower, q = _dual(rows, limits, tried)
            if lower < value + 1e-4 * float(gradient @ (tried - w)):
                break
            # Close to the optimum the value no longer tells one point from another, and the gradient still does.
            change = limits - rows @ q
            still = bounded & (tried <= 0) & (change >= 0)
            if lower <= value + 1e-12 and float(np.abs(np.where(still, 0.0, change)).max(initial=0.0)) < 0.5 * error:
                break
            length /= 2
        else:
            break
        w, value, p = tried, lower, q
    if error > ENOUGH:
        raise NoSolutionError("no probabilities meet the conditions with room to spare")
    return p


def _dual(rows: Floats, limits: Floats, w: Floats) -> tuple[float, Floats]:
    """The value of the dual, and the probabilities of these multipliers."""
    exponent = -(rows.T @ w)
    top = float(exponent.max())
    parts = np.exp(exponent - top)
    total = float(parts.sum())
    return top + float(np.log(total)) + float(limits @ w), parts / total
