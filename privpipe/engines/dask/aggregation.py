"""Cells of tables in partitions: grouped where they are, merged as a tree; contributors meet in one place first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS
from privpipe.blocks.aggregate_query import (
    MOST_SUM,
    RECORDS,
    AggregateMeasure,
    AggregateQuery,
    Ranks,
    beyond_words,
    contributor_code,
    missing_persons,
    other_weights,
)
from privpipe.blocks.arrays import Bools, Ints
from privpipe.draws import Seed
from privpipe.engines.base.aggregated_cells import Cells, ranks_sql
from privpipe.engines.base.batches import whole_array, whole_batch
from privpipe.engines.base.class_blocks import plain_key
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.exchange import Pieces, meet
from privpipe.engines.dask.facts import Query
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.codes import encode, encode_ranks, grouped, tuple_hashes
from privpipe.engines.distributed.collection import of_columns
from privpipe.kernels.grouping.word_groups import split_order

__all__ = ["aggregate", "contributions", "ranked"]

SPARSE = 16
"""Rows for each of the largest contributions from which on it pays to look for the few that can be among them."""


@dataclass(frozen=True, repr=False)
class Part:
    """Cells of some contributors: figures of each, and the largest contributions of each measure, one a row.

    Parameters
    ----------
    cells : pyarrow.Table
        Keys ``key_0`` and on, then figures.
    largest : tuple of pyarrow.Table
        Keys, then value ``v``, weighted value ``p`` and contributor ``h`` where they are known.
    sizes : mapping of str to float
        Sums of absolute values of the columns.
    """

    cells: pa.Table
    largest: tuple[pa.Table, ...]
    sizes: dict[str, float]


def contributions(runtime: Runtime, table: DaskTable, query: AggregateQuery, places: int) -> tuple[DaskTable, bool]:
    """See `Engine.contributions`."""
    query.require(table.schema)
    _require(runtime, table, query)
    by_person = runtime.place(_Gather(query, places, Seed.from_os()))
    sent = [runtime.task("add up contributions", by_person, part) for part in table.holding(query.columns)]
    parts = runtime.keep("add up contributions", meet(runtime, "add up contributors", sent, places, _Met(query)))
    alone = [runtime.task("count contributors", _rows_and_persons, part, person=query.person) for part in parts]
    counted = runtime.compute("count contributors", alone)
    for measure in query.measures:
        if measure.once:
            differing = [runtime.task("compare weights", _missing, part, column=measure.column) for part in parts]
            number = sum(runtime.compute("compare weights", differing))
            if number:
                raise other_weights(measure.column, number)
    fields = [table.schema.field(name) for name in (*query.keys, str(query.person))]
    schema = pa.schema([*fields, *((name, pa.int64()) for name in query.added)])
    return DaskTable(schema, tuple(parts)), all(rows == persons for rows, persons in counted)


def aggregate(runtime: Runtime, table: DaskTable, query: AggregateQuery, places: int) -> pa.Table:
    """See `Engine.aggregate`."""
    query.require(table.schema)
    nodes, query = _nodes(runtime, table, query, places)
    measure = runtime.place(_CellsOf(query))
    parts = [runtime.task("count cells", measure, part) for part in nodes]
    what = of_columns("the cells", query.keys)
    whole = runtime.tree("merge cells", _Merge(query), parts, what)
    (found,) = runtime.compute("count cells", [runtime.task("code contributors", _Finish(query), whole)], what)
    made: pa.Table = found
    return made


def ranked(runtime: Runtime, table: DaskTable, query: AggregateQuery, ranks: Sequence[Ranks], places: int) -> pa.Table:
    """See `Engine.ranked`."""
    query.require(table.schema)
    nodes, query = _nodes(runtime, table, query, places)
    count = runtime.place(_CountValues(query, places, Seed.from_os()))
    sent = [runtime.task("count values", count, part) for part in nodes]
    keys = [f"key_{at}" for at in range(len(query.keys))]
    groups = ", ".join([*keys, "value"])
    counted = f"(SELECT {groups}, CAST(sum(number) AS BIGINT) AS number FROM t0 GROUP BY {groups})"
    kinds = [table.schema.field(name).type for name in query.keys]
    figures = [(name, pa.int64()) for name in ("value", "number", "before", "present")]
    schema = pa.schema([*zip(keys, kinds, strict=True), *figures])
    met = meet(runtime, "rank values", sent, places, Query(ranks_sql(keys, ranks, counted), (len(sent),), schema))
    what = of_columns("ranked values", query.columns)
    return pa.Table.from_batches(runtime.compute("rank values", met, what), schema)


def _nodes(runtime: Runtime, table: DaskTable, query: AggregateQuery, places: int) -> tuple[list[Any], AggregateQuery]:
    """Parts with one row for each contributor and cell, and the query over them."""
    nodes = list(table.parts) if table.has_record_ids else table.holding(query.columns or table.schema.names[:1])
    if query.person is not None and not query.unique and not query.gathered:
        table, _one = contributions(runtime, table, query, places)
        nodes, query = list(table.parts), _of_rows(query)
    elif query.person is not None and not query.unique:
        again = runtime.place(_Met(query))
        nodes = [runtime.task("add up contributions", again, [part]) for part in nodes]
        query = _of_rows(query)
    return nodes, query


def _of_rows(query: AggregateQuery) -> AggregateQuery:
    """The query over one row for each contributor and cell."""
    return replace(query, unique=True, records=RECORDS)


def _require(runtime: Runtime, table: DaskTable, query: AggregateQuery) -> None:
    """Refuse records without a contributor, and sums that could exceed 64 bits."""
    nodes = table.holding(query.columns)
    looks = runtime.compute("look at contributions", [runtime.task("look", _look, part, query=query) for part in nodes])
    missing = sum(look[0] for look in looks)
    if missing:
        raise missing_persons(str(query.person), missing)
    for name in looks[0][1]:
        if sum(look[1][name] for look in looks) > MOST_SUM:
            raise beyond_words(name)


def _look(batch: pa.RecordBatch, query: AggregateQuery) -> tuple[int, dict[str, float]]:
    missing = batch.column(query.person).null_count if query.person is not None else 0
    return missing, _sizes(batch, query)


def _sizes(batch: Any, query: AggregateQuery) -> dict[str, float]:
    """Sums of absolute values; of squares under the column's name too, if these are larger."""
    names = dict.fromkeys(name for each in query.measures for name in (each.column, each.product) if name is not None)
    squared = {each.column for each in query.measures if each.squares}
    found = {}
    for name in names:
        size = pc.abs(batch.column(name).cast(pa.float64(), safe=False))
        found[name] = float(pc.sum(size).as_py() or 0.0)
        if name in squared:
            found[name] = max(found[name], float(pc.sum(pc.multiply(size, size)).as_py() or 0.0))
    return found


