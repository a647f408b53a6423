"""Whose the values of a column are, stratum by stratum, where a policy distinguishes persons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.transforms.categories import labelled
from privpipe.transforms.person_counts import PersonCounts
from privpipe.transforms.strata import Strata, stratum_keys

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.value_persons import Pairs, ValuePersons

__all__ = ["holders_of_combinations", "holders_of_labels", "holders_of_numbers"]

Ints = NDArray[np.int64]


class _Places(Protocol):
    def __call__(self, rows: RowBlock) -> Ints:
        """Number of each record's value, stratum after stratum; -1: it has none."""


@dataclass(frozen=True)
class _NumberPlaces:
    strata: Strata
    column: str
    values: tuple[NDArray[Any], ...] = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers

        numbers = self.strata.of(rows)
        found, gaps, _ = scaled_numbers(rows.column(self.column), self.column)
        known = ~(np.isnan(found) if gaps is None else gaps | np.isnan(found))
        places, first = np.full(len(rows), -1, np.int64), 0
        for number, values in enumerate(self.values):
            here = known & (numbers == number)
            places[here] = first + np.searchsorted(values, found[here])
            first += len(values)
        return places


@dataclass(frozen=True)
class _LabelPlaces:
    strata: Strata
    column: str
    texts: Any = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        import pyarrow.compute as pc

        at = pc.index_in(labelled(rows.column(self.column)), value_set=self.texts)
        found = np.asarray(pc.fill_null(at, -1).to_numpy(zero_copy_only=False), np.int64)
        numbers = self.strata.of(rows)
        return np.where((found < 0) | (numbers < 0), -1, numbers * len(self.texts) + found)


@dataclass(frozen=True)
class _CombinationPlaces:
    by: tuple[str, ...]
    keys: Ints = field(repr=False)
    key: bytes = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        return np.searchsorted(self.keys, stratum_keys(rows.batch.select(list(self.by)), self.key))


@dataclass(frozen=True)
class _Holders:
    """Persons of each value: a pair of arrays a unit."""

    persons: PersonCounts
    places: _Places

    def measure(self, block: RowBlock, facts: Facts) -> list[Pairs]:
        from privpipe.kernels.synthesis.value_persons import first_of_each

        places = self.places(block)
        known = places >= 0
        return [first_of_each(places[known], codes[known], self.persons.enough) for codes in self.persons.codes(block)]

    def merge(self, left: list[Pairs], right: list[Pairs]) -> list[Pairs]:
        from privpipe.kernels.synthesis.value_persons import first_of_each

        both = [[np.concatenate(each) for each in zip(a, b, strict=True)] for a, b in zip(left, right, strict=True)]
        return [first_of_each(places, codes, self.persons.enough) for places, codes in both]


def _held(
    engine: Primitives, table: Any, columns: Sequence[str], places: _Places, size: int, persons: PersonCounts
) -> ValuePersons:
    from privpipe.kernels.synthesis.value_persons import ValuePersons

    names = tuple(dict.fromkeys((*columns, *persons.columns)))
    found: list[Pairs] | None = engine.reduce_rows(table, names, _Holders(persons, places), Facts())
    none = np.empty(0, np.int64)
    return ValuePersons.of(found or [(none, none)] * len(persons.columns), size)


def holders_of_numbers(
    engine: Primitives,
    table: Any,
    column: str,
    strata: Strata,
    values: Sequence[NDArray[Any]],
    persons: PersonCounts,
) -> list[ValuePersons | None]:
    """Persons of the distinct values of each stratum, which ascend; None where records are counted."""
    if not persons.columns:
        return [None] * len(values)
    ends = np.cumsum([len(each) for each in values]).tolist()
    places = _NumberPlaces(strata, column, tuple(values))
    held = _held(engine, table, (*strata.by, column), places, ends[-1], persons)
    return [held.taken(np.arange(first, end)) for first, end in zip([0, *ends[:-1]], ends, strict=True)]


def holders_of_labels(
    engine: Primitives, table: Any, column: str, strata: Strata, texts: Any, persons: PersonCounts
) -> list[ValuePersons | None]:
    """Persons of each of these labels in each stratum; None where records are counted."""
    if not persons.columns:
        return [None] * len(strata)
    size, places = len(texts), _LabelPlaces(strata, column, texts)
    held = _held(engine, table, (*strata.by, column), places, size * len(strata), persons)
    return [held.taken(np.arange(number * size, (number + 1) * size)) for number in range(len(strata))]


def holders_of_combinations(
    engine: Primitives, table: Any, by: tuple[str, ...], keys: Ints, key: bytes, persons: PersonCounts
) -> ValuePersons | None:
    """Persons of each combination of the columns, by its hash, which ascend; None where records are counted."""
    if not persons.columns:
        return None
    return _held(engine, table, by, _CombinationPlaces(by, keys, key), len(keys), persons)
