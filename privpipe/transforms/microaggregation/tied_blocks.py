"""Groups along one column in which values of k records or more stay as they are."""

from __future__ import annotations

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

__all__ = ["tied_apart"]


def tied_apart(values: Floats, labels: Ints, k: int) -> Ints:
    """The groups, with each value that k records or more share as a group of its own.

    What lies between two such values and is fewer than k records joins the nearer one, the lower at equal distance; of
    other cuts those stay that leave k records on both sides.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
    labels : ndarray of int64, shape (n,)
        Groups of at least k records, ascending with the value.
    k : int

    Returns
    -------
    ndarray of int64, shape (n,)
        Ascending with the value; every group has at least k records.

    Examples
    --------
    >>> zeros = np.array([0, 0, 0, 0, 2, 3, 4, 5.0])
    >>> tied_apart(zeros, np.array([0, 0, 0, 0, 0, 1, 1, 1]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    >>> tied_apart(np.array([0, 0, 0, 1, 9, 9, 9.0]), np.array([0, 0, 0, 0, 1, 1, 1]), 3).tolist()
    [0, 0, 0, 0, 1, 1, 1]
    """
    order = np.argsort(values, kind="stable")
    ordered, n = values[order], len(values)
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    ends = np.r_[starts[1:], n]
    tied = ends - starts >= k
    if not tied.any():
        return labels
    cuts = np.cumsum(np.bincount(labels[order]))[:-1]
    found: list[int] = []
    gaps = zip([0, *ends[tied].tolist()], [*starts[tied].tolist(), n], strict=True)
    for first, last in gaps:
        found += _cuts_of_gap(ordered, cuts, first, last, k)
    every = np.array([each for each in found if 0 < each < n], dtype=np.int64)
    apart = np.empty(n, dtype=np.int64)
    apart[order] = np.searchsorted(np.unique(every), np.arange(n), side="right")
    return apart


def _cuts_of_gap(ordered: Floats, cuts: Ints, first: int, last: int, k: int) -> list[int]:
    """Cuts at the ends of what lies between two tied values, and in it."""
    n = len(ordered)
    if last - first >= k:
        inside = cuts[np.searchsorted(cuts, first + k) : np.searchsorted(cuts, last - k, "right")]
        return [first, *inside.tolist(), last]
    if first == last:
        return [first]
    if first == 0 or last == n:
        return []
    middle = ordered[first:last].mean()
    return [last if middle - ordered[first - 1] <= ordered[last] - middle else first]
