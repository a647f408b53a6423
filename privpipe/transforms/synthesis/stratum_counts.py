"""Records and persons of each stratum with a value of each column, and the combinations of strata that are released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.errors import UnsupportedError, UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.categories import labelled
from privpipe.transforms.strata import PersonCounts, Strata, stratum_keys

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.value_cells import Pairs, ValuePersons

__all__ = [
    "MOST_DRAWN",
    "combinations_of",
    "holders_of_combinations",
    "holders_of_labels",
    "holders_of_numbers",
    "planned_records",
    "require_counts",
    "with_known",
]


class _Places(Protocol):
    def __call__(self, rows: RowBlock) -> Ints:
        """Number of each record's value, stratum after stratum; -1: it has none."""


@dataclass(frozen=True)
class _NumberPlaces:
    strata: Strata
    column: str
    values: tuple[NDArray[Any], ...] = field(repr=False)

    def __call__(self, rows: RowBlock) -> Ints:
        from privpipe.kernels.columns.cell_words import scaled_numbers

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
        from privpipe.kernels.synthesis.value_cells import first_of_each

        places = self.places(block)
        known = places >= 0
        return [first_of_each(places[known], codes[known], self.persons.enough) for codes in self.persons.codes(block)]

    def merge(self, left: list[Pairs], right: list[Pairs]) -> list[Pairs]:
        from privpipe.kernels.synthesis.value_cells import first_of_each

        both = [[np.concatenate(each) for each in zip(a, b, strict=True)] for a, b in zip(left, right, strict=True)]
        return [first_of_each(places, codes, self.persons.enough) for places, codes in both]


def _held(
    engine: Primitives, table: Any, columns: Sequence[str], places: _Places, size: int, persons: PersonCounts
) -> ValuePersons:
    from privpipe.kernels.synthesis.value_cells import ValuePersons

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


MOST_DRAWN = 500_000_000
"""Records that are drawn at once: their numbers are made on the driver, 4 GB of them."""


def with_known(engine: Primitives, table: Any, strata: Strata, columns: Sequence[str]) -> Strata:
    """The strata with the number of values of each column."""
    if not columns:
        return strata
    if not strata.by:
        nulls = engine.facts(table, FactsRequest(nulls=tuple(columns))).nulls
        return replace(strata, known={name: (strata.records[0] - nulls[name],) for name in columns})
    found = engine.reduce_rows(table, (*strata.by, *columns), _Known(strata, tuple(columns)), Facts())
    counts = np.zeros((len(columns), len(strata)), np.int64) if found is None else found
    return replace(strata, known={name: tuple(row) for name, row in zip(columns, counts.tolist(), strict=True)})


@dataclass(frozen=True)
class _Known:
    strata: Strata
    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Any) -> Ints:
        import pyarrow.compute as pc

        numbers = self.strata.of(block)
        rows = []
        for name in self.columns:
            known = ~pc.is_null(block.column(name), nan_is_null=True).to_numpy(zero_copy_only=False)
            rows.append(np.bincount(numbers[known & (numbers >= 0)], minlength=len(self.strata)))
        return np.stack(rows)

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


def combinations_of(
    engine: Primitives, table: Any, strata: Strata, min_count: int, persons: PersonCounts
) -> list[dict[str, Any]]:
    """Values of the stratum columns, as text, with the stratum and the records to represent; rare ones are dropped.

    Rare are those of fewer records than `min_count`, or of fewer persons where these are distinguished.
    """
    if not strata.by:
        return [{"values": [], "stratum": 0, "records": strata.records[0]}]
    distinct = engine.distinct(table, strata.by).combine_chunks()
    if not len(distinct):
        return []
    batch = distinct.select(list(strata.by)).to_batches()[0]
    numbers = strata.of(RowBlock(batch)).tolist()
    texts = list(zip(*(labelled(batch.column(name)).to_pylist() for name in strata.by), strict=True))
    keys = stratum_keys(batch, strata.key)
    order = np.argsort(keys)
    held = holders_of_combinations(engine, table, strata.by, keys[order], strata.key, persons)
    counts = distinct["__count"].to_numpy()[order].astype(np.int64)
    holders = counts if held is None else held.counts()
    return [
        {"values": list(texts[at]), "stratum": numbers[at], "records": count}
        for at, count, number in zip(order.tolist(), counts.tolist(), holders.tolist(), strict=True)
        if numbers[at] >= 0 and number >= min_count
    ]


def require_counts(detail: Mapping[str, Any], context: StageContext) -> None:
    """Refuse a plan whose numbers of records and strata are none.

    Raises
    ------
    UsageError
    """
    counts = [each["records"] for each in (*detail["combinations"], *detail["models"])]
    strata = [each["stratum"] for each in detail["combinations"]]
    if not all(type(each) is int and each >= 0 for each in (*counts, *strata)):
        raise UsageError(f"{context.place}: the plan counts records that are none: make a new plan")


def planned_records(detail: Mapping[str, Any], here: int | None, fewer: bool, context: StageContext) -> int:
    """The records that the models of a plan are of.

    Parameters
    ----------
    detail : mapping
        From the plan, which may have been edited and sealed again.
    here : int, optional
        Records of the table; None: the models do not say how many they are of.
    fewer : bool
        Whether records may have been suppressed.

    Raises
    ------
    UsageError
        They are of another number.
    UnsupportedError
        More than are drawn at once.
    """
    wanted = sum(model["records"] for model in detail["models"])
    if here is not None and (wanted > here or (wanted < here and not fewer)):
        raise UsageError(
            f"{context.place}: the plan draws another number of records than the table has: make a new plan"
        )
    if wanted > MOST_DRAWN:
        raise UnsupportedError(
            f"{context.place}: draws at most {MOST_DRAWN:,} records at once; set their number with `records:`"
        )
    return int(wanted)
