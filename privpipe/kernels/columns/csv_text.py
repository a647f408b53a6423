"""CSV text: the automaton of all readers, the ends of records, and conversion of other dialects to RFC 4180."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints, read_only
from privpipe.compiled import njit

__all__ = [
    "AFTER_QUOTE",
    "BARE",
    "COMMENT",
    "DROPPED",
    "ESCAPED",
    "FIELD_END",
    "FIELD_START",
    "KEPT",
    "LINE_END",
    "LITERAL",
    "NEWLINE",
    "OPENED",
    "QUOTED",
    "QUOTED_LITERAL",
    "RECORD_END",
    "RECORD_START",
    "RETURN",
    "RETURNED",
    "STRAY",
    "CsvSigns",
    "CsvStructure",
    "csv_structure",
    "rewritten_csv",
    "transitions",
]


RECORD_START, FIELD_START, BARE, QUOTED, AFTER_QUOTE, COMMENT, LITERAL, QUOTED_LITERAL = range(8)
"""States; a literal is the sign after an escape."""
DROPPED, LINE_END, RECORD_END, RETURNED, KEPT, OPENED, STRAY, FIELD_END, ESCAPED = range(9)
"""Effects of a sign; from `KEPT` on they show that its line is not empty."""
NEWLINE, RETURN, SPACE, TAB = 0x0A, 0x0D, 0x20, 0x09
NONE = -1


@dataclass(frozen=True)
class CsvSigns:
    """The ASCII signs that structure a CSV text; None where there is no such sign.

    Parameters
    ----------
    delimiter : str
    quote : str, optional
    escape : str, optional
        Takes the next sign literally.
    comment : str, optional
        At the beginning of a record: the line is not a record.
    trim : bool
        Whether blanks before and after quotes do not count as text.

    Examples
    --------
    >>> CsvSigns(";").codes
    (59, 34, -1, -1, False)
    """

    delimiter: str
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    trim: bool = False

    @property
    def codes(self) -> tuple[int, int, int, int, bool]:
        """The signs as numbers, -1 for none."""
        quote, escape, comment = (
            NONE if sign is None else ord(sign) for sign in (self.quote, self.escape, self.comment)
        )
        return ord(self.delimiter), quote, escape, comment, self.trim


@functools.lru_cache(maxsize=16)
def transitions(signs: CsvSigns) -> NDArray[np.uint8]:
    """For each state and byte, at ``256 * state + byte``: the state after it, plus 8 times the effect of the byte.

    Examples
    --------
    >>> table = transitions(CsvSigns(","))
    >>> int(table[256 * RECORD_START + ord('"')]) == 8 * OPENED + QUOTED
    True
    """
    codes = signs.codes
    found = [_step(state, sign, codes) for state in range(8) for sign in range(256)]
    table = np.array([8 * does + behind for behind, does in found], dtype=np.uint8)
    table.setflags(write=False)
    return table


def _step(state: int, sign: int, codes: tuple[int, int, int, int, bool]) -> tuple[int, int]:
    """The state after a sign, and the effect of the sign."""
    escape = codes[2]
    if state >= LITERAL:
        return (BARE if state == LITERAL else QUOTED), KEPT
    if sign == escape and state != COMMENT:
        return (QUOTED_LITERAL if state == QUOTED else LITERAL), (STRAY if state == AFTER_QUOTE else ESCAPED)
    if state == QUOTED:
        return (AFTER_QUOTE, DROPPED) if sign == codes[1] else (QUOTED, KEPT)
    if sign == NEWLINE:
        return RECORD_START, (LINE_END if state == COMMENT else RECORD_END)
    if state == COMMENT:
        return COMMENT, DROPPED
    return _outside(state, sign, codes)


def _outside(state: int, sign: int, codes: tuple[int, int, int, int, bool]) -> tuple[int, int]:
    """As `_step`, for a sign outside quotes and comments that does not end a line."""
    delimiter, quote, _escape, comment, trim = codes
    if sign == delimiter:
        return FIELD_START, FIELD_END
    if sign == RETURN:
        return RECORD_START, RETURNED
    if state != BARE:
        if trim and sign in (SPACE, TAB):
            return state, DROPPED
        if sign == quote:
            return QUOTED, (KEPT if state == AFTER_QUOTE else OPENED)
        if sign == comment and state == RECORD_START:
            return COMMENT, DROPPED
        if state == AFTER_QUOTE:
            return BARE, STRAY
    return BARE, KEPT


@dataclass(frozen=True)
class CsvStructure:
    """The structure of a CSV text (RFC 4180, or with other signs).

    Parameters
    ----------
    cuts : tuple of int
        For each requested place, the first position at or after it where a record begins; fewer where the
        text ends before that.
    astray : int
        Closing quotes followed by something other than a delimiter.
    unclosed : bool
        Whether the text ends inside a quoted field.
    second : int
        Where the second record begins, comments left out; the text's length where there is none.
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
    """Find the beginnings of records after some places, and count malformed parts.

    Parameters
    ----------
    text : ndarray of uint8, shape (n,)
        A whole file, any encoding that keeps ASCII.
    signs : CsvSigns or str
        A str is the delimiter.
    places : sequence of int
        Ascending.
    footer : int
        Lines at the end that are not records; empty lines do not count.

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
    wanted: Ints,
    cuts: Ints,
    last: Ints,
) -> tuple[int, int, int, int, bool]:
    """`last` is filled as a ring buffer with the beginnings of the last records."""
    state: Any = np.uint64(RECORD_START)  # unsigned, so that an index needs no check for negative values
    astray, at, marks, records, size = 0, 0, 0, 0, len(text)
    second: Any = size
    start: Any = 0
    filled = False
    i: Any = np.uint64(0)
    while i < size:
        row, same = state << 8, 8 * KEPT + state
        while i < size and table[row | text[i]] == same:  # most signs keep the state
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


QUOTE = 0x22


def rewritten_csv(data: bytes, signs: CsvSigns) -> bytes:
    r"""Convert records with any signs to records with the same delimiter under RFC 4180, without comments.

    Parameters
    ----------
    data : bytes
        Whole records of a well-formed file, in an encoding that keeps ASCII.
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
    """The length of the written text; `field` has room for the longest field."""
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
    """Write a field, in quotes where it was quoted or has to be; the position after it."""
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
