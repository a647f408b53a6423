"""The Dask engine: Arrow record batches in partitions, on threads or on the workers of a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self, TypeVar

import dask
import numpy as np
import pyarrow as pa

from privpipe.blocks import ID_COLUMNS, ClassBlock, ClassQuery, Facts, FactsRequest, RankExchange, Reduction, RowBlock
from privpipe.blocks.aggregate_query import AggregateQuery, Ranks
from privpipe.blocks.arrays import Ints
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
from privpipe.blocks.table_name import TableName, refuse_table
from privpipe.draws import Seed, Stream
from privpipe.engines.base.batches import FirstIds, last_id_of
from privpipe.engines.base.contract import NO_TYPES, Engine, Frames, Order, Resources, Written, numbered, with_words
from privpipe.engines.base.frames import Held
from privpipe.engines.base.logical_types import beside_schema, require_columns
from privpipe.engines.base.return_forms import AS_THEY_ARE, ReturnForm
from privpipe.engines.dask import aggregation
from privpipe.engines.dask.class_table import collected_blocks, kept_parts, measured_classes
from privpipe.engines.dask.dask_table import DaskTable, append, renamed, stack, summed, taken
from privpipe.engines.dask.exchange import meet, ranked, require_room_for_places
from privpipe.engines.dask.facts import (
    CountDistinct,
    Learn,
    facts_of,
    known_of_persons,
    merge_distinct,
    related_rows,
    sorted_distinct,
)
from privpipe.engines.dask.output import collected, held_frame, lying, written
from privpipe.engines.dask.rank_exchange import exchanged, most_ranks
from privpipe.engines.dask.record_ids import declared_ids, numbered_ids
from privpipe.engines.dask.row_functions import (
    Beside,
    CutById,
    CutByKey,
    MapGroups,
    MapRanked,
    MapRows,
    MeasurePairs,
    MeasureRows,
    Recode,
)
from privpipe.engines.dask.runtime import Runtime
from privpipe.engines.dask.session import Options, Session
from privpipe.engines.dask.sources import (
    csv_table,
    dask_schema,
    dask_table,
    is_dask_frame,
    json_table,
    lake_table,
    local_table,
    parquet_table,
)
from privpipe.engines.databases.staging import Staging
from privpipe.engines.distributed.class_parts import explained
from privpipe.engines.distributed.collection import of_columns
from privpipe.engines.distributed.rank_exchange import ranked_column
from privpipe.engines.distributed.row_functions import (
    codebooks_of,
    recoded_schema,
    require_unique,
    unknown_values,
)
from privpipe.engines.lakes import lake_of
from privpipe.engines.readers.source import Format, Source
from privpipe.engines.readers.source_facts import is_small
from privpipe.errors import DataError

__all__ = ["DaskEngine"]

R = TypeVar("R")
MOST_CUTS = 4096


class DaskFrames(Frames):
    """Dask DataFrames, evaluated by the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__()
        self._runtime = runtime

    def schema(self, source: Source) -> pa.Schema:
        if is_dask_frame(source.data):
            return dask_schema(self._runtime, source.data)
        return super().schema(source)

    def hold(self, frame: Any, *, lasting: bool = False) -> Held:
        return held_frame(self._runtime, frame) if is_dask_frame(frame) else super().hold(frame, lasting=lasting)

    def hold_table(self, table: DaskTable) -> Held:
        nodes, release = self._runtime.hold("evaluate the table", table.parts)
        return Held(table.derived(nodes), release)


class DaskKnown(Known):
    """Where the rows of one table are."""

    def __init__(self, runtime: Runtime, table: DaskTable) -> None:
        self._runtime = runtime
        self._table = table

    @property
    def is_local(self) -> bool:
        return not self._runtime.distributed or self._runtime.is_near(self._table.parts)


