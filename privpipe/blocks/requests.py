"""Requests to an engine: what a reduction measures, what a function maps, and how a table is made from tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.class_block import ClassBlock, ClassQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed, Stream

__all__ = [
    "GROUP",
    "PERSON",
    "VALUE",
    "Between",
    "ByKey",
    "ByRank",
    "ClassFilter",
    "ClassesOf",
    "Derivation",
    "GivenRows",
    "Grouping",
    "Identification",
    "Joining",
    "Knowledge",
    "Measured",
    "Numbering",
    "PairsOf",
    "PersonCounts",
    "PersonRows",
    "RankExchange",
    "RanksExchanged",
    "Recoding",
    "Related",
    "Request",
    "RowsOf",
    "Selection",
    "Stacking",
    "Where",
]


Where = Literal["auto", "driver", "engine"]


@dataclass(frozen=True, repr=False)
class Request:
    """A question about tables."""

    TABLES: ClassVar[tuple[str, ...]] = ("table",)

    @property
    def tables(self) -> tuple[Any, ...]:
        """The tables it is about."""
        return tuple(getattr(self, name) for name in self.TABLES)

    def over(self, place: Callable[[Any], Any]) -> Self:
        """The same question about its tables in another place."""
        return replace(self, **{name: place(getattr(self, name)) for name in self.TABLES})


@dataclass(frozen=True, repr=False)
class RowsOf(Request):
    """Every record, as blocks of these columns."""

    table: Any
    columns: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class ClassesOf(Request):
    """Every class; `where` forces collecting them, or measuring them in place."""

    table: Any
    query: ClassQuery
    where: Where = "auto"


@dataclass(frozen=True, repr=False)
class PairsOf(Request):
    """Every record present in both tables, aligned by its id, as pairs of blocks of these columns."""

    TABLES: ClassVar[tuple[str, ...]] = ("original", "released")
    original: Any
    released: Any
    columns: tuple[str, ...]


Measured = RowsOf | ClassesOf | PairsOf


@dataclass(frozen=True, repr=False)
class ByKey:
    """Blocks of all records of one key."""

    key: Callable[[Any], Ints]


@dataclass(frozen=True, repr=False)
class ByRank:
    """Blocks with the rank of each record in a column."""

    column: str
    stream: Stream


Grouping = ByKey | ByRank | None


@dataclass(frozen=True)
class RankExchange:
    """The record at rank r receives the value of rank pi(r).

    Parameters
    ----------
    records : int
        Ranks: the records that have a value.
    segment : int
        Ranks of a segment, across whose border nothing moves; the last segment may be shorter.
    reach : int
        Ranks that a value moves at most.
    permutation : callable
        pi of the ranks start .. stop - 1 of one segment, ndarray of int64, in the same range.
    """

    records: int
    segment: int
    reach: int
    permutation: Callable[[int, int], Ints] = field(repr=False)

    def of_segment(self, number: int) -> Ints:
        """pi of a segment.

        Examples
        --------
        >>> import numpy as np
        >>> mirrored = RankExchange(5, 3, 2, lambda start, stop: np.arange(start, stop)[::-1])
        >>> mirrored.of_segment(0).tolist(), mirrored.of_segment(1).tolist()
        ([2, 1, 0], [4, 3])
        """
        start = number * self.segment
        return self.permutation(start, min(start + self.segment, self.records))


@dataclass(frozen=True, repr=False)
class Selection(Request):
    """Some columns, in this order, of the `share` of the records whose ids, which are keyed, are smallest; ids stay."""

    table: Any
    columns: tuple[str, ...]
    share: float = 1.0


@dataclass(frozen=True, repr=False)
class Stacking(Request):
    """The rows of two tables as one, with these columns.

    Without a tag ids travel along. With one ids stay behind, and `tag` (int64) is 0 for `table`'s rows and 1 for
    `other`'s: counting it within classes compares the tables class by class, null-safely.

    A column that one of the tables lacks or holds in another type is a `DataError`.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("table", "other")
    table: Any
    other: Any
    columns: tuple[str, ...]
    tag: str | None = None


