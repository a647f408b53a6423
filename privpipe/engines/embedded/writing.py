"""Writing tables of the embedded engine, in an order that is independent of the original one."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

import pyarrow as pa

from privpipe.blocks import ID_COLUMNS
from privpipe.draws import Stream
from privpipe.engines.base import Format, Written, part_files
from privpipe.engines.base.part_files import write_parts
from privpipe.engines.embedded import order_in_memory
from privpipe.engines.embedded.mapping import logical
from privpipe.engines.embedded.order_in_memory import OrderedRows, rows_in_memory
from privpipe.engines.embedded.order_on_disk import DealtRows, rows_on_disk
from privpipe.engines.embedded.ranking import ordered_rows
from privpipe.engines.embedded.session import Session
from privpipe.engines.embedded.small_rows import SmallRows
from privpipe.engines.embedded.table import EmbeddedTable, column_list, quoted
from privpipe.progress import within

__all__ = ["sorted_rows", "write"]

LOOKED_AFTER = 0.1
"""Seconds between two looks at files that are written side by side, at the most."""


def write(session: Session, table: EmbeddedTable, folder: str, format: Format, stream: Stream, escape: bool) -> Written:
    """See `Engine.write`."""

    def made(batch: pa.RecordBatch) -> pa.RecordBatch:
        visible = batch.select(table.schema.names)
        return _with_used_texts(visible, table.schema) if format == "parquet" else logical(visible, table.schema)

    def parts(batches: Iterator[pa.RecordBatch], first: int = 0) -> Written:
        start = next(batches, None)
        found, schema = ((), table.schema) if start is None else ((start,), start.schema)
        return write_parts(itertools.chain(found, batches), schema, folder, format, escape=escape, first=first)

    if table.has_record_ids:
        with _in_keyed_order(session, table, stream) as rows:
            if rows is not None and len(rows) > part_files.ROWS_PER_FILE:
                return _at_once(rows, made, parts, session.threads)
            if rows is not None:
                return parts(rows.each(0, len(rows), made, session.threads))
    ordered = ordered_rows(session, table, stream) if table.has_record_ids else _by_value(session, table)
    return parts(map(made, ordered))


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
    parts: Callable[[Iterator[pa.RecordBatch], int], Written],
    threads: int,
) -> Written:
    """The files that `parts` would write one after the other, several at a time."""
    size, done = part_files.ROWS_PER_FILE, [0]

    def batches(number: int) -> Iterator[pa.RecordBatch]:
        begin, end = number * size, min(number * size + size, len(rows))
        # A batch that two files share is made twice, as a whole: its first rows tell how its texts are numbered.
        start, given = begin - begin % order_in_memory.GIVEN_ROWS, order_in_memory.GIVEN_ROWS
        for whole in rows.each(start, min(end + -end % given, len(rows)), made, 1):
            skipped = max(begin - start, 0)
            piece = whole.slice(skipped, min(end - start, len(whole)) - skipped)
            start += len(whole)
            yield piece
            done[0] += piece.num_rows  # only told: a count that two threads spoil at once is a little behind

    numbers = range(-(-len(rows) // size))
    with ThreadPoolExecutor(_abreast(len(numbers), threads), thread_name_prefix="privpipe-parts") as pool:
        waiting = [pool.submit(parts, batches(number), number) for number in numbers]
        try:
            while wait(waiting, LOOKED_AFTER, FIRST_EXCEPTION).not_done and not any(map(_failed, waiting)):
                within("rows", done[0])
            written = [each.result() for each in waiting]
        finally:
            for each in waiting:
                each.cancel()
    return Written(records=len(rows), files=tuple(name for each in written for name in each.files))


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
    from privpipe.kernels.columns.used_values import in_order_of_appearance

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
