"""Classes of columns of codes: the class table of a few records, and sizes over some columns of a distinct table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privpipe.blocks.arrays import Ints

__all__ = ["Coded", "CodedCells", "cells_of", "coded_cells", "joined", "projected_counts", "projected_sizes"]


ROOM = 1 << 21
"""Counters up to this many are counted into directly, which needs no sort."""
RECORDS_A_COUNTER = 16
"""With more counters per record than this, sorting few records is cheaper."""


@dataclass(frozen=True)
class Coded:
    """A column as codes in 0 .. distinct - 1."""

    codes: Ints = field(repr=False)
    distinct: int


@dataclass(frozen=True)
class CodedCells:
    """Records of each class, and of each value in it, compressed by class as `Cells` are."""

    sizes: Ints
    offsets: Ints
    codes: Ints
    counts: Ints


def joined(columns: Sequence[Coded]) -> Coded:
    """Combine some columns into one, in which the last column varies fastest.

    Examples
    --------
    >>> joined([Coded(np.array([1, 0]), 2), Coded(np.array([2, 1]), 3)]).codes.tolist()
    [5, 1]
    """
    codes, room = np.zeros(len(columns[0].codes), dtype=np.int64), 1
    for column in columns:
        if room * column.distinct >= 2**62:
            distinct, codes = np.unique(codes, return_inverse=True)
            codes, room = codes.astype(np.int64, copy=False), len(distinct)
        codes = codes * column.distinct + column.codes if room > 1 else column.codes
        room *= column.distinct
    return Coded(codes, room)


def coded_cells(keys: Sequence[Coded], values: Coded) -> CodedCells:
    """Classes by ascending key, and in each the values that occur.

    Parameters
    ----------
    keys : sequence of Coded
        Columns of n >= 1 codes.
    values : Coded

    Examples
    --------
    >>> key, value = Coded(np.array([1, 0, 1]), 2), Coded(np.array([5, 5, 5]), 6)
    >>> found = coded_cells([key], value)
    >>> found.sizes.tolist(), found.codes.tolist(), found.counts.tolist()
    ([1, 2], [5, 5], [1, 2])
    """
    return cells_of(joined([*keys, values]), values.distinct)


def cells_of(joint: Coded, values: int) -> CodedCells:
    """As `coded_cells`, for keys and values combined into one column, with the values varying fastest."""
    if joint.distinct <= min(ROOM, RECORDS_A_COUNTER * len(joint.codes)):
        table = np.bincount(joint.codes, minlength=joint.distinct)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(joint.codes, return_counts=True)
    classes = cells // values
    starts = np.flatnonzero(np.diff(classes, prepend=classes[:1] - 1))
    return CodedCells(
        sizes=np.add.reduceat(counts, starts),
        offsets=np.append(starts, len(cells)),
        codes=cells % values,
        counts=counts,
    )


def projected_sizes(codes: Ints, counts: Ints) -> Ints:
    """Sizes of the classes that some columns form.

    Parameters
    ----------
    codes : ndarray of int64, shape (t, m)
        Codes of the chosen columns, at least 0, of each distinct combination of these and others.
    counts : ndarray of int64, shape (t,)
        Records of each.

    Returns
    -------
    ndarray of int64, shape (C,)
        In unspecified order; without columns, a table with records is one class.

    Examples
    --------
    >>> projected_sizes(np.array([[0, 1], [0, 1], [1, 1]]), np.array([2, 3, 4])).tolist()
    [5, 4]
    """
    _, sizes = projected_counts(codes, counts)
    return sizes[sizes > 0]


def projected_counts(codes: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """The class of each combination over some columns, and the records of each class (some may have none).

    Parameters
    ----------
    codes, counts
        As in `projected_sizes`.

    Returns
    -------
    (ndarray of int64, shape (t,), ndarray of int64)
        Numbers of classes, and records by number.

    Examples
    --------
    >>> numbers, records = projected_counts(np.array([[0, 1], [0, 1], [1, 1]]), np.array([2, 3, 4]))
    >>> records[numbers].tolist()
    [5, 5, 4]
    """
    key = np.zeros(len(counts), dtype=np.int64)
    if not len(counts):
        return key, np.zeros(0, dtype=np.int64)
    span = 1
    for column in codes.T:
        values = int(column.max()) + 1
        if span * values > 4 * len(key) + 1024:  # sparse keys are renumbered: they must not overflow
            key, span = _numbered(key)
        key = key * values + column
        span *= values
    if span > 4 * len(key) + 1024:
        key, span = _numbered(key)
    sizes = np.zeros(span, dtype=np.int64)
    np.add.at(sizes, key, counts)
    return key, sizes


def _numbered(key: Ints) -> tuple[Ints, int]:
    distinct, numbers = np.unique(key, return_inverse=True)
    return numbers.astype(np.int64), len(distinct)