@dataclass(frozen=True, repr=False)
class Joining(Request):
    """The released records that the original holds too, aligned by their ids.

    The columns of the original that `columns` names follow the released ones, under the new names it gives; ids stay
    behind. The rows are laid down once, for many counts. A column that the original lacks, a new name that the
    release has, or no record ids: a `DataError`.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("released", "original")
    released: Any
    original: Any
    columns: Mapping[str, str]


@dataclass(frozen=True, repr=False)
class Recoding(Request):
    """Values replaced by labels: a column's (distinct raw values, null where nulls occur; labels, null for null).

    A value the codebook lacks is a `DataError` (column and number of records).
    """

    table: Any
    codebooks: Mapping[str, tuple[pa.Array, pa.Array]]


@dataclass(frozen=True, repr=False)
class ClassFilter(Request):
    """The records whose class passes; keys meet null-safely."""

    table: Any
    query: ClassQuery
    passing: Callable[[ClassBlock], Bools]


@dataclass(frozen=True, repr=False)
class RanksExchanged(Request):
    """Values of a column given away by rank (see `ByRank`); nulls stay where they are, -0.0 becomes 0.0.

    A `DataError` where it is noticed that the column has a different number of values as `exchange` has ranks.
    """

    table: Any
    column: str
    stream: Stream
    exchange: RankExchange


@dataclass(frozen=True, repr=False)
class Identification(Request):
    """The table with record ids: from a declared unique column, else from the content of all columns and an ordinal.

    A declared column that has nulls or duplicates is a `DataError` (counts).
    """

    table: Any
    column: str | None
    seed: Seed


@dataclass(frozen=True, repr=False)
class Numbering(Request):
    """A new table: one column, `number` (int64), holding 0 .. count - 1, with record ids."""

    TABLES: ClassVar[tuple[str, ...]] = ()
    count: int
    seed: Seed


@dataclass(frozen=True, repr=False)
class GivenRows(Request):
    """A new table of rows in this process that are in logical types, without NaN, and of their record ids.

    They are not copied. An engine that has them in this process too gives them back in their order, as long as they
    only go through functions of rows.
    """

    TABLES: ClassVar[tuple[str, ...]] = ()
    rows: pa.Table
    ids: Ints


PERSON, GROUP, VALUE = "__privpipe_person", "__privpipe_group", "__privpipe_value"
"""What names of columns begin with that hold a person's key, what is known of it, and a value of it."""


@dataclass(frozen=True, repr=False)
class Related(Request):
    """The rows of a table whose key is that of a row of another, with columns of that row; ids stay.

    Parameters
    ----------
    table, to : Table
    key, to_key : tuple of str
        Columns of each; those of `to` are unique. Missing values are equal to nothing.
    columns : mapping of str to str
        Columns of `to`, and their names in the result.
    """

    TABLES: ClassVar[tuple[str, ...]] = ("table", "to")
    table: Any
    to: Any
    key: tuple[str, ...]
    to_key: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Between:
    """A table on the way from rows to the person they belong to: by its `key`, and on by its columns `onward`."""

    table: Any
    key: tuple[str, ...]
    onward: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class PersonRows:
    """Rows of one table that belong to persons.

    Parameters
    ----------
    table : Table
    key : tuple of str
        Columns that hold the person's key, or that of the first table `between`.
    columns : tuple of str
        What may be known of a row.
    between : tuple of Between
        Tables on the way to the person.
    value : str, optional
        An int64 column of codes, 1 or more, without missing values.
    """

    table: Any
    key: tuple[str, ...]
    columns: tuple[str, ...] = ()
    between: tuple[Between, ...] = ()
    value: str | None = None

    @property
    def tables(self) -> tuple[Any, ...]:
        """Its table, and those between."""
        return (self.table, *(step.table for step in self.between))

    def over(self, place: Callable[[Any], Any]) -> PersonRows:
        """The same of its tables in another place."""
        between = tuple(replace(step, table=place(step.table)) for step in self.between)
        return replace(self, table=place(self.table), between=between)


@dataclass(frozen=True, repr=False)
class _OfPersons(Request):
    """A request about tables whose rows belong to persons, the root's rows being the persons."""

    root: PersonRows
    others: tuple[PersonRows, ...]

    @property
    def tables(self) -> tuple[Any, ...]:
        return tuple(table for rows in (self.root, *self.others) for table in rows.tables)

    def over(self, place: Callable[[Any], Any]) -> Self:
        return replace(self, root=self.root.over(place), others=tuple(rows.over(place) for rows in self.others))


@dataclass(frozen=True, repr=False)
class PersonCounts(_OfPersons):
    """One row for each key, and one for all that is missing: its rows in the root (``n0``) and others (``n1`` ...).

    Keys are those of all tables; rows that no table between leads on have none.
    """


@dataclass(frozen=True, repr=False)
class Knowledge(_OfPersons):
    """A row for every person and everything that an intruder may know of it: the root's row and picks of others.

    The columns after the person's key (their names begin with `PERSON`) hold what is known (`GROUP`): rows with equal
    ones are of persons that share a knowledge. Where a table has a `value`, a column `VALUE` follows: 0 in a row that
    stands for the person, and a code in one row for each that its rows have. Each row occurs once; rows of other tables
    without a person are left out, and the root's key must be unique.

    Parameters
    ----------
    knows : tuple of int or "all"
        For each other table: up to so many of a person's rows are known, as a multiset; or all, and that there are no
        more.
    counted : bool
        It is also known how many rows of each table there are.
    at_most : int, optional
        A number of rows that there are not more of.
    """

    knows: tuple[int | Literal["all"], ...]
    counted: bool = False
    at_most: int | None = None

    @property
    def valued(self) -> bool:
        """Whether a table has a value."""
        return any(rows.value is not None for rows in (self.root, *self.others))


Derivation = (
    Selection
    | Stacking
    | Joining
    | Recoding
    | ClassFilter
    | RanksExchanged
    | GivenRows
    | Identification
    | Numbering
    | Related
    | PersonCounts
    | Knowledge
)
