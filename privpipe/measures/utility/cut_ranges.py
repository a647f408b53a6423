"""Ranges and sets that stand for values of a column without a hierarchy, as cuts release them."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache

from privpipe.hierarchies.interval_text import interval_ends
from privpipe.hierarchies.literals import exact_number

__all__ = ["ANY", "MOMENTS", "NUMBERS", "is_range", "range_members", "range_penalty"]

Text = str | None
ANY = "*"
NUMBERS = ("integer", "number", "decimal")
MOMENTS = ("date", "timestamp")


def range_penalty(label: Text, values: Sequence[Text], kind: str) -> float | None:
    """NCP of a released cell among the distinct values of its column; None where the label says nothing of them.

    Of a number, date or time: (hi - lo) / (max - min) over the values that the range takes in, 0 where all are one. Of
    a text: 0 for a value, else the values of the set / D. 1 for ``*``.

    Parameters
    ----------
    label : str or None
    values : sequence of str or None
        Canonical texts of the original's distinct values.
    kind : str
        Type of the original column.

    Examples
    --------
    >>> ages = ["7", "8", "30", "47"]
    >>> [range_penalty(label, ages, "integer") for label in ("8", "[7, 8]", "[8, 30[", ">=30", "<30", "*", "old")]
    [0.0, 0.025, 0.0, 0.425, 0.025, 1.0, None]
    >>> range_penalty("[2024-01-01, 2024-01-03]", ["2024-01-01", "2024-01-03", "2024-01-11"], "date")
    0.2
    >>> range_penalty("{Bonn, Jena}", ["Bonn", "Gera", "Jena", None], "text")
    0.5
    """
    if label in values:
        return 0.0
    if label is None:
        return None
    if label == ANY:
        return 1.0
    if kind not in (*NUMBERS, *MOMENTS):
        return _of_set(label, values)
    numbers = sorted(number for number in _counted(tuple(values), kind) if number is not None and number.is_finite())
    bounds = _bounds(label, kind)
    if bounds is None or not numbers:
        return None
    held = [number for number in numbers if _within(number, bounds)]
    if not held:
        return None
    width = numbers[-1] - numbers[0]
    return float((held[-1] - held[0]) / width) if width else 0.0


def is_range(label: str, kind: str) -> bool:
    """Whether a label reads as a range of the column's numbers, dates or times.

    Examples
    --------
    >>> is_range("30-39", "integer"), is_range("[30, 40[", "number"), is_range("middle", "integer")
    (True, True, False)
    """
    return kind in (*NUMBERS, *MOMENTS) and _bounds(label, kind) is not None


def range_members(label: Text, values: Sequence[Text], kind: str) -> list[bool]:
    """Which of the distinct values of its column a released range or set takes in.

    Examples
    --------
    >>> range_members("[8, 30[", ["7", "8", "30", None], "integer"), range_members("{a, b}", ["a", "c"], "text")
    ([False, True, False, False], [True, False])
    >>> range_members("[2024-01-01, 2024-02-01[", ["2024-01-31", "2024-02-01"], "date")
    [True, False]
    """
    if label is None or label == ANY:
        return [label == ANY] * len(values)
    if kind in (*NUMBERS, *MOMENTS):
        bounds = _bounds(label, kind)
        if bounds is None:
            return [False] * len(values)
        return [number is not None and _within(number, bounds) for number in _counted(tuple(values), kind)]
    if not (label.startswith("{") and label.endswith("}")):
        return [False] * len(values)
    parts = set(label[1:-1].split(", "))
    return [("null" if text is None else text) in parts for text in values]


@lru_cache(maxsize=32)  # every label of a column is laid beside the same values
def _counted(values: tuple[Text, ...], kind: str) -> tuple[Decimal | None, ...]:
    return tuple(None if text is None else _exact(text, kind) for text in values)


def _exact(text: str, kind: str) -> Decimal:
    """A number, or a moment as the microseconds since the year 1; doubles would not distinguish large ones."""
    if kind in NUMBERS:
        return exact_number(text)
    since = datetime.datetime.fromisoformat(text) - datetime.datetime.min
    return Decimal(since // datetime.timedelta(microseconds=1))


def _bounds(label: str, kind: str) -> tuple[Decimal | None, Decimal | None, bool] | None:
    """Low end, high end (None: there is none) and whether the high end belongs to a range."""
    ends = interval_ends(label, dashes=kind in NUMBERS)
    if ends is None:
        return None
    try:
        low, high = (None if end is None else _exact(end, kind) for end in ends[:2])
    except ValueError:
        return None
    return low, high, ends[2]


def _within(number: Decimal, bounds: tuple[Decimal | None, Decimal | None, bool]) -> bool:
    low, high, closed = bounds
    return (low is None or low <= number) and (high is None or number < high or (closed and number == high))


def _of_set(label: str, values: Sequence[Text]) -> float | None:
    if not (label.startswith("{") and label.endswith("}")):
        return None
    parts = [None if part == "null" and "null" not in values else part for part in label[1:-1].split(", ")]
    return len(parts) / len(values) if all(part in values for part in parts) else None
