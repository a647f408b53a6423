"""The order of a sensitive column's values, for distances between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from privpipe.blocks import Cells, Histogram
from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError, UsageError
from privpipe.roles import column_type_of

__all__ = ["Order", "as_order", "canonical_texts", "in_rank_order", "listed_texts", "ranks", "value_text"]

Order = Literal["text"] | tuple[str | int | float, ...]


def as_order(owner: str, order: Any) -> Order | None:
    """The parameter `order` of a model.

    Raises
    ------
    UsageError
        Neither "text" nor a list of at least one text or number, or a value twice.

    Examples
    --------
    >>> as_order("TCloseness", ["low", "high"])
    ('low', 'high')
    """
    if order is None or order == "text":
        return order  # type: ignore[no-any-return]
    if not isinstance(order, list | tuple):
        raise UsageError(f'{owner}: order must be a list of values or "text"')
    plain = all(isinstance(value, str | int | float) and not isinstance(value, bool) for value in order)
    if not order or not plain:
        raise UsageError(f"{owner}: order must list at least one value, texts or numbers only")
    if len(set(order)) < len(order):
        raise UsageError(f"{owner}: order lists a value twice")
    return tuple(order)


def ranks(column: str, histogram: Histogram, order: Order | None) -> Ints | None:
    """Rank of each value by code, 0 to m - 1; None when values are in order as they stand.

    Parameters
    ----------
    column : str
        For messages.
    histogram : Histogram
        Of the base; its values are sorted by their type.
    order : Order or None
        Listed values that the base does not have take no rank.

    Raises
    ------
    UsageError
        A text column without an order.
    DataError
        A missing value, or values that a listed order leaves out (their number, not the values).

    Examples
    --------
    >>> import pyarrow as pa
    >>> sizes = Histogram(pa.array(["L", "M", "S"]), np.array([1, 1, 1]))
    >>> ranks("size", sizes, ("XS", "S", "M", "L")).tolist()
    [2, 1, 0]
    """
    import pyarrow as pa

    if histogram.nulls:
        raise DataError(
            f"column {column!r} has {histogram.nulls:,} missing values, and a missing value has no place in an "
            "order; use distance: equal, or leave such records out"
        )
    is_text = pa.types.is_string(histogram.values.type) or pa.types.is_large_string(histogram.values.type)
    if order is None:
        if is_text:
            raise UsageError(
                f"column {column!r} is text, which has no natural order: list its values under `order:`, "
                "or write `order: text` to sort them by code points"
            )
        return None
    if order == "text" and is_text:
        return None
    texts = canonical_texts(histogram.values)
    if order == "text":
        return _inverse(sorted(range(len(texts)), key=texts.__getitem__))
    places = {value_text(value): place for place, value in enumerate(order)}
    if len(places) < len(order):
        raise UsageError(f"the order of column {column!r} lists a value twice")
    missing = sum(text not in places for text in texts)
    if missing:
        raise DataError(f"column {column!r} has {missing:,} distinct values that its `order` does not list")
    return _inverse(sorted(range(len(texts)), key=lambda code: places[texts[code]]))


def in_rank_order(cells: Cells, rank: Ints) -> tuple[Ints, Ints]:
    """Codes replaced by ranks, ascending within each class, with their counts.

    Examples
    --------
    >>> cells = Cells(np.array([0, 2]), np.array([0, 1]), np.array([5, 7]))
    >>> [part.tolist() for part in in_rank_order(cells, np.array([1, 0]))]
    [[0, 1], [7, 5]]
    """
    from privpipe.kernels.classes.distance import cells_by_rank

    return cells_by_rank(cells.offsets, cells.codes, cells.counts, rank)


def _inverse(by_rank: list[int]) -> Ints:
    rank = np.empty(len(by_rank), dtype=np.int64)
    rank[by_rank] = np.arange(len(by_rank))
    return rank


def canonical_texts(values: Any) -> list[str]:
    """Canonical texts, the form in which values of any type are compared with those of a policy."""
    from privpipe.hierarchies.canonical import canonical_text

    texts: list[str] = canonical_text(values, None).to_pylist()
    return texts


def value_text(value: str | int | float) -> str:
    """The canonical text of a value that a policy names.

    Examples
    --------
    >>> value_text(7), value_text(30.0), value_text("low")
    ('7', '30', 'low')
    """
    from privpipe.hierarchies.canonical import plain_decimal

    return value if isinstance(value, str) else plain_decimal(Decimal(repr(value)))


def listed_texts(owner: str, column: str, values: Sequence[str | int | float], kind: Any) -> set[str]:
    """The canonical texts of values that a policy lists, read as values of a column's type.

    Parameters
    ----------
    owner, column : str
        For messages.
    values : sequence of text or number
        A text is read as in a file: `1.50` of a decimal column is 1.5, and `2024-05-01T10:00+02:00` is that instant.
    kind : pyarrow.DataType
        Of the column.

    Raises
    ------
    DataError
        Values that the column cannot hold, which would be found in no record (their number, not the values).

    Examples
    --------
    >>> import pyarrow as pa
    >>> sorted(listed_texts("m", "paid", (1, "1.50"), pa.float64())), listed_texts("m", "ok", ("True",), pa.bool_())
    (['1', '1.5'], {'true'})
    """
    from privpipe.hierarchies.canonical import canonical_literal

    read = column_type_of(kind.value_type if hasattr(kind, "value_type") else kind)
    found: set[str] = set()
    wrong = 0
    for value in values:
        try:
            text = canonical_literal(value_text(value), read)
        except ValueError:
            text = None
        if text is None:
            wrong += 1
        else:
            found.add(text)
    if wrong:
        raise DataError(
            f"{owner}: {wrong:,} of the {len(values):,} listed values are not of type {read}, as column {column!r} is: "
            "no record could hold them, and the guarantee would pass whatever the data; list values of that type"
        )
    return found
