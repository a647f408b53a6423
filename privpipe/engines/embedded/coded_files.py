"""Parquet files stored by the database in one pass, with record ids, and texts as the numbers of the files."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.engines.base.batches import in_order
from privpipe.engines.base.conversion import normalised
from privpipe.engines.embedded.file_codes import PIECE_ROWS, CodedColumn, FileCodes, Piece
from privpipe.engines.embedded.session import Kept, Session, quoted
from privpipe.errors import EngineError, PrivpipeError
from privpipe.kernels.columns.cell_words import (
    CodedCells,
    FixedCells,
    TextCells,
    coded_words,
    encode_column,
    integer_cells,
)

if TYPE_CHECKING:
    from pandas import CategoricalDtype, DataFrame

    from privpipe.blocks import Histogram

__all__ = ["FileRows", "RowHashing", "sql_type"]


TOGETHER = 1 << 14
"""Rows of which hashes and ids are in the cache: pages that are new each time cost a third of the hash."""


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

    def of_stored(self, session: Session, name: str, records: int, *, counting: bool) -> Ints:
        """The ids of a table of the database, in the order in which it stores its rows.

        Returns
        -------
        ndarray of int64, shape (2, records)
        """
        out = np.empty((2, records), np.int64)
        sql = f"SELECT rowid, {', '.join(self._parts())} FROM {name}"

        def hashed(batch: pa.RecordBatch) -> tuple[Ints, Ints]:
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
                if self.error is not None:  # DuckDB hands on what the function raised as an error of DuckDB
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

    def ids(self, columns: Sequence[pa.Array], ordinals: Ints | None, counting: bool) -> Ints:
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


TEXTS, OTHERS = "texts", "others"
WORD_BYTES = 8
ROWS_A_VALUE = 16
"""Rows that are inserted at a time for each value of an enumeration: its texts are handed over each time."""
ROWS_A_LABEL = 4
"""The same where texts are looked up: the type alone is handed over, and rows with texts take more memory."""
VALUE, LABEL = "__privpipe_value", "__privpipe_label"


@dataclass(frozen=True)
class FileRows:
    """The rows of some files with the ids of first occurrences.

    Parameters
    ----------
    files : FileCodes
    records : int
    columns : mapping of column to CodedColumn
        The texts that become enumerations by the numbers of the files; others are looked up.
    hashing : RowHashing
    histograms : mapping of column to Histogram
        Of all texts that become enumerations.
    """

    files: FileCodes
    records: int
    columns: Mapping[str, CodedColumn]
    hashing: RowHashing
    histograms: Mapping[str, Histogram]

    def room_for_words(self, session: Session) -> Ints | None:
        """One word per row, where there is room for them: a table that was stored is slow to read again."""
        return np.empty(self.records, np.int64) if WORD_BYTES * self.records <= session.room() else None

    def store(self, session: Session, types: Mapping[str, str], words: Ints | None = None) -> Kept:
        """Store them.

        Parameters
        ----------
        session : Session
        types : mapping of column to str
            The names of their enumerations.
        words : ndarray of int64, shape (records,), optional
            Gets the low word of each id.

        Raises
        ------
        EngineError
            The files hold other rows than before, or are not readable any more.
        """
        kept = self._empty(session, types)
        categories = {name: _categories(self.hashing.dictionaries[name]) for name in self.columns}
        labels = {name: self._labels(session, name, types[name]) for name in types if name not in self.columns}
        named = [self._cell(name, labels) for name in self.files.schema.names]
        columns = ", ".join([*named, *(f"{OTHERS}.{name}" for name in ID_COLUMNS)])
        joins = " ".join(
            f"LEFT JOIN {own.name} ON {OTHERS}.{quoted(name)} = {own.name}.{VALUE}" for name, own in labels.items()
        )

        def insert(pieces: Sequence[Piece]) -> None:
            digits, others = self._rows(pieces, words)
            texts, rest = session.name("texts"), session.name("others")
            session.run(
                f"INSERT INTO {kept.name} SELECT {columns} FROM {texts} AS {TEXTS} POSITIONAL JOIN {rest} AS {OTHERS} "
                f"{joins}",
                {texts: _categorical(digits, categories), rest: others},
            )

        least = max(
            *(ROWS_A_VALUE * len(each.categories) for each in categories.values()),
            *(ROWS_A_LABEL * len(self.hashing.dictionaries[name]) for name in labels),
            PIECE_ROWS,
        )
        deque(in_order(insert, _together(self.files.pieces(self.records), least), session.threads), maxlen=0)
        for name in labels:
            missing = int(self.histograms[name].counts[-1]) if self.histograms[name].nulls else 0
            if session.value(f"SELECT count(*) - count({quoted(name)}) FROM {kept.name}") != missing:
                raise EngineError("the source changed while it was read: a column has other values than before")
        return kept

    def _labels(self, session: Session, name: str, type: str) -> Kept:
        """The values of an enumeration next to their texts: a join looks texts up four times as fast as a cast."""
        view, values = session.name("values"), self.hashing.dictionaries[name]
        return session.keep(
            f"SELECT {VALUE}, {VALUE}::{type} AS {LABEL} FROM {view}", {view: pa.table({VALUE: values})}
        )

    def _cell(self, name: str, labels: Mapping[str, Kept]) -> str:
        if name in labels:
            return f"{labels[name].name}.{LABEL}"
        return f"{TEXTS if name in self.columns else OTHERS}.{quoted(name)}"

    def _empty(self, session: Session, types: Mapping[str, str]) -> Kept:
        view = session.name("files")
        columns = [
            f"{quoted(name)}::{types[name]} AS {quoted(name)}" if name in types else quoted(name)
            for name in self.files.schema.names
        ]
        ids = [pa.field(name, pa.int64()) for name in ID_COLUMNS]
        none = pa.schema([*self.files.schema, *ids]).empty_table()
        return session.keep(f"SELECT {', '.join([*columns, *ID_COLUMNS])} FROM {view}", {view: none})

    def _rows(self, pieces: Sequence[Piece], words: Ints | None) -> tuple[dict[str, NDArray[np.int32]], pa.Table]:
        """The digits of texts, and the other columns with ids."""
        read = [self._of_piece(piece, words) for piece in pieces]
        digits = {name: np.concatenate([digits[name] for digits, _ in read]) for name in self.columns}
        return digits, pa.Table.from_batches([others for _, others in read]).combine_chunks()

    def _of_piece(self, piece: Piece, words: Ints | None) -> tuple[dict[str, NDArray[np.int32]], pa.RecordBatch]:
        unread = [name for name, column in self.columns.items() if column.codes is None]
        others = [name for name in self.files.schema.names if name not in self.columns]
        read = piece.read_again([*others, *unread], unread)
        digits = {
            name: column.digits_of(piece, read.column(name) if name in unread else None).astype(np.int32, copy=False)
            for name, column in self.columns.items()
        }
        cells = {name: normalised(read.column(name), name) for name in others}
        hashed = [pa.array(digits[name]) if name in digits else cells[name] for name in self.hashing.names]
        ids = self.hashing.ids(hashed, None, counting=self.hashing.column is None)
        if words is not None:
            words[piece.start : piece.start + piece.rows] = ids[1]
        return digits, pa.record_batch([*cells.values(), *map(pa.array, ids)], names=[*cells, *ID_COLUMNS])


def _together(pieces: Iterable[Piece], least: int) -> Iterator[list[Piece]]:
    """Neighbouring pieces, at least so many rows."""
    found: list[Piece] = []
    rows = 0
    for piece in pieces:
        found.append(piece)
        rows += piece.rows
        if rows >= least:
            yield found
            found, rows = [], 0
    if found:
        yield found


def _categories(values: pa.Array) -> CategoricalDtype:
    import pandas as pd

    return pd.CategoricalDtype(pd.Index(values.to_pylist(), dtype=object))


def _categorical(digits: Mapping[str, NDArray[np.int32]], categories: Mapping[str, CategoricalDtype]) -> DataFrame:
    """Columns that DuckDB takes for enumerations as they stand: casts of texts, and joins, cost four times as much."""
    import pandas as pd

    columns = {}
    for name, each in digits.items():
        kind = categories[name]
        missing = len(kind.categories)
        # In as few bytes as pandas takes: it would copy them once more.
        codes: Any = each.astype(np.int8 if missing < 1 << 7 else np.int16 if missing < 1 << 15 else np.int32)
        if each.max(initial=0) == missing:  # the digit of a missing value is the last; pandas has -1
            codes[each == missing] = -1
        columns[name] = pd.Categorical.from_codes(codes, dtype=kind, validate=False)
    return pd.DataFrame(columns, copy=False)
