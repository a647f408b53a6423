"""The metric that all privacy expectations use: a batch on its own engine, counted once for all of them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar, cast

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import (
    ExecutionEngine,
    PandasExecutionEngine,
    SparkDFExecutionEngine,
    SqlAlchemyExecutionEngine,
)
from great_expectations.expectations.metrics.metric_provider import MetricConfiguration, metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider
from great_expectations.validator.validator import ValidationDependencies

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, GatheredPairs, Guarantee, Histogram
from privpipe.blocks.public_edition import PublicRules
from privpipe.blocks.row_reductions import Kept, SuppressedNumber
from privpipe.border import bordered
from privpipe.draws import RunKey, Seed
from privpipe.engines import Engine, Source, engine_for, open_engine
from privpipe.engines.base.contract import fingerprint
from privpipe.engines.base.frames import at_hand
from privpipe.engines.base.logical_types import CARRIED, is_carried
from privpipe.engines.readers.source_facts import POSITION, positioned
from privpipe.engines.readers.unjudged_content import unjudged_files, unjudged_note
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.gx.tables import OtherTable, held, read_seed, read_stages
from privpipe.hierarchies import HierarchySpec
from privpipe.judging import Assessment, Gate, JudgingRules, assess
from privpipe.judging.counted_classes import NO_RECORDS
from privpipe.judging.rules import metadata_notes
from privpipe.judging.table_facts import person_histograms
from privpipe.relations.counting import Orphans, RelatedTables
from privpipe.relations.schema import Tree
from privpipe.reporting.safe_harbor import Finding, kinds_in_table
from privpipe.roles import EmptyRule, NullRule, Roles, column_type_of

__all__ = [
    "METRIC",
    "Asked",
    "Counts",
    "OpenBatch",
    "PrivpipeBatch",
    "counting_once",
    "dependencies_on",
    "listen",
    "require_whole",
]


T = TypeVar("T")
MOST_CELLS = 5_000_000
"""Rows of a finished table that are read to the driver."""
_listeners: list[Callable[[ClassQuery], None]] = []


def listen(listener: Callable[[ClassQuery], None]) -> Callable[[], None]:
    """Observe every count of classes that is made; returns a function that ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@dataclass
class Counts:
    """The counts so far, by question and table."""

    found: dict[Hashable, Any] = field(default_factory=dict, repr=False)
    # An id distinguishes tables only while they live.
    kept: dict[int, Any] = field(default_factory=dict, repr=False)
    codes: dict[int, Histogram] = field(default_factory=dict, repr=False)

    def of(self, thing: Any) -> int:
        """A number for a table, which is kept from now on."""
        self.kept.setdefault(id(thing), thing)
        return id(thing)

    def codes_of(self, histogram: Histogram) -> int:
        """A number for the codes a histogram gives to values; what counts them is the same whatever the counts."""
        for number, known in self.codes.items():
            if known.values is histogram.values or known.values.equals(histogram.values):
                return number
        self.codes[len(self.codes)] = histogram
        return len(self.codes) - 1

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """The answer of the first time."""
        if what not in self.found:
            self.found[what] = make()
        return cast("T", self.found[what])


def counting_once(engine: Engine, counts: Counts, batch: Any, shared: Sequence[str]) -> Engine:
    """The engine, which counts nothing twice.

    Parameters
    ----------
    engine : Engine
    counts : Counts
        What was counted already; it is added to.
    batch : Table
        The judged table.
    shared : sequence of str
        Sensitive columns of it that every count of classes takes along, whichever expectation asks.
    """
    return cast("Engine", _CountingOnce(engine, counts, batch, tuple(shared)))