def _missing(batch: pa.RecordBatch, column: str) -> int:
    return int(batch.column(column).null_count)


def _rows_and_persons(batch: pa.RecordBatch, person: str) -> tuple[int, int]:
    return batch.num_rows, len(batch.column(person).unique())


def _by_contributor(rows: pa.Table, query: AggregateQuery) -> pa.Table:
    """One row per key and person, of rows that have all figures of `AggregateQuery.added`."""
    groups = [*query.keys, str(query.person)]
    asked: list[tuple[str, str]] = []
    for name, how in query.added.items():
        asked += [(name, "min"), (name, "max")] if how == "once" else [(name, how)]
    found = rows.group_by(groups, use_threads=False).aggregate(asked)
    columns = {name: found.column(name) for name in groups}
    for name, how in query.added.items():
        if how == "once":  # null where records disagree
            least, most = found.column(f"{name}_min"), found.column(f"{name}_max")
            columns[name] = pc.if_else(pc.equal(least, most), least, pa.scalar(None, pa.int64()))
        else:
            columns[name] = found.column(f"{name}_{how}")
    return pa.table(columns)


def _with_records(batch: pa.RecordBatch, query: AggregateQuery) -> pa.Table:
    columns = {name: plain_key(batch.column(name)) for name in query.columns if name != query.records}
    records = pa.array(np.ones(batch.num_rows, dtype=np.int64)) if query.records is None else None
    columns[RECORDS] = batch.column(query.records) if records is None else records
    return pa.table(columns)


