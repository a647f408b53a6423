"""Original values within an interval around their masked ones, and distances by a robust scatter matrix."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from privpipe.blocks.arrays import Bools, Floats
from privpipe.errors import UnsupportedError
from privpipe.tolerance import at_most, floor_share

__all__ = ["Estimator", "centre_distances", "rank_disclosed", "sd_disclosed"]


def rank_disclosed(original: Floats, released: Floats, percent: float) -> tuple[Bools, Bools]:
    """Records whose original value is between the masked values w ranks below and above their masked value.

    R are the masked values in ascending order, w = floor(percent n / 200); the interval of a masked value is
    [R[max(first - w, 0)], R[min(last + w, n - 1)]], first and last its positions in R, ends included.

    Source: Nin, Herranz, Torra, DKE 64(1), 2008. The printed algorithm has the clamps the other way round.

    Parameters
    ----------
    original, released : ndarray of float64, shape (n,)
        Aligned; NaN where there is no value.
    percent : float
        In percent, at least 0.

    Returns
    -------
    (ndarray of bool, ndarray of bool), shape (n,)
        Disclosed records; records with a value on both sides, the only ones that can be disclosed.

    Examples
    --------
    >>> x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 4.0, 3.0, 1.0])
    >>> rank_disclosed(x, y, 50.0)[0].tolist()
    [True, False, True, False]
    """
    known = ~(np.isnan(original) | np.isnan(released))
    ranked = np.sort(released[~np.isnan(released)])
    if not known.any():
        return np.zeros(len(original), dtype=np.bool_), known
    width = floor_share(float(Decimal(repr(float(percent))) / 200), len(ranked))
    masked = released[known]
    low = ranked[np.maximum(np.searchsorted(ranked, masked, side="left") - width, 0)]
    high = ranked[np.minimum(np.searchsorted(ranked, masked, side="right") - 1 + width, len(ranked) - 1)]
    inside = np.zeros(len(original), dtype=np.bool_)
    inside[known] = (low <= original[known]) & (original[known] <= high)
    return inside, known


def sd_disclosed(original: Floats, released: Floats, percent: float, sd: float) -> tuple[Bools, Bools]:
    """Records whose original value is within `percent` percent of a standard deviation of their masked one.

    Source: Hundepool et al., Statistical Disclosure Control, Wiley, 2012.

    Parameters
    ----------
    original, released : ndarray of float64, shape (n,)
    percent : float
    sd : float
        0 (or NaN, of a single record): disclosed iff equal.

    Returns
    -------
    As `rank_disclosed`.

    Examples
    --------
    >>> sd_disclosed(np.array([1.0, 2.0]), np.array([1.5, 4.0]), 50.0, 1.0)[0].tolist()
    [True, False]
    """
    known = ~(np.isnan(original) | np.isnan(released))
    inside = np.zeros(len(original), dtype=np.bool_)
    apart = np.abs(original[known] - released[known])
    inside[known] = at_most(apart, percent / 100.0 * sd) if sd > 0 else apart == 0
    return inside, known


Numbers = Floats
Estimator = Literal["mcd", "classical"]
CUT = 1e-10


def centre_distances(points: Numbers, estimator: Estimator, seed: int = 0) -> Numbers | None:
    """sqrt(x' C+ x) of each point, C its scatter and C+ the inverse on the span of the points.

    None where more than half of the points coincide, so that the MCD is 0 and every other point infinitely far away.

    Source: Rousseeuw, Van Driessen, Technometrics 41(3), 1999 (MCD); Templ, Meindl, PSD 2008.

    Parameters
    ----------
    points : ndarray of float64, shape (n, s)
        Standardised, finite; the centre is 0.
    estimator : {"mcd", "classical"}
        The minimum covariance determinant over floor((n + s + 1) / 2) points, re-weighted, or the covariance
        (divisor n - 1).
    seed : int
        Seed of the randomised search for the MCD.

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
        # Half of the points on a plane is a property of the data, not a fault; the inverse is taken on their span.
        warnings.simplefilter("ignore")
        try:
            fitted = found(support_fraction=share, random_state=seed).fit(points)
        except ValueError:  # the points are finite and more than one: the remaining cause is a covariance of 0
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
