"""Requests to an engine: what a reduction measures, what a function maps, and how a table is made from tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.class_block import ClassBlock, ClassQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Seed, Stream

__all__ = [
    "ByKey",
    "ByRank",
    "ClassFilter",
    "ClassesOf",
    "Derivation",
    "Grouping",
    "Identification",
    "Joining",
    "Measured",
    "Numbering",
    "PairsOf",
    "RankExchange",
    "RanksExchanged",
    "Recoding",
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

    key: Callable[[Any], NDArray[np.int64]]


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
    permutation: Callable[[int, int], NDArray[np.int64]] = field(repr=False)

    def of_segment(self, number: int) -> NDArray[np.int64]:
        """pi of a segment.

        Examples
        --------
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
    passing: Callable[[ClassBlock], NDArray[np.bool_]]


@dataclass(frozen=True, repr=False)
class RanksExchanged(Request):
    """Values of a column given away by rank (see `ByRank`); nulls stay where they are, -0.0 becomes 0.0.

    A `DataError` where it is noticed that the column has not as many values as `exchange` has ranks.
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


Derivation = Selection | Stacking | Joining | Recoding | ClassFilter | RanksExchanged | Identification | Numbering
