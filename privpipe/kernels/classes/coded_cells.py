"""The class table of a few records that are columns of codes already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coded", "CodedCells", "coded_cells"]

Ints = NDArray[np.int64]
ROOM = 1 << 21
"""Counters up to this many are counted into directly, which needs no sort."""


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
    joint, room = np.zeros(len(values.codes), dtype=np.int64), 1
    for column in (*keys, values):
        if room * column.distinct >= 2**62:
            distinct, joint = np.unique(joint, return_inverse=True)
            joint, room = joint.astype(np.int64, copy=False), len(distinct)
        joint = joint * column.distinct + column.codes
        room *= column.distinct
    if room <= ROOM:
        table = np.bincount(joint, minlength=room)
        cells = np.flatnonzero(table)
        counts = table[cells]
    else:
        cells, counts = np.unique(joint, return_counts=True)
    classes = cells // values.distinct
    starts = np.flatnonzero(np.diff(classes, prepend=classes[:1] - 1))
    return CodedCells(
        sizes=np.add.reduceat(counts, starts),
        offsets=np.append(starts, len(cells)),
        codes=cells % values.distinct,
        counts=counts,
    )
