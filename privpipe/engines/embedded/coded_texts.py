"""Large tables with record ids, stored by DuckDB with texts of few values as enumerations.

Grouped, sorted, spilled and handed over, such a text is an integer of one or two bytes: sorting all columns of 3M rows
takes half the time, grouping them by six texts a third.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Seed
from privpipe.engines.base.histograms import histogram_of
from privpipe.engines.embedded.packed_keys import sorted_words
from privpipe.engines.embedded.session import Kept, Session
from privpipe.engines.embedded.table import Digits, EmbeddedTable, column_list, plain_texts, quoted
from privpipe.errors import PrivpipeError
from privpipe.kernels.columns.cell_words import (
    CodedCells,
    FixedCells,
    TextCells,
    coded_words,
    encode_column,
    integer_cells,
)

__all__ = ["with_coded_ids"]

PROBED = 200_000
"""Records of which the texts of a column are estimated before all are counted."""
MOST_VALUES = 1 << 16
"""Values of a column that become an enumeration: two bytes a cell."""
REPEATED = 4
"""How often a value occurs at the least, in the mean, in a column that becomes one."""
CLOSE = 1 << 32
"""Integers that lie within so many are digits of packed keys."""
MADE, ORDINAL = "__privpipe_made", "__privpipe_ordinal"
HIGH, LOW = ID_COLUMNS


def with_coded_ids(session: Session, table: EmbeddedTable, column: str | None, seed: Seed) -> EmbeddedTable | None:
    """See `Engine.with_record_ids`; None for a small table, one without texts of few values, or cells of other kinds.

    Parameters
    ----------
    column : str, optional
        The declared key of a record, present and distinct everywhere.
    """
    if table.records(session) < session.coded_rows or not all(_sql_type(each.type) for each in table.schema):
        return None
    dictionaries = _dictionaries(session, table)
    if not dictionaries:
        return None
    hashing = _Hashing(table.schema, dictionaries, column, seed)
    with ExitStack() as stack:
        types = {name: stack.enter_context(session.enumeration(each)) for name, each in dictionaries.items()}
        columns = ", ".join(
            f"{quoted(name)}::{types[name]} AS {quoted(name)}" if name in types else quoted(name)
            for name in table.schema.names
        )
        with hashing.function(session, counting=column is None) as made:
            source = f"SELECT {columns} FROM {table.source}"
            kept = session.keep(_with_ids(table.schema.names, made, source, "0"), table.frames)
    if column is None:
        _number_equal(session, kept, table.schema, hashing)
    return _table(kept, table, hashing, session)


def _table(kept: Kept, table: EmbeddedTable, hashing: _Hashing, session: Session) -> EmbeddedTable:
    coded = f"SELECT {column_list([*table.schema.names, *ID_COLUMNS])} FROM {kept.name}"
    digits = {name: Digits(len(texts) + 1, texts) for name, texts in hashing.dictionaries.items()}
    digits |= _integers(session, kept, table.schema)
    made = EmbeddedTable(
        plain_texts(coded, table.schema, True),
        table.schema,
        True,
        holds=(kept,),
        coded=coded,
        digits=digits,
        histograms=dict(table.histograms),
    )
    records = table.records(session)
    made.tell_records(records)
    if hashing.records == records:  # a row that DuckDB asked about twice would count twice
        made.content[hashing.key] = (records, hashing.total)
    return made


def _integers(session: Session, kept: Kept, schema: pa.Schema) -> dict[str, Digits]:
    """The digits of integers that lie close together."""
    names = [each.name for each in schema if pt.is_int64(each.type)]
    if not names:
        return {}
    ends = session.row(f"SELECT {', '.join(f'min({quoted(n)}), max({quoted(n)})' for n in names)} FROM {kept.name}")
    found = zip(names, ends[::2], ends[1::2], strict=True)
    return {name: Digits(top - low + 2, None, low) for name, low, top in found if low is not None and top - low < CLOSE}


def _dictionaries(session: Session, table: EmbeddedTable) -> dict[str, pa.Array]:
    """The values of the texts that have few, each in order of code points; counted, they are the table's histograms."""
    texts = [each.name for each in table.schema if pt.is_string(each.type)]
    if not texts:
        return {}
    asked = ", ".join(f"approx_count_distinct({quoted(name)})" for name in texts)
    first = f"SELECT {column_list(texts)} FROM {table.source} LIMIT {PROBED}"
    numbers = session.row(f"SELECT {asked} FROM ({first})", table.frames)
    most = min(MOST_VALUES, min(PROBED, table.records(session)) // REPEATED)
    found = {}
    for name, number in zip(texts, numbers, strict=True):
        if number > most:
            continue
        if name not in table.histograms:
            sql = f"SELECT {quoted(name)} AS value, count(*) AS n FROM {table.source} GROUP BY 1"
            counted = session.table(sql, table.frames)
            kind = table.schema.field(name).type
            table.histograms[name] = histogram_of(counted.column("value").cast(kind), counted.column("n"))
        values = table.histograms[name].values
        if len(values) <= MOST_VALUES:
            found[name] = values.drop_null()
        else:
            del table.histograms[name]
    return found


def _with_ids(names: list[str], made: str, source: str, ordinal: str) -> str:
    """Rows of `source` with the ids of their content and ordinal."""
    columns = column_list(names)
    called = f"SELECT {columns}, {made.format(ordinal=ordinal)} AS {MADE} FROM ({source})"
    return f"SELECT {columns}, {MADE}.hi AS {HIGH}, {MADE}.lo AS {LOW} FROM ({called})"


def _number_equal(session: Session, kept: Kept, schema: pa.Schema, hashing: _Hashing) -> None:
    """Give equal records the ids of their ordinals; which of them is which does not matter, they are equal."""
    # One word first: it is quick to sort, and equal by chance once in 2^64 pairs.
    single = EmbeddedTable(f"SELECT {LOW} FROM {kept.name}", pa.schema([(LOW, pa.int64())]))
    equal = [words[1:][words[1:] == words[:-1]] for words in sorted_words(session, single, LOW, LOW)]
    if not any(map(len, equal)):
        return
    view = session.name("equal")
    frames = {view: pa.table({LOW: np.unique(np.concatenate(equal))})}
    ids, columns = column_list(ID_COLUMNS), column_list(schema.names)
    twice = session.keep(
        f"SELECT {ids} FROM {kept.name} SEMI JOIN {view} USING ({LOW}) GROUP BY {ids} HAVING count(*) > 1", frames
    )
    if not session.value(f"SELECT count(*) FROM {twice.name}"):
        return
    numbered = (
        f"SELECT {columns}, row_number() OVER (PARTITION BY {ids}) - 1 AS {ORDINAL} "
        f"FROM {kept.name} SEMI JOIN {twice.name} USING ({ids})"
    )
    with hashing.function(session, counting=False) as made:
        again = session.keep(_with_ids(schema.names, made, numbered, ORDINAL))
    session.run(
        f"DELETE FROM {kept.name} USING {twice.name} "
        f"WHERE {kept.name}.{HIGH} = {twice.name}.{HIGH} AND {kept.name}.{LOW} = {twice.name}.{LOW}"
    )
    session.run(f"INSERT INTO {kept.name} SELECT * FROM {again.name}")


def _sql_type(kind: pa.DataType) -> str:
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
class _Hashing:
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
        self._names = sorted(self.schema.names) if self.column is None else [self.column]
        self._words = {
            name: coded_words(self.dictionaries[name], name) for name in self._names if name in self.dictionaries
        }
        self._lock = threading.Lock()

    @property
    def key(self) -> bytes:
        """Of the hash of content."""
        return self.seed.key("record")

    @contextmanager
    def function(self, session: Session, *, counting: bool) -> Iterator[str]:
        """A call of this function, in which the ordinal is left open."""
        fields, parts = ["ordinal BIGINT"], ["ordinal := {ordinal}"]
        for at, name in enumerate(self._names):
            coded = name in self.dictionaries
            fields.append(f"c{at} {'INTEGER' if coded else _sql_type(self.schema.field(name).type)}")
            cell = quoted(name).replace("{", "{{").replace("}", "}}")  # braces are places to fill
            missing = len(self.dictionaries[name]) if coded else 0
            parts.append(f"c{at} := {f'coalesce(enum_code({cell})::INTEGER, {missing})' if coded else cell}")

        def compute(rows: Any) -> pa.Array:
            return self._ids(rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows, counting)

        takes = (f"STRUCT({', '.join(fields)})",)
        with session.function(compute, takes, "STRUCT(hi BIGINT, lo BIGINT)") as name:
            try:
                yield f"{name}(struct_pack({', '.join(parts)}))"
            except PrivpipeError:
                if self.error is not None:  # DuckDB hands on what the function raised as an error of its own
                    raise self.error from None
                raise

    def _ids(self, rows: pa.StructArray, counting: bool) -> pa.Array:
        from privpipe.kernels.ids.record_ids import hash_cells, record_id, sum_of_hashes

        ordinals, *columns = rows.flatten()
        try:
            hashed = hash_cells(list(map(self._cells, self._names, columns)), len(rows), self.seed)
        except PrivpipeError as error:
            self.error = error
            raise
        if counting:
            part = sum_of_hashes(hashed)
            with self._lock:
                self.records += len(rows)
                self.total = (self.total + part) % (1 << 128)
        ids = hashed if self.column is not None else record_id(hashed, ordinals.to_numpy(), self.seed)
        high, low = np.ascontiguousarray(ids.T)
        return pa.StructArray.from_arrays([pa.array(high), pa.array(low)], names=["hi", "lo"])

    def _cells(self, name: str, column: pa.Array) -> FixedCells | TextCells | CodedCells:
        if name in self._words:
            return CodedCells(column.to_numpy(), *self._words[name])
        if pt.is_int64(column.type) and not column.null_count:
            return integer_cells(column.to_numpy())
        return encode_column(column, "record_id" if self.column is not None else name)
