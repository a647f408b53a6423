"""Distance-based record linkage: the nearest candidates, ties counted, and assignments of every released record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.errors import UsageError
from privpipe.kernels.grouping.word_groups import group_rows, ordered_by_group

__all__ = [
    "LARGEST_TOTAL",
    "Assignable",
    "LinkedFile",
    "Mismatches",
    "Ties",
    "assignable",
    "distinct_records",
    "largest_codes",
    "linkage_scores",
    "mismatches",
    "one_to_one",
    "pair_distances",
]


class Mismatches(NamedTuple):
    """Concatenated tables of mismatches, where each begins (-1: codes mismatch where they differ), and its width."""

    table: Bools
    offsets: Ints
    widths: Ints


def largest_codes(codes: Ints) -> Ints:
    """The largest code of each column, -1 where there are no rows; shape (q,) of (n, q)."""
    return np.asarray(codes.max(axis=0, initial=-1), dtype=np.int64)


def mismatches(tables: Sequence[Bools | None], largest: tuple[Ints, Ints]) -> Mismatches:
    """Concatenate the tables of the columns.

    Parameters
    ----------
    tables : sequence of ndarray of bool, shape (own values, other values), or None
        One per column; if there are fewer, the remaining columns have none.
    largest : pair of ndarray of int64, shape (q,)
        The largest code of each column in this file and in the other, as `largest_codes` gives them.

    Raises
    ------
    UsageError
        A code outside a table: compiled loops do not check bounds and would read adjacent memory.

    Examples
    --------
    >>> table = np.array([[False, True], [True, True]])
    >>> mismatches([None, table], (np.array([3, 1]), np.array([5, 1]))).offsets.tolist()
    [-1, 0]
    >>> mismatches([table], (np.array([1]), np.array([2])))
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: a table of mismatches of shape (2, 2) has no place for the codes 1 and 2
    """
    columns = len(largest[0])
    offsets, widths = np.full(columns, -1, dtype=np.int64), np.ones(columns, dtype=np.int64)
    parts, at = [np.zeros(0, dtype=np.bool_)], 0
    for column, table in enumerate(tables):
        if table is not None:
            own, other = int(largest[0][column]), int(largest[1][column])
            if own >= table.shape[0] or other >= table.shape[1]:
                raise UsageError(
                    f"a table of mismatches of shape {table.shape} has no place for the codes {own} and {other}"
                )
            offsets[column], widths[column] = at, table.shape[1]
            parts.append(np.ascontiguousarray(table).ravel())
            at += table.size
    return Mismatches(
        read_only(np.concatenate(parts), np.bool_), *(read_only(each, np.int64) for each in (offsets, widths))
    )


Ties = Literal["fractional", "strict", "any"]
TREE_DIMENSIONS = 10
TREE_FROM = 200_000_000
"""From this many distances on, building a k-d tree pays off."""
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

    numbers: Floats = field(repr=False)
    codes: Ints = field(repr=False)
    mismatch: tuple[Bools | None, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, rows: Ints) -> LinkedFile:
        """Some of the records."""
        return LinkedFile(self.numbers[rows], self.codes[rows], self.mismatch)


def linkage_scores(
    attacked: LinkedFile,
    candidates: LinkedFile,
    partner: Ints,
    *,
    squared: bool,
    ties: Ties = "fractional",
) -> Floats:
    """Correct links that each attacked record adds: 1 / t if its partner is among t equally near candidates.

    Two distances are equal when they differ by at most 1e-12 (1 + the larger).

    Source: Pagliuca, Seri, 1999; Domingo-Ferrer, Torra, 2001.

    Parameters
    ----------
    attacked, candidates : LinkedFile
        Two files with the same columns.
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


def _by_tree(attacked: Floats, candidates: Floats, partner: Ints) -> Ints:
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


