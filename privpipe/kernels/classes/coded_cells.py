"""The class table of a few records that are columns of codes already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coded", "CodedCells", "cells_of", "coded_cells", "joined"]

Ints = NDArray[np.int64]
ROOM = 1 << 21
"""Counters up to this many are counted into directly, which needs no sort."""
RECORDS_A_COUNTER = 16
"""Of few records, so many counters each cost more than sorting them."""


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
    """Some columns as one, the last of which varies fastest.

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
    """As `coded_cells`, of keys and values that are one column already, the last of which has so many values."""
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
