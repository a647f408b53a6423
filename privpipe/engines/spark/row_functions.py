"""Functions of row blocks: mapped, grouped by a key, reduced, over pairs, values for labels; runs of equal keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS, Facts, Histogram, PairBlock, Reduction, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.engines.base.batches import joined
from privpipe.engines.base.class_blocks import histogram_of
from privpipe.engines.base.logical_types import beside_schema
from privpipe.engines.distributed.columns import column_name
from privpipe.engines.distributed.row_functions import Codebook, codebooks_of, recoded_schema, unknown_values
from privpipe.engines.spark.driver_memory import fits_driver, room_for_results
from privpipe.engines.spark.facts import histograms_of
from privpipe.engines.spark.failures import reported, sealed
from privpipe.engines.spark.spark_table import Layout, SparkTable, spark_type
from privpipe.engines.spark.versions import frame_of
from privpipe.engines.spark.workers import fold, map_batches
from privpipe.errors import EngineError

__all__ = [
    "RunNumbers",
    "RunOrdinals",
    "beside",
    "map_groups",
    "map_rows",
    "recode",
    "reduce_pairs",
    "reduce_rows",
    "together",
    "whole_runs",
]


ENOUGH_ROWS = 1 << 16


class RunNumbers:
    """Numbers rows within their run, over the borders of batches.

    Examples
    --------
    >>> runs = RunNumbers()
    >>> runs.number(np.array([[7], [7], [8]])).tolist(), runs.number(np.array([[8], [9]])).tolist()
    ([0, 1, 0], [1, 0])
    """

    def __init__(self) -> None:
        self._last: Ints | None = None
        self._seen = 0

    def number(self, keys: Ints) -> Ints:
        """0, 1, ... within each run of equal rows of `keys`, shape (n, w)."""
        if not len(keys):
            return np.zeros(0, np.int64)
        starts = run_starts(keys)
        lengths = np.diff(np.append(starts, len(keys)))
        numbers = np.arange(len(keys)) - np.repeat(starts, lengths)
        if self._last is not None and (keys[0] == self._last).all():
            numbers[: lengths[0]] += self._seen
        self._last, self._seen = keys[-1].copy(), int(numbers[-1]) + 1
        return numbers


class RunOrdinals:
    """Numbers rows among those of equal content, which are in one run, over the borders of batches.

    Examples
    --------
    >>> runs, words = RunOrdinals(), np.array([[7, 1], [7, 2], [7, 1], [8, 1]])
    >>> runs.of(np.array([1, 1, 1, 2]), words).tolist(), runs.of(np.array([2, 3]), words[[3, 0]]).tolist()
    ([0, 0, 1, 0], [1, 0])
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: dict[tuple[int, int], int] = {}

    def of(self, keys: Ints, words: Ints) -> Ints:
        """0, 1, ... among the equal rows of `words`, shape (n, 2); `keys`, shape (n,), are equal along a run."""
        from privpipe.kernels.ids.record_ids import ordinals

        numbers = np.zeros(len(keys), np.int64)
        if not len(keys):
            return numbers
        starts = run_starts(keys[:, None])
        lengths = np.diff(np.append(starts, len(keys)))
        shared = np.flatnonzero(np.repeat(lengths > 1, lengths))
        numbers[shared] = ordinals(words[shared])
        if self._seen and keys[0] == self._last:
            first = words[: lengths[0]]
            numbers[: len(first)] += np.array([self._seen.get((a, b), 0) for a, b in first.tolist()], np.int64)
        if len(starts) > 1 or keys[0] != self._last:
            self._seen = {}
        self._last, last = int(keys[-1]), slice(int(starts[-1]), len(keys))
        found, at = np.unique(words[last], axis=0, return_inverse=True)
        counted = np.zeros(len(found), np.int64)
        np.maximum.at(counted, at.reshape(-1), numbers[last] + 1)
        self._seen |= {(a, b): count for (a, b), count in zip(found.tolist(), counted.tolist(), strict=True)}
        return numbers


def run_starts(keys: Ints) -> Ints:
    """Where each run of equal rows starts, the first at 0."""
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return np.flatnonzero(fresh)