def _by_tiles(attacked: LinkedFile, candidates: LinkedFile, partner: Ints, squared: bool) -> Ints:
    """As `_by_tree`, by tiles of all distances; equal records of either file are compared once."""
    groups, firsts = distinct_records(attacked)
    order, offsets = ordered_by_group(groups, len(firsts))
    hunted, kept = distinct_records(candidates)
    attacked, candidates, partners = attacked.take(firsts), candidates.take(kept), hunted[partner[order]]
    counts = read_only(np.bincount(hunted, minlength=len(kept)), np.int64)
    apart, far = _between(attacked, candidates), _by_column(candidates)

    def part(start: int) -> Ints:
        ends = offsets[start : start + CHUNK + 1]
        rows = slice(start, start + CHUNK)
        near = _Side(read_only(attacked.numbers[rows], np.float64), read_only(attacked.codes[rows], np.int64))
        own, places = read_only(partners[ends[0] : ends[-1]], np.int64), read_only(ends - ends[0], np.int64)
        return np.asarray(_tied_with_partner(near, places, far, counts, apart, own, squared))

    found = np.empty(len(partner), np.int64)
    with ThreadPoolExecutor(_workers(), thread_name_prefix="privpipe-linkage") as pool:
        found[order] = np.concatenate(list(pool.map(part, range(0, len(attacked), CHUNK))))
    return found


def distinct_records(file: LinkedFile) -> tuple[Ints, Ints]:
    """The group of each record among equal ones, shape (n,), and the first record of each group, shape (g,).

    Examples
    --------
    >>> file = LinkedFile(np.array([[0.5], [2.0], [0.5]]), np.array([[1], [1], [1]]))
    >>> groups, firsts = distinct_records(file)
    >>> bool(groups[0] == groups[2] != groups[1]), sorted(firsts.tolist())
    (True, [0, 1])
    """
    return group_rows(np.hstack([np.ascontiguousarray(file.numbers).view(np.int64), file.codes]))


class _Side(NamedTuple):
    """Numbers and codes of the records of one file."""

    numbers: Floats
    codes: Ints


def _by_column(file: LinkedFile) -> _Side:
    return _Side(read_only(file.numbers.T, np.float64), read_only(file.codes.T, np.int64))


def _between(one: LinkedFile, other: LinkedFile) -> Mismatches:
    return mismatches(one.mismatch, (largest_codes(one.codes), largest_codes(other.codes)))


def pair_distances(one: LinkedFile, other: LinkedFile, *, squared: bool) -> Floats:
    """All distances, shape (n, n'): for a few thousand records.

    Examples
    --------
    >>> x = LinkedFile(np.array([[0.0], [3.0]]), np.zeros((2, 0), dtype=np.int64))
    >>> pair_distances(x, x, squared=True).tolist()
    [[0.0, 3.0], [3.0, 0.0]]
    """
    near = _Side(read_only(one.numbers, np.float64), read_only(one.codes, np.int64))
    return np.asarray(_distances(near, _by_column(other), _between(one, other), squared))


