"""How an interval of numbers is written as a label, and read back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from privpipe.errors import UsageError
from privpipe.hierarchies.numberline import NumberLine
from privpipe.hierarchies.options import ROOT

__all__ = ["IntervalText", "LabelStyle", "interval_ends", "style_for"]

LabelStyle = Literal["brackets", "dash", "words", "open"]
"""``[40, 60)``, ``40-59``, ``40 to under 60`` or ``[40, 60[``."""

_BRACKETS: Final = re.compile(r"\[(?P<low>[^,\[\]()]+), (?P<high>[^,\[\]()]+)(?P<end>[\]\[)])")
_WORDS: Final = re.compile(r"(?P<low>\S+) to under (?P<high>\S+)")
_DASH: Final = re.compile(r"(?P<low>\d+)-(?P<high>\d+)|(?P<below>-?\d+) to (?P<above>-?\d+)", re.ASCII)

Ends = tuple[str | None, str | None, bool]


def style_for(asked: LabelStyle | None, kind: str | None, line: NumberLine, column: str) -> LabelStyle:
    """The style that a column's labels have: as asked, else ``dash`` for whole numbers and ``brackets`` for others.

    Raises
    ------
    UsageError
        ``dash`` is asked for, and the column or the bounds are not whole: its labels would not meet.
    """
    if asked is None:
        return "dash" if kind == "integer" and line.scale == 0 else "brackets"
    if asked == "dash" and (kind not in (None, "integer") or line.scale):
        what = f"column {column!r} has type {kind}" if kind != "integer" else f"bounds of column {column!r} are not"
        raise UsageError(f"labels: dash is for whole numbers, and {what}; say `labels: brackets` or `labels: words`")
    return asked


@dataclass(frozen=True)
class IntervalText:
    """Labels of intervals [start, stop) in units of a line.

    Parameters
    ----------
    line : NumberLine
    style : {"brackets", "dash", "words", "open"}

    Examples
    --------
    >>> line = NumberLine([], [])
    >>> for style in ("brackets", "dash", "words", "open"):
    ...     text = IntervalText(line, style)
    ...     print(text(40, 60), "|", text(None, 40), "|", text(60, None))
    [40, 60) | <40 | >=60
    40-59 | <40 | >=60
    40 to under 60 | under 40 | 60 or more
    [40, 60[ | <40 | >=60
    >>> IntervalText(line, "dash")(-10, 0), IntervalText(line, "dash")(7, 8)
    ('-10 to -1', '7')
    """

    line: NumberLine
    style: LabelStyle

    def __call__(self, start: int | None, stop: int | None) -> str:
        """The label of one interval; None: it has no end on that side. Of one number (start = stop): that number."""
        write, words = self.line.text, self.style == "words"
        if start is None or stop is None:
            if stop is not None:
                return f"under {write(stop)}" if words else f"<{write(stop)}"
            if start is not None:
                return f"{write(start)} or more" if words else f">={write(start)}"
            return ROOT
        if start == stop:
            return write(start)
        if self.style == "dash":
            return self._dash(start, stop - 1)
        if words:
            return f"{write(start)} to under {write(stop)}"
        return f"[{write(start)}, {write(stop)}" + (")" if self.style == "brackets" else "[")

    def _dash(self, first: int, last: int) -> str:
        if first == last:
            return self.line.text(first)
        between = "-" if first >= 0 else " to "
        return f"{self.line.text(first)}{between}{self.line.text(last)}"


def interval_ends(label: str, *, dashes: bool = True) -> Ends | None:
    """Low end, high end (None: there is none) and whether the high end belongs to it; None for no interval.

    Parameters
    ----------
    label : str
        In any style. The text of the ends is not looked at.
    dashes : bool
        Whether ``40-59`` is the interval [40, 60), as in columns of numbers, or a text such as a month.

    Examples
    --------
    >>> interval_ends("[40, 60)"), interval_ends("40-59"), interval_ends("40 to under 60")
    (('40', '60', False), ('40', '60', False), ('40', '60', False))
    >>> interval_ends("[a, b]"), interval_ends("under 5"), interval_ends(">=5"), interval_ends("5")
    (('a', 'b', True), (None, '5', False), ('5', None, True), None)
    """
    if label.startswith((">=", "<")):
        return (label[2:], None, True) if label.startswith(">=") else (None, label[1:], False)
    if (found := _BRACKETS.fullmatch(label)) is not None:
        return found["low"], found["high"], found["end"] == "]"
    if (found := _WORDS.fullmatch(label)) is not None:
        return found["low"], found["high"], False
    if label.startswith("under ") or label.endswith(" or more"):
        low = label.removesuffix(" or more")
        return (low, None, True) if low != label else (None, label.removeprefix("under "), False)
    if dashes and (found := _DASH.fullmatch(label)) is not None:
        low, high = found["low"] or found["below"], found["high"] or found["above"]
        if Decimal(low) < Decimal(high):
            return low, str(int(high) + 1), False
    return None
