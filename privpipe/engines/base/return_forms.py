"""How a table is handed back: its untouched columns in the types that they came in, its rows under an index."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.engines.base.conversion import normalised
from privpipe.engines.base.logical_types import carried_cells, is_carried, logical_type

__all__ = [
    "AS_THEY_ARE",
    "ReturnForm",
    "as_before",
    "fresh_labels",
    "in_type",
    "in_types",
    "kept_metadata",
    "kept_types",
]

DESCRIPTIVE = ("comment", "description", "label", "title", "unit", "source", "owner", "license", "PARQUET:field_id")
"""Keys of a column's metadata that describe it; all others may hold values: bounds, categories, samples."""


@dataclass(frozen=True, kw_only=True)
class ReturnForm:
    """How a result is handed back.

    Parameters
    ----------
    types : mapping of column to pyarrow.DataType
        Of columns all of whose values are values of the same column of the source: the type that it has there.
    untouched : frozenset of str
        Those that no stage changed.
    whole : bool
        Whether every record of the source is in the result.
    labels : int
        Where a new index begins, downwards: see `fresh_labels`.
    original : Table, optional
        The source with record ids, by which records find their index; None where none may, or can, be kept.
    """

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    untouched: frozenset[str] = frozenset()
    whole: bool = False
    labels: int = -1
    original: Any = None

    @staticmethod
    def labels_of(run: str) -> int:
        """Where the new index of a run begins, from what distinguishes its source: two runs share no label.

        Examples
        --------
        >>> ReturnForm.labels_of("a") < 0, ReturnForm.labels_of("a") == ReturnForm.labels_of("b")
        (True, False)
        """
        return -1 - (int.from_bytes(hashlib.sha256(f"index/{run}".encode()).digest()[:5]) << 20)


AS_THEY_ARE = ReturnForm()


def kept_types(source: pa.Schema, released: pa.Schema, changed: Collection[str]) -> dict[str, pa.DataType]:
    """Types of a source that its columns keep: of those that came through, in what their values are.

    Parameters
    ----------
    source, released : pyarrow.Schema
        As the source has them; logical.
    changed : collection of str
        Columns that may hold other values than the source.

    Examples
    --------
    >>> found = pa.schema({"age": pa.int8(), "zip": pa.string(), "pay": pa.float32()})
    >>> kept_types(found, pa.schema({"age": pa.int64(), "pay": pa.float64()}), ["pay"])
    {'age': DataType(int8)}
    """
    kept = {}
    for each in released:
        at = source.get_field_index(each.name)
        if at < 0 or each.name in changed or pt.is_null(source.field(at).type):
            continue
        found = source.field(at).type
        if found != each.type and logical_type(found, each.name, carried=True) == each.type:
            kept[each.name] = found
    return kept


def in_type(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of logical type in the type of its source; ArrowInvalid where a value does not fit exactly.

    Examples
    --------
    >>> in_type(pa.array([1, None]), pa.uint8()).type, in_type(pa.array(['["a"]']), pa.list_(pa.string())).to_pylist()
    (DataType(uint8), [['a']])
    """
    if cells.type == kind:
        return cells
    if is_carried(kind):
        return carried_cells(cells, kind)
    if pt.is_run_end_encoded(kind):
        return in_type(cells, kind.value_type)
    if pt.is_dictionary(kind):
        return _dictionary(in_type(cells, kind.value_type), kind)
    return cells.cast(kind)


def _dictionary(cells: pa.Array, kind: pa.DictionaryType) -> pa.Array:
    """Cells as a dictionary of the values that occur; in order of appearance, so it is not an ordered one."""
    found = cells.dictionary_encode()
    indices = found.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, found.dictionary)


def in_types(rows: pa.Table, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The rows with columns in these types, see `in_type`."""
    for at, name in enumerate(rows.column_names):
        if name in types:
            rows = rows.set_column(at, name, in_type(_joined(rows.column(at)), types[name]))
    return rows


def as_before(rows: pa.Table, before: pa.Table, *, whole: bool) -> tuple[pa.Table, list[str]]:
    """Rows with the cells, types and metadata of what they came from, and the names of columns that did not change.

    Parameters
    ----------
    before : pyarrow.Table
        The same records as they came. What changed keeps its type where each new value fits it exactly.
    whole : bool
        Whether every record is among them.
    """
    columns, fields, same = [], [], []
    for name, column in zip(rows.column_names, map(_joined, rows.columns), strict=True):
        at = before.schema.get_field_index(name)
        if at < 0:
            columns.append(column)
            fields.append(pa.field(name, column.type))
            continue
        known, own = before.schema.field(at), _joined(before.column(at))
        untouched = normalised(own, name, carried=True).equals(column)
        found = _used(own) if untouched else _fitted(column, known.type)
        same += [name] if untouched else []
        columns.append(found)
        kept = kept_metadata(known.metadata, whole=whole and untouched)
        fields.append(pa.field(name, found.type, known.nullable or found.null_count > 0, kept))
    kept = kept_metadata(before.schema.metadata, whole=whole and same == before.column_names)
    return pa.table(columns, pa.schema(fields, kept)), same


def _joined(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks() if column.num_chunks else pa.array([], column.type)
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _fitted(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        found = in_type(cells, kind)
        return found if pt.is_dictionary(kind) or found.cast(cells.type).equals(cells) else cells
    except (pa.ArrowException, ValueError):
        return cells


def _used(cells: pa.Array) -> pa.Array:
    """A dictionary with the values that occur, in its order: the others are of records that are gone."""
    if not pt.is_dictionary(cells.type):
        return cells
    codes = cells.indices.to_numpy(zero_copy_only=False)
    present = np.unique(codes[~np.isnan(codes)] if codes.dtype.kind == "f" else codes).astype(np.int64)
    places = np.full(len(cells.dictionary) + 1, -1)
    places[present] = np.arange(len(present))
    held = cells.indices.cast(pa.int64()).fill_null(len(cells.dictionary)).to_numpy()
    indices = pa.array(places[held], mask=places[held] < 0).cast(cells.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, cells.dictionary.take(pa.array(present)), ordered=cells.type.ordered)


def fresh_labels(rows: int, first: int, part: int = 0) -> Any:
    """A pandas index that an index of the source cannot be aligned with by chance: below zero, unlike row numbers.

    Parameters
    ----------
    part : int
        Of a frame in partitions, each of fewer than 2**32 rows.

    Examples
    --------
    >>> list(fresh_labels(3, -8)), list(fresh_labels(1, -8, part=1))
    ([-8, -9, -10], [-4294967304])
    """
    import pandas as pd

    start = first - (part << 32)
    return pd.RangeIndex(start, start - rows, -1)


def kept_metadata(found: Mapping[Any, Any] | None, *, whole: bool) -> dict[Any, Any]:
    """What an untouched column keeps of its metadata: all where every record stays, else what describes it.

    Examples
    --------
    >>> kept_metadata({"comment": "of birth", "max": 99}, whole=False)
    {'comment': 'of birth'}
    """
    named = {key.decode() if isinstance(key, bytes) else key: key for key in found or {}}
    return {key: (found or {})[key] for name, key in named.items() if whole or name in DESCRIPTIVE}
