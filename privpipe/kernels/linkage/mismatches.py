"""Where labels of one file cover no value of another, laid out for compiled loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UsageError
from privpipe.kernels.columns.arrays import read_only

__all__ = ["Mismatches", "largest_codes", "mismatches"]


class Mismatches(NamedTuple):
    """The tables of mismatches end to end, where each begins (-1: codes mismatch where they differ), and its width."""

    table: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    widths: NDArray[np.int64]


def largest_codes(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The largest code of each column, -1 where there are no rows; shape (q,) of (n, q)."""
    return np.asarray(codes.max(axis=0, initial=-1), dtype=np.int64)


def mismatches(
    tables: Sequence[NDArray[np.bool_] | None], largest: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> Mismatches:
    """The tables of the columns end to end.

    Parameters
    ----------
    tables : sequence of ndarray of bool, shape (own values, other values), or None
        One for each column; fewer: the columns after them have none.
    largest : pair of ndarray of int64, shape (q,)
        The largest code of each column in this file and in the other, as `largest_codes` gives them.

    Raises
    ------
    UsageError
        A code that a table has no place for: compiled loops do not look, and would read what lies beside it.

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
