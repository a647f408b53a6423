"""The metric all privacy expectations rest on: one class table for each set of columns of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from great_expectations.core.metric_domain_types import MetricDomainTypes
from great_expectations.execution_engine import PandasExecutionEngine, SparkDFExecutionEngine
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from privpipe.assess import Composite, Judged
from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Guarantee, prepared
from privpipe.engines import Source, engine_for, open_engine
from privpipe.errors import DataError, EngineError, PrivpipeError, did_you_mean
from privpipe.gx.handle import held

__all__ = ["METRIC", "CountedClasses", "PrivpipeClassTable", "listen"]

METRIC = "privpipe.class_table"
_listeners: list[Callable[[ClassQuery], None]] = []


def listen(listener: Callable[[ClassQuery], None]) -> Callable[[], None]:
    """Be told of every count that is made; returns a function that ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@dataclass(frozen=True)
class CountedClasses:
    """The class table of one batch, collected once for all expectations over the same columns.

    Parameters
    ----------
    blocks : tuple of ClassBlock
    facts : Facts
        Histograms of the sensitive columns: the judged table is its own base.
    """

    blocks: tuple[ClassBlock, ...] = field(repr=False)
    facts: Facts = field(repr=False)

    def known_to(self, guarantee: Guarantee) -> Facts:
        """The facts with what the guarantee works out of them."""
        return prepared(self.facts, (guarantee,))

    def judged(self, guarantee: Guarantee) -> Judged:
        """What a guarantee sees of the table.

        Raises
        ------
        DataError
            The table has no records.
        """
        composite = Composite((guarantee,))
        facts = self.known_to(guarantee)
        found: Judged | None = None
        for block in self.blocks:
            measured = composite.measure(block, facts)
            found = measured if found is None else composite.merge(found, measured)
        if found is None:
            raise DataError("the table has no records: there is nothing to judge")
        return found


class PrivpipeClassTable(TableMetricProvider):
    """Counts classes with the engine the batch is native to."""

    metric_name = METRIC
    value_keys = ("quasi_identifiers", "sensitive", "nulls", "suppression_mark", "weight")

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(
        cls,  # noqa: N805  # the decorator makes a class method of it
        execution_engine: PandasExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> CountedClasses:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return counted(held(frame), **metric_value_kwargs)

    @metric_value(engine=SparkDFExecutionEngine)
    def _spark(
        cls,  # noqa: N805
        execution_engine: SparkDFExecutionEngine,
        metric_domain_kwargs: dict[str, Any],
        metric_value_kwargs: dict[str, Any],
        metrics: dict[str, Any],
        runtime_configuration: dict[str, Any],
    ) -> CountedClasses:
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type=MetricDomainTypes.TABLE)
        return counted(frame, **metric_value_kwargs)


def counted(
    data: Any,
    quasi_identifiers: list[str],
    sensitive: list[str],
    nulls: str,
    suppression_mark: str,
    weight: str | None = None,
) -> CountedClasses:
    """Count a frame or path; errors that could quote a value are told by their kind alone."""
    try:
        with open_engine(engine_for(data)) as engine:
            table = engine.scan(Source(data=data))
            _require(table, [*quasi_identifiers, *sensitive, *([weight] if weight else [])])
            refused = tuple(quasi_identifiers) if nulls == "refuse" else ()
            facts = engine.facts(table, FactsRequest(histograms=tuple(sensitive), nulls=refused))
            for column, count in facts.nulls.items():
                if count:
                    raise DataError(f"column {column!r} has {count:,} missing values under `nulls: refuse`")
            query = ClassQuery(
                keys=tuple(quasi_identifiers),
                columns=tuple(sensitive),
                dictionaries=dict(facts.histograms),
                mark=suppression_mark,
                weight=weight,
            )
            for listener in _listeners:
                listener(query)
            return CountedClasses(tuple(engine.classes(table, query)), facts)
    except PrivpipeError:
        raise
    except Exception as error:  # noqa: BLE001  # its text may quote the data, and GX prints what it is given
        raise EngineError(f"counting classes failed: {type(error).__name__}") from None


def _require(table: Any, columns: list[str]) -> None:
    names = list(table.schema.names)
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the batch{did_you_mean(column, names)}")
