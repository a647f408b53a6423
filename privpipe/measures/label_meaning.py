"""Which labels of a release mean something, given the values and the hierarchy of the column in the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.comparison import EXPLAIN, Comparison
from privpipe.errors import DataError, HierarchyError
from privpipe.hierarchies import canonical_text
from privpipe.measures.utility.cut_ranges import ANY, MOMENTS, NUMBERS, is_range
from privpipe.roles import column_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import Hierarchy, HierarchySpec

__all__ = ["counted_texts", "explained", "labels_compared", "values_compared"]

Text = str | None
Flags = NDArray[np.bool_]


def explained(labels: Sequence[Text], values: Sequence[Text], kind: str, hierarchy: Hierarchy | None = None) -> Flags:
    """Which labels mean something; the others may stand for any value, since nothing says for which.

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


def counted_texts(column: pa.Array | pa.ChunkedArray) -> tuple[list[Text], NDArray[np.int64]]:
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
    """How many released records have a label that is explained, of each column that is no number or date in both.

    Parameters
    ----------
    original, released : pyarrow.Table or RecordBatch
        With the same columns.
    mark : str
        What a suppressed cell bears.
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


def _built(spec: HierarchySpec | None, values: list[Text], counts: NDArray[np.int64], kind: str) -> Hierarchy | None:
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
