"""Parquet files stored by the database in one pass, with record ids; texts come as the numbers files have of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.typing import normalised
from privpipe.engines.embedded.file_codes import CodedColumn, FileCodes, Piece
from privpipe.engines.embedded.row_hashing import RowHashing
from privpipe.engines.embedded.session import Kept, Session
from privpipe.engines.embedded.table import quoted
from privpipe.errors import EngineError, PrivpipeError

__all__ = ["FileRows"]

ROWS = "rows"


@dataclass(frozen=True)
class FileRows:
    """The rows of some files with the ids of first occurrences.

    Parameters
    ----------
    files : FileCodes
    records : int
    columns : mapping of column to CodedColumn
        The texts that become enumerations.
    hashing : RowHashing
    """

    files: FileCodes
    records: int
    columns: Mapping[str, CodedColumn]
    hashing: RowHashing

    def store(self, session: Session, types: Mapping[str, str]) -> Kept:
        """Store them; `types` are the names of the enumerations of columns.

        Raises
        ------
        EngineError
            The files hold other rows than before.
        """
        view = session.name("files")
        frames: dict[str, object] = {
            view: pa.RecordBatchReader.from_batches(self._schema, self._batches(session.threads))
        }
        selected, joins = [], []
        for name in self.files.schema.names:
            if name not in self.columns:
                selected.append(f"{ROWS}.{quoted(name)}")
                continue
            texts, alias = session.name("values"), session.name("value")
            values = self.hashing.dictionaries[name]
            frames[texts] = pa.table({"digit": pa.array(np.arange(len(values), dtype=np.int32)), "value": values})
            selected.append(f"{alias}.value AS {quoted(name)}")
            joins.append(
                f"LEFT JOIN (SELECT digit, value::{types[name]} AS value FROM {texts}) AS {alias} "
                f"ON {alias}.digit = {ROWS}.{quoted(name)}"
            )
        selected += [f"{ROWS}.{name}" for name in ID_COLUMNS]
        try:
            return session.keep(f"SELECT {', '.join(selected)} FROM {view} AS {ROWS} {' '.join(joins)}", frames)
        except PrivpipeError:
            if self.hashing.error is not None:  # DuckDB hands on what the reader raised as an error of its own
                raise self.hashing.error from None
            raise

    @property
    def _schema(self) -> pa.Schema:
        """Texts as the digits of their values."""
        schema = self.files.schema
        fields = [pa.field(each.name, pa.int32() if each.name in self.columns else each.type) for each in schema]
        return pa.schema([*fields, *(pa.field(name, pa.int64()) for name in ID_COLUMNS)])

    def _batches(self, threads: int) -> Iterator[pa.RecordBatch]:
        try:
            yield from in_order(self._batch, self.files.pieces(self.records), threads)
        except PrivpipeError as error:
            self.hashing.error = error
            raise

    def _batch(self, piece: Piece) -> pa.RecordBatch:
        cells: dict[str, pa.Array] = {}
        unread = [name for name, column in self.columns.items() if column.codes is None]
        others = [name for name in self.files.schema.names if name not in self.columns]
        read = piece.read([*others, *unread], unread) if others or unread else None
        for name, column in self.columns.items():
            codes = column.codes_of(piece, read.column(name) if read is not None and column.codes is None else None)
            cells[name] = pa.array(_digits(column, codes))
        if read is not None:
            cells |= {name: normalised(read.column(name), name) for name in others}
        hashed = [cells[name] for name in self.hashing.names]
        ids = self.hashing.ids(hashed, np.zeros(piece.rows, np.int64), counting=self.hashing.column is None)
        columns = [*(cells[name] for name in self.files.schema.names), *map(pa.array, ids)]
        return pa.record_batch(columns, schema=self._schema)


def _digits(column: CodedColumn, codes: NDArray[np.uint16]) -> NDArray[np.int32]:
    places = column.places.astype(np.int32)
    if len(codes) and int(codes.max()) < len(places):
        digits = np.take(places, codes)
        if digits.min() >= 0:
            return digits
    elif not len(codes):
        return np.zeros(0, np.int32)
    raise EngineError("the source changed while it was read: a column has other values than before")
