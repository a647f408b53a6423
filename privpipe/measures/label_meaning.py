"""Labels of a release as the original's values and hierarchies explain them, and the ranges and sets of columns
without a hierarchy.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.verdict import EXPLAIN, Comparison
from privpipe.errors import DataError, HierarchyError
from privpipe.hierarchies import canonical_text
from privpipe.hierarchies.canonical import exact_number
from privpipe.hierarchies.interval_levels import interval_ends
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = [
    "ANY",
    "MOMENTS",
    "NUMBERS",
    "counted_texts",
    "explained",
    "is_range",
    "labels_compared",
    "range_members",
    "range_penalty",
    "values_compared",
]


Text = str | None
ANY = "*"
NUMBERS = ("integer", "number", "decimal")
MOMENTS = ("date", "timestamp")


def range_penalty(label: Text, values: Sequence[Text], kind: str) -> float | None:
    """NCP of a released cell among the distinct values of its column; None where the label shows nothing about them.

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


@lru_cache(maxsize=32)  # every label of a column is compared with the same values
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


def explained(labels: Sequence[Text], values: Sequence[Text], kind: str, hierarchy: Hierarchy | None = None) -> Bools:
    """Which labels have a known meaning; the others may represent any value.

    A label is explained where it is a value of the original, a label of the hierarchy, a missing value, ``*``, a value
    or range of the column's numbers or dates, or a set that holds a value.

    Parameters
    ----------
    labels, values : sequence of str or None
        Distinct canonical texts of the released column and of the original one.
    kind : str
        Type of the original column.
    hierarchy : Hierarchy, optional

    Examples
    --------
    >>> explained(["31", "30-39", "middle", "*", None], ["31", "37"], "integer").tolist()
    [True, True, False, True, True]
    >>> explained(["Jena", "{Bonn, Jena}", "30-39", "person"], ["Bonn", "Jena"], "text").tolist()
    [True, True, False, False]
    """
    known = {None, ANY, *values}
    for level in range(0 if hierarchy is None else hierarchy.height + 1):
        known.update(hierarchy.texts(level), hierarchy.released_labels(level))  # type: ignore[union-attr]
    return np.array([label in known or _reads_as(str(label), known, kind) for label in labels], dtype=np.bool_)


def _reads_as(label: str, known: set[Text], kind: str) -> bool:
    if kind in (*NUMBERS, *MOMENTS):
        return is_range(label, kind) or _is_value(label, kind)
    return label.startswith("{") and label.endswith("}") and any(part in known for part in label[1:-1].split(", "))


def _is_value(label: str, kind: str) -> bool:
    import pyarrow as pa

    try:
        canonical_text(pa.array([label], pa.string()), kind)
    except DataError:
        return False
    return True


def counted_texts(column: pa.Array | pa.ChunkedArray) -> tuple[list[Text], Ints]:
    """Distinct canonical texts of a column, in the order of their first occurrence, and how many cells have each."""
    import pyarrow as pa

    texts = canonical_text(column, column_type_of(column.type))
    if isinstance(texts, pa.ChunkedArray):
        texts = texts.combine_chunks()
    found = texts.value_counts()
    return found.field("values").to_pylist(), found.field("counts").to_numpy().astype(np.int64)


def labels_compared(
    original: pa.Table | pa.RecordBatch,
    released: pa.Table | pa.RecordBatch,
    hierarchies: Mapping[str, HierarchySpec],
    mark: str = ANY,
) -> list[Comparison]:
    """How many released records have a label that is explained, of each column that is not a number or a date in both.

    Parameters
    ----------
    original, released : pyarrow.Table or RecordBatch
        With the same columns.
    mark : str
        The text of a suppressed cell.
    """
    found = []
    for name in original.schema.names:
        kind, shown = (column_type_of(side.schema.field(name).type) for side in (original, released))
        if {kind, shown} <= set(NUMBERS) or (kind == shown and kind in MOMENTS):
            continue
        labels, counts = counted_texts(released.column(name))
        values, of_value = counted_texts(original.column(name))
        means = explained(labels, values, kind, _built(hierarchies.get(name), values, of_value, kind))
        means |= np.array([label == mark for label in labels], dtype=np.bool_)
        what = f"released records have a label of {name!r} that is explained"
        found.append(Comparison(int(counts[means].sum()), int(counts.sum()), what, EXPLAIN))
    return found


def _built(spec: HierarchySpec | None, values: list[Text], counts: Ints, kind: str) -> Hierarchy | None:
    """The hierarchy over these values; one that does not fit them explains nothing."""
    if spec is None:
        return None
    try:
        return spec.build(values, counts.tolist(), kind)
    except HierarchyError:
        return None


def values_compared(original: pa.Table | pa.RecordBatch, released: pa.Table | pa.RecordBatch) -> Comparison:
    """How many records have a value in both tables, in some column, of those with one in the original.

    Row i of both is the same record.
    """
    import pyarrow.compute as pc

    n = original.num_rows
    known, both = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
    for name in original.schema.names:
        sides = (original.column(name), released.column(name))
        own, shown = (~pc.is_null(each, nan_is_null=True).to_numpy(zero_copy_only=False) for each in sides)
        known |= own
        both |= own & shown
    what = "records have a value in both tables, in some column compared"
    return Comparison(int(both.sum()), int(known.sum()), what, "name columns that hold values in both tables")
