"""What a sign of a CSV text means where it stands: the one automaton of all readers."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    "transitions",
]

RECORD_START, FIELD_START, BARE, QUOTED, AFTER_QUOTE, COMMENT, LITERAL, QUOTED_LITERAL = range(8)
"""States; a literal is the sign behind an escape."""
DROPPED, LINE_END, RECORD_END, RETURNED, KEPT, OPENED, STRAY, FIELD_END, ESCAPED = range(9)
"""What a sign does; from `KEPT` on it shows that its line is not empty."""
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
        Takes the next sign as it is.
    comment : str, optional
        At the beginning of a record: the line is none.
    trim : bool
        Whether blanks before and behind quotes are no text.

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
    """For each state and byte, at ``256 * state + byte``: the state behind it, plus 8 times what the byte does.

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
    """The state behind a sign, and what the sign does."""
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
    """As `_step`, of a sign outside quotes and comments that ends no line."""
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
