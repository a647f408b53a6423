"""Distance-based record linkage: whose nearest candidate is the true partner, ties counted."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from privpipe.kernels.columns.arrays import read_only

__all__ = ["LinkedFile", "Ties", "linkage_scores", "one_to_one", "pair_distances"]

Ties = Literal["fractional", "strict", "any"]
TREE_DIMENSIONS = 10
TREE_FROM = 200_000_000
"""Distances to compute from which on a k-d tree is worth its building."""
CHUNK = 256


@dataclass(frozen=True)
class LinkedFile:
    """One side of a linkage, on the scale distances are measured on.

    Parameters
    ----------
    numbers : ndarray of float64, shape (n, s)
        NaN: missing, at distance 1 of any value and 0 of another missing one (Gower only; Euclidean points have none).
    codes : ndarray of int64, shape (n, q)
        Nominal values.
    mismatch : tuple of ndarray of bool, shape (own values, other values), or None for each nominal column
        Where a value of this file and one of the other are at distance 1; None: where the codes differ.
    """

    numbers: NDArray[np.float64] = field(repr=False)
    codes: NDArray[np.int64] = field(repr=False)
    mismatch: tuple[NDArray[np.bool_] | None, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: NDArray[np.int64]) -> LinkedFile:
        """Some of the records."""
        return LinkedFile(self.numbers[rows], self.codes[rows], self.mismatch)


def linkage_scores(
    attacked: LinkedFile,
    candidates: LinkedFile,
    partner: NDArray[np.int64],
    *,
    squared: bool,
    ties: Ties = "fractional",
) -> NDArray[np.float64]:
    """What each attacked record adds to the correct links: 1 / t if its partner is among t equally near candidates.

    Two distances are equal when they differ by at most 1e-12 (1 + the larger).

    Source: Pagliuca, Seri, 1999; Domingo-Ferrer, Torra, 2001.

    Parameters
    ----------
    attacked, candidates : LinkedFile
        Of the same columns.
    partner : ndarray of int64, shape (m,)
        Place of each attacked record's true partner among the candidates.
    squared : bool
        Euclidean distance of the numbers; otherwise the mean over all columns of |a - b| and of the mismatches.
    ties : {"fractional", "strict", "any"}
        1 / t; 0 unless t = 1; 1.

    Returns
    -------
    ndarray of float64, shape (m,)

    Examples
    --------
    >>> x = LinkedFile(np.array([[0.0], [1.0], [5.0]]), np.zeros((3, 0), dtype=np.int64))
    >>> y = LinkedFile(np.array([[0.5], [0.5], [4.0]]), np.zeros((3, 0), dtype=np.int64))
    >>> linkage_scores(x, y, np.arange(3), squared=True).tolist()
    [0.5, 0.5, 1.0]
    """
    if not len(attacked):
        return np.zeros(0)
    numbers = candidates.numbers
    heavy = len(attacked) * len(candidates) >= TREE_FROM and numbers.shape[1] <= TREE_DIMENSIONS
    if squared and heavy and not candidates.codes.shape[1]:
        near = _by_tree(attacked.numbers, numbers, partner)
    else:
        near = _by_tiles(attacked, candidates, partner, squared)
    if ties == "any":
        return np.asarray(near > 0, dtype=np.float64)
    if ties == "strict":
        return np.asarray(near == 1, dtype=np.float64)
    return np.asarray(np.where(near > 0, 1.0 / np.maximum(near, 1), 0.0))


def _workers() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _by_tree(
    attacked: NDArray[np.float64], candidates: NDArray[np.float64], partner: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Candidates as near as the partner, 0 where another is nearer."""
    from scipy.spatial import cKDTree

    tree = cKDTree(candidates, balanced_tree=False, compact_nodes=False)
    nearest = np.asarray(tree.query(attacked, k=1, workers=_workers())[0], dtype=np.float64)
    true = np.sqrt(((attacked - candidates[partner]) ** 2).sum(axis=1))
    hit = true - nearest <= 1e-12 * (1.0 + true)
    found = np.zeros(len(attacked), dtype=np.int64)
    if hit.any():
        reach = nearest[hit] + 1e-12 * (1.0 + true[hit])
        found[hit] = tree.query_ball_point(attacked[hit], reach, return_length=True, workers=_workers())
    return np.asarray(np.maximum(found, hit.astype(np.int64)))


def _by_tiles(
    attacked: LinkedFile, candidates: LinkedFile, partner: NDArray[np.int64], squared: bool
) -> NDArray[np.int64]:
    mismatch, offsets, widths = _flat(attacked.mismatch, attacked.codes.shape[1])
    far = read_only(np.ascontiguousarray(candidates.numbers.T), np.float64)
    far_codes = read_only(np.ascontiguousarray(candidates.codes.T), np.int64)

    def part(start: int) -> NDArray[np.int64]:
        rows = slice(start, start + CHUNK)
        return np.asarray(
            _tied_with_partner(
                read_only(attacked.numbers[rows], np.float64),
                read_only(attacked.codes[rows], np.int64),
                far,
                far_codes,
                mismatch,
                offsets,
                widths,
                read_only(partner[rows], np.int64),
                squared,
            )
        )

    with ThreadPoolExecutor(_workers(), thread_name_prefix="privpipe-linkage") as pool:
        return np.concatenate(list(pool.map(part, range(0, len(attacked), CHUNK))))


