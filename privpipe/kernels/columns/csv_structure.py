"""Where the records of a CSV text end, quotes minded: what cutting a file into blocks and trusting it need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only

__all__ = ["CsvStructure", "csv_structure"]

QUOTE, NEWLINE, RETURN = 0x22, 0x0A, 0x0D
FIELD_START, BARE, QUOTED, AFTER_QUOTE = 0, 1, 2, 3


@dataclass(frozen=True)
class CsvStructure:
    """What a CSV text (RFC 4180) is made of.

    Parameters
    ----------
    cuts : tuple of int
        For each place asked for, the first position at or behind it where a record begins; fewer where the
        text ends before.
    astray : int
        Closing quotes with something other than a delimiter behind them.
    unclosed : bool
        Whether the text ends inside a quoted field.
    """

    cuts: tuple[int, ...]
    astray: int
    unclosed: bool


def csv_structure(text: NDArray[np.uint8], delimiter: str, places: Sequence[int]) -> CsvStructure:
    """Find the beginnings of records behind some places, and count what is malformed.

    Parameters
    ----------
    text : ndarray of uint8, shape (n,)
        A whole file, any encoding that keeps ASCII.
    delimiter : str
        One ASCII sign.
    places : sequence of int
        Ascending.

    Examples
    --------
    >>> text = np.frombuffer(b'a,"b' + bytes([10]) + b'c"' + bytes([10]) + b'd,e', dtype=np.uint8)
    >>> csv_structure(text, ",", [1, 9])
    CsvStructure(cuts=(8,), astray=0, unclosed=False)
    """
    wanted = np.asarray(places, dtype=np.int64)
    cuts = np.full(len(wanted), -1, dtype=np.int64)
    astray, state = _scan(read_only(text, np.uint8), ord(delimiter), read_only(wanted, np.int64), cuts)
    found = sorted({int(cut) for cut in cuts if 0 <= cut < len(text)})
    return CsvStructure(tuple(found), int(astray), int(state) == QUOTED)


@njit(nogil=True, cache=True)
def _scan(
    text: NDArray[np.uint8], delimiter: int, wanted: NDArray[np.int64], cuts: NDArray[np.int64]
) -> tuple[int, int]:
    state, astray, at = FIELD_START, 0, 0
    for i in range(len(text)):
        sign = text[i]
        if state == QUOTED:
            if sign == QUOTE:
                state = AFTER_QUOTE
        elif sign == delimiter:
            state = FIELD_START
        elif sign == NEWLINE:
            state = FIELD_START
            while at < len(wanted) and wanted[at] <= i + 1:
                cuts[at] = i + 1
                at += 1
        elif sign == RETURN:
            state = FIELD_START
        elif sign == QUOTE and state != BARE:
            state = QUOTED
        elif state == AFTER_QUOTE:
            astray += 1
            state = BARE
        else:
            state = BARE
    return astray, state