@dataclass(frozen=True, repr=False)
class _Gather:
    """The contributions of a partition, cut by the place where their contributor's meet."""

    query: AggregateQuery
    places: int
    seed: Seed

    def __call__(self, batch: pa.RecordBatch) -> Pieces:
        rows = _by_contributor(_with_records(batch, self.query), self.query).combine_chunks()
        person = rows.column(str(self.query.person)).combine_chunks()
        order, offsets = split_order(tuple_hashes([encode(person)], self.seed, len(rows))[:, 0], self.places)
        return Pieces(whole_batch(rows.take(pa.array(order))), offsets)


@dataclass(frozen=True, repr=False)
class _Met:
    """The contributions of one place, each contributor's added up by key."""

    query: AggregateQuery

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(list(pieces))
        rows = rows.select([*self.query.keys, str(self.query.person), *self.query.added])
        return whole_batch(_by_contributor(rows, self.query))


@dataclass(frozen=True)
class Groups:
    """Rows of a partition by cell."""

    of: Ints
    firsts: Ints

    @property
    def number(self) -> int:
        return len(self.firsts)

    def sums(self, values: Ints) -> Ints:
        """By cell; `_sizes` shows where they would exceed 64 bits."""
        found = np.zeros(self.number, dtype=np.int64)
        np.add.at(found, self.of, values)
        return found

    def counts(self, some: Bools) -> Ints:
        return np.bincount(self.of[some], minlength=self.number).astype(np.int64)

    def firsts_of(self, some: Bools) -> pa.Array:
        """The first row of each cell among some; null where there is none."""
        rows = np.flatnonzero(some)[::-1]
        found = np.full(self.number, -1, dtype=np.int64)
        found[self.of[rows]] = rows
        return pa.array(found, mask=found < 0)

    def least_of_largest(self, values: Ints, most: int) -> Ints:
        """A value that at least `most` rows of each cell reach, or 0: the rows are dealt, and each heap has a maximum.

        Few rows reach it, so that no more have to be sorted.
        """
        heaps = 1 << (4 * most - 1).bit_length()
        found = np.zeros(self.number * heaps, dtype=np.int64)
        np.maximum.at(found, self.of * heaps + (np.arange(len(self.of)) & (heaps - 1)), values)
        maxima = found.reshape(self.number, heaps)
        return np.asarray(np.partition(maxima, heaps - most, axis=1)[:, heaps - most])


def _figures(
    at: int, measure: AggregateMeasure, rows: pa.RecordBatch, groups: Groups, contributors: Ints
) -> dict[str, Ints]:
    """What is added up of a measure in each cell: all are sums, but maxima of `unwaived`."""
    value = rows.column(measure.column)
    words = _words(value)
    low, high = (int(words.min()), int(words.max())) if len(words) else (0, 0)
    there = value.is_valid().to_numpy(zero_copy_only=False)
    size = np.abs(words) if low < 0 else words
    present = groups.counts(there) if value.null_count else contributors
    total = groups.sums(words)
    figures = {
        f"present_{at}": present,
        f"total_{at}": total,
        f"magnitude_{at}": groups.sums(size) if low < 0 else total,
        f"nonzero_{at}": groups.counts(words != 0) if low <= 0 <= high else present,
        f"negative_{at}": groups.counts(words < 0) if low < 0 else np.zeros_like(present),
    }
    if measure.squares:
        figures[f"square_{at}"] = groups.sums(_squares(words))
    if measure.product is not None:
        product = _words(rows.column(measure.product))
        figures |= {f"product_{at}": groups.sums(product), f"size_{at}": groups.sums(np.abs(product))}
    if measure.waived is not None:
        bound = (_words(rows.column(measure.waived)) == 0) & there
        unwaived = np.full(groups.number, -1, dtype=np.int64)
        np.maximum.at(unwaived, groups.of[bound], size[bound])
        figures[f"unwaived_{at}"] = unwaived
    return figures


def _squares(words: Ints) -> Ints:
    """Squares; of values whose square is beyond 64 bits 0, for `_sizes` shows that their sum is."""
    return np.where(np.abs(words.astype(np.float64)) < MOST_SUM**0.5, words, 0) ** 2


def _how(name: str) -> str:
    kind = name.partition("_")[0]
    return {"unwaived": "max", "alone": "first"}.get(kind, "sum")