class _CountingOnce:
    """Answers from what was counted, and hands on to the engine whatever is not worth remembering."""

    def __init__(self, engine: Engine, counts: Counts, batch: Any, shared: tuple[str, ...]) -> None:
        self._engine, self._counts, self._batch, self._shared = engine, counts, batch, shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def count(self, table: Any) -> int:
        what = ("count", self._counts.of(table))
        return self._counts.once(what, lambda: self._engine.count(table))

    def estimated_distinct(self, table: Any, columns: Sequence[str]) -> dict[str, int]:
        what = ("estimated", self._counts.of(table), tuple(columns))
        return self._counts.once(what, lambda: self._engine.estimated_distinct(table, columns))

    def distinct(self, table: Any, columns: Sequence[str]) -> Any:
        what = ("distinct", self._counts.of(table), tuple(columns))
        return self._counts.once(what, lambda: self._engine.distinct(table, columns))

    def stack(self, table: Any, other: Any, columns: Sequence[str], tag: str) -> Any:
        what = ("stack", self._counts.of(table), self._counts.of(other), tuple(columns), tag)
        return self._counts.once(what, lambda: self._engine.stack(table, other, columns, tag))

    def map_rows(self, table: Any, function: Any, schema: Any) -> Any:
        if not isinstance(function, Kept):
            return self._engine.map_rows(table, function, schema)
        what = ("rows", self._counts.of(table), function)
        return self._counts.once(what, lambda: self._engine.map_rows(table, function, schema))

    def reduce_rows(self, table: Any, columns: Sequence[str], reduction: Any, facts: Facts) -> Any:
        if not isinstance(reduction, SuppressedNumber):
            return self._engine.reduce_rows(table, columns, reduction, facts)
        what = ("suppressed", self._counts.of(table), reduction)
        return self._counts.once(what, lambda: self._engine.reduce_rows(table, columns, reduction, facts))

    def keep_classes(self, table: Any, query: ClassQuery, passing: Any) -> Any:
        what = ("keep", self._counts.of(table), self._told(query), passing)
        return self._counts.once(what, lambda: self._engine.keep_classes(table, query, passing))

    def reduce_pairs(self, original: Any, released: Any, columns: Sequence[str], reduction: Any, facts: Facts) -> Any:
        def gather() -> Any:
            return self._engine.reduce_pairs(original, released, columns, reduction, facts)

        if not isinstance(reduction, GatheredPairs):
            return gather()
        what = ("pairs", self._counts.of(original), self._counts.of(released), tuple(columns))
        return self._counts.once(what, gather)

    def facts(self, table: Any, request: FactsRequest) -> Facts:
        """Histograms, moments and nulls column by column: one pass for those not counted before."""
        if request.products:
            return self._engine.facts(table, request)
        at, found = self._counts.of(table), self._counts.found
        if table is self._batch and request.histograms:
            request = request | FactsRequest(histograms=self._shared)

        def new(kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name in names if (kind, at, name) not in found)

        missing = FactsRequest(
            histograms=new("histograms", request.histograms),
            moments=new("moments", request.moments),
            nulls=new("nulls", request.nulls),
        )
        if missing or ("records", at) not in found:
            learnt = self._engine.facts(table, missing)
            found["records", at] = learnt.records
            for kind in ("histograms", "moments", "nulls"):
                found.update({(kind, at, name): each for name, each in getattr(learnt, kind).items()})
        return Facts(
            records=found["records", at],
            histograms={name: found["histograms", at, name] for name in request.histograms},
            moments={name: found["moments", at, name] for name in request.moments},
            nulls={name: found["nulls", at, name] for name in request.nulls},
        )

    def reduce_classes(
        self, table: Any, query: ClassQuery, reduction: Any, facts: Facts, *, where: str = "auto"
    ) -> Any:
        blocks = self._blocks(table, self._widened(query) if table is self._batch else query)
        return reduce(reduction.merge, (reduction.measure(block, facts) for block in blocks)) if blocks else None

    def _blocks(self, table: Any, query: ClassQuery) -> tuple[ClassBlock, ...]:
        def count() -> tuple[ClassBlock, ...]:
            for listener in _listeners:
                listener(query)
            return tuple(self._engine.classes(table, query))

        return self._counts.once(("classes", self._counts.of(table), self._told(query)), count)

    def _widened(self, query: ClassQuery) -> ClassQuery:
        """The query with the shared columns, whose codes are those of the batch unless it asks for others."""
        if set(query.columns) & set(query.keys):
            return query  # it lists the units of each value: not a count that others share
        columns = sorted({*query.columns, *self._shared} - set(query.keys))
        coded = [name for name in columns if name not in query.dictionaries]
        known = self.facts(self._batch, FactsRequest(histograms=tuple(coded))).histograms if coded else {}
        dictionaries = {name: known[name] if name in known else query.dictionaries[name] for name in columns}
        return replace(query, columns=tuple(columns), dictionaries=dictionaries)

    def _told(self, query: ClassQuery) -> Hashable:
        coded = tuple(sorted((name, self._counts.codes_of(each)) for name, each in query.dictionaries.items()))
        return query.keys, query.columns, coded, query.mark, query.person, query.weight


