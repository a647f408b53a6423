"""Codes are checked before compiled loops look them up: these read whatever lies beside a table."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from privpipe.errors import UsageError

__all__ = ["require_codes"]


def require_codes(codes: NDArray[Any], places: int, table: str, least: int = 0) -> None:
    """Refuse codes for which a table has no place.

    Parameters
    ----------
    codes : ndarray of integers
    places : int
        Codes lie below this.
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
