"""CSV of other quotes, escapes and comments, rewritten as RFC 4180: one parser reads them all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.compiled import njit
from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.columns.csv_signs import (
    FIELD_END,
    KEPT,
    NEWLINE,
    OPENED,
    RECORD_END,
    RECORD_START,
    RETURN,
    RETURNED,
    CsvSigns,
    transitions,
)

__all__ = ["rewritten_csv"]

QUOTE = 0x22


def rewritten_csv(data: bytes, signs: CsvSigns) -> bytes:
    r"""Records of any signs as records of the same delimiter under RFC 4180, comments left out.

    Parameters
    ----------
    data : bytes
        Whole records of a sound file, in an encoding that keeps ASCII.
    signs : CsvSigns

    Examples
    --------
    >>> rewritten_csv(rb"# made by hand" + b"\n'a;b';c\\;d\n", CsvSigns(";", "'", "\\", "#"))
    b'"a;b";"c;d"\n'
    """
    text = read_only(np.frombuffer(data, dtype=np.uint8), np.uint8)
    field = np.empty(len(text), dtype=np.uint8)
    table, delimiter = transitions(signs), ord(signs.delimiter)
    length = _rewrite(text, table, delimiter, field, np.empty(0, dtype=np.uint8), False)
    out = np.empty(length, dtype=np.uint8)
    _rewrite(text, table, delimiter, field, out, True)
    return out.tobytes()


@njit(nogil=True, cache=True)
def _rewrite(
    text: NDArray[np.uint8],
    table: NDArray[np.uint8],
    delimiter: int,
    field: NDArray[np.uint8],
    out: NDArray[np.uint8],
    writes: bool,
) -> int:
    """The length of what is written; `field` has room for the longest one."""
    state, quoted, length, at = RECORD_START, False, 0, 0
    for i in range(len(text)):
        sign = text[i]
        both = table[256 * state + sign]
        state, found = both & 7, both >> 3
        if found == KEPT:
            field[length], length = sign, length + 1
        elif found == OPENED:
            quoted = True
        elif found == RETURNED and i + 1 < len(text) and text[i + 1] == NEWLINE:
            continue
        elif found in (FIELD_END, RECORD_END, RETURNED):
            at = _put(field, length, quoted, delimiter, out, at, writes)
            if writes:
                out[at] = sign if found == FIELD_END else NEWLINE
            at += 1
            length, quoted = 0, False
    return int(_put(field, length, quoted, delimiter, out, at, writes))


@njit(nogil=True, cache=True)
def _put(
    field: NDArray[np.uint8],
    length: int,
    quoted: bool,
    delimiter: int,
    out: NDArray[np.uint8],
    at: int,
    writes: bool,
) -> int:
    """The position behind a field, in quotes where it was or has to be."""
    for i in range(length):
        sign = field[i]
        quoted = quoted or sign in (QUOTE, delimiter, NEWLINE, RETURN)
    if quoted:
        if writes:
            out[at] = QUOTE
        at += 1
    for i in range(length):
        if quoted and field[i] == QUOTE:
            if writes:
                out[at] = QUOTE
            at += 1
        if writes:
            out[at] = field[i]
        at += 1
    if quoted:
        if writes:
            out[at] = QUOTE
        at += 1
    return at