METRIC = "privpipe.batch"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of an expectation in addition to its guarantee: how the batch is read, and what belongs to it."""

    roles: Roles
    gate: Gate = field(default_factory=Gate)
    counted: tuple[str, ...] = ()
    nulls: NullRule = "own_value"
    mark: str = "*"
    empty: EmptyRule = "refuse"
    original: OtherTable | None = None
    align: str = "record_id"
    record_id: str | None = None
    person: str | None = None
    household: str | None = None
    population: OtherTable | None = None
    hierarchies: Mapping[str, Any] = field(default_factory=dict)
    plan: str | None = None
    seed: Mapping[str, str] | None = None


@bordered
class OpenBatch:
    """A batch with the engine it is native to; the engine is closed when the last expectation has let it go.

    A Spark frame is evaluated once for all of them.
    """

    def __init__(self, data: Any) -> None:
        data = at_hand(data, "great expectations")
        opened = ExitStack()
        self._engine = opened.enter_context(open_engine(engine_for(data)))
        opened.enter_context(self._engine.frames.holding())
        weakref.finalize(self, opened.close)
        self._counts = Counts()
        self._source_read = data if isinstance(data, Source) else Source(data=data)
        found = self._engine.frames.schema(self._source_read)
        carried = {each.name: CARRIED for each in found if is_carried(each.type)}
        self._source_read = replace(self._source_read, types={**carried, **self._source_read.types})
        self.table = self._engine.scan(self._source_read)

    @property
    def notes(self) -> tuple[str, ...]:
        """How many files readers get with the batch that are not judged."""
        found = self._counts.once("unjudged", lambda: unjudged_files(self._source_read))
        return (unjudged_note(found),) if found else ()

    def judged(self, guarantee: Guarantee, asked: Asked) -> Assessment:
        """One guarantee over the batch.

        Raises
        ------
        UsageError, DataError, EngineError
            It cannot be judged: a column of the batch or a table that belongs to it is missing, or the
            batch has no records.
        """
        return self._judged(guarantee, asked)

    def cells(self) -> Any:
        """The rows of a finished table, which are cells and no persons, as a pyarrow Table.

        Raises
        ------
        DataError
            It has more rows than the driver works on.
        """
        if self._engine.count(self.table) > MOST_CELLS:
            raise DataError(f"the batch has more than {MOST_CELLS:,} rows; it is not a table of cells, or is too large")
        return self._counts.once("cells", lambda: self._engine.collect(self.table))

    def related(
        self,
        stated: Hashable,
        tree: Tree,
        orphans: Orphans,
        tables: Mapping[str, Any],
        others: Mapping[str, Callable[[], Source]],
    ) -> RelatedTables:
        """The batch with the tables that are related to it, read by its engine once for all that ask the same.

        Parameters
        ----------
        stated : hashable
            What distinguishes this set of tables from others.
        tables : mapping of str to Table
            Those at hand.
        others : mapping of str to callable
            By table, what gives its source.
        """

        def read() -> RelatedTables:
            scanned = {name: self._engine.scan(source()) for name, source in others.items()}
            return RelatedTables(self._engine, tree, {**tables, **scanned}, orphans=orphans)

        return self._counts.once(("related", stated), read)

    def safe_harbor(self) -> list[Finding]:
        """What the batch holds of the kinds of identifiers that HIPAA Safe Harbor removes.

        Raises
        ------
        DataError
            The batch has no records.
        EngineError
            It cannot be counted.
        """
        found: list[Finding] = self._counts.once("safe harbor", self._identifiers)
        return found

    def _identifiers(self) -> list[Finding]:
        if not self._engine.count(self.table):
            raise DataError(NO_RECORDS)
        return kinds_in_table(self._engine, self.table)

    def _judged(self, guarantee: Guarantee, asked: Asked) -> Assessment:
        self._require((*asked.roles.quasi_identifiers, *asked.counted))
        said = self._counts.once(
            ("metadata", asked.gate.metadata), lambda: metadata_notes(self._source_read, asked.gate.metadata)
        )
        engine = counting_once(self._engine, self._counts, self.table, asked.counted)
        guarantee = guarantee.beside(asked.population is not None)
        released, original = self._pair(guarantee, asked)
        unit = PublicRules(columns=frozenset(), person=asked.person, household=asked.household).unit(
            guarantee.counts_over()
        )
        base = self._base(guarantee, original, unit)
        population = self._population(guarantee, asked)
        rules = JudgingRules(
            nulls=asked.nulls,
            mark=asked.mark,
            empty=asked.empty,
            person=asked.person,
            household=asked.household,
            gate=asked.gate,
            base=base,
            entered={unit: Facts(histograms=base)} if base else {},
            hierarchies={
                name: HierarchySpec.from_mapping(each, column=name) for name, each in asked.hierarchies.items()
            },
            stages=read_stages(asked.plan),
            order=RunKey.of(self._seed(asked), "great expectations", self._source(asked)).attacks(),
        )
        found = assess(
            engine,
            self.table,
            guarantees=[guarantee],
            roles=asked.roles,
            rules=rules,
            original=original,
            released=released,
            population=population,
        )
        return replace(found, notes=(*found.notes, *self.notes, *said))

    def _require(self, columns: tuple[str, ...]) -> None:
        names = list(self.table.schema.names)
        for column in columns:
            if column not in names:
                raise DataError(f"column {column!r} is not in the batch{did_you_mean(column, names)}")

    def _seed(self, asked: Asked) -> Seed:
        """One seed for all that name the same, so that they attack the same records."""
        return self._counts.once(("seed", str(asked.seed)), lambda: read_seed(asked.seed))

    def _source(self, asked: Asked) -> str:
        """The fingerprint of the original; without its own seed the order is arbitrary anyway."""
        if asked.seed is None or asked.original is None:
            return ""
        what = ("fingerprint", str(asked.original), str(asked.seed))
        return self._counts.once(what, lambda: fingerprint(self._engine, self._original(asked), self._seed(asked)))

    def _original(self, asked: Asked) -> Any:
        if asked.original is None:
            return None
        given = self._now(asked.original)
        return self._counts.once(("original", str(given)), lambda: given.scanned(self._engine, self.table))

    def _now(self, given: OtherTable) -> OtherTable:
        """A table that belongs to the batch, at one version for all expectations."""
        found: OtherTable = self._counts.once(("version", str(given)), given.now)
        return found

    def _pair(self, guarantee: Guarantee, asked: Asked) -> tuple[Any, Any]:
        """The batch's records with ids, and the original: aligned where the guarantee compares record by record."""
        if not guarantee.way.aligned:
            wanted = guarantee.needs_base or guarantee.way.beside_original
            return None, self._original(asked) if wanted else None
        if asked.original is None:
            raise UsageError(f"{guarantee.name()} compares with the original: name it as `original_source`")
        what = ("aligned", str(asked.original), asked.align, asked.record_id, str(asked.seed))
        given = self._now(asked.original)
        pair: tuple[Any, Any] = self._counts.once(what, lambda: self._aligned(asked, given))
        return pair

    def _aligned(self, asked: Asked, given: OtherTable) -> tuple[Any, Any]:
        if asked.align == "position":
            return self._by_position(asked, given)
        key = asked.record_id
        if key is None:
            raise UsageError(
                "records cannot be paired with those of the original: name the `record_id` that both hold, or vouch "
                "for their order with `align: position`"
            )
        original = self._original(asked)
        self._require((key,))
        if key not in original.schema.names:
            raise DataError(f"column {key!r} is not in the original{did_you_mean(key, list(original.schema.names))}")
        seed = self._seed(asked)
        kind = column_type_of(self.table.schema.field(key).type)
        if column_type_of(original.schema.field(key).type) != kind:
            # Ids are hashes of the key: the same number as text would be another record.
            original = self._engine.scan(given.source({**given.types, key: kind}))
        return self._engine.with_record_ids(self.table, key, seed), self._engine.with_record_ids(original, key, seed)

    def _by_position(self, asked: Asked, given: OtherTable) -> tuple[Any, Any]:
        declared = self._original(asked).schema
        types = {name: column_type_of(declared.field(name).type) for name in declared.names}
        sources = (self._source_read, given.source(types))
        tables = [positioned(self._engine.frames.held(source)) for source in sources]
        if tables[0].num_rows != tables[1].num_rows:
            raise DataError(
                f"the batch cannot be aligned by position: it has {tables[0].num_rows:,} records, the original "
                f"{tables[1].num_rows:,}; align by a record_id"
            )
        sides = []
        for table, source in zip(tables, sources, strict=True):
            scanned = self._engine.scan(Source(data=table, types=source.types))
            found = self._engine.with_record_ids(scanned, POSITION, self._seed(asked))
            sides.append(self._engine.select(found, [name for name in found.schema.names if name != POSITION]))
        return sides[0], sides[1]

    def _base(self, guarantee: Guarantee, original: Any, unit: str | None) -> dict[str, Histogram]:
        """The original's distribution of what the guarantee compares with it."""
        columns = guarantee.sensitive_columns() if guarantee.needs_base and original is not None else ()
        for column in columns:
            if column not in original.schema.names:
                raise DataError(f"column {column!r} is not in the original")
        engine = counting_once(self._engine, self._counts, self.table, ())
        return dict(person_histograms(engine, original, columns, unit).histograms) if columns else {}

    def _population(self, guarantee: Guarantee, asked: Asked) -> Any:
        if not guarantee.needs_population or asked.population is None:
            return None
        given = self._now(asked.population)
        return self._counts.once(("population", str(given)), lambda: given.scanned(self._engine, self.table))


