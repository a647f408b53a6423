"""The class table by joint cells: grouped, numbered by key and sorted in DuckDB, all of which it can spill."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.assembly import COUNT, block_of_cells, grouping_columns
from privpipe.engines.embedded.mapping import logical_table
from privpipe.engines.embedded.session import Kept, Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list

__all__ = ["CLASS", "JointCells"]

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