def whole_runs(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each run of one key as one batch, with the key.

    Examples
    --------
    >>> parts = [pa.record_batch({"k": [1, 2]}), pa.record_batch({"k": [2, 2, 5]})]
    >>> [(found, len(rows)) for found, rows in whole_runs(parts, "k")]
    [(1, 1), (2, 3), (5, 1)]
    """
    waiting: list[pa.RecordBatch] = []
    current = 0
    for batch in batches:
        keys = batch.column(key).to_numpy()
        if not len(keys):
            continue
        starts = run_starts(keys[:, None])
        for start, stop in zip(starts, np.append(starts[1:], len(keys)), strict=True):
            if waiting and keys[start] != current:
                yield current, joined(waiting)
                waiting = []
            current = int(keys[start])
            waiting.append(batch.slice(start, stop - start))
    if waiting:
        yield current, joined(waiting)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: a small one costs as much to send as a large one.

    Examples
    --------
    >>> [len(rows) for rows in together(pa.record_batch({"k": [at]}) for at in range(3))]
    [3]
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ENOUGH_ROWS:
            yield joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield joined(waiting)


R = TypeVar("R")
Batches = Iterator[pa.RecordBatch]
KEY = "__privpipe_key"


def map_rows(table: SparkTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> SparkTable:
    """See `Engine.map_rows`."""
    source, out = table.layout, Layout(schema, table.has_record_ids)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            if batch.num_rows:
                yield out.batch(function(source.block(batch)))

    return SparkTable(map_batches(table.frame, run, out), out, at_most=table.bound)


def map_groups(
    table: SparkTable,
    key: Callable[[RowBlock], Ints],
    function: Callable[[RowBlock, int], RowBlock],
    schema: pa.Schema,
) -> SparkTable:
    """See `Engine.map_groups`."""
    source, out = table.layout, Layout(schema, table.has_record_ids)
    keyed = source.with_extra(KEY)

    def add_key(batches: Batches) -> Batches:
        for batch in batches:
            rows = source.block(batch)
            yield keyed.batch(rows, **{KEY: key(rows)})

    def run(batches: Batches) -> Batches:
        found = (out.batch(function(keyed.block(rows), at)) for at, rows in whole_runs(batches, KEY))
        yield from together(found)

    gathered = map_batches(table.frame, add_key, keyed).repartition(KEY).sortWithinPartitions(KEY)
    return SparkTable(map_batches(gathered, run, out), out, at_most=table.bound)


def reduce_rows(table: SparkTable, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts) -> R | None:
    """See `Engine.reduce_rows`."""
    chosen = table.select(list(dict.fromkeys(columns)))
    layout = chosen.layout

    def measure(batches: Batches) -> Iterator[R]:
        for batch in batches:
            if batch.num_rows:
                yield reduction.measure(layout.block(batch), facts)

    room = room_for_results(table, chosen.schema.names, "the figures gathered")
    return fold(chosen.frame, measure, reduction.merge, "measure the records", room)


def reduce_pairs(
    original: SparkTable,
    released: SparkTable,
    columns: Sequence[str],
    reduction: Reduction[PairBlock, R],
    facts: Facts,
) -> R | None:
    """See `Engine.reduce_pairs`."""
    from pyspark.sql import functions as sf

    names = list(dict.fromkeys(columns))
    left, right = original.select(names), released.select(names)
    of_left, of_right = left.layout, right.layout
    other = [f"other_{name}" for name in of_right.arrow.names]
    pairs = left.frame.join(
        right.frame.toDF(*other),
        [sf.col(name) == sf.col(f"other_{name}") for name in ID_COLUMNS],
        "inner",
    )
    width = len(of_left.arrow)

    def measure(batches: Batches) -> Iterator[R]:
        for batch in batches:
            if batch.num_rows:
                first, second = range(width), range(width, width + len(other))
                block = PairBlock(of_left.block(batch.select(list(first))), of_right.block(batch.select(list(second))))
                yield reduction.measure(block, facts)

    room = room_for_results(released, names, "the figures gathered")
    return fold(pairs, measure, reduction.merge, "measure the pairs", room)


def beside(released: SparkTable, original: SparkTable, columns: Mapping[str, str]) -> SparkTable:
    """See `Engine.beside`."""
    from pyspark.sql import functions as sf

    layout = Layout(beside_schema(released, original, columns))
    other = original.select(list(columns))
    renamed = [f"other_{name}" for name in other.layout.arrow.names]
    joined = released.frame.join(
        other.frame.toDF(*renamed), [sf.col(name) == sf.col(f"other_{name}") for name in ID_COLUMNS], "inner"
    )
    behind = renamed[: len(columns)]
    names = [*released.layout.names(released.schema.names), *behind]
    chosen = [sf.col(name).alias(new) for name, new in zip(names, layout.arrow.names, strict=True)]
    return SparkTable(joined.select(*chosen), layout, at_most=released.bound)


VALUE, LABEL, FOUND = "__privpipe_value", "__privpipe_label", "__privpipe_found"
MOST_ENTRIES = 1 << 20
"""Entries of codebooks that are sent to every executor as a table."""
ENTRY_BYTES = 48
"""Of an entry next to its value and its label, packed as a row of Spark's."""


def _is_plain(book: Codebook) -> bool:
    """Whether Spark compares such values as they are compared here."""
    return all(
        pt.is_string(kind) or pt.is_int64(kind) or pt.is_boolean(kind) or pt.is_date32(kind)
        for kind in (book.values.type, book.labels.type)
    )


def recode(table: SparkTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> SparkTable:
    """See `Engine.recode`.

    A codebook travels in a function or as a table: values in an expression would reach the event log.
    """
    books = codebooks_of(table, codebooks)
    seen = _require_known(table, books)
    made = _joined(table, books) if _may_be_joined(table, books) else _looked_up(table, books)
    learned = {name: each for name, each in table.learned.items() if name not in books}
    learned |= {name: _relabelled(seen[name], book) for name, book in books.items() if name in table.learned}
    return replace(made, remembered=table.remembered, at_most=table.at_most, learned=learned)


def _may_be_joined(table: SparkTable, books: Mapping[str, Codebook]) -> bool:
    entries = [len(book.values) * ENTRY_BYTES + book.values.nbytes + book.labels.nbytes for book in books.values()]
    few = sum(len(book.values) for book in books.values()) <= MOST_ENTRIES
    return few and all(map(_is_plain, books.values())) and fits_driver(table.frame.sparkSession, sum(entries))


def _joined(table: SparkTable, books: Mapping[str, Codebook]) -> SparkTable:
    from pyspark.sql import functions as sf

    frame, out = table.frame, replace(table.layout, schema=recoded_schema(table.schema, books))
    columns = {name: table.column(name) for name in table.schema.names}
    for at, (name, book) in enumerate(books.items()):
        names = [f"{part}{at}" for part in (VALUE, LABEL, FOUND)]
        rows = pa.table([book.values, book.labels, pa.array(np.ones(len(book.values), np.bool_))], names=names)
        with reported("send a codebook to Spark"):
            sent = frame_of(frame.sparkSession, rows, _struct(rows.schema))
        frame = frame.join(sf.broadcast(sent), table.counted(name).eqNullSafe(sf.col(names[0])), "left")
        # The values were counted before; where they differ now, nothing may pass for a label.
        gone = sf.raise_error(sf.lit(sealed(EngineError(f"column {name!r}: its values changed during the run"))))
        columns[name] = sf.when(sf.isnull(names[2]), gone.cast(spark_type(book.labels.type))).otherwise(
            sf.col(names[1])
        )
    chosen = [columns[name].alias(column_name(at)) for at, name in enumerate(table.schema.names)]
    return SparkTable(frame.select(*chosen, *table.layout.hidden), out)


def _struct(schema: pa.Schema) -> Any:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(field.name, spark_type(field.type)) for field in schema])


def _looked_up(table: SparkTable, books: Mapping[str, Codebook]) -> SparkTable:
    def run(rows: RowBlock) -> RowBlock:
        for name, book in books.items():
            found = book.positions(rows.column(name))
            if found.null_count:
                raise unknown_values(name, found.null_count)
            rows = rows.replace(name, book.labels.take(found))
        return rows

    return map_rows(table, run, recoded_schema(table.schema, books))


def _require_known(table: SparkTable, books: Mapping[str, Codebook]) -> dict[str, Histogram]:
    """Count the distinct values rather than the records: that is done where they lie, and once."""
    seen = histograms_of(table, list(books))
    for name, found in seen.items():
        missing = pc.is_null(books[name].positions(found.values)).to_numpy(zero_copy_only=False)
        if missing.any():
            raise unknown_values(name, int(np.asarray(found.counts)[missing].sum()))
    return seen


def _relabelled(found: Histogram, book: Codebook) -> Histogram:
    """The histogram of the labels."""
    return histogram_of(book.labels_of(found.values), pa.array(found.counts))
