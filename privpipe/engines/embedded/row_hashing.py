"""Ids of the rows of a stored table, and the sum of the hashes of their content."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.draws import Seed
from privpipe.engines.base.parallel import in_order
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.table import quoted
from privpipe.errors import PrivpipeError
from privpipe.kernels.columns.cell_words import (
    CodedCells,
    FixedCells,
    TextCells,
    coded_words,
    encode_column,
    integer_cells,
)

__all__ = ["RowHashing", "sql_type"]

TOGETHER = 1 << 14
"""Rows of which hashes and ids lie in the cache: pages that are new each time cost a third of the hash."""


def sql_type(kind: pa.DataType) -> str:
    """The type by which a function is handed a column; empty for one that it cannot be handed."""
    if pt.is_decimal(kind):
        return f"DECIMAL(38, {kind.scale})"
    if pt.is_timestamp(kind):
        return "TIMESTAMPTZ" if kind.tz is not None else "TIMESTAMP"
    known = {
        pa.string(): "VARCHAR",
        pa.int64(): "BIGINT",
        pa.float64(): "DOUBLE",
        pa.bool_(): "BOOLEAN",
        pa.date32(): "DATE",
        pa.binary(): "BLOB",
    }
    return known.get(kind, "")


@dataclass
class RowHashing:
    """Ids of records as a function of their columns, and the sum of the hashes of their content.

    Parameters
    ----------
    schema : pyarrow.Schema
    dictionaries : mapping of column to pyarrow.Array
    column : str, optional
        As in `with_coded_ids`.
    seed : Seed
    """

    schema: pa.Schema
    dictionaries: Mapping[str, pa.Array]
    column: str | None
    seed: Seed = field(repr=False)

    records: int = 0
    total: int = 0
    error: PrivpipeError | None = None

    def __post_init__(self) -> None:
        self.names = sorted(self.schema.names) if self.column is None else [self.column]
        self._words = {
            name: coded_words(self.dictionaries[name], name) for name in self.names if name in self.dictionaries
        }
        self._lock = threading.Lock()

    @property
    def key(self) -> bytes:
        """Of the hash of content."""
        return self.seed.key("record")

    def of_stored(self, session: Session, name: str, records: int, *, counting: bool) -> NDArray[np.int64]:
        """The ids of a table of the database, in the order in which it stores its rows.

        Returns
        -------
        ndarray of int64, shape (2, records)
        """
        out = np.empty((2, records), np.int64)
        sql = f"SELECT rowid, {', '.join(self._parts())} FROM {name}"

        def hashed(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
            places, *columns = batch.columns
            return places.to_numpy(), self.ids(columns, None, counting)

        for places, ids in in_order(hashed, session.stream(sql), session.threads):
            out[:, places] = ids
        return out

    @contextmanager
    def function(self, session: Session, *, counting: bool) -> Iterator[str]:
        """A call of a function of a row, in which the ordinal is left open."""
        fields, parts = ["ordinal BIGINT"], ["ordinal := {ordinal}"]
        for at, (name, cell) in enumerate(zip(self.names, self._parts(), strict=True)):
            kind = "INTEGER" if name in self.dictionaries else sql_type(self.schema.field(name).type)
            fields.append(f"c{at} {kind}")
            braces = cell.replace("{", "{{").replace("}", "}}")  # they are places to fill
            parts.append(f"c{at} := {braces}")

        def compute(rows: Any) -> pa.Array:
            whole = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
            ordinals, *columns = whole.flatten()
            try:
                high, low = self.ids(columns, ordinals.to_numpy(), counting)
            except PrivpipeError as error:
                self.error = error
                raise
            return pa.StructArray.from_arrays([pa.array(high), pa.array(low)], names=["hi", "lo"])

        takes = (f"STRUCT({', '.join(fields)})",)
        with session.function(compute, takes, "STRUCT(hi BIGINT, lo BIGINT)") as name:
            try:
                yield f"{name}(struct_pack({', '.join(parts)}))"
            except PrivpipeError:
                if self.error is not None:  # DuckDB hands on what the function raised as an error of its own
                    raise self.error from None
                raise

    def _parts(self) -> list[str]:
        """What is hashed of each column; no number of an enumeration is missing."""
        return [
            f"coalesce(enum_code({quoted(name)})::INTEGER, {len(self.dictionaries[name])})"
            if name in self.dictionaries
            else quoted(name)
            for name in self.names
        ]

    def ids(self, columns: Sequence[pa.Array], ordinals: NDArray[np.int64] | None, counting: bool) -> NDArray[np.int64]:
        """Of some rows, by their columns of `names`; those of dictionaries may come as the numbers of their values.

        Parameters
        ----------
        ordinals : ndarray of int64, optional
            None: of first occurrences.

        Returns
        -------
        ndarray of int64, shape (2, rows)
        """
        from privpipe.kernels.ids.record_ids import hash_cells, record_id, sum_of_hashes

        cells, count = list(map(self._cells, self.names, columns)), len(columns[0])
        out, total, none = np.empty((2, count), np.int64), 0, np.zeros(TOGETHER, np.int64)
        for start in range(0, count, TOGETHER):
            rows = min(TOGETHER, count - start)
            hashed = hash_cells(cells, rows, self.seed, start)
            total += sum_of_hashes(hashed) if counting else 0
            own = none[:rows] if ordinals is None else ordinals[start : start + rows]
            ids = hashed if self.column is not None else record_id(hashed, own, self.seed)
            out[:, start : start + rows] = ids.T
        if counting:
            with self._lock:
                self.records += count
                self.total = (self.total + total) % (1 << 128)
        return out

    def _cells(self, name: str, column: pa.Array) -> FixedCells | TextCells | CodedCells:
        if name in self._words and pt.is_integer(column.type):
            return CodedCells(column.to_numpy(), *self._words[name])
        if pt.is_int64(column.type) and not column.null_count:
            return integer_cells(column.to_numpy())
        return encode_column(column, "record_id" if self.column is not None else name)
