"""A factor of a covariance matrix, with the same bits wherever it is computed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["RANK_CUT", "covariance_factor"]

RANK_CUT = 1e-12


def covariance_factor(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """A with A A' = the covariance, by eigenvalues of the correlation matrix; served when it is singular.

    Eigenvalues below 1e-12 of the largest are taken as 0, so exactly collinear columns keep their identities.
    A column without variance gets a row of zeros. Signs are fixed, so equal input gives equal bits.

    Examples
    --------
    >>> factor = covariance_factor(np.array([[4.0, 2.0], [2.0, 1.0]]))
    >>> (factor @ factor.T).round(9).tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """
    sd = np.sqrt(np.diag(covariance))
    scale = np.where(sd > 0, sd, 1.0)
    correlation = covariance / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(correlation)
    values = np.where(values < RANK_CUT * values.max(initial=0.0), 0.0, values)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(values))])
    return np.asarray(sd[:, None] * (vectors * signs) * np.sqrt(values))
