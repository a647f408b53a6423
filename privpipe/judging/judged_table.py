"""The judged table: the columns it must have, those computed record by record, its suppressed records, and the
risk of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from privpipe.blocks import ClassQuery, DistinctBlock, Facts, FactsRequest, Guarantee, RowBlock
from privpipe.blocks.arrays import Ints
from privpipe.blocks.row_reductions import Kept, NothingLeft, bears_nothing, suppressed_records, weight_faults
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.judging.rules import JudgingRules, keys_of
from privpipe.roles import Roles

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.blocks import Histogram

__all__ = [
    "AddsColumn",
    "JudgedTable",
    "RowColumn",
    "record_risks",
    "require_columns",
    "require_population",
    "with_row_columns",
]


@dataclass
class JudgedTable:
    """A judged table, and the same table without its suppressed records.

    A record is suppressed when every released column is the mark, or missing where the column cannot hold text. A
    count of classes shows at no cost whether a class of marks only exists; where none does, no record is
    suppressed and no column is looked at for it.

    Parameters
    ----------
    engine : Engine
    table : Table
    by : NothingLeft
        The rule over every column that is released: of a finished table all it has, of a run's those that are written.
    """

    engine: Engine
    table: Any
    by: NothingLeft
    _suppressed: int | None = field(default=None, init=False)
    _left: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.by.possible(self.table.schema):
            self._suppressed = 0

    @classmethod
    def of(cls, engine: Engine, table: Any, rules: JudgingRules) -> Self:
        """A table that is judged by these rules."""
        return cls(engine, table, NothingLeft(rules.released or tuple(table.schema.names), rules.mark, rules.untyped))

    @property
    def known(self) -> int | None:
        """The number of suppressed records, if it is known already."""
        return self._suppressed

    @property
    def suppressed(self) -> int:
        """The number of suppressed records."""
        if self._suppressed is None:
            self._suppressed = suppressed_records(self.engine, self.table, self.by)
        return self._suppressed

    @property
    def nothing(self) -> bool:
        """Whether every record is known to be suppressed."""
        return bool(self._suppressed) and self._suppressed == self.engine.count(self.table)

    @property
    def left(self) -> Any:
        """The table without them; the table itself where there are none."""
        if not self.suppressed:
            return self.table
        if self._left is None:
            self._left = self.engine.map_rows(self.table, Kept(self.by, suppressed=False), self.table.schema)
        return self._left

    def note_none_suppressed(self) -> None:
        """Take note that no class over some released columns consists of marks only: no record is suppressed."""
        if self._suppressed is None:
            self._suppressed = 0

    def holds_suppressed(self, keys: Sequence[str]) -> bool:
        """Whether all suppressed records are in the class of the mark over these columns."""
        return bool(keys) and not set(keys) & set(self.by.untyped)

    def is_whole_release(self, keys: Sequence[str]) -> bool:
        """Whether only these columns are released: then a row of marks over them is suppressed."""
        return self.holds_suppressed(keys) and set(self.by.columns) <= set(keys)

    def hinted(self, histograms: Mapping[str, Histogram], nulls: Mapping[str, int]) -> bool:
        """Whether facts learnt about some columns allow a suppressed record, and would differ without it."""
        if self._suppressed is not None:
            return bool(self._suppressed)
        if not histograms and not any(nulls.values()):
            return False
        by = self.by
        told = {name: each.values for name, each in histograms.items() if name in by.columns}
        seen = [bears_nothing(values, by.mark, missing=name in by.untyped).any() for name, values in told.items()]
        typed = [name for name in nulls if name in by.columns and name not in by.texts(self.table.schema)]
        return bool(all(seen) and all(nulls[name] for name in typed))


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
                f"column {column!r} of the population has {count:,} missing values and the policy has `nulls: refuse`"
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


def record_risks(
    engine: Engine, table: Any, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules, record_id: str
) -> pa.Table:
    """A table of the record id and one column for each figure that an entry has of a single record.

    Suppressed records are left out; rows are in the order of the id.

    Parameters
    ----------
    engine : Engine
    table : Table
    entries : sequence of Guarantee
        Those without such a figure are passed over.
    roles : Roles
    rules : JudgingRules
    record_id : str
        Column that distinguishes records.

    Raises
    ------
    UsageError
        No entry has a figure of single records.
    DataError
        A column is missing, or the id does not distinguish records.
    """
    import pyarrow as pa

    telling = [entry.with_roles(roles) for entry in entries if entry.gives_record_figures]
    if not telling:
        raise UsageError(
            "no entry of the policy measures the risk of single records; individual_risk does, for example"
        )
    columns = _columns(telling, roles, record_id)
    for column in columns:
        if column not in table.schema.names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, list(table.schema.names))}")
    judged_table = JudgedTable.of(engine, table, rules)
    for weight in dict.fromkeys(name for entry in telling if (name := entry.weight_column()) is not None):
        if why := weight_faults(engine, judged_table.left, weight):
            raise DataError(why)
    rows = engine.distinct(judged_table.left, columns)
    if (rows["__count"].to_numpy() > 1).any() or len(rows[record_id].unique()) < rows.num_rows:
        raise DataError(f"record_id {record_id!r} does not distinguish records")
    found = {record_id: rows[record_id]}
    for entry in telling:
        keys = keys_of(entry, roles)
        wildcard = rules.wildcard if rules.nulls == "wildcard" else None
        block = DistinctBlock.from_table(rows, keys, wildcard=wildcard, weight=entry.weight_column())
        household = entry.household_column()
        homes = None if household is None else _codes(rows[household])
        for name, values in entry.record_figures(block, homes, rules.nulls == "wildcard").items():
            found[_free(name, found)] = pa.chunked_array([pa.array(values)])
    return pa.table(found)


def _columns(entries: Sequence[Guarantee], roles: Roles, record_id: str) -> tuple[str, ...]:
    own = [column for entry in entries for column in (*keys_of(entry, roles), *entry.record_columns())]
    return tuple(dict.fromkeys([record_id, *own, *roles.quasi_identifiers]))


def _codes(column: pa.ChunkedArray) -> Ints:
    """A number for each value, -1 where there is none."""
    codes = column.combine_chunks().dictionary_encode().indices.fill_null(-1)
    return np.asarray(codes.to_numpy(zero_copy_only=False), dtype=np.int64)


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, numbered where an entry before has it."""
    at = 2
    while (found := name if at == 2 and name not in taken else f"{name}_{at}") in taken:
        at += 1
    return found
