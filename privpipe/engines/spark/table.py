"""The Spark engine's handle on a table: a frame and the layout of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks import ID_COLUMNS, Histogram
from privpipe.engines.base.known_sizes import KnownSizes
from privpipe.engines.spark.layout import Layout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from privpipe.draws import Seed

__all__ = ["Counts", "Hashed", "LeftOut", "SparkTable", "as_counted"]


@dataclass
class Counts:
    """What was counted of a table and is told again, as its rows do not change.

    Parameters
    ----------
    estimates : dict
        Distinct values of columns, roughly.
    nulls : dict
        Missing values of columns.
    sizes : dict of set of columns to KnownSizes
    content : tuple of int, optional
        The number of records and the sum of their content hashes.
    """

    estimates: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    sizes: dict[frozenset[str], KnownSizes] = field(default_factory=dict)
    content: tuple[int, int] | None = None


@dataclass(frozen=True, repr=False, eq=False)
class Hashed:
    """The frame that record ids were made in: beside the columns of a table it has what was seen of them then.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    column : str
        Of pickled `Looks`, one a partition; null elsewhere.
    seed : Seed
        Of the hashes.
    """

    frame: DataFrame
    column: str
    seed: Seed


@dataclass(frozen=True, repr=False, eq=False)
class LeftOut:
    """What a table lacks of one whose columns were counted.

    Parameters
    ----------
    rows : SparkTable
        The rows that it lacks, fewer than its own.
    learned : dict
        Histograms of the other table.
    """

    rows: SparkTable
    learned: dict[str, Histogram]


@dataclass(frozen=True, repr=False, eq=False)
class SparkTable:
    """A table of the Spark engine.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        Classic or Connect, with the columns of `layout`.
    layout : Layout
    remembered : dict
        Its number of records, once counted or read from files: `records`.
    at_most : int, optional
        A bound of that number, for a table that came from another by leaving records out.
    learned : dict
        Histograms that were counted, of columns with few distinct values.
    counts : Counts
    hashed : Hashed, optional
        Where the ids of the table were made from its content.
    left_out : LeftOut, optional
        Where it is all but a few rows of another.
    """

    frame: DataFrame
    layout: Layout
    remembered: dict[str, int] = field(default_factory=dict)
    at_most: int | None = None
    learned: dict[str, Histogram] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    hashed: Hashed | None = None
    left_out: LeftOut | None = None

    def __repr__(self) -> str:
        return f"SparkTable({len(self.schema)} columns)"  # a frame's own repr may show rows

    @property
    def schema(self) -> pa.Schema:
        """Logical schema of the visible columns."""
        return self.layout.schema

    @property
    def has_record_ids(self) -> bool:
        """Whether the hidden id columns are there."""
        return self.layout.has_ids

    @property
    def bound(self) -> int | None:
        """A number of records that the table does not exceed, if one is known."""
        return self.remembered.get("records", self.at_most)

    def column(self, name: str) -> Column:
        """A visible column of the frame."""
        from pyspark.sql import functions as sf

        return sf.col(self.layout.names([name])[0])

    def counted(self, name: str) -> Column:
        """A visible column as its values are distinguished: NaN is null, -0.0 is 0.0."""
        return as_counted(self.column(name), self.schema.field(name).type)

    def select(self, columns: Sequence[str]) -> SparkTable:
        """These columns in this order, and the ids."""
        from pyspark.sql import functions as sf

        layout = Layout(pa.schema([self.schema.field(name) for name in columns]), self.has_record_ids)
        chosen = [self.column(name).alias(new) for name, new in zip(columns, layout.names(columns), strict=True)]
        if self.has_record_ids:
            chosen += [sf.col(name) for name in ID_COLUMNS]
        return SparkTable(self.frame.select(*chosen), layout)


def as_counted(column: Any, kind: pa.DataType) -> Column:
    """Spark groups NaN and null apart, and its hash functions see the sign of zero."""
    from pyspark.sql import functions as sf

    if not pt.is_floating(kind):
        return column
    return sf.nanvl(column, sf.lit(None).cast("double")) + sf.lit(0.0)
