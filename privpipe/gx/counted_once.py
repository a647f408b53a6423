"""An engine that remembers what it counted of a batch, so that many expectations make one count."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar, cast

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, GatheredPairs, Histogram
from privpipe.blocks.suppressed import Kept, SuppressedNumber
from privpipe.engines import Engine

__all__ = ["Counts", "counting_once", "listen"]

T = TypeVar("T")
_listeners: list[Callable[[ClassQuery], None]] = []


def listen(listener: Callable[[ClassQuery], None]) -> Callable[[], None]:
    """Observe every count of classes that is made; returns a function that ends it."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


@dataclass
class Counts:
    """What was counted so far, by what was asked of which table."""

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
        Sensitive columns of it that every count of classes takes along, whoever asks.
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
        """Histograms, moments and nulls column by column: one pass for those nobody asked for before."""
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
            return query  # who has each value: no count that others share
        columns = sorted({*query.columns, *self._shared} - set(query.keys))
        coded = [name for name in columns if name not in query.dictionaries]
        known = self.facts(self._batch, FactsRequest(histograms=tuple(coded))).histograms if coded else {}
        dictionaries = {name: known[name] if name in known else query.dictionaries[name] for name in columns}
        return replace(query, columns=tuple(columns), dictionaries=dictionaries)

    def _told(self, query: ClassQuery) -> Hashable:
        coded = tuple(sorted((name, self._counts.codes_of(each)) for name, each in query.dictionaries.items()))
        return query.keys, query.columns, coded, query.mark, query.person, query.weight
