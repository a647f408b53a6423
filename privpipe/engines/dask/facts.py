"""Facts, distinct tables and what may be known of persons: counted in every partition, merged a few at a time."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, Facts, FactsRequest, Histogram, RowBlock
from privpipe.blocks.requests import PERSON, Knowledge, PersonCounts, PersonRows, Related
from privpipe.draws import Seed
from privpipe.engines.base.aggregated_cells import (
    DUCKDB,
    counts_schema,
    counts_sql,
    knowledge_schema,
    knowledge_sql,
    related_schema,
)
from privpipe.engines.base.batches import joined, whole_array
from privpipe.engines.base.class_blocks import ExactMoments, group_key, histogram_of, merged_histogram, plain_key
from privpipe.engines.dask.dask_table import DaskTable
from privpipe.engines.dask.exchange import Pieces, meet
from privpipe.engines.dask.graph import Node
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.distributed.codes import encode, grouped, tuple_hashes
from privpipe.engines.distributed.orders import value_order_of
from privpipe.kernels.grouping.word_groups import split_order

__all__ = [
    "COUNT",
    "CountDistinct",
    "Learn",
    "Learnt",
    "Query",
    "facts_of",
    "known_of_persons",
    "merge_distinct",
    "related_rows",
    "sorted_distinct",
]


COUNT = "__count"


@dataclass(frozen=True, repr=False)
class Learnt:
    """What some partitions answer to a request."""

    records: int
    histograms: Mapping[str, Histogram]
    sums: Any
    nulls: Mapping[str, int]


@dataclass(frozen=True)
class Learn:
    """A request, answered for a partition and merged over several."""

    request: FactsRequest

    @property
    def moments(self) -> ExactMoments:
        """The reduction behind means and deviations."""
        return ExactMoments(self.request.moments, self.request.products)

    def measure(self, batch: pa.RecordBatch) -> Learnt:
        """The answer of one partition."""
        return Learnt(
            batch.num_rows,
            {name: _histogram(batch.column(name)) for name in self.request.histograms},
            self.moments.measure(RowBlock(batch), Facts()) if self.request.moments and batch.num_rows else None,
            {name: group_key(batch.column(name)).null_count for name in self.request.nulls},
        )

    def merge(self, parts: list[Learnt]) -> Learnt:
        """The answer of several partitions; they are at least one."""
        sums = None
        for part in parts:
            if part.sums is not None:
                sums = part.sums if sums is None else self.moments.merge(sums, part.sums)
        return Learnt(
            sum(part.records for part in parts),
            {name: _merged([part.histograms[name] for part in parts]) for name in self.request.histograms},
            sums,
            {name: sum(part.nulls[name] for part in parts) for name in self.request.nulls},
        )


def facts_of(learnt: Learnt, request: FactsRequest) -> Facts:
    """The facts of the whole table.

    Raises
    ------
    DataError
        Moments of a column that holds infinities.
    """
    moments, covariance = Learn(request).moments.finish(learnt.sums)
    return Facts(
        records=learnt.records,
        histograms=learnt.histograms,
        moments=moments,
        covariance=covariance,
        nulls=learnt.nulls,
    )


def _histogram(column: pa.Array) -> Histogram:
    found = encode(column)
    return histogram_of(found.values, pa.array(np.bincount(found.codes, minlength=len(found.values))))


def _merged(parts: Sequence[Histogram]) -> Histogram:
    return parts[0] if len(parts) == 1 else merged_histogram(parts, parts[0].values.type)


@dataclass(frozen=True, repr=False)
class CountDistinct:
    """Distinct combinations of one partition, normalised, with their counts, cut by a keyed hash of 128 bits."""

    columns: tuple[str, ...]
    places: int
    seed: Seed

    def __call__(self, batch: pa.RecordBatch) -> Pieces:
        found = _distinct(batch.select(list(self.columns)), 1)
        encoded = [encode(found.column(name)) for name in self.columns]
        order, offsets = split_order(tuple_hashes(encoded, self.seed, found.num_rows)[:, 0], self.places)
        return Pieces(found.take(pa.array(order)), offsets)


def merge_distinct(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Distinct combinations that met in one place, their counts added up."""
    rows = joined(parts)
    return _distinct(rows.select(rows.schema.names[:-1]), rows.column(COUNT).to_numpy())


