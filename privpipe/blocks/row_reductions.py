"""Reductions over rows that several rooms share: suppressed records, and sampling weights that are none."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools
from privpipe.blocks.facts import Facts
from privpipe.blocks.primitives import Primitives, RowBlock
from privpipe.tolerance import at_least

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Blanked",
    "Kept",
    "NothingLeft",
    "SuppressedNumber",
    "WeightFaults",
    "bears_nothing",
    "suppressed_alone",
    "suppressed_records",
    "weight_faults",
    "without_suppressed",
]


@dataclass(frozen=True)
class NothingLeft:
    """Recognises the records of which nothing is left: the mark in every text, no value in any other column.

    A missing text is not the mark: it may say something ("no diagnosis"), and such a record is judged. Without a
    column that can bear the mark no record is suppressed.

    Parameters
    ----------
    columns : tuple of str
        Every column that is released.
    mark : str
    untyped : tuple of str
        Columns that hold no text and are read as text all the same, from a file without types: missing there, too,
        shows nothing.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"zip": ["*", "*", "*", "1"], "age": [None, 30, None, None]}))
    >>> NothingLeft(("zip", "age"), "*")(rows).tolist()
    [True, False, True, False]
    """

    columns: tuple[str, ...]
    mark: str
    untyped: tuple[str, ...] = ()

    def texts(self, schema: pa.Schema) -> tuple[str, ...]:
        """The columns that can bear the mark."""
        return tuple(name for name in self.columns if _is_text(schema.field(name).type))

    def possible(self, schema: pa.Schema) -> bool:
        """Whether any column can bear the mark."""
        return bool(self.texts(schema))

    def __call__(self, rows: Any) -> Bools:
        """Which rows of a block, a batch or a table are suppressed."""
        return self.like(rows) if self.possible(rows.schema) else np.zeros(len(rows), dtype=np.bool_)

    def like(self, rows: Any) -> Bools:
        """Which rows look so over these columns, were they some of those that are released."""
        texts = self.texts(rows.schema)
        found = np.ones(len(rows), dtype=np.bool_)
        for name in (*texts, *(name for name in self.columns if name not in texts)):
            if not found.any():
                break
            found &= bears_nothing(rows.column(name), self.mark, missing=name in self.untyped)
        return found


def bears_nothing(column: Any, mark: str, *, missing: bool = False) -> Bools:
    """Which cells of an Arrow column disclose nothing: the mark, or no value where the column cannot hold text.

    `missing`: a missing text discloses nothing either.
    """
    import pyarrow.compute as pc

    text = _is_text(column.type)
    found = pc.fill_null(pc.equal(column, mark), missing) if text else column.is_null(nan_is_null=True)
    return np.asarray(found, dtype=np.bool_)


def suppressed_records(engine: Primitives, table: Any, by: NothingLeft) -> int:
    """How many records of a table are suppressed: one text column is looked at, and all where it has the mark."""
    if not by.possible(table.schema):
        return 0
    texts = by.texts(table.schema)
    if any(_seen_before(engine, table, NothingLeft((name,), by.mark, by.untyped)) == 0 for name in texts):
        return 0
    first = NothingLeft(texts[:1], by.mark, by.untyped)
    found = _seen_before(engine, table, first)
    if found is None:
        found = engine.reduce_rows(table, first.columns, SuppressedNumber(first), Facts()) or 0
    if not found or first.columns == by.columns:
        return found
    return engine.reduce_rows(table, by.columns, SuppressedNumber(by), Facts()) or 0


def _seen_before(engine: Primitives, table: Any, by: NothingLeft) -> int | None:
    """How many records bear nothing in one column, where its values were counted before."""
    (column,) = by.columns
    known = engine.known_histogram(table, column)
    if known is None:
        return None
    blank = bears_nothing(known.values, by.mark, missing=column in by.untyped)
    return int(np.asarray(known.counts)[blank].sum())


def without_suppressed(engine: Primitives, table: Any, by: NothingLeft) -> Any:
    """The table without its suppressed records; the very table where it has none."""
    if not suppressed_records(engine, table, by):
        return table
    return engine.map_rows(table, Kept(by, suppressed=False), table.schema)


def suppressed_alone(engine: Primitives, table: Any, by: NothingLeft) -> Any:
    """The suppressed records of a table, and no others."""
    return engine.map_rows(table, Kept(by, suppressed=True), table.schema)


@dataclass(frozen=True)
class Blanked:
    """Turns every row into one of which nothing is left.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of what comes out.
    mark : str
    held : tuple of str
        Columns that are not released and keep what they hold.
    """

    schema: pa.Schema
    mark: str
    held: tuple[str, ...] = ()

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        size, made = len(rows), []
        for field in self.schema:
            if field.name in self.held:
                made.append(rows.column(field.name))
            elif _is_text(field.type):
                made.append(pa.array([self.mark] * size, field.type))
            else:
                made.append(pa.nulls(size, field.type))
        return rows.with_batch(pa.record_batch(made, names=self.schema.names))


@dataclass(frozen=True)
class Kept:
    """Keeps the suppressed records, or the others."""

    by: NothingLeft
    suppressed: bool

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(self.by(rows) == self.suppressed))


@dataclass(frozen=True)
class SuppressedNumber:
    """How many records are suppressed."""

    by: NothingLeft

    def measure(self, block: RowBlock, facts: Facts) -> int:
        return int(self.by(block).sum())

    def merge(self, left: int, right: int) -> int:
        return left + right


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_string(kind) or pt.is_large_string(kind))


MOST = 2.0**53
"""Above it whole numbers of people have gaps, and no sum of fewer weights overflows."""
IN_WORDS = {"below_one": "below 1", "too_large": "above 2^53"}


@dataclass(frozen=True, kw_only=True)
class WeightFaults:
    """How many records have which fault; each record counts once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> rows = RowBlock(pa.record_batch({"w": [None, float("inf"), -9.0, 0.0, 0.5, 1.0]}))
    >>> CountedFaults("w").measure(rows, Facts()).sentence("w")[:72]
    "5 of 6 records have no usable weight in 'w' (1 missing, 1 infinite, 1 ne"
    """

    records: int = 0
    missing: int = 0
    infinite: int = 0
    negative: int = 0
    zero: int = 0
    below_one: int = 0
    too_large: int = 0

    @property
    def faulty(self) -> int:
        """Records with a fault."""
        return int(sum(astuple(self))) - self.records

    def merge(self, other: WeightFaults) -> WeightFaults:
        """Of both sets of records."""
        names = [each.name for each in fields(self)]
        return WeightFaults(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def sentence(self, column: str) -> str:
        """What is wrong with how many of them, and what to do; or nothing."""
        if not self.faulty:
            return ""
        faults = [each.name for each in fields(self) if each.name != "records" and getattr(self, each.name)]
        counted = ", ".join(f"{getattr(self, name):,} {IN_WORDS.get(name, name)}" for name in faults)
        return (
            f"{self.faulty:,} of {self.records:,} records have no usable weight in {column!r} ({counted}); a weight is "
            "the number of people of the population that a record represents, including itself: a finite number of "
            "at least 1."
        )


@dataclass(frozen=True)
class CountedFaults:
    """Counts the faults of a weight column, block by block."""

    column: str

    def measure(self, rows: RowBlock, facts: Facts) -> WeightFaults:
        """Of the records of one block."""
        weights = rows[self.column]
        infinite = np.isinf(weights)
        below = ~np.asarray(at_least(weights, 1.0)) & ~np.isnan(weights) & ~infinite
        return WeightFaults(
            records=len(rows),
            missing=int(np.isnan(weights).sum()),
            infinite=int(infinite.sum()),
            negative=int((below & (weights < 0)).sum()),
            zero=int((below & (weights == 0)).sum()),
            below_one=int((below & (weights > 0)).sum()),
            too_large=int((~infinite & (weights > MOST)).sum()),
        )

    def merge(self, left: WeightFaults, right: WeightFaults) -> WeightFaults:
        """Of both sets of blocks."""
        return left.merge(right)


def weight_faults(engine: Primitives, table: Any, column: str) -> str:
    """What is wrong with the sampling weights of a table's records, or nothing.

    A column that holds no numbers is left to whatever sums it, which refuses it by its type.
    """
    import pyarrow.types as pt

    kind = table.schema.field(column).type
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind)):
        return ""
    found = engine.reduce_rows(table, [column], CountedFaults(column), Facts())
    return "" if found is None else found.sentence(column)
