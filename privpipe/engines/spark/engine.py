"""The Spark engine: its primitives on one session."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import pyarrow as pa

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, RankExchange, Reduction, RowBlock
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
from privpipe.draws import Seed, Stream
from privpipe.engines.base.batches import last_id_of
from privpipe.engines.base.contract import NO_TYPES, Engine, Frames, Order, Resources, Written, numbered, with_words
from privpipe.engines.base.frames import Held
from privpipe.engines.base.logical_types import require_columns
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.databases.staging import Staging
from privpipe.engines.distributed.row_functions import require_unique
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.readers.source import Format, Source
from privpipe.engines.spark import (
    aggregation,
    class_table,
    knowledge,
    output,
    rank_exchange,
    ranks,
    record_ids,
    row_functions,
)
from privpipe.engines.spark.catalogue import SparkCatalogue
from privpipe.engines.spark.class_table import keep_classes
from privpipe.engines.spark.driver_memory import expected_bytes, row_bytes
from privpipe.engines.spark.driver_tables import Near, where_it_lies
from privpipe.engines.spark.facts import distinct, estimated_distinct, known_content, learn
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
from privpipe.engines.spark.spark_table import Layout, SparkTable, append, count_records, select, stack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkEngine"]

R = TypeVar("R")
log = logging.getLogger("privpipe.engines.spark")


class SparkFrames(Frames):
    """Frames of Spark, held by checkpoints."""

    def schema(self, source: Source) -> pa.Schema:
        return raw_frame(source.data).schema if is_spark_frame(source.data) else super().schema(source)

    def hold(self, frame: Any, *, lasting: bool = False) -> Held:
        if not is_spark_frame(frame):
            return super().hold(frame, lasting=lasting)
        refuse_streaming(frame)
        found = checkpointed(frame, lasting=lasting)
        return Held(found, lambda: released(found))

    def hold_table(self, table: SparkTable | EmbeddedTable) -> Held:
        if isinstance(table, EmbeddedTable):
            return Held(table)
        found = checkpointed(table.frame, lasting=True)
        return Held(replace(table, frame=found), lambda: released(found))


class SparkKnown(Known):
    """What was counted of one table on the executors, or seen when its ids were made."""

    def __init__(self, table: SparkTable) -> None:
        self._table = table

    def histogram(self, column: str) -> Histogram | None:
        return self._table.learned.get(column)

    def content(self, seed: Seed) -> tuple[int, int] | None:
        return known_content(self._table, seed)

    def estimates(self, columns: Sequence[str]) -> dict[str, int]:
        require_columns(self._table, columns)
        return estimated_distinct(self._table, columns)

    @property
    def is_local(self) -> bool:
        return False


class SparkEngine(Engine):
    """Spark, classic or Connect, in an existing session or in a separate one.

    Parameters
    ----------
    session : pyspark.sql.SparkSession, optional
        Left running by `close`. Default: what `open` finds or starts.
    cache : bool
        Whether tables that cost a shuffle or a parse are persisted; serverless Spark forbids it.
    driver_bytes : int
        Tables of at most so many bytes are on the driver, where no job has to be started for them; 0: none is.
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
        self._frames = SparkFrames()
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

    @property
    def resources(self) -> Resources:
        catalogue = SparkCatalogue(self.session, self.near.sent)
        return Resources(self.name, self._versions, count_processes=self._processes, tables=catalogue)

    def _versions(self) -> dict[str, str]:
        import pyspark

        versions = {"pyspark": pyspark.__version__, "spark": self.session.version, "pyarrow": pa.__version__}
        return versions | self.near.versions()

    def _processes(self) -> int:
        if is_connect(self.session):
            return 0
        return int(self.session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is listed too

    @property
    def frames(self) -> Frames:
        return self._frames

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

    def scan(self, source: Source) -> SparkTable | EmbeddedTable:
        source = self._frames.held(source)
        if not is_native(self.session, source):
            source = self._staging.opened(source)
        if self.near.takes(source):
            return self.near.engine.scan(source)
        table, costly = scan(self.session, source)
        return self._kept(table) if costly else table

    def known(self, table: SparkTable | EmbeddedTable) -> Known:
        return SparkKnown(table) if isinstance(table, SparkTable) else self.near.known(table)

    @where_it_lies
    def facts(self, table: SparkTable, request: FactsRequest) -> Facts:
        if not request:
            return Facts(records=count_records(table))
        require_columns(table, (*request.histograms, *request.moments, *request.nulls))
        return learn(table, request)

    @where_it_lies
    def classes(self, table: SparkTable, query: ClassQuery) -> Iterator[ClassBlock]:
        return class_table.collected_blocks(table, query)

    @where_it_lies
    def reduce(self, of: Measured, reduction: Reduction[Any, R], facts: Facts) -> R | None:
        match of:
            case RowsOf(table, columns):
                require_columns(table, columns)
                return row_functions.reduce_rows(table, columns, reduction, facts)
            case PairsOf(original, released, columns):
                for each in of.tables:
                    require_columns(each, columns)
                    _require_ids(each)
                return row_functions.reduce_pairs(original, released, columns, reduction, facts)
            case ClassesOf(table, query, where):
                return class_table.reduced(table, query, reduction, facts, where)

    @where_it_lies
    def distinct(self, table: SparkTable, columns: Sequence[str]) -> pa.Table:
        require_columns(table, columns)
        return distinct(table, columns)

    @where_it_lies
    def aggregate(self, table: SparkTable, query: AggregateQuery) -> pa.Table:
        return aggregation.aggregate(table, query)

    @where_it_lies
    def contributions(self, table: SparkTable, query: AggregateQuery) -> tuple[SparkTable, bool]:
        return aggregation.contributions(table, query, self._held)

    @where_it_lies
    def ranked(self, table: SparkTable, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
        return aggregation.ranked(table, query, ranks)

    @where_it_lies
    def map(
        self, table: SparkTable, function: Callable[..., RowBlock], schema: pa.Schema, by: Grouping = None
    ) -> SparkTable:
        match by:
            case ByKey(key):
                return self._kept(row_functions.map_groups(table, key, function, schema))
            case ByRank(column, stream):
                require_columns(table, [column])
                _require_ids(table)
                return self._kept(ranks.map_ranked(table, column, stream, function, schema))
        return row_functions.map_rows(table, function, schema)

    def derive(self, made: Derivation) -> Any:
        match made:
            case Identification(table, column, seed):
                return self._identified(table, column, seed)
            case GivenRows():
                return self._given(made)
            case Numbering():
                return numbered(self, made)
        return self._derived(made)

    def _derived(self, made: Derivation) -> Any:
        if not any(isinstance(each, SparkTable) for each in made.tables):
            return self.near.derive(made)
        table: SparkTable
        match made.over(self.near.sent):
            case Selection(table, columns, share):
                require_columns(table, columns)
                if share < 1:
                    _require_ids(table)
                return select(table, columns, last_id_of(share) if share < 1 else None)
            case Stacking(table, other, columns, tag):
                return append(table, other) if tag is None else stack(table, other, columns, tag)
            case Joining(released, original, columns):
                return self._kept(row_functions.beside(released, original, columns))
            case Recoding(table, codebooks):
                return recode(table, codebooks)
            case ClassFilter(table, query, passing):
                return keep_classes(table, query, passing, self._held if self.cache else None)
            case RanksExchanged(table, column, stream, exchange):
                return self._exchanged(table, column, stream, exchange)
            case Related() as asked:
                return knowledge.related(self.session, asked)
            case PersonCounts() | Knowledge() as asked:
                return knowledge.derived(self.session, asked)

    def _exchanged(self, table: SparkTable, column: str, stream: Stream, exchange: RankExchange) -> SparkTable:
        require_columns(table, [column])
        _require_ids(table)
        return self._kept(rank_exchange.exchange_ranks(self, table, column, stream, exchange))

    def _identified(self, table: Any, column: str | None, seed: Seed) -> Any:
        # From here on rows are worked on: what is small is drawn near once.
        here = table if isinstance(table, EmbeddedTable) else self.near.drawn(table)
        if here is not None:
            return self.near.derive(Identification(here, column, seed))
        self._expect(table)
        if column is None:
            return record_ids.numbered_ids(table, seed, self._held)
        require_unique(self, table, column)
        return self._kept(record_ids.declared_ids(table, column, seed))

    def _given(self, made: GivenRows) -> Any:
        table = self.scan(Source(data=with_words(made)))
        if isinstance(table, EmbeddedTable):
            return self.near.derive(made)
        self._expect(table)
        layout = Layout(made.rows.schema, has_ids=True)
        return SparkTable(table.frame.toDF(*layout.arrow.names), layout, {"records": made.rows.num_rows})

    def _expect(self, table: SparkTable) -> None:
        """Have the settings of the session fit a table whose rows are worked on."""
        if table.bound is not None:
            self.loan.sized(table.bound, len(table.schema))
            self.loan.keeps(table.bound * row_bytes(table.schema))
            self.loan.sends(expected_bytes(table.frame), table.bound)

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

    @where_it_lies
    def collect(
        self, table: SparkTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE, order: Order = "keyed"
    ) -> Any:
        return output.collect(table, like, form) if order == "keyed" else output.lying(table, like, form)

    def _kept(self, table: SparkTable) -> SparkTable:
        return replace(table, frame=self._held(table.frame))

    def _held(self, frame: DataFrame) -> DataFrame:
        """The frame, persisted where that is allowed."""
        if not self.cache:
            return frame
        self._persisted.append(frame.persist())
        return self._persisted[-1]


def _require_ids(table: SparkTable) -> None:
    if not table.has_record_ids:
        raise LookupError("the table carries no record ids; with_record_ids attaches them")
