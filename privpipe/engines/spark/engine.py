"""The Spark engine: its primitives on one session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.blocks import (
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
from privpipe.draws import Seed, Stream
from privpipe.engines.base.catalogue import Catalogue
from privpipe.engines.base.contract import NO_TYPES, Engine, Where, Written
from privpipe.engines.base.frames import Held
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.databases.staging import Staging
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.readers.source import Format, Source
from privpipe.engines.spark import aggregation, class_table, output, rank_exchange, ranks, record_ids, row_functions
from privpipe.engines.spark import rank_exchange as rank_relay
from privpipe.engines.spark.catalogue import SparkCatalogue
from privpipe.engines.spark.class_table import keep_classes
from privpipe.engines.spark.driver_memory import expected_bytes, row_bytes
from privpipe.engines.spark.driver_tables import Near, where_it_lies
from privpipe.engines.spark.facts import count_records, distinct, estimated_distinct, known_content, learn
from privpipe.engines.spark.failures import Watch
from privpipe.engines.spark.row_functions import recode
from privpipe.engines.spark.session import (
    DRIVER_BYTES,
    Options,
    checkpointed,
    hush_py4j,
    is_connect,
    open_session,
    released,
)
from privpipe.engines.spark.session_settings import Loan
from privpipe.engines.spark.sources import is_native, is_spark_frame, raw_frame, refuse_streaming, scan
from privpipe.engines.spark.spark_table import SparkTable, append, stack
from privpipe.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine"]

R = TypeVar("R")
log = logging.getLogger("privpipe.engines.spark")


class SparkEngine(Engine):
    """Spark, classic or Connect, in an existing session or in a separate one.

    Parameters
    ----------
    session : pyspark.sql.SparkSession, optional
        Left running by `close`. Default: what `open` finds or starts.
    cache : bool
        Whether tables that cost a shuffle or a parse are persisted; serverless Spark forbids it.
    driver_bytes : int
        Tables of at most so many bytes lie on the driver, where no job has to be started for them; 0: none does.
    loan : Loan, optional
        Settings of the session until `close`. Default: by the size of the tables.
    """

    name: ClassVar[str] = "spark"
    ranks_held: ClassVar[int] = 2_000_000
    forwards_ranks: ClassVar[bool] = True

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        cache: bool = True,
        driver_bytes: int = DRIVER_BYTES,
        loan: Loan | None = None,
    ) -> None:
        self._started = False
        if session is None:
            session, self._started = open_session(Options())
        hush_py4j()
        self.session = session
        self.cache = cache
        self.near = Near(session, driver_bytes)
        self._persisted: list[Any] = []
        self._staging = Staging(shared=not is_connect(session) and session.sparkContext.master.startswith("local"))
        self._watch: Watch | None = None
        self.loan = Loan(session, own=self._started) if loan is None else loan

    @classmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        read = Options.read(options)
        session, started = open_session(read)
        loan = Loan(session, parts=read.shuffle_partitions, own=started)
        engine = cls(session, cache=read.cache, driver_bytes=read.driver_bytes, loan=loan)
        engine._started = started
        if started and not is_connect(session) and not session.sparkContext.master.startswith("local"):
            engine._watch = Watch(session.sparkContext, read.patience)
        return engine

    @classmethod
    def accepts(cls, data: Any) -> bool:
        return is_spark_frame(data)

    def close(self) -> None:
        self.near.close()
        self._staging.close()
        while self._persisted:
            frame = self._persisted.pop()
            try:
                frame.unpersist()
            except Exception as error:  # noqa: BLE001 - a session that is gone has dropped it already
                log.debug("not unpersisted: %s", type(error).__name__)
        if self._watch is not None:
            self._watch.close()
        if self._started:
            self._started = False
            self.session.stop()
        else:
            self.loan.close()

    @property
    def worker_processes(self) -> int:
        if is_connect(self.session):
            return 0
        return int(self.session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is listed too

    def lies_here(self, table: SparkTable | EmbeddedTable) -> bool:
        return isinstance(table, EmbeddedTable)

    def versions(self) -> dict[str, str]:
        import pyspark

        versions = {"pyspark": pyspark.__version__, "spark": self.session.version, "pyarrow": pa.__version__}
        return versions | self.near.versions()

    def hold_frame(self, frame: Any, *, lasting: bool = False) -> Held:
        if not is_spark_frame(frame):
            return super().hold_frame(frame, lasting=lasting)
        refuse_streaming(frame)
        found = checkpointed(frame, lasting=lasting)
        return Held(found, lambda: released(found))

    def hold(self, table: SparkTable | EmbeddedTable) -> Held:
        if isinstance(table, EmbeddedTable):
            return Held(table)
        found = checkpointed(table.frame, lasting=True)
        return Held(replace(table, frame=found), lambda: released(found))

    def scan(self, source: Source) -> SparkTable | EmbeddedTable:
        source = self.held(source)
        if not is_native(self.session, source):
            source = self._staging.opened(source)
        if self.near.takes(source):
            return self.near.engine.scan(source)
        table, costly = scan(self.session, source)
        return self._kept(table) if costly else table

    @where_it_lies
    def count(self, table: SparkTable) -> int:
        return count_records(table)

    @where_it_lies
    def facts(self, table: SparkTable, request: FactsRequest) -> Facts:
        _require(table, (*request.histograms, *request.moments, *request.nulls))
        return learn(table, request)

    @where_it_lies
    def classes(self, table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock]:
        return class_table.collected_blocks(table, query)

    @where_it_lies
    def reduce_classes(
        self,
        table: SparkTable,
        query: ClassQuery,
        reduction: Reduction[ClassBlock, R],
        facts: Facts,
        *,
        where: Where = "auto",
    ) -> R | None:
        return class_table.reduced(table, query, reduction, facts, where)

    @where_it_lies
    def reduce_rows(
        self, table: SparkTable, columns: Sequence[str], reduction: Reduction[RowBlock, R], facts: Facts
    ) -> R | None:
        _require(table, columns)
        return row_functions.reduce_rows(table, columns, reduction, facts)

    @where_it_lies
    def reduce_pairs(
        self,
        original: SparkTable,
        released: SparkTable,
        columns: Sequence[str],
        reduction: Reduction[PairBlock, R],
        facts: Facts,
    ) -> R | None:
        for table in (original, released):
            _require(table, columns)
            _require_ids(table)
        return row_functions.reduce_pairs(original, released, columns, reduction, facts)

    @where_it_lies
    def beside(self, released: SparkTable, original: SparkTable, columns: Mapping[str, str]) -> SparkTable:
        return self._kept(row_functions.beside(released, original, columns))

    @where_it_lies
    def distinct(self, table: SparkTable, columns: Sequence[str]) -> pa.Table:
        _require(table, columns)
        return distinct(table, columns)

    @where_it_lies
    def known_histogram(self, table: SparkTable, column: str) -> Histogram | None:
        return table.learned.get(column)

    @where_it_lies
    def known_content(self, table: SparkTable, seed: Seed) -> tuple[int, int] | None:
        return known_content(table, seed)

    @where_it_lies
    def thinned(self, table: SparkTable, share: float) -> SparkTable:
        _require_ids(table)
        return row_functions.thinned(table, share)

    @where_it_lies
    def estimated_distinct(self, table: SparkTable, columns: Sequence[str]) -> dict[str, int]:
        _require(table, columns)
        return estimated_distinct(table, columns)

    @where_it_lies
    def aggregate(self, table: SparkTable, query: AggregateQuery) -> pa.Table:
        return aggregation.aggregate(table, query)

    @where_it_lies
    def contributions(self, table: SparkTable, query: AggregateQuery) -> tuple[SparkTable, bool]:
        return aggregation.contributions(table, query, self._held)

    @where_it_lies
    def keep_classes(
        self, table: SparkTable, query: ClassQuery, passing: Callable[[ClassBlock], NDArray[np.bool_]]
    ) -> SparkTable:
        return keep_classes(table, query, passing, self._held if self.cache else None)

    @where_it_lies
    def recode(self, table: SparkTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> SparkTable:
        _require(table, list(codebooks))
        return recode(table, codebooks)

    @where_it_lies
    def map_rows(self, table: SparkTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> SparkTable:
        return row_functions.map_rows(table, function, schema)

    @where_it_lies
    def map_groups(
        self,
        table: SparkTable,
        key: Callable[[RowBlock], NDArray[np.int64]],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> SparkTable:
        return self._kept(row_functions.map_groups(table, key, function, schema))

    @where_it_lies
    def map_ranked(
        self,
        table: SparkTable,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, NDArray[np.int64]], RowBlock],
        schema: pa.Schema,
    ) -> SparkTable:
        _require(table, [column])
        _require_ids(table)
        return self._kept(ranks.map_ranked(table, column, stream, function, schema))

    @where_it_lies
    def exchange_ranks(self, table: SparkTable, column: str, stream: Stream, exchange: RankExchange) -> SparkTable:
        _require(table, [column])
        _require_ids(table)
        if not rank_exchange.is_countable(table.schema.field(column).type):
            return cast(SparkTable, super().exchange_ranks(table, column, stream, exchange))
        # Beyond, ranges would carry more values along than rows.
        near = exchange.reach <= rank_exchange.ROWS_PER_RANGE
        give = rank_exchange.exchange_ranks if near else rank_relay.forward_ranks
        return self._kept(give(table, column, stream, exchange))

    @where_it_lies
    def select(self, table: SparkTable, columns: Sequence[str]) -> SparkTable:
        _require(table, columns)
        return replace(
            table.select(columns),
            remembered=table.remembered,
            at_most=table.at_most,
            learned=table.learned,
            counts=replace(table.counts, content=None),
        )

    @where_it_lies
    def stack(self, table: SparkTable, other: SparkTable, columns: Sequence[str], tag: str) -> SparkTable:
        return stack(table, other, columns, tag)

    @where_it_lies
    def append(self, table: SparkTable, other: SparkTable) -> SparkTable:
        return append(table, other)

    def with_record_ids(self, table: Any, column: str | None, seed: Seed) -> Any:
        # From here on rows are worked on: what is small is drawn near once.
        here = table if isinstance(table, EmbeddedTable) else self.near.drawn(table)
        if here is not None:
            return self.near.with_record_ids(here, column, seed)
        if table.bound is not None:
            self.loan.sized(table.bound, len(table.schema))
            self.loan.keeps(table.bound * row_bytes(table.schema))
            self.loan.sends(expected_bytes(table.frame), table.bound)
        if column is None:
            return record_ids.numbered_ids(table, seed, self._held)
        _require(table, [column])
        return self._kept(record_ids.declared_ids(table, column, seed))

    def source_schema(self, source: Source) -> pa.Schema:
        return raw_frame(source.data).schema if is_spark_frame(source.data) else super().source_schema(source)

    @where_it_lies
    def write(
        self,
        table: SparkTable,
        folder: str,
        format: Format,
        stream: Stream,
        *,
        escape: bool = False,
        types: Mapping[str, pa.DataType] = NO_TYPES,
    ) -> Written:
        return output.write(table, folder, format, stream, escape, types)

    def catalogue(self) -> Catalogue:
        return SparkCatalogue(self.session, self.near.sent)

    @where_it_lies
    def collect(self, table: SparkTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE) -> Any:
        return output.collect(table, like, form)

    @where_it_lies
    def in_place(
        self, table: SparkTable, like: Any, *, keeps_places: bool = False, form: ReturnForm = AS_THEY_ARE
    ) -> Any:
        return output.lying(table, like, form)

    def _kept(self, table: SparkTable) -> SparkTable:
        return replace(table, frame=self._held(table.frame))

    def _held(self, frame: DataFrame) -> DataFrame:
        """The frame, persisted where that is allowed."""
        if not self.cache:
            return frame
        self._persisted.append(frame.persist())
        return self._persisted[-1]


def _require(table: SparkTable, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in table.schema.names:
            raise DataError(f"column {name!r} is not in the table{did_you_mean(name, table.schema.names)}")


def _require_ids(table: SparkTable) -> None:
    if not table.has_record_ids:
        raise LookupError("the table carries no record ids; with_record_ids attaches them")
