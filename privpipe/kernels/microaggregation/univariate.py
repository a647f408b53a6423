"""Microaggregation of one column: optimal groups, or groups of exactly k."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.microaggregation.path_groups import path_ends, sorted_ends

__all__ = ["fixed_groups", "univariate_groups"]

LARGE_K = 50


def univariate_groups(values: NDArray[np.float64], k: int, *, keep_ties: bool = False) -> NDArray[np.int64]:
    """The partition of one column into groups of k .. 2k - 1 with the least SSE.

    Source: Hansen, Mukherjee, IEEE TKDE 15(4), 2003.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Finite, n >= k. Equal values go by position; rows in keyed order make the groups a function of the records.
    k : int
        At least 1. Up to 50 in O(n k) after the sort, above in O(n log k).
    keep_ties : bool
        Move each cut between equal values to the nearest place between different ones that leaves k records on
        both sides (the lower at equal distance), or drop it where there is none. Groups may then exceed 2k - 1.

    Returns
    -------
    ndarray of int64, shape (n,)
        Group number of each record, ascending with the value.

    Examples
    --------
    >>> univariate_groups(np.array([1.0, 9.0, 1.2, 8.8, 1.1, 9.1, 8.9]), 3).tolist()
    [0, 1, 0, 1, 0, 1, 1]
    """
    column, order = _sorted(values, k)
    ordered = column[order]
    if k <= LARGE_K:
        ends = path_ends(read_only(ordered[:, None], np.float64), k)
    else:
        ends = sorted_ends(read_only(ordered, np.float64), k)
    return _labels(_between_values(ends, ordered, k) if keep_ties else ends, order)


def fixed_groups(values: NDArray[np.float64], k: int, *, keep_ties: bool = False) -> NDArray[np.int64]:
    """Groups of k records in the order of the values, the last of k .. 2k - 1 (as `univariate_groups`, cheaper).

    Examples
    --------
    >>> fixed_groups(np.array([5.0, 1.0, 4.0, 2.0, 3.0]), 2).tolist()
    [1, 0, 1, 0, 1]
    """
    column, order = _sorted(values, k)
    n = len(column)
    ends = np.append(np.arange(k, n - k + 1, k), n)
    return _labels(_between_values(ends, column[order], k) if keep_ties else ends, order)


def _sorted(values: NDArray[np.float64], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    column: NDArray[np.float64] = read_only(values, np.float64)
    if k < 1 or column.ndim != 1 or len(column) < k:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {len(column)}")
    return column, np.argsort(column, kind="stable")


def _labels(ends: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = np.empty(len(order), np.int64)
    labels[order] = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    return labels


def _between_values(ends: NDArray[np.int64], ordered: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Cuts moved off equal values, from the left; each keeps k records to the cuts beside it."""
    changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    kept = [0]
    for at, following in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        allowed = changes[np.searchsorted(changes, kept[-1] + k) : np.searchsorted(changes, following - k, "right")]
        if len(allowed):
            kept.append(int(allowed[np.argmin(np.abs(allowed - at))]))
    return np.array([*kept[1:], len(ordered)], dtype=np.int64)
