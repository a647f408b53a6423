"""Strata: a stage learns and applies for each combination of some columns' values separately, and counts the persons
in each up to the number that is enough.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.primitives import one_batch
from privpipe.errors import DataError, NoSolutionError, UsageError, did_you_mean
from privpipe.transforms.base import StageContext, StagePlan, checked_columns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "ByStratum",
    "PersonCounts",
    "Persons",
    "SmallStrata",
    "Strata",
    "checked_by",
    "figures_of",
    "person_codes",
    "require_present",
    "stratum_keys",
    "units_of",
    "without_person",
]


Persons = tuple[Ints, ...]
"""For each unit (persons, households) the hashes of those that occur, ascending; no more than are needed."""


def units_of(context: StageContext) -> tuple[str, ...]:
    """Columns whose different values a threshold counts: persons, and households where a guarantee counts these.

    None where the policy distinguishes neither: records are counted.
    """
    household = context.household if context.counts_households else None
    return tuple(name for name in (context.person, household) if name is not None)


def person_codes(values: pa.RecordBatch | pa.Table, column: str, key: bytes) -> Ints:
    """A keyed hash of the person of each record; two persons of one hash count as one, which is on the safe side.

    Raises
    ------
    DataError
        Records without a person (their number).

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes = person_codes(pa.record_batch({"who": ["a", "b", "a"]}), "who", b"")
    >>> bool(codes[0] == codes[2] != codes[1])
    True
    """
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    missing = values.column(column).null_count
    if missing:
        raise without_person(column, missing)
    seed = Seed(key) if key else Seed.public("privpipe/persons")
    return np.asarray(content_hash(values.select([column]), seed)[:, 0])


def without_person(column: str, missing: int) -> DataError:
    """The error where a number of records have no person."""
    return DataError(
        f"person column {column!r} has {missing:,} missing values; a record needs a person to be counted by"
    )


@dataclass(frozen=True)
class PersonCounts:
    """Counts the persons of records up to `enough`.

    Parameters
    ----------
    columns : tuple of str
        Those of `units_of`.
    enough : int
        At least 1; from here on it does not matter how many there are.
    key : bytes
        What keys the hashes.

    Examples
    --------
    >>> import pyarrow as pa
    >>> counts = PersonCounts(("who",), 5)
    >>> codes = counts.codes(pa.record_batch({"who": ["a", "a", "b"]}))
    >>> first, second = (counts.of(codes, np.array(places)) for places in ([0, 1], [2]))
    >>> counts.number(first), counts.number(counts.merged(first, second))
    (1, 2)
    """

    columns: tuple[str, ...]
    enough: int
    key: bytes = field(default=b"", repr=False)

    def codes(self, rows: RowBlock | pa.RecordBatch | pa.Table) -> Persons:
        """The person of each record."""
        values: Any = rows.batch if isinstance(rows, RowBlock) else rows
        return tuple(person_codes(values, name, self.key) for name in self.columns)

    def of(self, codes: Persons, places: Ints | Bools) -> Persons:
        """The persons of the records at these places."""
        return tuple(np.unique(each[places])[: self.enough] for each in codes)

    def merged(self, left: Persons, right: Persons) -> Persons:
        """The persons of both."""
        return tuple(np.union1d(a, b)[: self.enough] for a, b in zip(left, right, strict=True))

    @staticmethod
    def number(persons: Persons) -> int:
        """How many there are, no more than are enough: of persons and households, the fewer."""
        return min((len(each) for each in persons), default=0)


SmallStrata = Literal["refuse", "suppress", "merge"]
SUPPRESSED = -1
Found = tuple[list[int], tuple[Persons, ...]]
"""Of one combination its records and those with a value in each column, and whose they are, where persons count."""


def checked_by(owner: str, by: object, masked: tuple[str, ...], small_strata: str) -> tuple[str, ...]:
    """The columns of `by` as a tuple; none for no strata.

    Raises
    ------
    UsageError
        No list of names, a column that the stage masks itself, `small_strata` without `by`.

    Examples
    --------
    >>> checked_by("AddNoise", ["sex"], ("income",), "merge")
    ('sex',)
    """
    if by == () or by is None or by == []:
        if small_strata != "refuse":
            raise UsageError(f"{owner}: small_strata requires by")
        return ()
    if not isinstance(by, list | tuple) or not all(isinstance(name, str) for name in by):
        raise UsageError(f"{owner}: by must be a list of column names")
    both = sorted(set(by) & set(masked))
    if both:
        raise UsageError(f"{owner}: by names {', '.join(map(repr, both))}, which the stage masks itself")
    return checked_columns(owner, by)


def require_present(columns: tuple[str, ...], context: StageContext) -> None:
    """Refuse columns that are not in the table.

    Raises
    ------
    DataError
    """
    for column in columns:
        if column not in context.schema.names:
            raise DataError(
                f"{context.place}: column {column!r} is not in the table{did_you_mean(column, context.schema.names)}"
            )


def stratum_keys(values: pa.RecordBatch | pa.Table, key: bytes = b"") -> Ints:
    """A 64-bit hash of each combination, null-safe; a plan holds it instead of the values.

    Under the run's `key` no one else can try combinations against it; without one it is as good as the values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> keys = stratum_keys(pa.record_batch({"sex": ["f", None, "f"]}))
    >>> bool(keys[0] == keys[2] != keys[1])
    True
    """
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash

    return np.asarray(content_hash(values, Seed(key) if key else Seed.public("privpipe/strata"))[:, 0])


@dataclass(frozen=True)
class _Counts:
    """Records of each combination, and those with a value in each column: key -> [records, known, known, ...].

    Persons are those of the columns, or of the records where there are no columns.
    """

    by: tuple[str, ...]
    columns: tuple[str, ...]
    key: bytes = field(repr=False)
    persons: PersonCounts

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, Found]:
        keys, places = np.unique(stratum_keys(block.batch.select(list(self.by)), self.key), return_inverse=True)
        known = [~_missing(block.column(name)) for name in self.columns]
        sums = [np.bincount(places, minlength=len(keys))]
        sums += [np.bincount(places[mask], minlength=len(keys)) for mask in known]
        counts = np.stack(sums, axis=1).tolist()
        persons = self._persons(block, places, len(keys), known)
        return dict(zip(keys.tolist(), zip(counts, persons, strict=True), strict=True))

    def _persons(self, block: RowBlock, places: Ints, keys: int, known: list[Bools]) -> list[tuple[Persons, ...]]:
        """For each key the persons of its values in each column."""
        if not self.persons.columns:
            return [()] * keys
        codes = self.persons.codes(block)
        order = np.argsort(places, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(places, minlength=keys))[:-1])
        held = known or [np.ones(len(places), np.bool_)]
        return [tuple(self.persons.of(codes, here[mask[here]]) for mask in held) for here in members]

    def merge(self, left: dict[int, Found], right: dict[int, Found]) -> dict[int, Found]:
        merged = dict(left)
        for key, found in right.items():
            merged[key] = _added(merged[key], found, self.persons) if key in merged else found
        return merged


def _added(left: Found, right: Found, persons: PersonCounts) -> Found:
    counts = [a + b for a, b in zip(left[0], right[0], strict=True)]
    return counts, tuple(persons.merged(a, b) for a, b in zip(left[1], right[1], strict=True))


def _missing(column: pa.Array) -> Bools:
    import pyarrow.compute as pc

    return np.asarray(pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False))


def _require_told_apart(
    engine: Primitives, table: Any, by: tuple[str, ...], found: Mapping[int, Found], context: StageContext
) -> None:
    """A hash of 64 bits is enough once it is known to distinguish these combinations."""
    distinct = len(engine.distinct(table, by)) if found else 0
    if distinct != len(found):
        raise DataError(f"{context.place}: two combinations of {', '.join(map(repr, by))} share a hash; merge them")


@dataclass(frozen=True)
class Strata:
    """Which stratum each combination of `by` belongs to.

    Parameters
    ----------
    by : tuple of str
        No columns: the whole table is stratum 0.
    keys : tuple of int
        Hashes of the combinations, ascending.
    numbers : tuple of int
        Stratum of each key; -1 for one that is suppressed.
    records : tuple of int
        Records of each stratum.
    known : mapping of column to tuple of int
        Records of each stratum with a value in the column.
    suppressed : int
        Records of strata that were too small, under ``small_strata: suppress``.
    merged : int
        Combinations that were too small and now share a stratum, under ``small_strata: merge``.
    key : bytes
        What keys the hashes; in no plan.
    """

    by: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()
    records: tuple[int, ...] = (0,)
    known: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    suppressed: int = 0
    merged: int = 0
    key: bytes = field(default=b"", repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def learn(
        cls,
        engine: Primitives,
        table: Any,
        by: tuple[str, ...],
        columns: tuple[str, ...],
        context: StageContext,
        *,
        least: int = 1,
        small: SmallStrata = "refuse",
    ) -> Self:
        """Count the strata and deal with those in which a column has fewer than `least` values (but some).

        Where the policy distinguishes persons, the values of at least this many persons.

        Raises
        ------
        NoSolutionError
            A stratum is too small (number of strata and of records), or even all merged together are.
        """
        require_present((*by, *columns), context)
        if not by:
            return cls._whole(engine, table, columns)
        persons = PersonCounts(units_of(context) if least > 1 else (), least, context.seed_key)
        names = tuple(dict.fromkeys((*by, *columns, *persons.columns)))
        counting = _Counts(by, columns, context.seed_key, persons)
        found = engine.reduce_rows(table, names, counting, Facts()) or {}
        _require_told_apart(engine, table, by, found, context)
        keys = sorted(found)
        short = {key for key in keys if _too_small(found[key], least)}
        groups = [[key] for key in keys if key not in short]
        if short and small == "refuse":
            records = sum(found[key][0][0] for key in short)
            whose = "values of different persons" if persons.columns else "values"
            raise NoSolutionError(_too_short(by, (len(short), len(keys), records), f"{least:,} {whose}", context))
        if short and small == "merge":
            groups = _merged(groups, sorted(short), found, persons)
            if not groups:
                raise NoSolutionError(
                    f"{context.place}: all {len(keys):,} strata together have fewer than {least:,} values to work on"
                    + (", counted by persons" if persons.columns else "")
                )
        made = cls._of(by, keys, groups, columns, found, short if small == "suppress" else set())
        return replace(made, key=context.seed_key)

    @classmethod
    def _of(
        cls,
        by: tuple[str, ...],
        keys: list[int],
        groups: list[list[int]],
        columns: tuple[str, ...],
        found: Mapping[int, Found],
        gone: set[int],
    ) -> Self:
        number = {key: at for at, group in enumerate(groups) for key in group}
        totals = [[sum(found[key][0][at] for key in group) for group in groups] for at in range(len(columns) + 1)]
        return cls(
            by=by,
            keys=tuple(keys),
            numbers=tuple(number.get(key, SUPPRESSED) for key in keys),
            records=tuple(totals[0]),
            known={column: tuple(totals[at + 1]) for at, column in enumerate(columns)},
            suppressed=sum(found[key][0][0] for key in gone),
            merged=sum(len(group) for group in groups if len(group) > 1),
        )

    @classmethod
    def _whole(cls, engine: Primitives, table: Any, columns: tuple[str, ...]) -> Self:
        from privpipe.blocks import FactsRequest

        if not columns:
            return cls(records=(engine.count(table),))
        facts = engine.facts(table, FactsRequest(nulls=columns))
        known = {column: (facts.records - facts.nulls[column],) for column in columns}
        return cls(records=(facts.records,), known=known)

    def assignment(self) -> dict[str, Any]:
        """Which combination belongs where, without how many records that are."""
        return {"by": list(self.by), "keys": list(self.keys), "numbers": list(self.numbers)}

    def of(self, rows: RowBlock) -> Ints:
        """Stratum of each record, shape (n,); -1 where it is suppressed.

        Raises
        ------
        DataError
            A combination that the plan does not know.
        """
        if not self.by:
            return np.zeros(len(rows), np.int64)
        keys = stratum_keys(rows.batch.select(list(self.by)), self.key)
        known = np.array(self.keys, np.int64)
        at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        strange = known[at] != keys if len(known) else np.ones(len(keys), np.bool_)
        if strange.any():
            raise DataError(
                f"{int(strange.sum()):,} records are in strata by {', '.join(map(repr, self.by))} that the plan does "
                "not know; make a new plan for this table"
            )
        return np.asarray(np.array(self.numbers, np.int64)[at])

    def parts(self, rows: RowBlock) -> Iterator[tuple[int, RowBlock]]:
        """The strata that have records here, with these."""
        numbers = self.of(rows)
        for number in np.unique(numbers[numbers >= 0]).tolist():
            yield number, rows.take(np.flatnonzero(numbers == number)) if self.by else rows

    def of_distinct(self, distinct: Any) -> Ints:
        """Stratum of each combination of an engine's `distinct`."""
        if not self.by or not len(distinct):
            return np.zeros(len(distinct), np.int64)
        return self.of(RowBlock(one_batch(distinct.select(list(self.by)))))

    def kept(self, rows: RowBlock) -> tuple[RowBlock, Ints]:
        """The records that are not suppressed, and their strata."""
        numbers = self.of(rows)
        if not (numbers == SUPPRESSED).any():
            return rows, numbers
        kept = np.flatnonzero(numbers != SUPPRESSED)
        return rows.take(kept), numbers[kept]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; keys are hashes."""
        return {
            "by": list(self.by),
            "keys": list(self.keys),
            "numbers": list(self.numbers),
            "records": list(self.records),
            "known": {column: list(counts) for column, counts in self.known.items()},
            "suppressed": self.suppressed,
            "merged": self.merged,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], key: bytes = b"") -> Self:
        """From the JSON of a plan, whose hashes are under `key`."""
        return cls(
            by=tuple(data["by"]),
            keys=tuple(data["keys"]),
            numbers=tuple(data["numbers"]),
            records=tuple(data["records"]),
            known={column: tuple(counts) for column, counts in data["known"].items()},
            suppressed=int(data["suppressed"]),
            merged=int(data["merged"]),
            key=key,
        )


def _too_small(found: Found, least: int) -> bool:
    """Whether some column has values, yet fewer than needed; without columns the records themselves."""
    counts, persons = found
    needed = [PersonCounts.number(each) for each in persons] if persons else counts[1:] or counts[:1]
    return any(0 < count < least for count in needed)


def _too_short(by: tuple[str, ...], counts: tuple[int, int, int], least: str, context: StageContext) -> str:
    short, strata, records = counts
    return (
        f"{context.place}: {short:,} of {strata:,} strata by {', '.join(map(repr, by))}, "
        f"{records:,} records, have fewer than {least} to work on; "
        "set `small_strata: merge` or `small_strata: suppress`, or give fewer columns in `by`"
    )


def _merged(
    groups: list[list[int]], short: list[int], found: Mapping[int, Found], persons: PersonCounts
) -> list[list[int]]:
    """All small strata as one; still too small, it takes in the smallest of the others until it is not.

    No groups where all together are too small.
    """
    pool = short
    rest = sorted(groups, key=lambda group: (found[group[0]][0][0], group[0]))

    def total(keys: list[int]) -> Found:
        return functools.reduce(lambda left, right: _added(left, right, persons), (found[key] for key in keys))

    while _too_small(total(pool), persons.enough):
        if not rest:
            return []
        pool = sorted([*pool, *rest.pop(0)])
    return sorted([*rest, pool])


def figures_of(plan: StagePlan) -> tuple[Strata, list[Mapping[str, Any]]]:
    """The strata of a plan with their figures; one of all records where there are none."""
    if "strata" not in plan.detail:
        return Strata(), [plan.detail]
    return Strata.from_dict(plan.detail["strata"], plan.seed_key), plan.detail["by_stratum"]


@dataclass(frozen=True)
class ByStratum:
    """A reduction applied to each stratum: a list of results, None for a stratum without records."""

    strata: Strata
    inner: Any

    def measure(self, block: RowBlock, facts: Facts) -> list[Any]:
        if not self.strata.by:
            return [self.inner.measure(block, facts)]
        found: list[Any] = [None] * len(self.strata)
        for number, rows in self.strata.parts(block):
            found[number] = self.inner.measure(rows, facts)
        return found

    def merge(self, left: list[Any], right: list[Any]) -> list[Any]:
        pairs = zip(left, right, strict=True)
        return [b if a is None else a if b is None else self.inner.merge(a, b) for a, b in pairs]
