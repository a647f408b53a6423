"""Where the records of a CSV text end, quotes minded: what cutting a file into blocks and trusting it need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.columns.csv_signs import (
    DROPPED,
    KEPT,
    LITERAL,
    NEWLINE,
    QUOTED,
    RECORD_END,
    RECORD_START,
    STRAY,
    CsvSigns,
    transitions,
)

__all__ = ["CsvStructure", "csv_structure"]


@dataclass(frozen=True)
class CsvStructure:
    """What a CSV text (RFC 4180, or one of other signs) is made of.

    Parameters
    ----------
    cuts : tuple of int
        For each place asked for, the first position at or behind it where a record begins; fewer where the
        text ends before.
    astray : int
        Closing quotes with something other than a delimiter behind them.
    unclosed : bool
        Whether the text ends inside a quoted field.
    second : int
        Where the second record begins, comments left out; the text's length where it does not.
    end : int
        Where the footer begins; the text's length without one.
    marks : int
        Byte order marks at the beginning of records.
    """

    cuts: tuple[int, ...]
    astray: int
    unclosed: bool
    second: int = 0
    end: int = 0
    marks: int = 0


def csv_structure(
    text: NDArray[np.uint8], signs: CsvSigns | str, places: Sequence[int], *, footer: int = 0
) -> CsvStructure:
    """Find the beginnings of records behind some places, and count what is malformed.

    Parameters
    ----------
    text : ndarray of uint8, shape (n,)
        A whole file, any encoding that keeps ASCII.
    signs : CsvSigns or str
        A text is the delimiter.
    places : sequence of int
        Ascending.
    footer : int
        Records at the end that are none; empty lines do not count.

    Examples
    --------
    >>> text = np.frombuffer(b'a,"b' + bytes([10]) + b'c"' + bytes([10]) + b'd,e', dtype=np.uint8)
    >>> found = csv_structure(text, ",", [1, 9], footer=1)
    >>> found.cuts, found.astray, found.unclosed, found.second, found.end
    ((8,), 0, False, 8, 8)
    """
    table = transitions(CsvSigns(signs) if isinstance(signs, str) else signs)
    wanted = np.asarray(places, dtype=np.int64)
    cuts = np.full(len(wanted), -1, dtype=np.int64)
    last = np.zeros(max(footer, 1), dtype=np.int64)
    astray, marks, second, records, unclosed = _scan(
        read_only(text, np.uint8), table, read_only(wanted, np.int64), cuts, last
    )
    found = sorted({int(cut) for cut in cuts if 0 <= cut < len(text)})
    end = len(text) if not footer else int(last[records % footer]) if records >= footer else 0
    return CsvStructure(tuple(found), int(astray), bool(unclosed), int(second), end, int(marks))


@njit(nogil=True, cache=True)
def _scan(
    text: NDArray[np.uint8],
    table: NDArray[np.uint8],
    wanted: NDArray[np.int64],
    cuts: NDArray[np.int64],
    last: NDArray[np.int64],
) -> tuple[int, int, int, int, bool]:
    """`last` becomes the ring of where the last records begin."""
    state: Any = np.uint64(RECORD_START)  # without a sign, an index needs no check for negative ones
    astray, at, marks, records, size = 0, 0, 0, 0, len(text)
    second: Any = size
    start: Any = 0
    filled = False
    i: Any = np.uint64(0)
    while i < size:
        row, same = state << 8, 8 * KEPT + state
        while i < size and table[row | text[i]] == same:  # most signs change nothing
            i += np.uint64(1)
        if i == size:
            break
        both = table[row | text[i]]
        if both >> 3 >= KEPT:
            if state == RECORD_START:
                marks += text[i] == 0xEF and i + 2 < size and text[i + 1] == 0xBB and text[i + 2] == 0xBF
            astray += both >> 3 == STRAY
            filled = True
        elif text[i] == NEWLINE and both >> 3 != DROPPED:
            if both >> 3 == RECORD_END:
                second = min(second, np.int64(i) + 1)
            if filled:
                last[records % len(last)] = start
                records += 1
            start, filled = np.int64(i) + 1, False
            while at < len(wanted) and wanted[at] <= start:
                cuts[at] = start
                at += 1
        state = np.uint64(both & 7)
        i += np.uint64(1)
    if filled:
        last[records % len(last)] = start
        records += 1
    return astray, marks, second, records, bool(state == QUOTED or state >= LITERAL)
