"""Record ids of the embedded engine: a keyed hash of each record; large tables are stored with coded texts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import histogram_of
from privpipe.engines.base.logical_types import check_record_ids
from privpipe.engines.embedded.coded_files import FileRows, RowHashing, sql_type
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, plain_texts
from privpipe.engines.embedded.file_codes import CLOSE, CodedColumn, Digits
from privpipe.engines.embedded.session import Kept, Session, column_list, quoted
from privpipe.engines.embedded.sorted_words import sorted_slices, sorted_words
from privpipe.engines.embedded.stored_rows import SmallRows, logical, rows_of, store
from privpipe.errors import EngineError

__all__ = ["with_coded_ids", "with_record_ids"]


PROBED = 200_000
"""Records of which the texts of a column are estimated before all are counted."""
MOST_VALUES = 1 << 20
"""Values of a column that become an enumeration: four bytes per cell at most."""
REPEATED = 4
"""How often a value occurs at least, in the mean, in a column that becomes one."""
ID_BYTES = 16
MADE, ORDINAL = "__privpipe_made", "__privpipe_ordinal"
HIGH, LOW = ID_COLUMNS


def with_coded_ids(session: Session, table: EmbeddedTable, column: str | None, seed: Seed) -> EmbeddedTable | None:
    """See `Engine.with_record_ids`; None for a small table, one without texts of few values, or cells of other kinds.

    Parameters
    ----------
    column : str, optional
        The declared key of a record, present and distinct everywhere.
    """
    if table.records(session) < session.coded_rows or not all(sql_type(each.type) for each in table.schema):
        return None
    names = _few_valued(session, table)
    coded = _of_files(session, table, names)
    dictionaries = _dictionaries(session, table, [*names, *_repeated(session, table, names)])
    if not dictionaries:
        return None
    hashing = RowHashing(table.schema, dictionaries, column, seed)
    with ExitStack() as stack:
        types = {name: stack.enter_context(session.enumeration(each)) for name, each in dictionaries.items()}
        columns = ", ".join(
            f"{quoted(name)}::{types[name]} AS {quoted(name)}" if name in types else quoted(name)
            for name in table.schema.names
        )
        words = None
        if coded and table.files is not None:
            rows = FileRows(table.files, table.records(session), coded, hashing, table.histograms)
            words = rows.room_for_words(session) if column is None else None
            kept = rows.store(session, types, words)
            table.files.forget()
        else:
            kept = _stored(session, table, f"SELECT {columns} FROM {table.source}", hashing)
    if column is None:
        _number_equal(session, kept, table.schema, hashing, words)
    return _table(kept, table, hashing, session)


def _stored(session: Session, table: EmbeddedTable, source: str, hashing: RowHashing) -> Kept:
    """The rows of `source`, stored with the ids of first occurrences."""
    names, records, counting = table.schema.names, table.records(session), hashing.column is None
    if ID_BYTES * records > session.room():
        # A function of the query holds nothing, and waits for the interpreter 2,048 rows at a time.
        with hashing.function(session, counting=counting) as made:
            return session.keep(_coded_with_ids(names, made, source, "0"), table.frames)
    rows = session.keep(source, table.frames)
    if session.value(f"SELECT count(*) FROM {rows.name}") != records:
        raise EngineError("the source changed while it was read: it no longer has as many rows")
    ids, _held = session.name("ids"), session.hold(ID_BYTES * records)
    frame = pa.table(list(hashing.of_stored(session, rows.name, records, counting=counting)), names=list(ID_COLUMNS))
    columns = f"{column_list(names, rows.name)}, {column_list(ID_COLUMNS, ids)}"
    return session.keep(f"SELECT {columns} FROM {rows.name} POSITIONAL JOIN {ids}", {ids: frame})


def _table(kept: Kept, table: EmbeddedTable, hashing: RowHashing, session: Session) -> EmbeddedTable:
    coded = f"SELECT {column_list([*table.schema.names, *ID_COLUMNS])} FROM {kept.name}"
    digits = {
        name: Digits(len(texts) + 1, texts, missing=bool(table.histograms[name].nulls))
        for name, texts in hashing.dictionaries.items()
    }
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
    asked = ", ".join("min({0}), max({0}), count(*) > count({0})".format(quoted(name)) for name in names)
    ends = session.row(f"SELECT {asked} FROM {kept.name}")
    return {
        name: Digits(top - low + 2, None, low, missing)
        for name, low, top, missing in zip(names, ends[::3], ends[1::3], ends[2::3], strict=True)
        if low is not None and top - low < CLOSE
    }


def _few_valued(session: Session, table: EmbeddedTable) -> list[str]:
    """The texts that have few values, by an estimate over the first rows."""
    texts = [each.name for each in table.schema if pt.is_string(each.type)]
    if not texts:
        return []
    asked = ", ".join(f"approx_count_distinct({quoted(name)})" for name in texts)
    first = f"SELECT {column_list(texts)} FROM {table.source} LIMIT {PROBED}"
    numbers = session.row(f"SELECT {asked} FROM ({first})", table.frames)
    most = min(MOST_VALUES, min(PROBED, table.records(session)) // REPEATED)
    return [name for name, number in zip(texts, numbers, strict=True) if number <= most]


def _of_files(session: Session, table: EmbeddedTable, names: list[str]) -> dict[str, CodedColumn]:
    """Those of some texts of which the files have numbers, counted."""
    if table.files is None or not names:
        return {}
    found = table.files.some_of(session, names, table.records(session))
    table.histograms.update({name: column.histogram for name, column in found.items()})
    return found


def _repeated(session: Session, table: EmbeddedTable, few: Sequence[str]) -> list[str]:
    """Further texts whose values are many and repeated all the same, of those that were estimated over all rows."""
    most = min(MOST_VALUES, table.records(session) // REPEATED)
    texts = [each.name for each in table.schema if pt.is_string(each.type) and each.name not in few]
    return [name for name in texts if table.estimates.get(name, most + 1) <= most]


def _dictionaries(session: Session, table: EmbeddedTable, names: list[str]) -> dict[str, pa.Array]:
    """The values of texts, each in order of code points; counted, they are the table's histograms."""
    found = {}
    for name in names:
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


