"""Output of the embedded engine: tables written in an order that is independent of the original one."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import Format, Written
from privpipe.engines.base.contract import NO_TYPES
from privpipe.engines.base.part_files import files_of, in_groups, write_part
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.ranks import ORDER, worded_rows
from privpipe.engines.embedded.row_order import DealtRows, OrderedRows, rows_in_memory, rows_on_disk, sizes_of_files
from privpipe.engines.embedded.session import Session, column_list, quoted
from privpipe.engines.embedded.stored_rows import SmallRows, logical
from privpipe.progress import within

__all__ = ["sorted_rows", "write"]


LOOKED_AFTER = 0.1
"""Seconds between two looks at files that are written side by side, at most."""


def write(
    session: Session,
    table: EmbeddedTable,
    folder: str,
    format: Format,
    stream: Stream,
    escape: bool,
    types: Mapping[str, pa.DataType] = NO_TYPES,
) -> Written:
    """See `Engine.write`."""

    def made(batch: pa.RecordBatch) -> pa.RecordBatch:
        visible = batch.select(table.schema.names)
        return _with_used_texts(visible, table.schema) if format == "parquet" else logical(visible, table.schema)

    def part(batches: Iterator[pa.RecordBatch], number: int = 0) -> Written:
        start = next(batches, None)
        found, schema = ((), table.schema) if start is None else ((start,), start.schema)
        return write_part(
            itertools.chain(found, batches), schema, folder, format, escape=escape, number=number, types=types
        )

    if not table.has_record_ids:
        return part(map(made, in_groups(_told(_by_value(session, table)))))
    with _in_keyed_order(session, table, stream) as rows:
        if rows is None:
            return _one_by_one(session, table, stream, made, part)
        if len(rows.sizes) > 1:
            return _at_once(rows, made, part, session.threads)
        return part(_told(rows.each(0, len(rows), made, session.threads)))


def _told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, with progress."""
    done = 0
    for batch in batches:
        yield batch
        done += len(batch)
        within("rows", done)


def _one_by_one(
    session: Session,
    table: EmbeddedTable,
    stream: Stream,
    made: Callable[[pa.RecordBatch], pa.RecordBatch],
    part: Callable[[Iterator[pa.RecordBatch], int], Written],
) -> Written:
    """The files of rows that the database sorts."""
    files = files_of(table.records(session), len(table.schema))
    rows = ((_file(each, files), each) for each in _told(_cut(worded_rows(session, table, stream), files)))
    written = [
        part(map(made, in_groups(batch for _, batch in of_file)), number)
        for number, (_, of_file) in enumerate(itertools.groupby(rows, lambda row: row[0]))
    ]
    return _joined(written) if written else part(iter(()), 0)


def _cut(batches: Iterator[pa.RecordBatch], files: int) -> Iterator[pa.RecordBatch]:
    """Rows by their order words, cut where the next file begins."""
    for batch in batches:
        counts = sizes_of_files(batch.column(ORDER).to_numpy(), files)
        ends = np.cumsum(counts)
        for size, end in zip(counts.tolist(), ends.tolist(), strict=True):
            if size:
                yield batch.slice(end - size, size)


def _file(batch: pa.RecordBatch, files: int) -> int:
    """In which file the rows of a batch are, by the order word of the first."""
    return int(sizes_of_files(batch.column(ORDER)[:1].to_numpy(), files).argmax())


def _joined(written: Sequence[Written]) -> Written:
    return Written(sum(each.records for each in written), tuple(name for each in written for name in each.files))


@contextlib.contextmanager
def _in_keyed_order(session: Session, table: EmbeddedTable, stream: Stream) -> Iterator[OrderedRows | DealtRows | None]:
    """The rows by places; None where the database has to sort them: cells that are not equally long."""
    rows = rows_in_memory(session, table, stream)
    if rows is not None:
        yield rows
        return
    with rows_on_disk(session, table, stream) as dealt:
        yield dealt


def _at_once(
    rows: OrderedRows | DealtRows,
    made: Callable[[pa.RecordBatch], pa.RecordBatch],
    part: Callable[[Iterator[pa.RecordBatch], int], Written],
    threads: int,
) -> Written:
    """The files, several at a time."""
    ends, done = np.cumsum(rows.sizes).tolist(), [0]
    places = [place for place in zip([0, *ends], ends, strict=False) if place[0] < place[1]]

    def batches(place: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        for batch in rows.each(*place, made, 1):
            yield batch
            done[0] += len(batch)  # for reports only: a count that two threads update at once is a little behind

    with ThreadPoolExecutor(_abreast(len(places), threads), thread_name_prefix="privpipe-parts") as pool:
        waiting = [pool.submit(part, batches(place), number) for number, place in enumerate(places)]
        try:
            while wait(waiting, LOOKED_AFTER, FIRST_EXCEPTION).not_done and not any(map(_failed, waiting)):
                within("rows", done[0])
            return _joined([each.result() for each in waiting])
        finally:
            for each in waiting:
                each.cancel()


def _abreast(files: int, threads: int) -> int:
    """How many files are written at once: a few more than threads, where else the last ones kept one thread alone busy.

    Examples
    --------
    >>> _abreast(9, 2), _abreast(8, 2), _abreast(5, 2), _abreast(7, 2)
    (3, 2, 3, 2)
    """
    return next((n for n in range(threads, 2 * threads) if files % n == 0 or files % n >= threads), threads)


def _failed(future: Future[Written]) -> bool:
    return future.done() and future.exception() is not None


def _with_used_texts(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in logical types, but for texts that have a dictionary: they keep what their cells use of it.

    The file shows a whole dictionary; in order of their first cells, its values are where they would be without one.
    """
    texts = {name for name in schema.names if pa.types.is_dictionary(batch.schema.field(name).type)}
    others = logical(batch.select([name for name in schema.names if name not in texts]), schema)
    columns = [_used(batch.column(name)) if name in texts else others.column(name) for name in schema.names]
    return pa.record_batch(columns, names=schema.names)


def _used(column: pa.DictionaryArray) -> pa.DictionaryArray:
    from privpipe.kernels.columns.codes import in_order_of_appearance

    codes = column.indices.cast(pa.int32())
    codes = codes.fill_null(-1) if codes.null_count else codes
    places, used = in_order_of_appearance(codes.to_numpy(), len(column.dictionary))
    indices = pa.array(places, mask=places < 0) if column.null_count else pa.array(places)
    # No place is beyond what is used: the kernel refused codes beyond the dictionary, and numbers places itself.
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.take(pa.array(used)), safe=False)


def _by_value(session: Session, table: EmbeddedTable) -> Iterator[pa.RecordBatch]:
    return session.stream(_sorted(table, table.schema.names), table.frames)


def _sorted(table: EmbeddedTable, by: list[str]) -> str:
    order = ", ".join(f"{quoted(name)} NULLS LAST" for name in by)
    return f"SELECT {column_list(table.schema.names)} FROM {table.source} ORDER BY {order}"


def sorted_rows(session: Session, table: EmbeddedTable) -> pa.Table:
    """The visible rows, by record id (a keyed hash) or, without ids, by their values."""
    small = SmallRows.of(session, table) if table.has_record_ids else None
    if small is not None:
        return small.ordered()
    by = list(ID_COLUMNS) if table.has_record_ids else table.schema.names
    batches = [logical(batch, table.schema) for batch in session.stream(_sorted(table, by), table.frames)]
    return pa.Table.from_batches(batches, table.schema)
