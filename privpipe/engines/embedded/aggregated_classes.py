"""Classes aggregated by DuckDB: joint cells, grouped and numbered by key, and exact sums of a weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.class_blocks import (
    COUNT,
    block_of_cells,
    grouping_columns,
    may_be_marked,
    require_query_columns,
)
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, column_list, nothing_but_mark, quoted
from privpipe.engines.embedded.row_functions import logical_table
from privpipe.engines.embedded.session import Kept, Session
from privpipe.errors import DataError

__all__ = ["CLASS", "JointCells", "weighted_classes"]


CLASS = "__privpipe_class"


class JointCells:
    """Counted combinations of keys, sensitive columns, weight and person, by class."""

    def __init__(self, session: Session, table: EmbeddedTable, query: ClassQuery) -> None:
        self.session, self.table, self.query = session, table, query

    def sql(self) -> str:
        """Joint cells with the number of their class."""
        columns = column_list(grouping_columns(self.query))
        keys = column_list(self.query.keys)
        number = f"dense_rank() OVER (ORDER BY {keys})" if keys else "1::BIGINT"
        group = f"SELECT {columns}, count(*) AS {COUNT} FROM {self.table.source} GROUP BY {columns}"
        whole = f"SELECT count(*) AS {COUNT} FROM {self.table.source} HAVING count(*) > 0"
        return f"SELECT *, {number} AS {CLASS} FROM ({group if columns else whole})"

    def keep(self) -> Kept:
        """The cells stored."""
        return self.session.keep(self.sql(), self.table.frames)

    def blocks(self, stored: str | None = None) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks with the numbers of their classes, which ascend; from the table of `keep` where it is given."""
        source, frames = (stored, {}) if stored else (f"({self.sql()})", self.table.frames)
        pending: list[pa.RecordBatch] = []
        for batch in self.session.stream(f"SELECT * FROM {source} ORDER BY {CLASS}", frames):
            ids = batch.column(CLASS).to_numpy()
            # The last class of a batch may go on in the next one.
            last = int(np.searchsorted(ids, ids[-1], side="left"))
            if last or (pending and pending[-1].column(CLASS)[-1].as_py() != int(ids[0])):
                yield self._block([*pending, batch.slice(0, last)])
                pending = []
            pending.append(batch.slice(last))
        if pending:
            yield self._block(pending)

    def _block(self, batches: list[pa.RecordBatch]) -> tuple[ClassBlock, NDArray[np.int64]]:
        cells = logical_table(pa.Table.from_batches(batches), self.table.schema)
        ids = np.asarray(cells.column(CLASS).to_numpy(), dtype=np.int64)
        return block_of_cells(cells, self.query, ids), np.unique(ids)


BLOCK_CLASSES = 131072
MOST_BITS = 126
MOST_PLACES = 900
SIZE, HIGH, LOW, MARKED = "__privpipe_size", "__privpipe_high", "__privpipe_low", "__privpipe_marked"
WORD = "18446744073709551615::HUGEINT"


def weighted_classes(session: Session, table: EmbeddedTable, query: ClassQuery) -> Iterator[ClassBlock] | None:
    """Blocks of classes with their weights; None where joint cells must serve.

    That is where values or persons are counted in addition to the weights, or where weights are negative, infinite, or
    of magnitudes so far apart that no integer of 128 bits holds their sum.

    Raises
    ------
    DataError
        Records without a weight.
    """
    if query.weight is None or query.person is not None:
        return None
    require_query_columns(table.schema, query)
    _require_weights(session, table, query.weight)
    kind = table.schema.field(query.weight).type
    if query.columns:
        return None
    if not (pt.is_integer(kind) or pt.is_floating(kind)):
        return None
    places = _places(session, table, query.weight)
    return None if places is None else _blocks(session, table, query, places)


def _require_weights(session: Session, table: EmbeddedTable, weight: str) -> None:
    # Blocks of cells would each count their own.
    missing = session.value(f"SELECT count(*) - count({quoted(weight)}) FROM {table.source}", table.frames)
    if missing:
        raise DataError(f"weight column {weight!r} has {missing:,} missing values; a record needs a weight")


def _places(session: Session, table: EmbeddedTable, weight: str) -> int | None:
    """By how many binary places all weights become integers."""
    value = f"{quoted(weight)}::DOUBLE"
    records, known, least, most, smallest = session.row(
        f"SELECT count(*), count(CASE WHEN isfinite({value}) THEN 1 END), min({value}), max({value}), "
        f"min(CASE WHEN {value} > 0 THEN {value} END) FROM {table.source}",
        table.frames,
    )
    if not records or known < records or least < 0:
        return None
    if smallest is None:
        return 0
    # A double of magnitude 2^e is a multiple of 2^(e - 53), and so is every larger one.
    places = 53 - math.frexp(smallest)[1]
    bits = math.frexp(most)[1] + places + int(records).bit_length()
    return places if bits <= MOST_BITS and abs(places) <= MOST_PLACES else None


def _blocks(session: Session, table: EmbeddedTable, query: ClassQuery, places: int) -> Iterator[ClassBlock]:
    from privpipe.kernels.columns.arrays import read_only
    from privpipe.kernels.weight_sums import rounded_words

    marks = may_be_marked(query)
    for batch in session.stream(_sql(table, query, places, marks), table.frames, BLOCK_CLASSES):
        high = read_only(batch.column(HIGH).to_numpy(), np.int64)
        low = read_only(batch.column(LOW).to_numpy(), np.uint64)
        yield ClassBlock(
            np.asarray(batch.column(SIZE).to_numpy(), dtype=np.int64),
            marked=_flags(batch.column(MARKED)) if marks else None,
            weights=np.asarray(rounded_words(high, low, places), dtype=np.float64),
        )


def _flags(column: Any) -> Any:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _sql(table: EmbeddedTable, query: ClassQuery, places: int, marks: bool) -> str:
    keys = [quoted(name) for name in query.keys]
    bears = nothing_but_mark(table.schema, query.keys, str(query.mark))
    scaled = f"({quoted(str(query.weight))}::DOUBLE * pow(2::DOUBLE, {places}))::HUGEINT"
    columns = [f"count(*) AS {SIZE}", f"sum({scaled}) AS total", *([f"{bears} AS {MARKED}"] if marks else [])]
    group = f"GROUP BY {', '.join(keys)}" if keys else "HAVING count(*) > 0"
    inner = f"SELECT {', '.join(columns)} FROM {table.source} {group}"
    shown = [SIZE, f"(total >> 64)::BIGINT AS {HIGH}", f"(total & {WORD})::UBIGINT AS {LOW}"]
    return f"SELECT {', '.join([*shown, *([MARKED] if marks else [])])} FROM ({inner})"