def _coded_with_ids(names: list[str], made: str, source: str, ordinal: str) -> str:
    """Rows of `source` with the ids of their content and ordinal."""
    columns = column_list(names)
    called = f"SELECT {columns}, {made.format(ordinal=ordinal)} AS {MADE} FROM ({source})"
    return f"SELECT {columns}, {MADE}.hi AS {HIGH}, {MADE}.lo AS {LOW} FROM ({called})"


def _number_equal(session: Session, kept: Kept, schema: pa.Schema, hashing: RowHashing, words: Ints | None) -> None:
    """Give equal records the ids of their ordinals; which of them is which does not matter, they are equal.

    Parameters
    ----------
    words : ndarray of int64, shape (records,), optional
        The low words of all ids, in any order, where they are in memory; they are sorted in place.
    """
    # One word first: it is quick to sort, and equal by chance once in 2^64 pairs.
    if words is None:
        single = EmbeddedTable(f"SELECT {LOW} FROM {kept.name}", pa.schema([(LOW, pa.int64())]))
        slices = sorted_words(session, single, LOW)
    else:
        slices = sorted_slices(words, session.threads)
    equal = [each[1:][each[1:] == each[:-1]] for each in slices]
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
        again = session.keep(_coded_with_ids(schema.names, made, numbered, ORDINAL))
    session.run(
        f"DELETE FROM {kept.name} USING {twice.name} "
        f"WHERE {kept.name}.{HIGH} = {twice.name}.{HIGH} AND {kept.name}.{LOW} = {twice.name}.{LOW}"
    )
    session.run(f"INSERT INTO {kept.name} SELECT * FROM {again.name}")