class DaskEngine(Engine):
    """Tables in partitions; see `Options` for the keys of ``engines.dask``.

    Examples
    --------
    >>> from privpipe.engines import Source
    >>> with DaskEngine.open({"scheduler": "threads", "npartitions": 2}) as engine:
    ...     table = engine.scan(Source(data=pa.table({"zip": ["1", "1", "2"]})))
    ...     sorted(size for block in engine.classes(table, ClassQuery(keys=("zip",))) for size in block.sizes.tolist())
    [1, 2]
    """

    name: ClassVar[str] = "dask"
    ranks_held: ClassVar[int] = 2_000_000
    forwards_ranks: ClassVar[bool] = True

    def __init__(self, options: Options) -> None:
        self.options = options
        self._session = Session(options)
        self._runtime = self._session.runtime
        self._staging = Staging(shared=self._session.sees_files)
        self._frames = DaskFrames(self._runtime)

    @classmethod
    def open(cls, options: Mapping[str, Any]) -> Self:
        return cls(Options.of(options))

    @property
    def resources(self) -> Resources:
        return Resources(self.name, self._versions, count_processes=self._processes)

    def _versions(self) -> dict[str, str]:
        found = {"dask": dask.__version__, "numpy": np.__version__, "pyarrow": pa.__version__}
        if self._runtime.distributed:
            import distributed

            found["distributed"] = distributed.__version__
        return found

    def _processes(self) -> int:
        return len(self._runtime.client.nthreads()) if self._runtime.distributed else 0

    @property
    def frames(self) -> Frames:
        return self._frames

    def close(self) -> None:
        self._session.close()
        self._staging.close()

    def scan(self, source: Source) -> DaskTable:
        size = self.options.partition_bytes
        if isinstance(source.data, TableName):
            raise refuse_table(source.data, self.name)
        source = self._staging.opened(self._frames.held(source))
        lake = lake_of(source)
        if lake is not None:
            return lake_table(self._runtime, source, lake)
        if not source.is_path and is_dask_frame(source.data):
            return dask_table(self._runtime, source)
        runtime = self._runtime
        if runtime.distributed and is_small(source, self.options.driver_bytes):
            runtime = runtime.near
        if not source.is_path:
            return local_table(runtime, source, size, self.options.npartitions)
        if source.resolved_format == "parquet":
            return parquet_table(runtime, source, size)
        if source.resolved_format == "csv":
            return csv_table(runtime, source, size)
        return json_table(runtime, source)

    def known(self, table: DaskTable) -> Known:
        return DaskKnown(self._runtime, table)

    def _count(self, table: DaskTable) -> int:
        parts = table.holding([] if table.has_record_ids else table.schema.names[:1])
        return sum(self._runtime.compute("count records", [self._runtime.task("count", len, part) for part in parts]))

    def facts(self, table: DaskTable, request: FactsRequest) -> Facts:
        if not request:
            return Facts(records=self._count(table))
        columns = [*request.histograms, *request.moments, *request.nulls]
        require_columns(table, columns)
        learn = Learn(request)
        parts = [self._runtime.task("learn", learn.measure, part) for part in table.coded(columns)]
        what = of_columns("distinct values", request.histograms) if request.histograms else ""
        merged = self._runtime.tree("merge facts", learn.merge, parts, what)
        (learnt,) = self._runtime.compute("learn facts", [merged], what)
        return facts_of(learnt, request)

    def classes(self, table: DaskTable, query: ClassQuery) -> Iterator[ClassBlock]:
        with self._explained(table, query):
            yield from collected_blocks(self._runtime, table, query, self._places(table))

    def reduce(self, of: Measured, reduction: Reduction[Any, R], facts: Facts) -> R | None:
        match of:
            case RowsOf(table, columns):
                return _merged(self._measured_rows(table, columns, reduction, facts), reduction)
            case PairsOf(original, released, columns):
                return _merged(self._measured_pairs(original, released, columns, reduction, facts), reduction)
            case ClassesOf(table, query, "driver"):
                return _merged([reduction.measure(block, facts) for block in self.classes(table, query)], reduction)
            case ClassesOf(table, query):
                # Nothing is gained by moving classes that several threads can measure where they are.
                places = self._places(table)
                with self._explained(table, query):
                    found = measured_classes(self._runtime, table, query, reduction, facts, places)
                return _merged(found, reduction)

    def _measured_rows(self, table: DaskTable, columns: Sequence[str], reduction: Any, facts: Facts) -> list[Any]:
        require_columns(table, columns)
        shared = self._runtime.place(facts)
        measure = MeasureRows(tuple(dict.fromkeys(columns)), reduction)
        parts = table.parts if table.has_record_ids else table.holding(columns)
        tasks = [self._runtime.task("measure rows", measure, part, shared) for part in parts]
        return list(self._runtime.compute("measure rows", tasks, of_columns("figures gathered", columns)))

    def _measured_pairs(
        self, original: DaskTable, released: DaskTable, columns: Sequence[str], reduction: Any, facts: Facts
    ) -> list[Any]:
        for table in (original, released):
            require_columns(table, columns)
            _require_ids(table)
        places = self._places(original, released)
        cut = CutById(tuple(dict.fromkeys(columns)), places)
        sent = [self._runtime.task("cut by id", cut, part) for part in (*original.parts, *released.parts)]
        measure = MeasurePairs(len(original.parts), reduction)
        tasks = meet(self._runtime, "measure pairs", sent, places, measure, self._runtime.place(facts))
        return list(self._runtime.compute("measure pairs", tasks, of_columns("figures gathered", columns)))

    def _joined(self, released: DaskTable, original: DaskTable, columns: Mapping[str, str]) -> DaskTable:
        schema = beside_schema(released, original, columns)
        places = self._places(original, released)
        cuts = CutById(tuple(columns), places), CutById(tuple(released.schema.names), places)
        sent = [
            self._runtime.task("cut by id", cut, part)
            for cut, table in zip(cuts, (original, released), strict=True)
            for part in table.parts
        ]
        together = meet(self._runtime, "join by id", sent, places, Beside(len(original.parts), schema))
        kept = tuple(self._runtime.keep("join by id", together))
        return DaskTable(schema, kept)

    def distinct(self, table: DaskTable, columns: Sequence[str]) -> pa.Table:
        require_columns(table, columns)
        names = tuple(dict.fromkeys(columns))
        places = self._places(table)
        count = CountDistinct(names, places, Seed.from_os())
        sent = [self._runtime.task("count distinct", count, part) for part in table.holding(names)]
        merged = meet(self._runtime, "merge distinct", sent, places, merge_distinct)
        what = of_columns("distinct combinations", names)
        return sorted_distinct(self._runtime.compute("count distinct", merged, what), table.schema)

    def aggregate(self, table: DaskTable, query: AggregateQuery) -> pa.Table:
        return aggregation.aggregate(self._runtime, table, query, self._places(table))

    def contributions(self, table: DaskTable, query: AggregateQuery) -> tuple[DaskTable, bool]:
        return aggregation.contributions(self._runtime, table, query, self._places(table))

    def ranked(self, table: DaskTable, query: AggregateQuery, ranks: Sequence[Ranks]) -> pa.Table:
        return aggregation.ranked(self._runtime, table, query, ranks, self._places(table))

    def map(
        self, table: DaskTable, function: Callable[..., RowBlock], schema: pa.Schema, by: Grouping = None
    ) -> DaskTable:
        match by:
            case ByKey(key):
                return self._map_groups(table, key, function, schema)
            case ByRank(column, stream):
                return self._map_ranked(table, column, stream, function, schema)
        return self._map_rows(table, function, schema)

    def derive(self, made: Derivation) -> DaskTable:
        table: DaskTable
        match made:
            case Selection(table, columns, share):
                if share < 1:
                    table = self._map_rows(table, FirstIds(last_id_of(share)), table.schema)
                    if list(columns) == table.schema.names:
                        return table
                return self._selected(table, columns)
            case Stacking(table, other, columns, tag):
                if tag is None:
                    return append(self._runtime, table, other)
                return stack(self._runtime, table, other, columns, tag)
            case Joining(released, original, columns):
                return self._joined(released, original, columns)
            case Recoding(table, codebooks):
                return self._recoded(table, codebooks)
            case ClassFilter(table, query, passing):
                parts = kept_parts(self._runtime, table, query, passing, self._places(table))
                with self._explained(table, query):
                    return self._kept("keep records", table, table.schema, parts)
            case RanksExchanged(table, column, stream, exchange):
                return self._exchanged(table, column, stream, exchange)
            case Identification(table, column, seed):
                return self._identified(table, column, seed)
            case GivenRows(rows):
                return self._given(rows.schema, with_words(made))
            case Numbering():
                numbers: DaskTable = numbered(self, made)
                return numbers
            case Related():
                return related_rows(self._runtime, made, self._places(*made.tables))
            case PersonCounts() | Knowledge():
                return known_of_persons(self._runtime, made, self._places(*made.tables))

    def _recoded(self, table: DaskTable, codebooks: Mapping[str, tuple[pa.Array, pa.Array]]) -> DaskTable:
        books = codebooks_of(table, codebooks)
        recode = self._runtime.place(Recode(books))
        checks = [
            self._runtime.task("look up codes", Recode.unknown, recode, part) for part in table.holding(list(books))
        ]
        for name, count in summed(self._runtime.compute("look up codes", checks)).items():
            if count:
                raise unknown_values(name, count)
        parts = [self._runtime.task("recode", recode, part) for part in table.parts]
        return table.derived(parts, recoded_schema(table.schema, books))

    def _map_rows(self, table: DaskTable, function: Callable[[RowBlock], RowBlock], schema: pa.Schema) -> DaskTable:
        apply = self._runtime.place(MapRows(function, schema))
        parts = [self._runtime.task("map rows", apply, part) for part in table.parts]
        return table.derived(parts, schema)

    def _map_groups(
        self,
        table: DaskTable,
        key: Callable[[RowBlock], Ints],
        function: Callable[[RowBlock, int], RowBlock],
        schema: pa.Schema,
    ) -> DaskTable:
        places = self._places(table)
        cut = CutByKey(key, places)
        sent = [self._runtime.task("cut by group", cut, part) for part in table.parts]
        sent = self._runtime.keep("cut by group", sent)
        require_room_for_places(
            self._runtime, sent, of_columns("the records in the groups of one task", table.schema.names)
        )
        parts = meet(self._runtime, "map groups", sent, places, MapGroups(function, schema))
        return self._kept("map groups", table, schema, parts)

    def _map_ranked(
        self,
        table: DaskTable,
        column: str,
        stream: Stream,
        function: Callable[[RowBlock, Ints], RowBlock],
        schema: pa.Schema,
    ) -> DaskTable:
        require_columns(table, [column])
        _require_ids(table)
        apply = MapRanked(function, schema)
        parts = ranked(self._runtime, table.parts, self._places(table), column, stream, apply)
        return self._kept("rank records", table, schema, parts)

    def _exchanged(self, table: DaskTable, column: str, stream: Stream, exchange: RankExchange) -> DaskTable:
        require_columns(table, [column])
        _require_ids(table)
        most = most_ranks(self._runtime.task_limit)
        ranked = ranked_column(self, table, column, stream, exchange, most)
        parts = exchanged(self._runtime, table.parts, ranked, exchange)
        return self._kept("exchange ranks", table, table.schema, parts)

    def _selected(self, table: DaskTable, columns: Sequence[str]) -> DaskTable:
        require_columns(table, columns)
        names = list(columns)
        schema = pa.schema([table.schema.field(name) for name in names])
        if table.narrow is not None:
            return DaskTable(schema, tuple(table.narrow(names)), False, table.narrow)
        ids = list(ID_COLUMNS) if table.has_record_ids else []
        parts = [self._runtime.task("select", taken, part, columns=[*names, *ids]) for part in table.parts]
        return table.derived(parts, schema)

    def _identified(self, table: DaskTable, column: str | None, seed: Seed) -> DaskTable:
        places = self._places(table)
        if column is None:
            parts = numbered_ids(self._runtime, table.parts, places, seed)
        else:
            require_unique(self, table, column)
            parts = declared_ids(self._runtime, table.parts, column, seed)
        kept = self._runtime.keep("attach ids", parts)
        return DaskTable(table.schema, tuple(kept), True)

    def _given(self, schema: pa.Schema, rows: pa.Table) -> DaskTable:
        table = self.scan(Source(data=rows))
        names = [*schema.names, *ID_COLUMNS]
        parts = [self._runtime.task("attach ids", renamed, part, names=names) for part in table.parts]
        return DaskTable(schema, tuple(parts), True)

    def write(
        self,
        table: DaskTable,
        folder: str,
        format: Format,
        stream: Stream,
        *,
        escape: bool = False,
        types: Mapping[str, pa.DataType] = NO_TYPES,
    ) -> Written:
        return written(self._runtime, table, folder, format, stream, escape, types)

    def collect(
        self, table: DaskTable, *, like: Any = None, form: ReturnForm = AS_THEY_ARE, order: Order = "keyed"
    ) -> Any:
        if order == "keyed":
            return collected(self._runtime, table, like, form)
        return lying(self._runtime, table, like, order == "places", form, self._places(table))

    def _kept(self, step: str, table: DaskTable, schema: pa.Schema, parts: list[Any]) -> DaskTable:
        return table.derived(self._runtime.keep(step, parts), schema)

    def _explained(self, table: DaskTable, query: ClassQuery) -> AbstractContextManager[None]:
        return explained(query, lambda request: self.facts(table, request))

    def _places(self, *tables: DaskTable) -> int:
        """Meeting places of an exchange: as many as partitions, as long as the pieces stay few."""
        if self.options.npartitions is not None:
            return self.options.npartitions
        parts = sum(len(table.parts) for table in tables)
        return max(1, min(parts, max(self._runtime.workers, MOST_CUTS // parts)))


def _merged(found: Sequence[R | None], reduction: Reduction[Any, R]) -> R | None:
    seen = [figure for figure in found if figure is not None]
    return functools.reduce(reduction.merge, seen) if seen else None


def _require_ids(table: DaskTable) -> None:
    if not table.has_record_ids:
        raise DataError("records can be neither ranked nor aligned: the table carries no record ids")
