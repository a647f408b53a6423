"""What a reader of released tables knows about each cell, and what must not follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["UNBOUNDED", "AuditProblem", "Levels"]

UNBOUNDED = np.iinfo(np.int64).max
"""In `low` and `high`: no bound."""


@dataclass(frozen=True)
class Levels:
    """Protection levels of sensitive variables, in fractions of the unit: numerators over one denominator.

    A sensitive variable with true value a is protected if a reader finds at least a + upper / denominator and at most
    a - lower / denominator possible, at least span / denominator apart, and never one value alone.
    """

    variables: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    span: NDArray[np.int64]
    denominator: int = 1


@dataclass(frozen=True)
class AuditProblem:
    """The set {x: relations x = 0, low <= x <= high} of tables that agree with everything published.

    Parameters
    ----------
    relations : csr_array of int64, shape (relations, variables)
    low, high : ndarray of int64, shape (variables,)
        What a reader knows before relations; `UNBOUNDED` where there is no bound; equal for a published value.
    whole : bool
        Whether every variable is an integer (counts).
    true : ndarray of int64 or None
        True values, where they are known; they lie in the set.
    levels : Levels or None
        What must hold for sensitive variables; without it (or without `true`) every open variable is sensitive.
    knowing : tuple of (ndarray of int64, ndarray of int64)
        Insiders: variables whose true value one contributor knows, and the sensitive variables of others.
    """

    relations: sparse.csr_array
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    whole: bool
    true: NDArray[np.int64] | None = None
    levels: Levels | None = None
    knowing: tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...] = field(default=())