def _distinct(rows: pa.RecordBatch, counts: Any) -> pa.RecordBatch:
    encoded = [encode(column) for column in rows.columns]
    groups, firsts = grouped(encoded, rows.num_rows)
    sums = np.zeros(len(firsts), dtype=np.int64)
    np.add.at(sums, groups, counts)
    columns = [column.values.take(pa.array(column.codes[firsts])) for column in encoded]
    return pa.record_batch([*columns, pa.array(sums)], names=[*rows.schema.names, COUNT])


def sorted_distinct(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The combinations of all places in the order of their columns, nulls last."""
    rows = joined(parts)
    names = rows.schema.names[:-1]
    fields = [*(schema.field(name) for name in names), pa.field(COUNT, pa.int64())]
    return pa.Table.from_batches([rows.take(value_order_of(rows.columns[:-1]))]).cast(pa.schema(fields))


@dataclass(frozen=True, repr=False)
class _Rows:
    """Columns of a partition under new names, cut so that rows of one key meet."""

    columns: tuple[str, ...]
    names: tuple[str, ...]
    key: tuple[str, ...]
    places: int
    seed: Seed

    def __call__(self, batch: pa.RecordBatch) -> Pieces:
        rows = pa.record_batch([plain_key(batch.column(name)) for name in self.columns], names=list(self.names))
        words = tuple_hashes([encode(rows.column(name)) for name in self.key], self.seed, len(rows))[:, 0]
        order, offsets = split_order(words, self.places)
        return Pieces(rows.take(pa.array(order)), offsets)


@dataclass(frozen=True, repr=False)
class Query:
    """A SELECT over what came to one place of several tables, which it finds as ``t0`` and on.

    Parameters
    ----------
    sql : str
    parts : tuple of int
        Partitions of each table.
    schema : pyarrow.Schema
    """

    sql: str = field(repr=False)
    parts: tuple[int, ...]
    schema: pa.Schema

    def __call__(self, pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        try:
            found = self._answer(pieces)
        except (duckdb.FatalException, duckdb.InternalException):
            _database.cache_clear()  # it answers no more queries after these
            raise
        columns = [whole_array(column).cast(kind.type) for column, kind in zip(found.columns, self.schema, strict=True)]
        return pa.record_batch(columns, schema=self.schema)

    def _answer(self, pieces: Sequence[pa.RecordBatch]) -> pa.Table:
        first = 0
        with _database(os.getpid()).cursor() as session:
            for at, many in enumerate(self.parts):
                session.register(f"t{at}", pa.Table.from_batches([joined(pieces[first : first + many])]))
                first += many
            return session.sql(self.sql).to_arrow_table()


@functools.cache
def _database(process: int) -> Any:
    """One for all tasks of a process, which see none of each other's names: to open one costs many small queries."""
    return duckdb.connect(":memory:", config={"threads": 1})


@dataclass(frozen=True)
class _Meeting:
    """Where rows meet.

    Parameters
    ----------
    runtime : Runtime
    places : int
    seed : Seed
        Of the hashes that say where.
    """

    runtime: Runtime
    places: int
    seed: Seed

    def sent(
        self, nodes: Sequence[Node], columns: Sequence[str], names: Sequence[str], key: Sequence[str]
    ) -> list[Any]:
        """Rows of partitions, cut by their key."""
        cut = self.runtime.place(_Rows(tuple(columns), tuple(names), tuple(key), self.places, self.seed))
        return [self.runtime.task("cut by key", cut, node) for node in nodes]

    def query(self, sql: str, sent: Sequence[Sequence[Any]], schema: pa.Schema) -> list[Node]:
        """A SELECT over what meets of several tables."""
        made = Query(sql, tuple(map(len, sent)), schema)
        return meet(self.runtime, "relate rows", [piece for each in sent for piece in each], self.places, made)


def known_of_persons(runtime: Runtime, asked: PersonCounts | Knowledge, places: int) -> DaskTable:
    """See `PersonCounts` and `Knowledge`."""
    meeting = _Meeting(runtime, places, Seed.from_os())
    every = (asked.root, *asked.others)
    sent = [_by_person(meeting, rows) for rows in every]
    sources = [f"SELECT * FROM t{at}" for at in range(len(every))]
    if isinstance(asked, PersonCounts):
        schema, sql = counts_schema(asked), counts_sql(asked, sources)
    else:
        schema, sql = knowledge_schema(asked), knowledge_sql(asked, sources, DUCKDB)
    return DaskTable(schema, tuple(runtime.keep("relate rows", meeting.query(sql, sent, schema))))


def _by_person(meeting: _Meeting, rows: PersonRows) -> list[Any]:
    """A table's rows as `rows_sql` has them, cut by person."""
    table: DaskTable = rows.table
    persons = [f"{PERSON}_{at}" for at in range(len(rows.key))]
    more = [f"q{at}" for at in range(len(rows.columns))] + (["v"] if rows.value is not None else [])
    columns = [*rows.key, *rows.columns, *([rows.value] if rows.value is not None else [])]
    sent = meeting.sent(table.holding(columns), columns, [*persons, *more], persons)
    kinds = [table.schema.field(name).type for name in columns[len(rows.key) :]]
    for step in rows.between:
        there: DaskTable = step.table
        links = [f"link{at}" for at in range(len(step.key))]
        onward = [f"{PERSON}_{at}" for at in range(len(step.onward))]
        others = meeting.sent(
            there.holding([*step.key, *step.onward]), [*step.key, *step.onward], [*links, *onward], links
        )
        on = " AND ".join(f"a.{mine} = b.{link}" for mine, link in zip(persons, links, strict=True))
        chosen = ", ".join([*(f"b.{name}" for name in onward), *(f"a.{name}" for name in more)])
        fields = [pa.field(name, there.schema.field(old).type) for name, old in zip(onward, step.onward, strict=True)]
        schema = pa.schema([*fields, *(pa.field(name, kind) for name, kind in zip(more, kinds, strict=True))])
        found = meeting.query(f"SELECT {chosen} FROM t0 AS a JOIN t1 AS b ON {on}", [sent, others], schema)
        persons = onward
        sent = meeting.sent(found, schema.names, schema.names, persons)
    return sent


def related_rows(runtime: Runtime, asked: Related, places: int) -> DaskTable:
    """See `Related`."""
    meeting = _Meeting(runtime, places, Seed.from_os())
    table: DaskTable = asked.table
    ids = list(ID_COLUMNS) if table.has_record_ids else []
    names = [f"c{at}" for at in range(len(table.schema))]
    own = [names[table.schema.get_field_index(name)] for name in asked.key]
    sent = meeting.sent(table.parts, [*table.schema.names, *ids], [*names, *ids], own)
    links, more = [f"link{at}" for at in range(len(asked.to_key))], [f"m{at}" for at in range(len(asked.columns))]
    theirs = [*asked.to_key, *asked.columns]
    others = meeting.sent(asked.to.holding(theirs), theirs, [*links, *more], links)
    on = " AND ".join(f"a.{mine} = b.{link}" for mine, link in zip(own, links, strict=True))
    chosen = ", ".join(
        [*(f"a.{name}" for name in names), *(f"b.{name}" for name in more), *(f"a.{name}" for name in ids)]
    )
    schema = related_schema(asked)
    hidden = pa.schema([*schema, *(pa.field(name, pa.int64()) for name in ids)])
    found = meeting.query(f"SELECT {chosen} FROM t0 AS a JOIN t1 AS b ON {on}", [sent, others], hidden)
    return DaskTable(schema, tuple(runtime.keep("relate rows", found)), table.has_record_ids)