def _grouped_cells(rows: pa.Table, keys: list[str]) -> pa.Table:
    figures = [name for name in rows.column_names if name not in keys]
    found = rows.group_by(keys, use_threads=False).aggregate([(name, _how(name)) for name in figures])
    return pa.table(
        {
            **{key: found.column(key) for key in keys},
            **{name: found.column(f"{name}_{_how(name)}") for name in figures},
        }
    )


@dataclass(frozen=True, repr=False)
class _CellsOf:
    """The cells of a partition whose rows are contributions."""

    query: AggregateQuery

    def __call__(self, batch: pa.RecordBatch) -> Part:
        query = self.query
        keys = {f"key_{at}": plain_key(batch.column(name)) for at, name in enumerate(query.keys)}
        holder = None
        if query.person is not None:
            holder = plain_key(batch.column(query.person))
        elif ID_COLUMNS[0] in batch.schema.names:
            holder = batch.column(ID_COLUMNS[0])
        groups = Groups(*grouped([encode(key) for key in keys.values()], batch.num_rows))
        contributors = np.bincount(groups.of, minlength=groups.number).astype(np.int64)
        records = contributors if query.records is None else groups.sums(_words(batch.column(query.records)))
        firsts = pa.array(groups.firsts)
        figures: dict[str, Any] = {"contributors": contributors, "records": records}
        if holder is not None:
            figures["alone"] = holder.take(firsts)
        for at, measure in enumerate(query.measures):
            figures |= _figures(at, measure, batch, groups, contributors)
            if holder is not None:
                there = batch.column(measure.column)
                own = groups.firsts_of(there.is_valid().to_numpy(zero_copy_only=False)) if there.null_count else firsts
                figures[f"alone_{at}"] = holder.take(own)
        cells = pa.table({**{name: key.take(firsts) for name, key in keys.items()}, **figures})
        largest = tuple(self._largest(batch, measure, keys, holder, groups) for measure in query.measures)
        return Part(cells, largest, _sizes(batch, query))

    def _largest(
        self,
        batch: pa.RecordBatch,
        measure: AggregateMeasure,
        keys: dict[str, pa.Array],
        holder: pa.Array | None,
        groups: Groups,
    ) -> pa.Table:
        most = self.query.largest
        value = np.abs(_words(batch.column(measure.column)))
        entries: dict[str, Any] = {**keys, "v": value}
        if measure.product is not None:
            entries["p"] = pc.abs(batch.column(measure.product))
        if self.query.person is not None and holder is not None:
            entries["h"] = holder
        rows = pa.table(entries)
        if measure.once or not most:
            return rows.slice(0, 0)
        some = value > 0
        if groups.number * most * SPARSE < len(value):
            some &= value >= groups.least_of_largest(value, most)[groups.of]
        return _top(rows.take(pa.array(np.flatnonzero(some))), list(keys), most)


@dataclass(frozen=True, repr=False)
class _CountValues:
    """How many contributors of each cell have each value, cut by the place where a cell's values meet."""

    query: AggregateQuery
    places: int
    seed: Seed

    def __call__(self, batch: pa.RecordBatch) -> Pieces:
        keys = {f"key_{at}": plain_key(batch.column(name)) for at, name in enumerate(self.query.keys)}
        value = batch.column(self.query.measures[0].column)
        one = pa.array(np.ones(batch.num_rows, dtype=np.int64))
        rows = pa.table({**keys, "value": value, "number": one}).filter(value.is_valid())
        found = rows.group_by([*keys, "value"], use_threads=False).aggregate([("number", "sum")])
        rows = found.select([*keys, "value", "number_sum"]).rename_columns([*keys, "value", "number"])
        coded = [encode(whole_array(rows.column(key))) for key in keys]
        order, offsets = split_order(tuple_hashes(coded, self.seed, len(rows))[:, 0], self.places)
        return Pieces(whole_batch(rows.take(pa.array(order))), offsets)