def _flat(
    mismatch: tuple[NDArray[np.bool_] | None, ...], columns: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """The tables of mismatches end to end, where each begins (-1: none), and its width."""
    offsets, widths = np.full(columns, -1, dtype=np.int64), np.ones(columns, dtype=np.int64)
    parts, at = [np.zeros(0, dtype=np.bool_)], 0
    for column, table in enumerate(mismatch):
        if table is not None:
            offsets[column], widths[column] = at, table.shape[1]
            parts.append(table.ravel())
            at += table.size
    return read_only(np.concatenate(parts), np.bool_), read_only(offsets, np.int64), read_only(widths, np.int64)


def pair_distances(one: LinkedFile, other: LinkedFile, *, squared: bool) -> NDArray[np.float64]:
    """All distances, shape (n, n'): for a few thousand records.

    Examples
    --------
    >>> x = LinkedFile(np.array([[0.0], [3.0]]), np.zeros((2, 0), dtype=np.int64))
    >>> pair_distances(x, x, squared=True).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    mismatch, offsets, widths = _flat(one.mismatch, one.codes.shape[1])
    far = read_only(np.ascontiguousarray(other.numbers.T), np.float64)
    far_codes = read_only(np.ascontiguousarray(other.codes.T), np.int64)
    return np.asarray(
        _distances(
            read_only(one.numbers, np.float64),
            read_only(one.codes, np.int64),
            far,
            far_codes,
            mismatch,
            offsets,
            widths,
            squared,
        )
    )


def one_to_one(distances: NDArray[np.float64], ties: Ties = "fractional") -> tuple[float, float]:
    """Pairs (i, i) in the assignment of least total distance, and that total.

    The count is not unique where several assignments have the least total, so both ends of it are looked for: `any`
    is the most such pairs, `strict` the fewest, `fractional` the middle. Files of different length leave the rest of
    the longer one alone.

    Parameters
    ----------
    distances : ndarray of float64, shape (n, n')

    Returns
    -------
    (float, float)

    Examples
    --------
    >>> one_to_one(np.array([[1.0, 2.0], [1.0, 5.0]]))
    (0.0, 3.0)
    >>> [one_to_one(np.ones((2, 2)), ties)[0] for ties in ("strict", "fractional", "any")]
    [0.0, 1.0, 2.0]
    """
    wanted = {"any": (-1.0,), "strict": (1.0,), "fractional": (-1.0, 1.0)}[ties]
    found = [_assigned(distances, sign) for sign in wanted]
    return sum(right for right, _ in found) / len(found), min(total for _, total in found)


def _assigned(distances: NDArray[np.float64], sign: float) -> tuple[int, float]:
    from scipy.optimize import linear_sum_assignment

    nudged = distances.copy()
    diagonal = np.arange(min(nudged.shape))
    nudged[diagonal, diagonal] += sign * 1e-12 * (1.0 + nudged[diagonal, diagonal])
    rows, columns = linear_sum_assignment(nudged)
    return int((rows == columns).sum()), float(distances[rows, columns].sum())


@njit(nogil=True, cache=True)
def _row(
    numbers: NDArray[np.float64],
    codes: NDArray[np.int64],
    far: NDArray[np.float64],
    far_codes: NDArray[np.int64],
    mismatch: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    squared: bool,
    out: NDArray[np.float64],
) -> None:
    """Distances of one record to all candidates."""
    out[:] = 0.0
    for j in range(len(far)):
        column, at = far[j], numbers[j]
        if squared:
            for i in range(len(out)):
                difference = column[i] - at
                out[i] += difference * difference
        else:
            for i in range(len(out)):
                missing = np.isnan(column[i]), np.isnan(at)
                if missing[0] or missing[1]:
                    out[i] += 0.0 if missing[0] and missing[1] else 1.0
                else:
                    out[i] += abs(column[i] - at)
    for j in range(len(far_codes)):
        column_codes, code = far_codes[j], codes[j]
        for i in range(len(out)):
            if offsets[j] < 0:
                out[i] += 1.0 if column_codes[i] != code else 0.0
            else:
                out[i] += 1.0 if mismatch[offsets[j] + code * widths[j] + column_codes[i]] else 0.0
    if squared:
        for i in range(len(out)):
            out[i] = np.sqrt(out[i])
    else:
        for i in range(len(out)):
            out[i] /= len(far) + len(far_codes)


@njit(nogil=True, cache=True)
def _tied_with_partner(
    numbers: NDArray[np.float64],
    codes: NDArray[np.int64],
    far: NDArray[np.float64],
    far_codes: NDArray[np.int64],
    mismatch: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    partner: NDArray[np.int64],
    squared: bool,
) -> NDArray[np.int64]:
    """Candidates as near as the partner, 0 where another is nearer."""
    n = far.shape[1] if len(far) else far_codes.shape[1]
    out = np.empty(n)
    found = np.zeros(len(partner), np.int64)
    for r in range(len(partner)):
        _row(numbers[r], codes[r], far, far_codes, mismatch, offsets, widths, squared, out)
        least = out.min()
        true = out[partner[r]]
        if true - least <= 1e-12 * (1.0 + true):
            for i in range(n):
                if out[i] - least <= 1e-12 * (1.0 + out[i]):
                    found[r] += 1
    return found


@njit(nogil=True, cache=True)
def _distances(
    numbers: NDArray[np.float64],
    codes: NDArray[np.int64],
    far: NDArray[np.float64],
    far_codes: NDArray[np.int64],
    mismatch: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    widths: NDArray[np.int64],
    squared: bool,
) -> NDArray[np.float64]:
    n = far.shape[1] if len(far) else far_codes.shape[1]
    out = np.empty((len(numbers), n))
    for r in range(len(numbers)):
        _row(numbers[r], codes[r], far, far_codes, mismatch, offsets, widths, squared, out[r])
    return out
