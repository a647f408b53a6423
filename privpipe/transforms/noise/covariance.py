"""A factor of a covariance matrix, with the same bits wherever it is computed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts
from privpipe.errors import DataError

__all__ = ["RANK_CUT", "covariance_factor", "factor_of"]

RANK_CUT = 1e-12
LEAST_VARIANCE = 1e-290  # the squares of smaller deviations lose their digits


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


def factor_of(facts: Facts, columns: tuple[str, ...], place: str) -> NDArray[np.float64]:
    """The factor for correlated noise on these columns; zeros where none of them varies.

    Raises
    ------
    DataError
        There is no covariance, or one that float64 does not hold.
    """
    covariance = facts.covariance
    if covariance is not None and not np.isnan(covariance).any():
        for column, variance in zip(columns, np.diag(covariance).tolist(), strict=True):
            # Noise of no variance would release the column as it is, and one without end nothing at all.
            if facts.sd(column) and not LEAST_VARIANCE < variance < math.inf:
                raise DataError(
                    f"{place}: column {column!r} has no variance that float64 holds among the records with "
                    f"a value in each of {', '.join(map(repr, columns))}; use kind: uncorrelated"
                )
        return covariance_factor(covariance)
    if any(facts.sd(column) for column in columns):
        raise DataError(
            f"{place}: fewer than two records have a value in each of "
            f"{', '.join(map(repr, columns))}, so there is no correlation to keep; use kind: uncorrelated"
        )
    return np.zeros((len(columns), len(columns)))
