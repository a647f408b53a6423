"""Facts of a table that are needed before it is judged, in records or in persons: bases, values, sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, Guarantee, Histogram, prepared
from privpipe.blocks.arrays import Ints
from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.engines.databases import Database
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.judging.judged_table import JudgedTable
from privpipe.judging.rules import Base, JudgingRules, base_of
from privpipe.models.attribute.base_distribution import BaseDatabase, BaseFile, BaseNamed, BaseTable, GivenBase
from privpipe.roles import Roles, column_type_of

__all__ = [
    "ClassCount",
    "bases_from_files",
    "count_persons",
    "facts_by_base",
    "histogram_of_file",
    "in_persons",
    "most_records",
    "person_histograms",
    "require_persons",
]


COUNTED = {"person_id": "persons", "household_id": "households"}


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
            f"{key} column {person!r} is not in the table{did_you_mean(person, names)}: {COUNTED[key]} cannot be "
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


MOST = 1 << 62
UNITS = 10**17
NO_VERSIONS: Mapping[str, int] = {}
DELIMITERS = (",", ";", "\t", "|")


def histogram_of_file(
    engine: Engine, base: GivenBase, column: str, kind: Any, versions: Mapping[str, int] = NO_VERSIONS
) -> Histogram:
    """Values of a column with their counts.

    The file is a table. Its values are under the name of the column, else under ``value``; with them ``count``
    (whole numbers) or ``share`` (numbers, of whatever sum), one line per value. Without either, each line is a record.

    Parameters
    ----------
    engine : Engine
    base : BaseFile, BaseDatabase, BaseNamed or BaseTable
    column : str
        The sensitive column.
    kind : pyarrow.DataType
        Its type in the judged table.
    versions : mapping of path to int
        Of Delta tables, as a run pinned them.

    Raises
    ------
    DataError
        The file cannot be read, lacks the columns, names a value twice or holds no counts.
    """
    try:
        return _histogram(engine, _source(base, versions), column, kind)
    except (DataError, UsageError) as error:
        name = f", {PurePath(base.file).name}" if isinstance(base, BaseFile | BaseDatabase) else ""
        error.args = (f"base distribution of {column!r}{name}: {error}",)
        raise


def bases_from_files(
    engine: Engine, table: Any, guarantees: Sequence[Guarantee], versions: Mapping[str, int] = NO_VERSIONS
) -> dict[str, Histogram]:
    """By column the distribution of a file, for a stage that works for all guarantees at once.

    Raises
    ------
    UnsupportedError
        Guarantees that compare one column with several distributions: classes are counted by one of them.
    """
    asked: dict[str, set[Any]] = {}
    for entry in guarantees:
        for column in entry.sensitive_columns() if entry.needs_base else ():
            asked.setdefault(column, set()).add(entry.base_distribution())
    found = {}
    for column, bases in asked.items():
        files = [base for base in bases if not isinstance(base, str)]
        if files and len(bases) > 1:
            raise UnsupportedError(
                f"a stage that suppresses serves one base distribution a column, and the guarantees compare {column!r} "
                f"with {len(bases)}; give them the same `base:`, or generalize by given `levels:` without "
                "suppress_at_most and let the release be judged"
            )
        for base in files:
            found[column] = histogram_of_file(engine, base, column, table.schema.field(column).type, versions)
    return found


def _histogram(engine: Engine, source: Source, column: str, kind: Any) -> Histogram:
    value, names, delimiter = _value_column(engine, source, column)
    weight = next((name for name in ("count", "share") if name in names and name != value), None)
    types = {value: column_type_of(kind)}
    if weight is not None:
        types[weight] = "integer" if weight == "count" else "number"
    table = engine.scan(replace(source, delimiter=delimiter, types=types))
    if weight is None:
        found = engine.facts(table, FactsRequest(histograms=(value,))).histograms[value]
        if not len(found):
            raise DataError("it has no records")
        return found
    rows = engine.distinct(table, [value, weight])
    values = rows[value].combine_chunks()
    if len(values.unique()) < len(values) or (rows["__count"].to_numpy() > 1).any():
        raise DataError("it names a value twice; a distribution has one line a value")
    if rows[weight].null_count:
        raise DataError(f"{rows[weight].null_count:,} values have no {weight}")
    counts = _whole(rows[weight].to_pylist(), weight)
    import pyarrow as pa

    kept = counts > 0
    if not kept.any():
        raise DataError(f"no value has a {weight} above 0")
    return Histogram(values.filter(pa.array(kept)), counts[kept])


def _source(base: GivenBase, versions: Mapping[str, int]) -> Source:
    if isinstance(base, BaseNamed):
        return Source(data=TableName.parse(base.table))
    if isinstance(base, BaseDatabase):
        return Source(data=Database(at=base.file, table=TableName.parse(base.table)))
    if isinstance(base, BaseTable):
        return Source(data=base.frame())
    return Source(data=base.file, version=versions.get(base.file))


def _value_column(engine: Engine, source: Source, column: str) -> tuple[str, list[str], str]:
    """Name of the column of values, all names, and the delimiter (of a CSV file) under which they are found."""
    found: list[str] = []
    delimiters = DELIMITERS if source.is_path and source.resolved_format == "csv" else DELIMITERS[:1]
    for delimiter in delimiters:
        names = list(engine.scan(replace(source, delimiter=delimiter)).schema.names)
        for value in (column, "value"):
            if value in names:
                return value, names, delimiter
        found = found or names
    raise DataError(f"it has neither a column {column!r} nor one named 'value'{did_you_mean(column, found)}")


def _whole(weights: list[Any], name: str) -> Ints:
    """Counts in proportion to the weights: exact where 62 bits hold them, else to 17 digits."""
    exact = [Decimal(repr(weight)) for weight in weights]
    if any(not each.is_finite() or each < 0 for each in exact):
        raise DataError(f"{name} must be numbers of at least 0")
    places = max((-int(each.as_tuple().exponent) for each in exact), default=0)
    scaled = [int(each.scaleb(max(places, 0))) for each in exact]
    total = sum(scaled)
    if total >= MOST:
        # A value that has a share keeps one, however small.
        scaled = [-(-each * UNITS // total) for each in scaled]
    return np.array(scaled, dtype=np.int64)


def facts_by_base(
    judged_table: JudgedTable, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules
) -> tuple[dict[Base, Facts], list[str]]:
    """Facts under each base that an entry compares with, and notes for readers of the verdicts.

    ``original`` and ``released`` are always there: the original's distribution where it is known, and the judged
    table's.

    Raises
    ------
    DataError
        A missing value under `refuse`; a file that is not a distribution of its column.
    """
    bases = dict.fromkeys(base for base in map(base_of, entries) if not isinstance(base, str))
    learnt = _learnt(judged_table, entries, roles, rules)
    released = replace(
        learnt,
        records=learnt.records if rules.records is None else rules.records,
        hierarchies=rules.hierarchies,
        extra={} if rules.process is None else {"process": rules.process},
        unit=rules.counted,
    )
    original = replace(released, histograms={**learnt.histograms, **rules.base})
    found: dict[Base, Facts] = {"original": original, "released": released}
    for base in bases:
        own = _distributions(judged_table, base, _columns_with_base(entries, base), rules.versions)
        found[base] = replace(original, histograms={**original.histograms, **own})
    # A table with only suppressed records has nothing to learn, and no class to judge by it.
    nothing = judged_table.nothing
    ready: dict[Base, Facts] = {
        base: facts if nothing else prepared(facts, _asking(base, entries, rules)) for base, facts in found.items()
    }
    return ready, _notes(entries, rules)


def _distributions(
    judged_table: JudgedTable, base: GivenBase, columns: Iterable[str], versions: Mapping[str, int]
) -> dict[str, Histogram]:
    """What a base that is given states about these columns."""
    engine, schema = judged_table.engine, judged_table.table.schema
    return {name: histogram_of_file(engine, base, name, schema.field(name).type, versions) for name in columns}


def _asking(base: Base, entries: Sequence[Guarantee], rules: JudgingRules) -> list[Guarantee]:
    """Entries that are judged by the facts under a base."""
    asking = [entry for entry in entries if not entry.needs_base or base_of(entry) == base]
    if base == "original" and not rules.base:
        asking += [entry for entry in entries if entry.needs_base and base_of(entry) == "released"]
    return asking


def _columns(entries: Iterable[Guarantee]) -> list[str]:
    return sorted({column for entry in entries if entry.needs_base for column in entry.sensitive_columns()})


def _columns_with_base(entries: Sequence[Guarantee], base: Base) -> list[str]:
    return _columns(entry for entry in entries if base_of(entry) == base)


def _learnt(judged_table: JudgedTable, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> Facts:
    """Facts of the judged table, in persons where they are counted: values of unsuppressed records, and all records."""
    engine, table = judged_table.engine, judged_table.table
    request = _request(entries, roles, rules)
    counts_records = rules.records is None and any(entry.needs_records for entry in entries)
    learnt = engine.facts(table, request) if request or counts_records else Facts()
    if request and judged_table.hinted(learnt.histograms, learnt.nulls) and judged_table.suppressed:
        learnt = replace(engine.facts(judged_table.left, request), records=learnt.records)
    for column, count in learnt.nulls.items():
        if count:
            raise DataError(
                f"column {column!r} has {count:,} missing values and the policy has `nulls: refuse`; "
                "complete or leave out those records, or write `nulls: own_value` or `nulls: wildcard`"
            )
    if rules.person is None:
        return learnt
    left = judged_table.left if judged_table.known else table
    persons: Mapping[str, Histogram] = in_persons(engine, left, learnt.histograms, rules.person)
    return replace(
        learnt,
        records=count_persons(engine, table, rules.person) if counts_records else learnt.records,
        histograms={**learnt.histograms, **persons},
    )


def _request(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> FactsRequest:
    """What the entries need of the judged table, and the columns that the rules let have no missing value."""
    from_table = set(_columns_with_base(entries, "released"))
    from_table.update(set(_columns_with_base(entries, "original")) - set(rules.base))
    for entry in entries:
        from_table.update(entry.counted_columns(tuple(entry.quasi_identifiers or roles.quasi_identifiers)))
    refused = tuple(roles.quasi_identifiers) if rules.nulls == "refuse" else ()
    return FactsRequest(histograms=tuple(sorted(from_table)), nulls=(*refused, *rules.refuse_nulls))


def _notes(entries: Sequence[Guarantee], rules: JudgingRules) -> list[str]:
    given = {
        (column, _told(base))
        for entry in entries
        if not isinstance(base := base_of(entry), str)
        for column in entry.sensitive_columns()
    }
    others = _columns(entry for entry in entries if isinstance(base_of(entry), str))
    notes = [
        f"base distribution of {column!r}: " + ("the original" if column in rules.base else "the judged table")
        for column in others
    ]
    notes += [f"base distribution of {column!r}: {name}" for column, name in sorted(given)]
    if rules.nulls == "wildcard":
        notes.append("a missing quasi-identifier matches anything: sizes are those of all records that match")
    if rules.person is not None:
        notes.append(f"{rules.counted} are counted, not records: they are distinguished by {rules.person!r}")
    return notes


def _told(base: GivenBase) -> str:
    if isinstance(base, BaseNamed):
        return f"the table {base.table}"
    return "given in Python" if isinstance(base, BaseTable) else f"the file {PurePath(base.file).name!r}"
