"""The embedded engine: DuckDB over files and frames of this process, out of core under a memory limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import duckdb
import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, Reduction, RowBlock
from privpipe.blocks.aggregate_query import AggregateQuery, Ranks
from privpipe.blocks.primitives import Known
from privpipe.blocks.requests import (
    ByKey,
    ByRank,
    ClassesOf,
    ClassFilter,
    Derivation,
    GivenRows,
    Grouping,
    Identification,
    Joining,
    Knowledge,
    Measured,
    Numbering,
    PairsOf,
    PersonCounts,
    RanksExchanged,
    Recoding,
    Related,
    RowsOf,
    Selection,
    Stacking,
)
from privpipe.blocks.table_name import TableName
from privpipe.draws import Seed, Stream
from privpipe.engines.base import Engine, Format, Source, Written
from privpipe.engines.base.batches import last_id_of, reduce_blocks
from privpipe.engines.base.class_blocks import ExactMoments, group_key, histogram_of
from privpipe.engines.base.contract import NO_TYPES, Frames, Order, Resources, numbered
from privpipe.engines.base.frames import frame_like
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.databases import Database
from privpipe.engines.embedded import class_table, sources, stored_rows
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, append, select, stack
from privpipe.engines.embedded.session import Session, column_list, quoted
from privpipe.engines.embedded.sources import table_of
from privpipe.engines.embedded.stored_rows import SmallRows, given

if TYPE_CHECKING:
    from privpipe.engines.databases.staging import Staging

__all__ = [
    "EmbeddedEngine",
    "EmbeddedKnown",
]


BESIDE_BYTES = 24
"""Of a row: the words that two counts sort at once, and as much again as one of them."""


class EmbeddedKnown(Known):
    """What is known of one table."""

    def __init__(self, session: Session, table: EmbeddedTable) -> None:
        self._session = session
        self._table = table

    def histogram(self, column: str) -> Histogram | None:
        return self._table.histograms.get(column)

    def content(self, seed: Seed) -> tuple[int, int] | None:
        return self._table.content.get(seed.key("record"))

    def estimates(self, columns: Sequence[str]) -> dict[str, int]:
        table = self._table
        table.require(columns)
        if SmallRows.of(self._session, table) is not None:  # to open a database would cost more than to count them
            return {name: len(_histogram(self._session, table, name)) for name in columns}
        self._count_texts_of_files(columns)
        known = {**table.estimates, **{name: len(found) for name, found in table.histograms.items()}}
        unknown = [name for name in columns if name not in known]
        if unknown:  # a caller that asks for the values of a column asks next how many are missing
            both = ("approx_count_distinct({0}), count(*) - count({0})".format(quoted(name)) for name in unknown)
            found = self._session.row(f"SELECT {', '.join(both)} FROM {table.source}", table.frames)
            table.estimates.update(zip(unknown, map(int, found[::2]), strict=True))
            table.nulls.update(zip(unknown, map(int, found[1::2]), strict=True))
        return {name: known.get(name, table.estimates.get(name, 0)) for name in columns}

    def _count_texts_of_files(self, columns: Sequence[str]) -> None:
        """Count texts of large files by their dictionaries, those that are asked for later too: they are read once."""
        table, session = self._table, self._session
        unknown = [name for name in columns if name not in table.histograms and name not in table.estimates]
        if table.files is None or table.records(session) < session.coded_rows:
            return
        if any(pa.types.is_string(table.schema.field(name).type) for name in unknown):
            texts = [each.name for each in table.schema if pa.types.is_string(each.type)]
            found = table.files.some_of(session, texts, table.records(session))
            table.histograms.update({name: held.histogram for name, held in found.items()})

    @property
    def has_room(self) -> bool:
        session, records = self._session, self._table.records(self._session)
        return session.threads > 1 and session.coded_rows <= records <= session.room() // BESIDE_BYTES


R = TypeVar("R")
HELD_VALUES = 1 << 17
"""Distinct values of a column whose histogram stays with the table."""


class EmbeddedEngine(Engine):
    """DuckDB in this process.

    Parameters
    ----------
    session : Session
        Owned by the engine; use `EmbeddedEngine.open`.
    connection : DuckDB connection, optional
        The caller's own, whose tables are read by name; nothing in it changes.

    Examples
    --------
    >>> with EmbeddedEngine.open({"threads": 2}) as engine:
    ...     table = engine.scan(Source(data=pa.table({"zip": ["1", "1", "2"]})))
    ...     sizes = [block.sizes.tolist() for block in engine.classes(table, ClassQuery(keys=("zip",)))]
    >>> sorted(sum(sizes, []))
    [1, 2]
    """

    name: ClassVar[str] = "embedded"
    values_held: ClassVar[int] = 2**63 - 1  # tables are in this process anyhow
    ranks_held: ClassVar[int] = 2_000_000

    def __init__(self, session: Session, connection: Any = None) -> None:
        self.session = session
        self.connection = connection
        self._frames = Frames()
        self._opened = ExitStack()

    @classmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        return cls(Session(options))

    @property
    def resources(self) -> Resources:
        return Resources(self.name, _versions, self.session.memory)

    @property
    def frames(self) -> Frames:
        return self._frames

    def close(self) -> None:
        self.session.close()
        self._opened.close()

    def scan(self, source: Source) -> EmbeddedTable:
        if isinstance(source.data, TableName):
            source = replace(source, data=table_of(self.connection, source.data))
        held = self._frames.held(source)
        if held.is_path or isinstance(held.data, Database):
            held = self._staging.opened(held)
        return sources.scan(self.session, held)

    @cached_property
    def _staging(self) -> Staging:
        from privpipe.engines.databases.staging import Staging

        staging = Staging(self.session.temporary)
        self._opened.callback(staging.close)
        return staging

    def facts(self, table: EmbeddedTable, request: FactsRequest) -> Facts:
        if not request:
            return Facts(records=table.records(self.session))
        table.require((*request.histograms, *request.moments, *request.nulls))
        small = SmallRows.of(self.session, table)
        if small is not None:
            records, nulls = small.rows.num_rows, [small.nulls(name) for name in request.nulls]
        else:
            self._count_nulls(table, request.nulls)
            records, nulls = table.records(self.session), [table.nulls[name] for name in request.nulls]
        learn = ExactMoments(request.moments, request.products)
        sums = self.reduce_rows(table, request.moments, learn, Facts()) if request.moments else None
        moments, covariance = learn.finish(sums) if request.moments else ({}, None)
        return Facts(
            records=int(records),
            histograms={name: _histogram(self.session, table, name) for name in request.histograms},
            moments=moments,
            covariance=covariance,
            nulls={name: int(count) for name, count in zip(request.nulls, nulls, strict=True)},
        )

    def known(self, table: EmbeddedTable) -> Known:
        return EmbeddedKnown(self.session, table)

    def _count_nulls(self, table: EmbeddedTable, columns: Sequence[str]) -> None:
        if table.rows is not None:
            table.nulls.update({name: int(table.rows.column(name).null_count) for name in columns})
        unknown = [name for name in columns if name not in table.nulls]
        if unknown:
            missing = ", ".join(f"count(*) - count({quoted(name)})" for name in unknown)
            nulls = self.session.row(f"SELECT {missing} FROM {table.source}", table.frames)
            table.nulls.update(zip(unknown, map(int, nulls), strict=True))

    def classes(self, table: EmbeddedTable, query: ClassQuery) -> Iterator[ClassBlock]:
        return class_table.classes_of(self.session, table, query)

    def reduce(self, of: Measured, reduction: Reduction[Any, R], facts: Facts) -> R | None:
        blocks: Iterator[Any]
        match of:
            case RowsOf(table, columns):
                table.require(columns)
                blocks = map(RowBlock, stored_rows.rows_of(self.session, table, table.with_ids(columns)))
            case PairsOf(original, released, columns):
                blocks = stored_rows.paired(self.session, original, released, columns)
            case ClassesOf(table, query):
                # Driver and engine are one process here: `where` has nothing to choose.
                return class_table.reduce_class_table(self.session, table, query, reduction, facts)
        return reduce_blocks(reduction, blocks, facts, self.session.threads)

    def distinct(self, table: EmbeddedTable, columns: Sequence[str]) -> pa.Table:
        table.require(columns)
        if not columns:
            return pa.table({"__count": pa.array([table.records(self.session)], pa.int64())})
        small = SmallRows.of(self.session, table)
        if small is not None:
            return small.distinct(columns)
        names = column_list(columns)
        order = ", ".join(f"{quoted(name)} NULLS LAST" for name in columns)
        found = self.session.table(
            f"SELECT {names}, count(*) AS __count FROM {table.source} GROUP BY {names} ORDER BY {order}", table.frames
        )
        found = stored_rows.logical_table(found, table.schema)
        return pa.table([pa.chunked_array(map(group_key, c.chunks), c.type) for c in found.columns], found.schema)

    def aggregate(self, table: EmbeddedTable, query: AggregateQuery) -> pa.Table:
        from privpipe.engines.embedded import aggregation

        return aggregation.aggregate(self.session, table, query)

    def contributions(self, table: EmbeddedTable, query: AggregateQuery) -> tuple[EmbeddedTable, bool]:
        from privpipe.engines.embedded import aggregation

        return aggregation.contributions(self.session, table, query)

    def ranked(self, table: EmbeddedTable, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
        from privpipe.engines.embedded import aggregation

        return aggregation.ranked(self.session, table, query, ranks)

    def map(
        self, table: EmbeddedTable, function: Callable[..., RowBlock], schema: pa.Schema, by: Grouping = None
    ) -> EmbeddedTable:
        match by:
            case ByKey(key):
                return stored_rows.map_groups(self.session, table, key, function, schema)
            case ByRank(column, stream):
                from privpipe.engines.embedded import ranks

                return ranks.map_ranked(self.session, table, column, stream, function, schema)
        return stored_rows.map_rows(self.session, table, function, schema)

    def derive(self, made: Derivation) -> EmbeddedTable:
        table: EmbeddedTable
        match made:
            case Selection(table, columns, share):
                table.require(columns)
                return select(table, columns, last_id_of(share) if share < 1 else None)
            case Stacking(table, other, columns, tag):
                return append(table, other) if tag is None else stack(table, other, columns, tag)
            case Joining(released, original, columns):
                return stored_rows.beside(self.session, released, original, columns)
            case Recoding(table, codebooks):
                from privpipe.engines.embedded import joins

                return joins.recode(self.session, table, codebooks)
            case ClassFilter(table, query, passing):
                from privpipe.engines.embedded import joins

                return joins.keep_classes(self.session, table, query, passing)
            case RanksExchanged(table, column, stream, exchange):
                from privpipe.engines.embedded import ranks

                return ranks.exchange_ranks(self.session, table, column, stream, exchange)
            case Identification(table, column, seed):
                from privpipe.engines.embedded import record_ids

                identified = record_ids.with_record_ids(self.session, table, column, seed)
                identified.histograms.update(table.histograms)
                return identified
            case GivenRows(rows, ids):
                return given(self.session, rows, ids)
            case Numbering():
                return numbered(self, made)
            case Related():
                from privpipe.engines.embedded import aggregation

                return aggregation.related(made)
            case PersonCounts() | Knowledge():
                from privpipe.engines.embedded import aggregation

                return aggregation.derived(made)

    def write(
        self,
        table: EmbeddedTable,
        folder: str,
        format: Format,
        stream: Stream,
        *,
        escape: bool = False,
        types: Mapping[str, pa.DataType] = NO_TYPES,
    ) -> Written:
        from privpipe.engines.embedded import output

        return output.write(self.session, table, folder, format, stream, escape, types)

    def collect(
        self, table: EmbeddedTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE, order: Order = "keyed"
    ) -> Any:
        from privpipe.engines.embedded import output

        return frame_like(output.sorted_rows(self.session, table), like, form)


def _histogram(session: Session, table: EmbeddedTable, name: str) -> Histogram:
    found = table.histograms.get(name)
    if found is None:
        found = _counted(session, table, name)
        if len(found) <= HELD_VALUES:
            table.histograms[name] = found
    return found


def _counted(session: Session, table: EmbeddedTable, name: str) -> Histogram:
    small = SmallRows.of(session, table)
    if small is not None:
        return histogram_of(small.column(name))
    counted = session.table(
        f"SELECT {quoted(name)} AS value, count(*) AS n FROM {table.source} GROUP BY 1", table.frames
    )
    return histogram_of(counted.column("value").cast(table.schema.field(name).type), counted.column("n"))


def _versions() -> dict[str, str]:
    return {"duckdb": duckdb.__version__, "pyarrow": pa.__version__}