def one_to_one(distances: Floats, ties: Ties = "fractional") -> tuple[float, float]:
    """Pairs (i, i) in the assignment of least total distance, and that total.

    The count is not unique where several assignments have the least total, so both extremes are computed: `any` is the
    largest count, `strict` the smallest, `fractional` the mean of the two. Where files differ in length, the rest of
    the longer one stays unassigned.

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


def _assigned(distances: Floats, sign: float) -> tuple[int, float]:
    from scipy.optimize import linear_sum_assignment

    nudged = distances.copy()
    diagonal = np.arange(min(nudged.shape))
    nudged[diagonal, diagonal] += sign * 1e-12 * (1.0 + nudged[diagonal, diagonal])
    rows, columns = linear_sum_assignment(nudged)
    return int((rows == columns).sum()), float(distances[rows, columns].sum())


@njit(nogil=True, cache=True)
def _add_numbers(numbers: Floats, far: Floats, squared: bool, out: Floats) -> None:
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


@njit(nogil=True, cache=True)
def _add_codes(codes: Ints, far: Ints, apart: Mismatches, out: Floats) -> None:
    table, offsets, widths = apart
    for j in range(len(far)):
        others, code = far[j], codes[j]
        for i in range(len(out)):
            if offsets[j] < 0:
                out[i] += 1.0 if others[i] != code else 0.0
            else:
                out[i] += 1.0 if table[offsets[j] + code * widths[j] + others[i]] else 0.0


@njit(nogil=True, cache=True)
def _row(near: _Side, r: int, far: _Side, apart: Mismatches, squared: bool, out: Floats) -> None:
    """Distances of one record to all candidates."""
    out[:] = 0.0
    _add_numbers(near.numbers[r], far.numbers, squared, out)
    _add_codes(near.codes[r], far.codes, apart, out)
    if squared:
        for i in range(len(out)):
            out[i] = np.sqrt(out[i])
    else:
        for i in range(len(out)):
            out[i] /= len(far.numbers) + len(far.codes)


@njit(nogil=True, cache=True)
def _tied_with_partner(
    near: _Side, offsets: Ints, far: _Side, counts: Ints, apart: Mismatches, partner: Ints, squared: bool
) -> Ints:
    """Candidates as near as each partner, 0 where another is nearer.

    Record r has the partners ``offsets[r]:offsets[r + 1]``, candidate i represents ``counts[i]`` records.
    """
    out = np.empty(len(counts))
    found = np.zeros(len(partner), np.int64)
    for r in range(len(offsets) - 1):
        _row(near, r, far, apart, squared, out)
        least, tied = out.min(), 0
        for place in range(offsets[r], offsets[r + 1]):
            true = out[partner[place]]
            if true - least <= 1e-12 * (1.0 + true):
                if not tied:
                    for i in range(len(counts)):
                        if out[i] - least <= 1e-12 * (1.0 + out[i]):
                            tied += counts[i]
                found[place] = tied
    return found


@njit(nogil=True, cache=True)
def _distances(near: _Side, far: _Side, apart: Mismatches, squared: bool) -> Floats:
    n = far.numbers.shape[1] if len(far.numbers) else far.codes.shape[1]
    out = np.empty((len(near.numbers), n))
    for r in range(len(near.numbers)):
        _row(near, r, far, apart, squared, out[r])
    return out


LARGEST_TOTAL = 2**31 - 1
"""Most records of one side: the capacities of the flow are 32-bit integers."""


class Assignable(NamedTuple):
    """How many released records one assignment reaches, and which pairs belong to an assignment of that size.

    Parameters
    ----------
    assigned : int
    pairs : ndarray of bool, shape (m,)
        For each pair of classes; all False where not every released record is assigned.
    """

    assigned: int
    pairs: Bools


def assignable(originals: Ints, released: Ints, records: Ints, rows: Ints) -> Assignable:
    """Pairs of classes that occur in some assignment of all released records, each to a different original record.

    One maximum flow, then the strongly connected components of its residual graph: a pair without flow is in another
    maximum flow exactly where both of its ends are in one component. Records of a class are interchangeable, so the
    answer for classes is that for records. Original records may stay unassigned, released ones may not.

    Source: Tassa, Mazza, Gionis, Transactions on Data Privacy 5(1), 2012; Tassa, Theoretical Computer Science 423,
    2012 (all maximally matchable edges).

    Parameters
    ----------
    originals, released : ndarray of int64, shape (m,)
        Numbers of the two classes of each consistent pair; no pair twice.
    records : ndarray of int64, shape (classes of the original,)
        Records of each class, above 0; at most `LARGEST_TOTAL` together.
    rows : ndarray of int64, shape (classes of the release,)
        The same of the release.

    Examples
    --------
    Two originals, two released records: the second fits only one original, so the first must be the other.

    >>> found = assignable(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([1, 1]), np.array([1, 1]))
    >>> found.assigned, found.pairs.tolist()
    (2, [True, False, True])
    """
    from scipy.sparse.csgraph import connected_components, maximum_flow

    n, m = len(records), len(rows)
    source, sink = n + m, n + m + 1
    starts = np.concatenate([np.full(n, source), originals, n + np.arange(m)])
    ends = np.concatenate([np.arange(n), n + released, np.full(m, sink)])
    most = np.concatenate([records, np.minimum(records[originals], rows[released]), rows]).astype(np.int32)
    flow = maximum_flow(csr_array((most, (starts, ends)), shape=(sink + 1, sink + 1)), source, sink)
    assigned = int(flow.flow_value)
    if assigned < int(rows.sum()):
        return Assignable(assigned, np.zeros(len(originals), dtype=np.bool_))
    used = np.asarray(flow.flow[originals, n + released]).reshape(-1) > 0
    left = np.asarray(flow.flow[np.full(n, source), np.arange(n)]).reshape(-1)
    back, whole = np.flatnonzero(used), np.arange(n)
    spare, taken = whole[left < records], whole[left > 0]
    # A pair may always take one more record, or give back one it has. The source exchanges unassigned originals.
    tails = np.concatenate([originals, n + released[back], np.full(len(spare), source), taken])
    heads = np.concatenate([n + released, originals[back], spare, np.full(len(taken), source)])
    arcs = csr_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(source + 1, source + 1))
    component = connected_components(arcs, directed=True, connection="strong")[1]
    return Assignable(assigned, np.asarray(used | (component[originals] == component[n + released])))
