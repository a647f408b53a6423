"""Persons instead of records, where one person has several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Histogram
from privpipe.engines import Engine
from privpipe.errors import DataError, did_you_mean

__all__ = [
    "ClassCount",
    "count_persons",
    "in_persons",
    "most_records",
    "person_histograms",
    "require_persons",
]


UNITS = {"person_id": "persons", "household_id": "households"}


@dataclass(frozen=True)
class _ByValue:
    """Persons of each value, from classes that hold one value each."""

    column: str

    def measure(self, block: ClassBlock, facts: Facts) -> dict[int, int]:
        return dict(zip(block.cells[self.column].codes.tolist(), block.sizes.tolist(), strict=True))

    def merge(self, left: dict[int, int], right: dict[int, int]) -> dict[int, int]:
        return left | right


@dataclass(frozen=True)
class ClassCount:
    """How many classes there are."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


@dataclass(frozen=True)
class _LargestClass:
    """The size of the largest class."""

    def measure(self, block: ClassBlock, facts: Facts) -> int:
        return int(block.sizes.max(initial=0))

    def merge(self, left: int, right: int) -> int:
        return max(left, right)


def require_persons(table: Any, person: str, key: str = "person_id") -> None:
    """Refuse a table in which persons cannot be distinguished.

    Raises
    ------
    DataError
    """
    names = list(table.schema.names)
    if person not in names:
        raise DataError(
            f"{key} column {person!r} is not in the table{did_you_mean(person, names)}: {UNITS[key]} cannot be "
            f"counted; judge a table that has it, or leave `{key}` out of the policy to count records"
        )


def count_persons(engine: Engine, table: Any, person: str) -> int:
    """How many different persons a table is about."""
    query = ClassQuery(keys=(person,), columns=(), person=person)
    return engine.reduce_classes(table, query, ClassCount(), Facts()) or 0


def most_records(engine: Engine, table: Any, person: str) -> int:
    """How many records the person with most of them has; 0 without a record."""
    return engine.reduce_classes(table, ClassQuery(keys=(person,), columns=()), _LargestClass(), Facts()) or 0


def in_persons(engine: Engine, table: Any, histograms: Mapping[str, Histogram], person: str) -> dict[str, Histogram]:
    """The same histograms with the persons of each value instead of its records.

    A person who has several values counts for each of them, so the counts may add up to more than the persons, whose
    number each histogram has with them.
    """
    found: dict[str, Histogram] = {}
    members = count_persons(engine, table, person) if histograms else 0
    for column, histogram in histograms.items():
        query = ClassQuery(keys=(column,), columns=(column,), dictionaries={column: histogram}, person=person)
        persons = engine.reduce_classes(table, query, _ByValue(column), Facts()) or {}
        counts = np.array([persons.get(code, 0) for code in range(len(histogram))], dtype=np.int64)
        found[column] = Histogram(histogram.values, counts, members)
    return found


def person_histograms(engine: Engine, table: Any, columns: Sequence[str], person: str | None) -> Facts:
    """Histograms of some columns and the size of the table: in persons where they are counted, else in records."""
    facts = engine.facts(table, FactsRequest(histograms=tuple(columns)))
    if person is None:
        return facts
    require_persons(table, person)
    found = in_persons(engine, table, facts.histograms, person)
    known = next((each.members for each in found.values()), None)
    return replace(facts, records=count_persons(engine, table, person) if known is None else known, histograms=found)
