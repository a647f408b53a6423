"""The embedded engine: DuckDB over files and frames of this process, out of core under a memory limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import (
    ID_COLUMNS,
    ClassBlock,
    ClassQuery,
    Facts,
    FactsRequest,
    Histogram,
    PairBlock,
    RankExchange,
    Reduction,
    RowBlock,
)
from privpipe.blocks.aggregate_query import AggregateQuery
from privpipe.blocks.table_name import TableName
from privpipe.draws import Seed, Stream
from privpipe.engines.base import Engine, Format, Source, Where, Written
from privpipe.engines.base.batches import reduce_blocks
from privpipe.engines.base.contract import NO_TYPES
from privpipe.engines.base.default_primitives import last_id_of
from privpipe.engines.base.frames import frame_like, is_local_frame
from privpipe.engines.base.histograms import ExactMoments, group_key, histogram_of
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.databases.staging import Staging
from privpipe.engines.embedded import aggregation, joins, output, ranks, record_ids, row_functions, sources
from privpipe.engines.embedded.aggregated_classes import weighted_classes
from privpipe.engines.embedded.class_table import ClassTable, reduce_class_table
from privpipe.engines.embedded.duckdb_table import EmbeddedTable, append, column_list, quoted, stack
from privpipe.engines.embedded.packed_keys import PackedClasses
from privpipe.engines.embedded.session import OutOfMemory, Session
from privpipe.engines.embedded.sources import table_of
from privpipe.engines.embedded.stored_rows import SmallRows

__all__ = ["EmbeddedEngine"]

R = TypeVar("R")
BESIDE_BYTES = 24
"""Of a row: the words that two counts sort at once, and as much again as one of them."""
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
        self._staging = Staging(session.folder.parent.parent)

    @classmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        return cls(Session(options))

    @classmethod
    def accepts(cls, data: Any) -> bool:
        return is_local_frame(data)

    @property
    def memory(self) -> int | None:
        return self.session.memory

    def close(self) -> None:
        self.session.close()
        self._staging.close()

    def versions(self) -> dict[str, str]:
        return {"duckdb": duckdb.__version__, "pyarrow": pa.__version__}

    def scan(self, source: Source) -> EmbeddedTable:
        if isinstance(source.data, TableName):
            source = replace(source, data=table_of(self.connection, source.data))
        return sources.scan(self.session, self._staging.opened(self.held(source)))

    def count(self, table: EmbeddedTable) -> int:
        return table.records(self.session)

    def facts(self, table: EmbeddedTable, request: FactsRequest) -> Facts:
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
            histograms={name: self._histogram(table, name) for name in request.histograms},
            moments=moments,
            covariance=covariance,
            nulls={name: int(count) for name, count in zip(request.nulls, nulls, strict=True)},
        )

    def known_histogram(self, table: EmbeddedTable, column: str) -> Histogram | None:
        return table.histograms.get(column)

    def _count_nulls(self, table: EmbeddedTable, columns: Sequence[str]) -> None:
        unknown = [name for name in columns if name not in table.nulls]
        if unknown:
            missing = ", ".join(f"count(*) - count({quoted(name)})" for name in unknown)
            nulls = self.session.row(f"SELECT {missing} FROM {table.source}", table.frames)
            table.nulls.update(zip(unknown, map(int, nulls), strict=True))

    def _histogram(self, table: EmbeddedTable, name: str) -> Histogram:
        found = table.histograms.get(name)
        if found is None:
            found = self._counted(table, name)
            if len(found) <= HELD_VALUES:
                table.histograms[name] = found
        return found

    def _counted(self, table: EmbeddedTable, name: str) -> Histogram:
        small = SmallRows.of(self.session, table)
        if small is not None:
            return histogram_of(small.column(name))
        counted = self.session.table(
            f"SELECT {quoted(name)} AS value, count(*) AS n FROM {table.source} GROUP BY 1", table.frames
        )
        return histogram_of(counted.column("value").cast(table.schema.field(name).type), counted.column("n"))

    def classes(self, table: EmbeddedTable, query: ClassQuery) -> Iterator[ClassBlock]:
        small = SmallRows.of(self.session, table)
        if small is not None:
            return small.blocks(query)
        packed = PackedClasses.of(self.session, table, query)
        if packed is not None:
            return packed.blocks()
        weighted = weighted_classes(self.session, table, query)
        return ClassTable(self.session, table, query).blocks() if weighted is None else weighted

    def reduce_classes(
        self,
        table: EmbeddedTable,
        query: ClassQuery,
        reduction: Reduction[ClassBlock, R],
        facts: Facts,
        *,
        where: Where = "auto",
    ) -> R | None:
        # Driver and engine are one process here: `where` has nothing to choose.
        small = SmallRows.of(self.session, table)
        if small is not None:
            return reduce_blocks(reduction, small.blocks(query), facts, self.session.threads)
        weighted = weighted_classes(self.session, table, query)
        if weighted is not None:
            with contextlib.suppress(OutOfMemory):  # cells can be counted in more rounds
                return reduce_blocks(reduction, weighted, facts, self.session.threads)
        return reduce_class_table(self.session, table, query, reduction, facts)

    def reduce_rows(
        self, table: EmbeddedTable, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts
    ) -> R | None:
        table.require(columns)
        rows = map(RowBlock, row_functions.rows_of(self.session, table, table.with_ids(columns)))
        return reduce_blocks(reduction, rows, facts, self.session.threads)

    def reduce_pairs(
        self,
        original: EmbeddedTable,
        released: EmbeddedTable,
        columns: Sequence[str],
        reduction: Reduction[PairBlock, R],
        facts: Facts,
    ) -> R | None:
        blocks = row_functions.paired(self.session, original, released, columns)
        return reduce_blocks(reduction, blocks, facts, self.session.threads)

    def beside(self, released: EmbeddedTable, original: EmbeddedTable, columns: Mapping[str, str]) -> EmbeddedTable:
        return row_functions.beside(self.session, released, original, columns)

    def distinct(self, table: EmbeddedTable, columns: Sequence[str]) -> pa.Table:
        table.require(columns)
        if not columns:
            return pa.table({"__count": pa.array([self.count(table)], pa.int64())})
        small = SmallRows.of(self.session, table)
        if small is not None:
            return small.distinct(columns)
        names = column_list(columns)
        order = ", ".join(f"{quoted(name)} NULLS LAST" for name in columns)
        found = self.session.table(
            f"SELECT {names}, count(*) AS __count FROM {table.source} GROUP BY {names} ORDER BY {order}", table.frames
        )
        found = row_functions.logical_table(found, table.schema)
        return pa.table([pa.chunked_array(map(group_key, c.chunks), c.type) for c in found.columns], found.schema)

    def aggregate(self, table: EmbeddedTable, query: AggregateQuery) -> pa.Table:
        return aggregation.aggregate(self.session, table, query)

    def contributions(self, table: EmbeddedTable, query: AggregateQuery) -> tuple[EmbeddedTable, bool]:
        return aggregation.contributions(self.session, table, query)

    def thinned(self, table: EmbeddedTable, share: float) -> EmbeddedTable:
        sql = (
            f"SELECT {column_list(table.all_columns)} FROM {table.compact} WHERE {ID_COLUMNS[0]} <= {last_id_of(share)}"
        )
        return table.derived_alike(sql)

    def estimated_distinct(self, table: EmbeddedTable, columns: Sequence[str]) -> dict[str, int]:
        table.require(columns)
        self._count_texts_of_files(table, columns)
        known = {**table.estimates, **{name: len(found) for name, found in table.histograms.items()}}
        unknown = [name for name in columns if name not in known]
        if unknown:  # a caller that asks for the values of a column asks next how many are missing
            both = ("approx_count_distinct({0}), count(*) - count({0})".format(quoted(name)) for name in unknown)
            found = self.session.row(f"SELECT {', '.join(both)} FROM {table.source}", table.frames)
            table.estimates.update(zip(unknown, map(int, found[::2]), strict=True))
            table.nulls.update(zip(unknown, map(int, found[1::2]), strict=True))
        return {name: known.get(name, table.estimates.get(name, 0)) for name in columns}

    def _count_texts_of_files(self, table: EmbeddedTable, columns: Sequence[str]) -> None:
        """Count texts of large files by their dictionaries, those that are asked for later too: they are read once."""
        unknown = [name for name in columns if name not in table.histograms and name not in table.estimates]
        if table.files is None or table.records(self.session) < self.session.coded_rows:
            return
        if any(pa.types.is_string(table.schema.field(name).type) for name in unknown):
            texts = [each.name for each in table.schema if pa.types.is_string(each.type)]
            found = table.files.some_of(self.session, texts, table.records(self.session))
            table.histograms.update({name: held.histogram for name, held in found.items()})

    def has_room_beside(self, table: EmbeddedTable) -> bool:
        records = table.records(self.session)
        return self.session.threads > 1 and self.session.coded_rows <= records <= self.session.room() // BESIDE_BYTES

    def keep_classes(
        self, table: EmbeddedTable, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]
    ) -> EmbeddedTable:
        small = SmallRows.of(self.session, table)
        if small is not None and query.keys:
            return small.keep_classes(query, passing)
        return joins.keep_classes(self.session, table, query, passing)

    def recode(self, table: EmbeddedTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> EmbeddedTable:
        table.require(codebooks)
        small = SmallRows.of(self.session, table)
        if small is not None and codebooks:
            return small.recode(codebooks)
        return joins.recode(self.session, table, codebooks)

    def map_rows(
        self, table: EmbeddedTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema
    ) -> EmbeddedTable:
        return row_functions.map_rows(self.session, table, function, schema)

    def map_groups(
        self,
        table: EmbeddedTable,
        key: Callable[[RowBlock], NDArray[np.int64]],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> EmbeddedTable:
        return row_functions.map_groups(self.session, table, key, function, schema)

    def map_ranked(
        self,
        table: EmbeddedTable,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
        schema: pa.Schema,
    ) -> EmbeddedTable:
        return ranks.map_ranked(self.session, table, column, stream, function, schema)

    def exchange_ranks(
        self, table: EmbeddedTable, column: str, stream: Stream, exchange: RankExchange
    ) -> EmbeddedTable:
        return ranks.exchange_ranks(self.session, table, column, stream, exchange)

    def select(self, table: EmbeddedTable, columns: Sequence[str]) -> EmbeddedTable:
        table.require(columns)
        schema, names = pa.schema([table.schema.field(name) for name in columns]), table.with_ids(columns)
        rows = table.rows.select(names) if table.rows is not None and names else None
        sql = f"SELECT {column_list(names)} FROM {table.compact}"
        return table.derived_alike(sql, schema, rows=rows, **table.shared())

    def stack(self, table: EmbeddedTable, other: EmbeddedTable, columns: Sequence[str], tag: str) -> EmbeddedTable:
        return stack(table, other, columns, tag)

    def append(self, table: EmbeddedTable, other: EmbeddedTable) -> EmbeddedTable:
        return append(table, other)

    def with_record_ids(self, table: EmbeddedTable, column: str | None, seed: Seed) -> EmbeddedTable:
        made = record_ids.with_record_ids(self.session, table, column, seed)
        made.histograms.update(table.histograms)
        return made

    def known_content(self, table: EmbeddedTable, seed: Seed) -> tuple[int, int] | None:
        return table.content.get(seed.key("record"))

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
        return output.write(self.session, table, folder, format, stream, escape, types)

    def collect(self, table: EmbeddedTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE) -> Any:
        return frame_like(output.sorted_rows(self.session, table), like, form)
