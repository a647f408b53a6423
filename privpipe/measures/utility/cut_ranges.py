"""Ranges and sets that stand for values of a column without a hierarchy, as cuts release them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

__all__ = ["range_members", "range_penalty"]

Text = str | None
BETWEEN = re.compile(r"\[(?P<low>[^,\[\]]+), (?P<high>[^,\[\]]+)(?P<end>[\]\[])")
ANY = "*"


def range_penalty(label: Text, values: Sequence[Text], kind: str) -> float | None:
    """NCP of a released cell among the distinct values of its column; None where the label says nothing of them.

    Of a number: (hi - lo) / (max - min) over the values that the range takes in, 0 where all are one. Of a text: 0 for
    a value, else the values of the set / D. 1 for ``*``.

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
    >>> range_penalty("{Bonn, Jena}", ["Bonn", "Gera", "Jena", None], "text")
    0.5
    """
    if label in values:
        return 0.0
    if label is None:
        return None
    if label == ANY:
        return 1.0
    if kind not in ("integer", "number", "decimal"):
        return _of_set(label, values)
    numbers = sorted(number for text in values if text is not None and math.isfinite(number := float(text)))
    bounds = _bounds(label)
    if bounds is None or not numbers:
        return None
    low, high, closed = bounds
    held = [number for number in numbers if low <= number and (number <= high if closed else number < high)]
    if not held:
        return None
    width = numbers[-1] - numbers[0]
    return (held[-1] - held[0]) / width if width else 0.0


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
    if kind in ("integer", "number", "decimal"):
        bounds = _bounds(label)
        if bounds is None:
            return [False] * len(values)
        low, high, closed = bounds
        numbers = [math.nan if text is None else float(text) for text in values]
        return [low <= number and (number <= high if closed else number < high) for number in numbers]
    if kind in ("date", "timestamp"):
        return [text is not None and _within(text, label) for text in values]
    if not (label.startswith("{") and label.endswith("}")):
        return [False] * len(values)
    parts = set(label[1:-1].split(", "))
    return [("null" if text is None else text) in parts for text in values]


def _within(text: str, label: str) -> bool:
    """Whether a range of ISO dates or times takes one in: their texts are in the order of time."""
    if label.startswith(">="):
        return text >= label[2:]
    if label.startswith("<"):
        return text < label[1:]
    found = BETWEEN.fullmatch(label)
    return found is not None and found["low"] <= text and (text < found["high"] or label.endswith(f"{text}]"))


def _bounds(label: str) -> tuple[float, float, bool] | None:
    """Low end, high end and whether the high end belongs to a range."""
    try:
        if label.startswith(">="):
            return float(label[2:]), math.inf, True
        if label.startswith("<"):
            return -math.inf, float(label[1:]), False
        found = BETWEEN.fullmatch(label)
        return None if found is None else (float(found["low"]), float(found["high"]), found["end"] == "]")
    except ValueError:
        return None


def _of_set(label: str, values: Sequence[Text]) -> float | None:
    if not (label.startswith("{") and label.endswith("}")):
        return None
    parts = [None if part == "null" and "null" not in values else part for part in label[1:-1].split(", ")]
    return len(parts) / len(values) if all(part in values for part in parts) else None
