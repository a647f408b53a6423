"""Classes as the database groups them: counted combinations of keys, values, weight and person, listed by class."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.blocks.arrays import Bools
from privpipe.engines.base.class_blocks import (
    COUNT,
    block_of_cells,
    grouping_columns,
    may_be_marked,
    require_query_columns,
)
from privpipe.engines.base.histograms import codes_of, dictionary_values
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, column_list, nothing_but_mark, quoted
from privpipe.engines.embedded.row_functions import logical_table
from privpipe.engines.embedded.session import OutOfMemory, Session
from privpipe.errors import DataError

__all__ = ["SIZE", "JointCells"]


log = logging.getLogger("privpipe.engines.embedded")
T = TypeVar("T")
BLOCK_CLASSES = 131072
ROUNDS = (1, 4, 16, 64)
"""Into how many rounds classes are divided: where the database has no room it takes more memory than its limit."""
CELL_BYTES = 64
"""Of a combination, while the database groups it."""
SIZE, MARKED, CELLS = "__privpipe_size", "__privpipe_marked", "__privpipe_cells"


class JointCells:
    """The class table of one query, in rounds over classes that are divided by the hash of their keys.

    Parameters
    ----------
    session : Session
    table : EmbeddedTable
    query : ClassQuery
    keyed : bool
        Whether batches have the keys of their classes too.
    """

    def __init__(self, session: Session, table: EmbeddedTable, query: ClassQuery, *, keyed: bool = False) -> None:
        require_query_columns(table.schema, query)
        for name in query.dictionaries.keys() & query.columns:
            dictionary_values(query.dictionaries[name], table.schema.field(name).type, name)
        self.session, self.table, self.query, self.keyed = session, table, query, keyed
        self.counted = grouping_columns(replace(query, keys=()))
        self.marks = may_be_marked(query)

    def rounds(self, made: Callable[[Iterator[pa.RecordBatch]], T]) -> Iterator[T]:
        """What a function makes of the batches of each round.

        A round for which memory runs out begins again as four smaller ones.

        Raises
        ------
        OutOfMemory
            Classes cannot be divided further.
        """
        self._require_weights()
        whole = CELL_BYTES * self.table.bound(self.session) * (2 if self.counted else 1)
        fits = (each for each in ROUNDS if whole <= each * self.session.memory // 2)
        rounds = next(fits, ROUNDS[-1]) if self.query.keys else 1
        waiting = [(rounds, number) for number in range(rounds)]
        while waiting:
            rounds, number = waiting.pop()
            try:
                found = made(self.session.stream(self.sql(rounds, number), self.table.frames, BLOCK_CLASSES))
            except OutOfMemory:
                if rounds == ROUNDS[-1] or not self.query.keys:
                    raise
                log.debug("class table over %d keys: too large for %d rounds", len(self.query.keys), rounds)
                waiting += [(4 * rounds, number + rounds * at) for at in range(4)]
                continue
            yield found

    def _require_weights(self) -> None:
        """Refuse records without a weight, which blocks would each count alone."""
        name = self.query.weight
        if name is None:
            return
        missing = self.session.value(
            f"SELECT count(*) - count({quoted(name)}) FROM {self.table.source}", self.table.frames
        )
        if missing:
            raise DataError(f"weight column {name!r} has {missing:,} missing values; a record needs a weight")

    def sql(self, rounds: int = 1, number: int = 0) -> str:
        """The query whose rows are the classes of one round."""
        keys, source = column_list(self.query.keys), self.table.compact
        if rounds > 1:
            source = f"(SELECT * FROM {source} WHERE hash({keys}) % {rounds} = {number})"
        shown = [keys] if self.keyed else []
        if self.marks:
            shown.append(f"{nothing_but_mark(self.table.schema, self.query.keys, str(self.query.mark))} AS {MARKED}")
        if self.counted:
            names = column_list(grouping_columns(self.query))
            source = f"(SELECT {names}, count(*) AS {COUNT} FROM {source} GROUP BY {names})"
            cells = [f"c{at} := {quoted(name)}" for at, name in enumerate((*self.counted, COUNT))]
            shown.append(f"list(struct_pack({', '.join(cells)})) AS {CELLS}")
        else:
            shown.append(f"count(*) AS {SIZE}")
        group = f"GROUP BY {keys}" if keys else "HAVING count(*) > 0"
        return f"SELECT {', '.join(shown)} FROM {source} {group}"

    def block(self, batch: pa.RecordBatch) -> ClassBlock:
        """The classes of a batch."""
        marked: Bools | None = None
        if self.marks:
            marked = np.asarray(batch.column(MARKED).to_numpy(zero_copy_only=False), dtype=np.bool_)
        if not self.counted:
            return ClassBlock(np.asarray(batch.column(SIZE).to_numpy(), dtype=np.int64), marked=marked)
        lists = batch.column(CELLS)
        columns = lists.flatten().flatten()
        cells = logical_table(pa.table(columns, names=[*self.counted, COUNT]), self.table.schema)
        numbers = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        try:
            found = block_of_cells(cells, replace(self.query, keys=(), mark=None), numbers)
        except DataError:
            self._refuse_other_values()
            raise
        return replace(found, marked=marked)

    def _refuse_other_values(self) -> None:
        """Count the values that dictionaries lack over all classes, not those of one batch."""
        for name in self.query.dictionaries.keys() & self.query.columns:
            values = self.session.table(f"SELECT DISTINCT {quoted(name)} FROM {self.table.source}", self.table.frames)
            held = logical_table(values, self.table.schema).column(name).combine_chunks()
            codes_of(held, self.query.dictionaries[name], name)
