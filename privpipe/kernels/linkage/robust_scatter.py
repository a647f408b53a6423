"""Distances from the centre by a scatter matrix that outliers do not pull, also where columns are collinear."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UnsupportedError

__all__ = ["Estimator", "centre_distances"]

Numbers = NDArray[np.float64]
Estimator = Literal["mcd", "classical"]
CUT = 1e-10


def centre_distances(points: Numbers, estimator: Estimator, seed: int = 0) -> Numbers | None:
    """sqrt(x' C+ x) of each point, C its scatter and C+ the inverse on the span of the points.

    None where more than half of the points lie in one place, so that the MCD is 0 and every other point infinitely far.

    Source: Rousseeuw, Van Driessen, Technometrics 41(3), 1999 (MCD); Templ, Meindl, PSD 2008.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised, finite; the centre is 0.
    estimator : {"mcd", "classical"}
        The minimum covariance determinant over floor((n + s + 1) / 2) points, re-weighted, or the covariance
        (divisor n - 1).
    seed : int
        Of the randomised search for the MCD.

    Raises
    ------
    UnsupportedError
        MCD without scikit-learn.

    Examples
    --------
    >>> points = np.array([[1.0, 2.0], [-1.0, -2.0], [2.0, 4.0], [-2.0, -4.0]])
    >>> centre_distances(points, "classical").round(4).tolist()
    [0.5477, 0.5477, 1.0954, 1.0954]
    """
    if len(points) < 2 or not points.shape[1]:
        return np.zeros(len(points))
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(points, rowvar=False)))
    kept = values > CUT * max(float(values.max()), 0.0)
    if not kept.any():
        return np.zeros(len(points))
    # On axes of unit spread nothing is singular that was not exactly collinear before.
    axes = points @ (vectors[:, kept] / np.sqrt(values[kept]))
    if estimator == "classical":
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", axes, axes)), dtype=np.float64)
    scatter = _mcd(axes, points.shape[1], seed)
    if scatter is None:
        return None
    spread, turned = np.linalg.eigh(scatter)
    held = spread > CUT * max(float(spread.max()), 0.0)
    whitened = axes @ (turned[:, held] / np.sqrt(spread[held]))
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", whitened, whitened)), dtype=np.float64)


def _mcd(points: Numbers, columns: int, seed: int) -> Numbers | None:
    found = _estimator()
    n = len(points)
    share = min(1.0, ((n + columns + 1) // 2) / n)
    with warnings.catch_warnings():
        # Half of the points on a plane is news about the data, not about this run; their inverse is taken on its span.
        warnings.simplefilter("ignore")
        try:
            fitted = found(support_fraction=share, random_state=seed).fit(points)
        except ValueError:  # the points are finite and more than one: what is left is a covariance of 0
            return None
    return np.atleast_2d(np.asarray(fitted.covariance_))


def _estimator() -> Any:
    try:
        from sklearn.covariance import MinCovDet  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise UnsupportedError(
            "robust_interval_risk: estimator: mcd needs scikit-learn, which is not installed; `pip install "
            "'privpipe[utility]'`, or use estimator: classical"
        ) from None
    return MinCovDet
