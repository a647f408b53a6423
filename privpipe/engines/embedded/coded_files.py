"""Parquet files stored by the database in one pass, with record ids; texts come as the numbers files have of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS
from privpipe.engines.base.parallel import in_order
from privpipe.engines.base.typing import normalised
from privpipe.engines.embedded.file_codes import PIECE_ROWS, CodedColumn, FileCodes, Piece
from privpipe.engines.embedded.row_hashing import RowHashing
from privpipe.engines.embedded.session import Kept, Session
from privpipe.engines.embedded.table import quoted
from privpipe.errors import EngineError

if TYPE_CHECKING:
    from pandas import CategoricalDtype, DataFrame

    from privpipe.blocks import Histogram

__all__ = ["FileRows"]

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

    def room_for_words(self, session: Session) -> NDArray[np.int64] | None:
        """A word a row, where there is room for them: a table that was stored is slow to read again."""
        return np.empty(self.records, np.int64) if WORD_BYTES * self.records <= session.room() else None

    def store(self, session: Session, types: Mapping[str, str], words: NDArray[np.int64] | None = None) -> Kept:
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
        """The values of an enumeration beside their texts: a join looks texts up four times as fast as a cast."""
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

    def _rows(
        self, pieces: Sequence[Piece], words: NDArray[np.int64] | None
    ) -> tuple[dict[str, NDArray[np.int32]], pa.Table]:
        """The digits of texts, and the other columns with ids."""
        read = [self._of_piece(piece, words) for piece in pieces]
        digits = {name: np.concatenate([digits[name] for digits, _ in read]) for name in self.columns}
        return digits, pa.Table.from_batches([others for _, others in read]).combine_chunks()

    def _of_piece(
        self, piece: Piece, words: NDArray[np.int64] | None
    ) -> tuple[dict[str, NDArray[np.int32]], pa.RecordBatch]:
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
