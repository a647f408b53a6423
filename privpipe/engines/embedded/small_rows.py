"""Rows of a small table in memory, worked on where they lie: a query costs more than all that is done to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import ID_COLUMNS, ClassBlock, ClassQuery
from privpipe.engines.base.assembly import COUNT, block_of_cells, grouping_columns, require_query_columns
from privpipe.engines.base.histograms import group_key, value_order
from privpipe.engines.embedded.storing import in_memory
from privpipe.engines.embedded.table import EmbeddedTable
from privpipe.errors import DataError

if TYPE_CHECKING:
    from privpipe.engines.base.typing import Typing
    from privpipe.engines.embedded.session import Session

__all__ = ["SmallRows", "scanned"]

SPACE = 1 << 62


@dataclass(frozen=True)
class SmallRows:
    """The rows of one table; each answer is what the same query of the database gives.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    rows : pyarrow.Table
        All its columns, one chunk each.
    """

    session: Session
    table: EmbeddedTable
    rows: pa.Table = field(repr=False)

    @classmethod
    def of(cls, session: Session, table: EmbeddedTable) -> SmallRows | None:
        """None for a table whose rows are many, or not in memory."""
        if table.rows is None or table.rows.num_rows > session.small_rows:
            return None
        return cls(session, table, table.rows.combine_chunks())

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def column(self, name: str) -> pa.Array:
        """One column; of a table without rows too."""
        column = self.rows.column(name)
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)

    def nulls(self, name: str) -> int:
        """Missing values of a column."""
        return int(self.rows.column(name).null_count)

    def distinct(self, columns: Sequence[str], count: str = "__count") -> pa.Table:
        """Each combination with its records, in order of the columns, nulls last."""
        numbers = self._numbers(columns)
        _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        at = pa.array(first)
        found = [group_key(self.column(name)).take(at) for name in columns]
        return pa.table([*found, pa.array(counts, pa.int64())], names=[*columns, count])

    def block(self, query: ClassQuery) -> ClassBlock | None:
        """All classes as one block; None without a record."""
        require_query_columns(self.table.schema, query)
        if not self.rows.num_rows:
            return None
        return self._classes(query)[0]

    def blocks(self, query: ClassQuery) -> Iterator[ClassBlock]:
        """The classes as blocks."""
        block = self.block(query)
        return iter(()) if block is None else iter((block,))

    def keep_classes(self, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]) -> EmbeddedTable:
        """See `Engine.keep_classes`."""
        require_query_columns(self.table.schema, query)
        if not self.rows.num_rows:
            return self.table
        block, numbers = self._classes(query)
        kept = passing(block)[numbers]
        return self.table if kept.all() else self._made(self.rows.filter(pa.array(kept)), self.table.schema)

    def recode(self, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> EmbeddedTable:
        """See `Engine.recode`."""
        rows, schema = self.rows, self.table.schema
        for name, (raw, labels) in codebooks.items():
            raw = group_key(raw).cast(schema.field(name).type)
            places = pc.index_in(group_key(self.column(name)), value_set=raw)
            if places.null_count:
                raise DataError(
                    f"column {name!r}: {places.null_count:,} records hold a value that the hierarchy has no label for; "
                    "complete it"
                )
            at = rows.column_names.index(name)
            rows = rows.set_column(at, name, labels.take(places))
            schema = schema.set(schema.get_field_index(name), pa.field(name, labels.type))
        return self._made(rows, schema)

    def ordered(self) -> pa.Table:
        """The visible rows by record id."""
        order = np.lexsort([self.column(name).to_numpy() for name in reversed(ID_COLUMNS)])
        return self.rows.select(self.table.schema.names).take(pa.array(order))

    def _made(self, rows: pa.Table, schema: pa.Schema) -> EmbeddedTable:
        return in_memory(self.session, rows, schema, self.table.has_record_ids, rows.nbytes)

    def _classes(self, query: ClassQuery) -> tuple[ClassBlock, NDArray[np.int64]]:
        """The classes, and the class of each record."""
        classes, columns = self._numbers(query.keys), grouping_columns(query)
        _, numbers = np.unique(classes, return_inverse=True)
        numbers = numbers.reshape(-1).astype(np.int64)
        _, first = np.unique(self._numbers(columns), return_index=True)
        return block_of_cells(self.distinct(columns, COUNT), query, numbers[first]), numbers

    def _numbers(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """A number for each record's combination, in order of the columns, nulls last."""
        numbers, space = np.zeros(self.rows.num_rows, dtype=np.int64), 1
        for name in columns:
            encoded = group_key(self.column(name)).dictionary_encode(null_encoding="encode")
            order = value_order(encoded.dictionary).to_numpy()
            ranks = np.empty(len(order), dtype=np.int64)
            ranks[order] = np.arange(len(order))
            if space * max(len(order), 1) >= SPACE:
                distinct, numbers = np.unique(numbers, return_inverse=True)
                numbers, space = numbers.reshape(-1).astype(np.int64), len(distinct)
            numbers = numbers * len(order) + ranks[encoded.indices.to_numpy(zero_copy_only=False)]
            space *= max(len(order), 1)
        return numbers


def scanned(session: Session, frame: pa.Table, typing: Typing) -> EmbeddedTable:
    """A small frame in logical types, copied: what is judged must not change with the caller's frame.

    Raises
    ------
    DataError
        Cells that do not convert.
    """
    rows = pa.Table.from_batches([typing.convert(frame)])
    rows = rows.take(pa.array(np.arange(rows.num_rows)))
    return in_memory(session, rows, typing.schema, False, rows.nbytes)
