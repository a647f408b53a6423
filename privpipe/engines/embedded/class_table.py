"""The class table in DuckDB: counted by its own hash aggregation, handed over as offsets and packed cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery
from privpipe.engines.base.assembly import (
    COUNT,
    block_of_cells,
    grouping_columns,
    may_be_marked,
    require_query_columns,
)
from privpipe.engines.base.histograms import group_key, not_covered
from privpipe.engines.embedded.mapping import logical_table
from privpipe.engines.embedded.session import Kept, Session
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted

__all__ = ["CLASS", "ClassTable", "NumberedClasses"]

BLOCK_CLASSES = 131072
CLASS = "__privpipe_class"
SIZE, CELLS, MARKED = "__privpipe_size", "__privpipe_cells", "__privpipe_marked"
VALUE, CODE = "__privpipe_value", "__privpipe_code"


@dataclass(frozen=True)
class _Code:
    """One sensitive column as a part of the packed code."""

    column: str
    view: str
    radix: int


class ClassTable:
    """The class table of one query.

    A cell is packed as ``count << bits | code``, and the cells of a class are gathered in one list: two integers
    a cell become one, and the list's offsets are the class offsets.
    """

    def __init__(self, session: Session, table: EmbeddedTable, query: ClassQuery) -> None:
        require_query_columns(table.schema, query)
        self.session, self.table, self.query = session, table, query
        self.frames: dict[str, Any] = dict(table.frames)
        self.marks = may_be_marked(table.schema, query)
        self.codes = tuple(self._code(name) for name in dict.fromkeys(query.columns))
        self.bits = max(1, sum((code.radix - 1).bit_length() for code in self.codes))

    @property
    def is_packed(self) -> bool:
        """Whether a cell fits one integer: no persons, no weights, few enough values."""
        return self.query.person is None and self.query.weight is None and self.bits <= 40

    def blocks(self) -> Iterator[ClassBlock]:
        """Blocks of whole classes."""
        if self.is_packed:
            for batch in self.session.stream(self.sql(), self.frames, BLOCK_CLASSES):
                yield self.block(batch)
        else:
            for block, _ in self._joint_blocks(f"({self._joint_sql()})"):
                yield block

    def numbered(self) -> NumberedClasses:
        """The classes stored with their keys and a number, for who must find their records again."""
        if self.is_packed:
            stored = f"SELECT row_number() OVER () AS {CLASS}, * FROM ({self.sql(keyed=True)})"
        else:
            stored = self._joint_sql()
        return NumberedClasses(self, self.session.keep(stored, self.frames))

    def sql(self, *, keyed: bool = False) -> str:
        """The query whose rows are classes; with their keys when `keyed`."""
        keys = list(self.query.keys)
        group = f"GROUP BY {column_list(keys)}" if keys else "HAVING count(*) > 0"
        columns = [column_list(keys)] if keyed and keys else []
        columns += [f"{self._marked()} AS {MARKED}"] if self.marks else []
        if not self.codes:
            columns.insert(0, f"count(*) AS {SIZE}")
            return f"SELECT {', '.join(columns)} FROM {self.table.source} {group}"
        sensitive = [code.column for code in self.codes]
        grouped = list(dict.fromkeys([*keys, *sensitive]))
        cells = f"SELECT {column_list(grouped)}, count(*) AS {COUNT} FROM {self.table.source} GROUP BY ALL"
        columns.insert(0, f"list(({COUNT} << {self.bits}) | {self._packed()}) AS {CELLS}")
        joins = " ".join(
            f"LEFT JOIN {code.view} ON {quoted(code.column)} IS NOT DISTINCT FROM {code.view}.{VALUE}"
            for code in self.codes
        )
        return f"SELECT {', '.join(columns)} FROM ({cells}) {joins} {group}"

    def block(self, batch: pa.RecordBatch) -> ClassBlock:
        """The block of a batch of `sql`'s rows."""
        marked = None
        if self.marks:
            marked = np.asarray(batch.column(MARKED).to_numpy(zero_copy_only=False), dtype=np.bool_)
        if not self.codes:
            return ClassBlock(np.asarray(batch.column(SIZE).to_numpy(), dtype=np.int64), marked=marked)
        return self._unpacked(batch.column(CELLS), marked)

    def _unpacked(self, lists: pa.Array, marked: NDArray[np.bool_] | None) -> ClassBlock:
        from privpipe.kernels.arrays import read_only
        from privpipe.kernels.class_cells import marginal_cells, unpack_cells

        values = lists.flatten()
        if values.null_count:
            self._raise_uncovered()
        ends = np.asarray(lists.offsets.to_numpy(), dtype=np.int64)
        offsets = read_only(ends - ends[0], np.int64)
        sizes, packed, counts = unpack_cells(offsets, read_only(values.to_numpy(), np.int64), self.bits)
        if len(self.codes) == 1:
            return ClassBlock(sizes, {self.codes[0].column: Cells(offsets, packed, counts)}, marked)
        cells, shift = {}, 0
        for code in self.codes:
            width = (code.radix - 1).bit_length()
            own = (packed >> shift) & ((1 << width) - 1)
            cells[code.column] = Cells(*marginal_cells(offsets, read_only(own, np.int64), read_only(counts, np.int64)))
            shift += width
        return ClassBlock(sizes, cells, marked)

    def _code(self, name: str) -> _Code:
        """Codes of a column's values as a view: the query's dictionary, else any numbering of its values."""
        if name in self.query.dictionaries:
            values = group_key(self.query.dictionaries[name].values).cast(self.table.schema.field(name).type)
        else:
            found = f"SELECT DISTINCT {quoted(name)} AS {VALUE} FROM {self.table.source}"
            values = self.session.table(found, self.table.frames).column(VALUE)
        view = self.session.name("codes")
        self.frames[view] = pa.table({VALUE: values, CODE: pa.array(np.arange(len(values)), pa.int64())})
        return _Code(name, view, max(1, len(values)))

    def _packed(self) -> str:
        parts, shift = [], 0
        for code in self.codes:
            parts.append(f"({code.view}.{CODE} << {shift})")
            shift += (code.radix - 1).bit_length()
        return "(" + " | ".join(parts) + ")"

    def _marked(self) -> str:
        mark = str(self.query.mark).replace("'", "''")
        tests = [f"bool_and({quoted(name)} IS NOT DISTINCT FROM '{mark}')" for name in self.query.keys]
        return " AND ".join(tests)

    def _raise_uncovered(self) -> None:
        for code in self.codes:
            name = quoted(code.column)
            missing = self.session.value(
                f"SELECT count(DISTINCT {name}) + max(({name} IS NULL)::INT) FROM {self.table.source} ANTI JOIN "
                f"{code.view} ON {name} IS NOT DISTINCT FROM {code.view}.{VALUE}",
                self.frames,
            )
            if missing:
                raise not_covered(code.column, missing)

    def _joint_sql(self) -> str:
        """Joint cells with the number of their class: persons and weights need more of a cell than one integer."""
        columns = column_list(grouping_columns(self.query))
        keys = column_list(self.query.keys)
        number = f"dense_rank() OVER (ORDER BY {keys})" if keys else "1::BIGINT"
        cells = f"SELECT {columns}, count(*) AS {COUNT} FROM {self.table.source} GROUP BY ALL"
        return (
            f"SELECT *, {number} AS {CLASS} FROM ({cells})" if columns else f"SELECT * FROM ({cells}) WHERE {COUNT} > 0"
        )

    def _joint_blocks(self, source: str) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks with the numbers of their classes, which ascend."""
        pending: list[pa.RecordBatch] = []
        for batch in self.session.stream(f"SELECT * FROM {source} ORDER BY {CLASS}", self.frames):
            ids = batch.column(CLASS).to_numpy()
            # The last class of a batch may go on in the next one.
            last = int(np.searchsorted(ids, ids[-1], side="left"))
            if last or (pending and pending[-1].column(CLASS)[-1].as_py() != int(ids[0])):
                yield self._joint_block([*pending, batch.slice(0, last)])
                pending = []
            pending.append(batch.slice(last))
        if pending:
            yield self._joint_block(pending)

    def _joint_block(self, batches: list[pa.RecordBatch]) -> tuple[ClassBlock, NDArray[np.int64]]:
        cells = logical_table(pa.Table.from_batches(batches), self.table.schema)
        ids = np.asarray(cells.column(CLASS).to_numpy(), dtype=np.int64)
        return block_of_cells(cells, self.query, ids), np.unique(ids)


class NumberedClasses:
    """Classes stored with their keys, each under a number."""

    def __init__(self, table: ClassTable, kept: Kept) -> None:
        self._table, self._kept = table, kept

    @property
    def name(self) -> str:
        """The stored table: the keys, and the number as ``__privpipe_class``."""
        return self._kept.name

    def blocks(self) -> Iterator[tuple[ClassBlock, NDArray[np.int64]]]:
        """Blocks with the number of each class."""
        if not self._table.is_packed:
            yield from self._table._joint_blocks(self.name)
            return
        for batch in self._table.session.stream(f"SELECT * FROM {self.name}", rows=BLOCK_CLASSES):
            yield self._table.block(batch), np.asarray(batch.column(CLASS).to_numpy(), dtype=np.int64)
