"""Columns that are judged: required ones that a table lacks, and those computed record by record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from privpipe.blocks import ClassQuery, Facts, FactsRequest, Guarantee, RowBlock
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError, did_you_mean

__all__ = ["AddsColumn", "RowColumn", "require_columns", "require_population", "with_row_columns"]


def require_columns(names: Sequence[str], columns: Iterable[str], side: str = "table") -> None:
    """Nothing where all columns are among the names.

    Parameters
    ----------
    names : sequence of str
        Columns of the table.
    columns : iterable of str
    side : str
        What the table is called in the message.

    Raises
    ------
    DataError
        Naming the first that is missing.

    Examples
    --------
    >>> require_columns(["zip", "age"], ["zip"])
    """
    for column in columns:
        if column not in names:
            raise DataError(f"column {column!r} is not in the {side}{did_you_mean(column, list(names))}")


def require_population(
    engine: Engine, population: Any, entries: Sequence[Guarantee], keys: Sequence[str], refuse_nulls: bool
) -> None:
    """Refuse a population that is missing, lacks a column, or has missing values where the policy allows none.

    Raises
    ------
    UsageError, DataError
    """
    asking = [entry.name() for entry in entries if entry.needs_population]
    if not asking:
        return
    if population is None:
        raise UsageError(f"{asking[0]} compares with a population, and none was given: name one as `population:`")
    require_columns(population.schema.names, keys, "population")
    nulls = engine.facts(population, FactsRequest(nulls=tuple(keys))).nulls if refuse_nulls and keys else {}
    for column, count in nulls.items():
        if count:
            raise DataError(
                f"column {column!r} of the population has {count:,} missing values and the policy says `nulls: refuse`"
            )


class RowColumn(Protocol):
    """A picklable function that appends one float64 column, the same for all records of a class."""

    @property
    def column(self) -> str:
        """Name of the column."""

    def __call__(self, rows: RowBlock) -> RowBlock:
        """The rows with it."""


@runtime_checkable
class AddsColumn(Protocol):
    """A guarantee that looks at such a column."""

    def row_column(self, facts: Facts) -> RowColumn | None:
        """What makes the column; None where it needs none."""


def with_row_columns(
    engine: Engine, table: Any, query: ClassQuery, entries: Iterable[Guarantee], facts: Facts
) -> tuple[Any, ClassQuery, Facts]:
    """The table with every column its guarantees ask for, counted as a sensitive column whose values the facts know."""
    import pyarrow as pa

    asked = (entry.row_column(facts) for entry in entries if isinstance(entry, AddsColumn))
    made = {function.column: function for function in asked if function is not None}
    if not made:
        return table, query, facts
    for name, function in made.items():
        table = engine.map_rows(table, function, table.schema.append(pa.field(name, pa.float64())))
    learnt = engine.facts(table, FactsRequest(histograms=tuple(made))).histograms
    query = replace(
        query, columns=(*query.columns, *made), dictionaries={**query.dictionaries, **{n: learnt[n] for n in made}}
    )
    return table, query, replace(facts, histograms={**facts.histograms, **learnt})