class PrivpipeBatch(TableMetricProvider):
    """Opens a batch with the engine it is native to."""

    metric_name = METRIC

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805  # the decorator makes a class method of it
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> OpenBatch:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return opened(held(frame))

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> OpenBatch:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return opened(frame)

    @metric_value(engine=SqlAlchemyExecutionEngine)
    def _sql(
        cls,  # noqa: N805
        execution_engine: SqlAlchemyExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> OpenBatch:
        raise UnsupportedError(
            "a SQL data source cannot be judged in place: read its rows with a pandas or Spark data source, or hand "
            "over a table of any engine as `privpipe.gx.tables(table)`"
        )


def dependencies_on(
    batch_id: str | None, runtime_configuration: Mapping[str, Any] | None = None
) -> ValidationDependencies:
    """One metric, the same for all expectations of a batch."""
    dependencies = ValidationDependencies(
        result_format=(runtime_configuration or {}).get("result_format", {"result_format": "BASIC"})
    )
    metric = MetricConfiguration(
        metric_name=METRIC, metric_domain_kwargs={"batch_id": batch_id}, metric_value_kwargs={}
    )
    dependencies.set_metric_configuration(METRIC, metric)
    return dependencies


def require_whole(execution_engine: ExecutionEngine | None) -> None:
    """Whether the batch that is validated is all of its asset.

    Raises
    ------
    UsageError
        It is a part, or Great Expectations does not say.
    """
    batch = execution_engine.batch_manager.active_batch if execution_engine is not None else None
    request = getattr(batch, "batch_request", None)
    partitioner = getattr(request, "partitioner", None)
    if batch is None or partitioner is not None or _is_by_name(request):
        raise UsageError(
            "`judge: whole` is asked for, and the batch is one part of its asset: judge the asset by a batch "
            "definition of the whole table, or write `judge: batch` where each batch is published by itself"
        )


def _is_by_name(request: Any) -> bool:
    """Whether options of the request choose among files or rows."""
    options = getattr(request, "options", None) or {}
    return any(name not in ("dataframe", "path") for name in options)


@bordered
def opened(data: Any) -> OpenBatch:
    """A frame or path, opened."""
    return OpenBatch(data)