def _top(entries: pa.Table, keys: list[str], most: int) -> pa.Table:
    """The largest entries of each cell, by value, weighted value and contributor, falling; sorted by cell."""
    if not len(entries) or not most:
        return entries.slice(0, 0)
    groups, _firsts = grouped([encode(whole_array(entries.column(key))) for key in keys], len(entries))
    ranks = [-whole_array(entries.column(name)).to_numpy() for name in ("v", "p") if name in entries.column_names]
    if "h" in entries.column_names:
        ranks.append(-encode_ranks(whole_array(entries.column("h"))).codes)
    order = np.lexsort((*reversed(ranks), groups))
    starts = np.flatnonzero(np.append(True, groups[order][1:] != groups[order][:-1]))
    places = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return entries.take(pa.array(order[places < most]))


@dataclass(frozen=True, repr=False)
class _Merge:
    """Parts of other contributors as one part."""

    query: AggregateQuery

    def __call__(self, parts: Sequence[Part]) -> Part:
        keys = [f"key_{at}" for at in range(len(self.query.keys))]
        cells = _grouped_cells(pa.concat_tables([part.cells for part in parts]), keys)
        largest = tuple(
            _top(pa.concat_tables([part.largest[at] for part in parts]), keys, self.query.largest)
            for at in range(len(self.query.measures))
        )
        sizes = {name: sum(part.sizes[name] for part in parts) for name in parts[0].sizes}
        return Part(cells, largest, sizes)


@dataclass(frozen=True, repr=False)
class _Finish:
    """The cells as an engine returns them; raw contributors stay on the workers."""

    query: AggregateQuery

    def __call__(self, part: Part) -> pa.Table:
        query, cells = self.query, part.cells
        for name, size in part.sizes.items():
            if size > MOST_SUM:
                raise beyond_words(name)
        found = Cells(query, len(cells))
        keys = [cells.column(f"key_{at}") for at in range(len(query.keys))]
        for name in cells.column_names:
            if not name.startswith(("key_", "alone")):
                found.add(name, _words(cells.column(name)))
        if "alone" in cells.column_names:
            found.add("single", self._single(cells, "alone", "contributors"))
            for at in range(len(query.measures)):
                found.add(f"single_{at}", self._single(cells, f"alone_{at}", f"present_{at}"))
        for at, entries in enumerate(part.largest):
            if len(entries):
                self._add_largest(found, at, keys, entries)
        return found.table(keys)

    def _single(self, cells: pa.Table, holder: str, number: str) -> Ints:
        alone = pa.array(_words(cells.column(number)) == 1)
        return self._codes(
            pc.if_else(alone, whole_array(cells.column(holder)), pa.scalar(None, cells.column(holder).type))
        )

    def _codes(self, holders: pa.Array) -> Ints:
        if self.query.person is None:  # an id is keyed already
            ids = pc.fill_null(pc.if_else(pc.equal(holders, 0), 1, holders), 0)
            return np.asarray(ids.to_numpy(zero_copy_only=False), dtype=np.int64)
        encoded = encode(holders)
        texts = _texts(encoded.values)
        codes = [0 if text is None else contributor_code(self.query.secret, text) for text in texts]
        return np.array(codes, dtype=np.int64)[encoded.codes] if len(holders) else np.zeros(0, dtype=np.int64)

    def _add_largest(self, found: Cells, at: int, keys: list[pa.ChunkedArray], entries: pa.Table) -> None:
        number = len(keys[0]) if keys else 1
        if keys:
            both = [
                encode(pa.concat_arrays([whole_array(key), whole_array(entries.column(f"key_{place}"))]))
                for place, key in enumerate(keys)
            ]
            groups, _firsts = grouped(both, number + len(entries))
        else:
            groups = np.zeros(number + len(entries), dtype=np.int64)
        cell_of = np.empty(number, dtype=np.int64)
        cell_of[groups[:number]] = np.arange(number)
        cells = cell_of[groups[number:]]
        starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        ranks = np.arange(len(cells)) - np.repeat(starts, np.diff(np.append(starts, len(cells))))
        names = entries.column_names
        products = _words(entries.column("p")) if "p" in names else None
        codes = self._codes(whole_array(entries.column("h"))) if "h" in names else None
        found.add_largest(at, cells, ranks, _words(entries.column("v")), products, codes)


def _texts(values: pa.Array) -> list[str | None]:
    """Texts of contributors as databases write them."""
    if pt.is_boolean(values.type):
        return [None if value is None else str(value).lower() for value in values.to_pylist()]
    return [None if value is None else str(value) for value in values.to_pylist()]


def _words(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)