def with_record_ids(session: Session, table: EmbeddedTable, column: str | None, seed: Seed) -> EmbeddedTable:
    """See `Engine.with_record_ids`."""
    visible = EmbeddedTable(
        f"SELECT {column_list(table.schema.names)} FROM {table.source}",
        table.schema,
        False,
        table.frames,
        table.holds,
        table.rows.select(table.schema.names) if table.rows is not None else None,
        histograms=table.histograms,
        estimates=table.estimates,
        files=table.files,
    )
    if column is not None:
        return _declared(session, visible, column, seed)
    small = SmallRows.of(session, visible)
    if small is not None and len(small):
        return _of_small(small, seed)
    coded = with_coded_ids(session, visible, None, seed)
    if coded is not None:
        return coded
    # Ids of first occurrences throughout; then the equal records, if any, get ids of their ordinals.
    first = _hashed(session, visible, seed)
    ids = column_list(ID_COLUMNS)
    twice = session.keep(f"SELECT {ids} FROM {first.source} GROUP BY {ids} HAVING count(*) > 1", first.frames)
    if not session.value(f"SELECT count(*) FROM {twice.name}"):
        return first
    again = _numbered(session, first, twice.name, seed)
    names = column_list(first.all_columns)
    both = EmbeddedTable(
        f"SELECT {names} FROM {first.source} ANTI JOIN {twice.name} USING ({ids}) "
        f"UNION ALL SELECT {names} FROM {again.source}",
        table.schema,
        True,
        {**first.frames, **again.frames},
        (*first.holds, *again.holds, twice),
    )
    if first.rows is None:
        return both
    return store(session, rows_of(session, both), table.schema, lambda batch: batch, ids=True)


def _of_small(small: SmallRows, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    batch = small.rows.to_batches()[0]
    hashed = content_hash(batch, seed)
    order = np.lexsort(hashed.T)  # stable: equal records in the order of the rows
    ranked, places = hashed[order], np.arange(len(order))
    begins = np.zeros(len(order), dtype=np.int64)
    begins[1:] = np.where((ranked[1:] != ranked[:-1]).any(axis=1), places[1:], 0)
    ordinals = np.empty(len(order), dtype=np.int64)
    ordinals[order] = places - np.maximum.accumulate(begins)
    return store(
        small.session,
        [_appended(batch, record_id(hashed, ordinals, seed))],
        small.table.schema,
        lambda made: made,
        ids=True,
    )


def _declared(session: Session, table: EmbeddedTable, column: str, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import declared_id

    table.require([column])
    name = quoted(column)
    records, present, distinct = session.row(
        f"SELECT count(*), count({name}), count(DISTINCT {name}) FROM {table.source}", table.frames
    )
    check_record_ids(column, records, records - present, present - distinct)
    coded = with_coded_ids(session, table, column, seed)
    if coded is not None:
        return coded
    return _with_ids(session, table, lambda batch: declared_id(batch.column(column), seed))


def _hashed(session: Session, table: EmbeddedTable, seed: Seed) -> EmbeddedTable:
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    def ids(batch: pa.RecordBatch) -> np.ndarray:
        return record_id(content_hash(batch, seed), np.zeros(batch.num_rows, np.int64), seed)

    return _with_ids(session, table, ids)


def _numbered(session: Session, first: EmbeddedTable, twice: str, seed: Seed) -> EmbeddedTable:
    """Equal records with ids by ordinal; which of them is which does not matter, they are equal."""
    from privpipe.kernels.ids.record_ids import content_hash, record_id

    ids = column_list(ID_COLUMNS)
    sql = (
        f"SELECT {column_list(first.schema.names)}, row_number() OVER (PARTITION BY {ids}) - 1 AS {ORDINAL} "
        f"FROM {first.source} SEMI JOIN {twice} USING ({ids})"
    )

    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = logical(batch.select(first.schema.names), first.schema)
        return _appended(rows, record_id(content_hash(rows, seed), batch.column(ORDINAL).to_numpy(), seed))

    return store(session, session.stream(sql, first.frames), first.schema, make, ids=True)


def _with_ids(session: Session, table: EmbeddedTable, ids: object) -> EmbeddedTable:
    def make(batch: pa.RecordBatch) -> pa.RecordBatch:
        return _appended(batch, ids(batch))  # type: ignore[operator]

    return store(session, rows_of(session, table), table.schema, make, ids=True)


def _appended(batch: pa.RecordBatch, ids: np.ndarray) -> pa.RecordBatch:
    return RowBlock(batch, ids).to_batch()
