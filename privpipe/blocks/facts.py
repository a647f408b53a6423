"""Global facts of a table, learnt in one pass and small enough for the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.hierarchies import HierarchySpec

__all__ = ["Facts", "FactsRequest", "Histogram", "Moments"]


@dataclass(frozen=True)
class Histogram:
    """Distinct values of one column with their counts; the position of a value is its *code*.

    Parameters
    ----------
    values : pyarrow.Array, shape (m,)
        Distinct values in the order of their type (text by code points), null (which NaN is) last.
    counts : ndarray of int64, shape (m,)
        Records that carry each value, all at least 1; where persons are counted, persons who have it.
    members : int, optional
        N, how many persons (or households) there are, where these are counted: one may have several values, so that
        the counts may add up to more. Left out: what the counts add up to.
    """

    values: pa.Array = field(repr=False)  # data values: never in a log
    counts: Ints = field(repr=False)
    members: int | None = None

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def total(self) -> int:
        """Records counted."""
        return int(self.counts.sum())

    @property
    def shares(self) -> Floats:
        """Share of each value among all that were counted, shape (m,), summing to 1."""
        return np.asarray(self.counts / self.counts.sum(), dtype=np.float64)

    @property
    def nulls(self) -> int:
        """Records without a value."""
        return int(self.counts[-1]) if len(self.values) and self.values.null_count else 0


@dataclass(frozen=True)
class Moments:
    """Exact sums of one numeric column, each rounded once (divisor n - 1 for the deviation).

    `records` counts the non-null cells, `nulls` the others; `minimum` and `maximum` are of the non-null cells.
    `mean` and `sd` are NaN where undefined (no record; one record).
    """

    records: int
    nulls: int
    mean: float
    sd: float
    minimum: float = float("nan")
    maximum: float = float("nan")


@dataclass(frozen=True)
class FactsRequest:
    """What an engine is asked to learn in one go.

    Parameters
    ----------
    histograms : tuple of str
        Columns whose distinct values are counted.
    moments : tuple of str
        Numeric columns whose exact mean and standard deviation are wanted.
    products : bool
        Whether the exact covariance matrix of `moments` is wanted too (over records with no null in them).
    nulls : tuple of str
        Columns whose missing cells are counted.
    """

    histograms: tuple[str, ...] = ()
    moments: tuple[str, ...] = ()
    products: bool = False
    nulls: tuple[str, ...] = ()

    def __or__(self, other: FactsRequest) -> FactsRequest:
        return FactsRequest(
            histograms=tuple(dict.fromkeys((*self.histograms, *other.histograms))),
            moments=tuple(dict.fromkeys((*self.moments, *other.moments))),
            products=self.products or other.products,
            nulls=tuple(dict.fromkeys((*self.nulls, *other.nulls))),
        )

    def __bool__(self) -> bool:
        return bool(self.histograms or self.moments or self.nulls)


@dataclass(frozen=True)
class Facts:
    """The answer to a `FactsRequest`, and whatever else a model must know about the whole table.

    Parameters
    ----------
    records : int
        n of the table the facts are of; -1 when it was not counted.
    histograms : mapping of column to Histogram
        For models: the *base* distribution (all records of the input, suppressed ones too).
    moments : mapping of column to Moments
    covariance : ndarray of float64, shape (s, s), or None
        Of the request's `moments`, in that order.
    nulls : mapping of column to int
    extra : mapping
        Facts particular to one kind of entry, by name; never data values.
    hierarchies : mapping of column to HierarchySpec
        Declared hierarchies, for what an entry works out before any class is measured (`Guarantee.learn`).
    unit : str
        What sizes count, for sentences: records, or persons where `person_id` distinguishes them.
    """

    records: int = -1
    histograms: Mapping[str, Histogram] = field(default_factory=dict)
    moments: Mapping[str, Moments] = field(default_factory=dict)
    covariance: Floats | None = None
    nulls: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    unit: str = "records"

    def base(self, column: str) -> Floats:
        """p_s = N_s / N of a sensitive column, by code: records, or persons, who have the value, of all there are."""
        histogram = self.histograms[column]
        if histogram.members is None:
            return histogram.shares
        return np.asarray(histogram.counts / histogram.members, dtype=np.float64)

    def sd(self, column: str) -> float:
        """Standard deviation of a column, divisor n - 1; 0 where fewer than two records have a value."""
        sd = self.moments[column].sd
        return 0.0 if np.isnan(sd) else sd
