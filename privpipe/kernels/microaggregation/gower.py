"""MDAV over mixed types: distances of Gower, centres of means and modes.

Sources: Gower, A general coefficient of similarity and some of its properties, Biometrics 27, 1971; Domingo-Ferrer,
Torra, Ordinal, continuous and heterogeneous k-anonymity through microaggregation, Data Mining and Knowledge
Discovery 11, 2005.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.nearest import farthest, nearest

__all__ = ["MixedRecords", "distances_to", "gower_groups"]


class MixedRecords(NamedTuple):
    """Records of several types, by column; compiled code takes it as it is.

    Parameters
    ----------
    scales : ndarray of float64, shape (p, n)
        Numbers over their range, and ranks over levels - 1; NaN: missing.
    ranked : ndarray of bool, shape (p,)
        Which of them are ranks: their centre is the mode, not the mean.
    scale_weights : ndarray of float64, shape (p,)
    codes : ndarray of int64, shape (q, n)
        Nominal values, 0 .. values - 1; -1: missing.
    paths : ndarray of int64, shape (q, levels, values)
        Label of each value at each level of the column's hierarchy below its root; one level without a hierarchy.
    heights : ndarray of int64, shape (q,)
        Levels below the root: so many of `paths` count.
    code_weights : ndarray of float64, shape (q,)
    """

    scales: NDArray[np.float64]
    ranked: NDArray[np.bool_]
    scale_weights: NDArray[np.float64]
    codes: NDArray[np.int64]
    paths: NDArray[np.int64]
    heights: NDArray[np.int64]
    code_weights: NDArray[np.float64]


def gower_groups(records: MixedRecords, k: int) -> NDArray[np.int64]:
    """Partition records into groups of k, the last of k to 2k - 1, as MDAV does.

    The distance of two records is the weighted mean over columns of |a - b| for scales, and for nominal values of the
    level of their lowest common ancestor over the height; of a missing value to another 0, to any other 1.

    Parameters
    ----------
    records : MixedRecords
        n >= k of them. Ties go to the earlier one.
    k : int
        At least 1.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> flat = np.arange(2).reshape(1, 1, 2)
    >>> codes = np.array([[0, 1, 0, 1]])
    >>> empty = np.empty((0, 4))
    >>> mixed = MixedRecords(empty, np.empty(0, bool), np.empty(0), codes, flat, np.array([1]), np.ones(1))
    >>> gower_groups(mixed, 2).tolist()
    [1, 0, 1, 0]
    """
    n = records.scales.shape[1]
    if k < 1 or n < k or records.codes.shape[1] != n:
        raise UsageError(f"microaggregation needs k >= 1 and at least k records, got k = {k} and {n}")
    return np.asarray(_groups(records, k))


@njit(nogil=True, cache=True)
def distances_to(
    records: MixedRecords, scales: NDArray[np.float64], codes: NDArray[np.int64], out: NDArray[np.float64]
) -> None:
    """Sum of weighted distances of each record to a point, in the order of the columns."""
    out[:] = 0.0
    for j in range(len(records.scales)):
        column, at, weight = records.scales[j], scales[j], records.scale_weights[j]
        for i in range(len(out)):
            if np.isnan(column[i]) or np.isnan(at):
                out[i] += 0.0 if np.isnan(column[i]) and np.isnan(at) else weight
            else:
                out[i] += weight * abs(column[i] - at)
    for j in range(len(records.codes)):
        values, code, weight = records.codes[j], codes[j], records.code_weights[j]
        height, paths = records.heights[j], records.paths[j]
        for i in range(len(out)):
            if values[i] == code:
                continue
            level = height
            if values[i] >= 0 and code >= 0:
                level = 0
                while level < height and paths[level, values[i]] != paths[level, code]:
                    level += 1
            out[i] += weight * level / height


@njit(nogil=True, cache=True)
def _mode(values: NDArray[np.float64]) -> float:
    """The most frequent number, the smallest of equally frequent ones; NaN without any."""
    ordered = np.sort(values)
    best, most, start = np.nan, 0, 0
    for i in range(len(ordered)):
        if np.isnan(ordered[i]):
            break
        if ordered[i] != ordered[start]:
            start = i
        if i - start + 1 > most:
            best, most = ordered[i], i - start + 1
    return best


@njit(nogil=True, cache=True)
def _centre(
    records: MixedRecords, live: NDArray[np.int64], scales: NDArray[np.float64], codes: NDArray[np.int64]
) -> None:
    room = np.empty(len(live), np.float64)
    for j in range(len(records.scales)):
        total, known = 0.0, 0
        for at in range(len(live)):
            room[at] = records.scales[j, live[at]]
            if not np.isnan(room[at]):
                total += room[at]
                known += 1
        scales[j] = _mode(room) if records.ranked[j] else (total / known if known > 0 else np.nan)
    for j in range(len(records.codes)):
        counts = np.zeros(records.paths.shape[2] + 1, np.int64)
        for i in live:
            counts[records.codes[j, i] + 1] += 1
        codes[j] = np.argmax(counts[1:]) if counts[1:].sum() > 0 else -1


@njit(nogil=True, cache=True)
def _without(live: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return live[labels[live] < 0]


@njit(nogil=True, cache=True)
def _around(
    records: MixedRecords, start: int, live: NDArray[np.int64], k: int, distances: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The record and its k - 1 nearest of those that live."""
    distances_to(records, records.scales[:, start].copy(), records.codes[:, start].copy(), distances)
    heap = np.empty(k, np.int64)
    near = distances[live]
    at = np.searchsorted(live, start)
    found = nearest(near, live, len(live), k - 1, at, heap)
    heap[found] = at
    return live[heap[: found + 1]]


@njit(nogil=True, cache=True)
def _groups(records: MixedRecords, k: int) -> NDArray[np.int64]:
    n = records.scales.shape[1]
    labels, live = np.full(n, -1, np.int64), np.arange(n)
    distances = np.empty(n, np.float64)
    scales, codes = np.empty(len(records.scales), np.float64), np.empty(len(records.codes), np.int64)
    label = 0
    while len(live) >= 2 * k:
        _centre(records, live, scales, codes)
        distances_to(records, scales, codes, distances)
        first = live[farthest(distances[live], live, len(live))]
        distances_to(records, records.scales[:, first].copy(), records.codes[:, first].copy(), distances)
        second = live[farthest(distances[live], live, len(live))]
        pairs = len(live) >= 3 * k
        labels[_around(records, first, live, k, distances)] = label
        label += 1
        live = _without(live, labels)
        if pairs and labels[second] < 0:
            labels[_around(records, second, live, k, distances)] = label
            label += 1
            live = _without(live, labels)
    labels[live] = label
    return labels
