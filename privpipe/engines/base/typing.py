"""From the types a source has to the types a policy declares, batch by batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.engines.base.carried_cells import CARRIED, carried_text, is_carried
from privpipe.engines.base.logical import arrow_type, inexact_error, kind_of, logical_type
from privpipe.engines.base.names import check_declared, check_names
from privpipe.engines.base.text import from_text
from privpipe.errors import DataError
from privpipe.hierarchies import canonical_text

__all__ = ["Typing", "conversion_error", "normalised", "typing_of"]


def conversion_error(column: str, kind: str, count: int) -> DataError:
    """What every engine says of cells that are no value of their declared type."""
    return DataError(
        f"column {column!r} is declared {kind}, and {count:,} cell{'s are' if count != 1 else ' is'} not; "
        "correct the data, declare another type, or list the text that stands for no value under `null_values`"
    )


def normalised(array: pa.Array | pa.ChunkedArray, column: str, *, carried: bool = False) -> pa.Array:
    """A column in its logical type: dictionaries decoded, integers 64 bits, timestamps in microseconds, NaN null.

    Raises
    ------
    DataError
        The type has no logical one; an integer beyond 64 bits with sign; a timestamp finer than a microsecond.

    Examples
    --------
    >>> normalised(pa.array(["a", None]).dictionary_encode(), "zip").type
    DataType(string)
    >>> normalised(pa.array([1.5, float("nan")], pa.float32()), "x").to_pylist()
    [1.5, None]
    """
    target = logical_type(array.type, column, carried=carried)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
        array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    if pt.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if is_carried(array.type):
        return carried_text(array)
    try:
        array = array if array.type == target else array.cast(target)
    except pa.ArrowInvalid:
        raise inexact_error(column, array.type) from None
    if pt.is_floating(target):
        nan = pc.is_nan(array)
        array = pc.if_else(nan, pa.scalar(None, target), array) if pc.any(nan).as_py() else array
    return array


@dataclass(frozen=True)
class Typing:
    """How the columns of a source become the logical columns of a table.

    Parameters
    ----------
    schema : pyarrow.Schema
        Logical schema of the visible columns.
    """

    schema: pa.Schema
    kinds: Mapping[str, str] = field(default_factory=dict)

    def apply(self, batch: pa.RecordBatch | pa.Table) -> tuple[pa.RecordBatch, dict[str, int]]:
        """The batch in logical types, and how many cells of each column did not convert (these are null)."""
        columns, bad = [], {}
        for wanted in self.schema:
            array, failed = self.column(batch.column(wanted.name), wanted.name)
            columns.append(array)
            if failed:
                bad[wanted.name] = failed
        return pa.record_batch(columns, schema=self.schema), bad

    def convert(self, batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        """The batch in logical types.

        Raises
        ------
        DataError
            Cells that do not convert.
        """
        converted, bad = self.apply(batch)
        self.refuse(bad)
        return converted

    def refuse(self, bad: Mapping[str, int]) -> None:
        """Raise for the first column with cells that did not convert, counts of all batches added up."""
        for column, count in bad.items():
            if count:
                raise conversion_error(column, kind_of(self.schema.field(column).type), count)

    def column(self, array: pa.Array | pa.ChunkedArray, name: str) -> tuple[pa.Array, int]:
        """One column of a batch, and how many of its cells did not convert."""
        array = normalised(array, name, carried=self.kinds.get(name) == CARRIED)
        target = self.schema.field(name).type
        return (array, 0) if array.type == target else _converted(array, target, name)


def typing_of(source: pa.Schema, types: Mapping[str, str], scales: Mapping[str, int] | None = None) -> Typing:
    """The typing of a source under declared types; columns without one keep their logical type.

    Parameters
    ----------
    scales : mapping of column to int
        Digits after the point of text columns declared decimal (`decimal_scale` over all their cells).

    Raises
    ------
    DataError
        Bad names, a declared column that is missing, a type that cannot become the declared one.

    Examples
    --------
    >>> typing_of(pa.schema({"age": pa.string()}), {"age": "integer"}).schema.field("age").type
    DataType(int64)
    """
    check_names(source.names)
    check_declared(source.names, types)
    fields = []
    for known in source:
        kind = types.get(known.name)
        found = logical_type(known.type, known.name, carried=kind == CARRIED)
        if kind in (None, CARRIED, kind_of(found)):
            fields.append(pa.field(known.name, found))
            continue
        _refuse_senseless(known.name, kind_of(found), kind)
        scale = (scales or {}).get(known.name, 0)
        fields.append(pa.field(known.name, arrow_type(kind, scale=scale)))
    return Typing(pa.schema(fields), dict(types))


_MAY_BECOME = {
    "integer": {"number", "decimal", "text"},
    "number": {"integer", "text"},
    "decimal": {"number", "integer", "text"},
    "date": {"timestamp", "text"},
    "timestamp": {"date", "text"},
    "boolean": {"text"},
    "binary": set[str](),
}


def _refuse_senseless(column: str, found: str, wanted: str) -> None:
    if found != "text" and wanted not in _MAY_BECOME[found]:
        remedy = f"declare {found}" if found != "binary" else "leave `type:` out, or make it text before"
        raise DataError(f"column {column!r} is declared {wanted}, but the source holds it as {found}; {remedy}")


def _converted(array: pa.Array, target: pa.DataType, column: str) -> tuple[pa.Array, int]:
    if pt.is_string(array.type):
        kind = kind_of(target)
        return from_text(array, kind, scale=target.scale if kind == "decimal" else 0)
    if pt.is_string(target):
        return canonical_text(array, None, column=column), 0
    try:
        # Arrow's cast of a timestamp to a date cuts the time of day off without a word.
        if not pt.is_date(target):
            return array.cast(target), 0
    except pa.ArrowInvalid:
        pass
    kept = _castable(array, target)
    return array.filter(kept).cast(target).take(_positions(kept)), int(pc.sum(pc.invert(kept)).as_py() or 0)


def _castable(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Which cells the cast keeps exact: those that survive the way there and back."""
    if pt.is_integer(target) and pt.is_floating(array.type):
        inside = pc.and_(pc.greater_equal(array, -(2.0**63)), pc.less(array, 2.0**63))
        return pc.fill_null(pc.and_(inside, pc.equal(pc.trunc(array), array)), True)
    there = array.cast(target, safe=False)
    return pc.fill_null(pc.equal(there.cast(array.type, safe=False), array), True)


def _positions(kept: pa.Array) -> pa.Array:
    """Position of each kept cell among the kept ones, null for the others."""
    ranks = pc.subtract(pc.cumulative_sum(kept.cast(pa.int64())), 1)
    return pc.if_else(kept, ranks, pa.scalar(None, pa.int64()))
