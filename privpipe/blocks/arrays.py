"""Types of arrays, values as numbers, and arrays as compiled code takes them: read-only, their codes checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from privpipe.errors import UsageError

__all__ = [
    "Bools",
    "Codes",
    "Floats",
    "Ints",
    "Words",
    "numbered",
    "read_only",
    "require_codes",
]


Bools = NDArray[np.bool_]
Codes = NDArray[np.int32]
"""Values of a column as numbers from 0 on."""
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Hashes and keyed draws, 64 bits each."""


def numbered(values: Iterable[str | None]) -> tuple[list[str | None], Ints]:
    """The distinct values in order of appearance, and the index of each element among them.

    Examples
    --------
    >>> values, places = numbered(["b", "a", "b"])
    >>> values, places.tolist()
    (['b', 'a'], [0, 1, 0])
    """
    seen: dict[str | None, int] = {}
    places = np.array([seen.setdefault(value, len(seen)) for value in values], dtype=np.int64)
    return list(seen), places


def read_only(values: ArrayLike, dtype: DTypeLike) -> NDArray[Any]:
    """A contiguous read-only view, converted to `dtype` only if necessary.

    Compiled code is specialised by type, and whether an array may be written is part of it: Arrow's buffers may
    not, numpy's may. One kind for both halves the compilation.

    Examples
    --------
    >>> read_only([1, 2], np.int64).flags.writeable
    False
    """
    view = np.ascontiguousarray(values, dtype=dtype).view()
    view.flags.writeable = False
    return view


def require_codes(codes: NDArray[Any], places: int, table: str, least: int = 0) -> None:
    """Refuse codes outside a table.

    Parameters
    ----------
    codes : ndarray of integers
    places : int
        Codes are below this.
    table : str
        What is looked up, for the message.
    least : int
        The smallest code: -1 where that stands for a missing value.

    Raises
    ------
    UsageError
        A code outside: it is one of another table.

    Examples
    --------
    >>> import numpy as np
    >>> require_codes(np.array([0, 2]), 3, "a base distribution")
    >>> require_codes(np.array([0, 3]), 3, "a base distribution")
    Traceback (most recent call last):
        ...
    privpipe.errors.UsageError: a base distribution has 3 places, and no place for the codes 0 to 3
    """
    if codes.size and not (least <= codes.min() and codes.max() < places):
        raise UsageError(
            f"{table} has {places} places, and no place for the codes {int(codes.min())} to {int(codes.max())}"
        )
