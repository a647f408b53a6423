"""Groups along one column in which values of k records or more stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

__all__ = ["tied_apart", "with_tied_values"]


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


def with_tied_values(means: Floats, values: Floats, labels: Ints, k: int, owners: Sequence[Ints] = ()) -> Floats:
    """The value of each group, which is that of `k` records, or owners, or more where so many share one.

    The mean of such a group and the tied value, which everyone knows, would give back the few others exactly.

    Parameters
    ----------
    means : ndarray of float64, shape (groups,)
    values : ndarray of float64, shape (n,)
    labels : ndarray of int64, shape (n,)
        The group of each record.
    k : int
    owners : sequence of ndarray of int64, shape (n,)
        Whom each record is of, where persons or households are counted instead of records.

    Returns
    -------
    ndarray of float64, shape (groups,)
        Of several such values the most frequent, the least of equally frequent ones.

    Examples
    --------
    >>> with_tied_values(np.array([-2.0]), np.array([-8.0, 0, 0, 0]), np.array([0, 0, 0, 0]), 3).tolist()
    [0.0]
    """
    order = np.lexsort((values, labels))
    group, ordered = labels[order], values[order]
    starts = np.flatnonzero(np.r_[True, (group[1:] != group[:-1]) | (ordered[1:] != ordered[:-1])])
    sizes = np.diff(np.r_[starts, len(order)])
    run = np.repeat(np.arange(len(starts)), sizes)
    for each in owners:
        pairs = np.unique(np.column_stack([run, each[order]]), axis=0)
        sizes = np.minimum(sizes, np.bincount(pairs[:, 0], minlength=len(starts)))
    found = means.copy()
    tied = np.flatnonzero(sizes >= k)
    tied = tied[np.lexsort((-ordered[starts[tied]], sizes[tied]))]  # the last one of each group stays
    found[group[starts[tied]]] = ordered[starts[tied]]
    return found
