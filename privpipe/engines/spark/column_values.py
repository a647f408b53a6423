"""What one pass over rows shows of each column: its values where they are few, else roughly how many, and its gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import Histogram
from privpipe.draws import Seed
from privpipe.engines.base.class_blocks import group_key, histogram_of

__all__ = ["ColumnLook", "Looker", "Looks"]


FEW_VALUES, FEWEST_VALUES = 1 << 12, 1 << 6
"""Distinct values of a column up to which they are reported themselves: of small tables, and of any."""
TOLD_BYTES, VALUE_BYTES = 1 << 26, 32
"""What all parts of a table report to the driver, and what a value and its number take of that, roughly."""
KEPT = 1024
"""Smallest hashes that are kept of other columns: the estimate has a standard error of 3 %."""
Words = NDArray[np.uint64]


@dataclass(frozen=True, repr=False)
class ColumnLook:
    """What was seen of a column.

    Parameters
    ----------
    nulls : int
        Its missing values.
    values : Histogram, optional
        Where its distinct values are few.
    smallest : ndarray of uint64
        Else the smallest distinct hashes of its values, ascending.
    """

    nulls: int
    values: Histogram | None = None
    smallest: Words = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def distinct(self) -> int:
        """Distinct values, a missing one not among them; of many, an estimate.

        Source: Bar-Yossef et al., RANDOM 2002: of d uniform numbers the k-th smallest is at k / (d + 1) on average.

        Examples
        --------
        >>> ColumnLook(0, smallest=np.array([5, 9], dtype=np.uint64)).distinct
        2
        """
        if self.values is not None:
            return len(self.values) - (1 if self.values.nulls else 0)
        if len(self.smallest) < KEPT:
            return len(self.smallest)
        return round((KEPT - 1) / (float(self.smallest[-1]) / 2.0**64))


@dataclass(frozen=True, repr=False)
class Looks:
    """What was seen of the columns of some rows.

    Parameters
    ----------
    records : int
    columns : tuple of ColumnLook
    hashes : int
        The sum of the content hashes of the records modulo 2^128, where these were made.
    """

    records: int
    columns: tuple[ColumnLook, ...]
    hashes: int = 0


@dataclass(frozen=True, repr=False)
class Looker:
    """Looks at columns batch after batch; what it sees of parts of a table is merged in any order.

    Parameters
    ----------
    seed : Seed
        Keys the hashes of values, the same ones for all parts of a table.
    few : int
        Distinct values up to which they are reported.
    """

    seed: Seed
    few: int = FEW_VALUES

    @classmethod
    def of(cls, seed: Seed, columns: int, parts: int) -> Self:
        """For a table in so many parts, which report to the driver no more than it has room for.

        Examples
        --------
        >>> [Looker.of(Seed.insecure(1), 10, parts).few for parts in (1, 58, 5_800)]
        [4096, 3615, 64]
        """
        room = TOLD_BYTES // (VALUE_BYTES * max(columns * parts, 1))
        return cls(seed, min(max(room, FEWEST_VALUES), FEW_VALUES))

    def look(self, columns: Sequence[pa.Array], before: Looks | None = None) -> Looks:
        """What is seen of columns of equal length; of those that were seen to have many values `before`, no more.

        Examples
        --------
        >>> looks = Looker(Seed.insecure(1), few=2).look([pa.array([1, None, 1]), pa.array(["a", "b", "c"])])
        >>> looks.columns[0].values.counts.tolist(), looks.columns[0].nulls, looks.columns[1].values
        ([2, 1], 1, None)
        >>> [each.distinct for each in looks.columns]
        [1, 3]
        """
        many = [False] * len(columns) if before is None else [each.values is None for each in before.columns]
        seen = tuple(self._column(group_key(each), known) for each, known in zip(columns, many, strict=True))
        found = Looks(len(columns[0]) if columns else 0, seen)
        return found if before is None else self.merge(before, found)

    def merge(self, left: Looks, right: Looks) -> Looks:
        """What was seen of both."""
        columns = tuple(map(self._merged, left.columns, right.columns))
        return Looks(left.records + right.records, columns, (left.hashes + right.hashes) % (1 << 128))

    def of_all(self, parts: Sequence[Looks]) -> Looks | None:
        """What was seen of all parts; None of none."""
        return reduce(self.merge, parts) if parts else None

    def _column(self, values: pa.Array, many: bool) -> ColumnLook:
        nulls = values.null_count
        if many:
            return ColumnLook(nulls, smallest=self._hashed(values))
        counted = pc.value_counts(values)
        if len(counted) > self.few + 1:
            return ColumnLook(nulls, smallest=self._hashed(counted.field("values")))
        return self._few(nulls, histogram_of(counted.field("values"), counted.field("counts")))

    def _few(self, nulls: int, found: Histogram) -> ColumnLook:
        """Values reported, unless they are too many after all."""
        few = ColumnLook(nulls, found)
        return few if few.distinct <= self.few else ColumnLook(nulls, smallest=self._hashed(found.values))

    def _merged(self, left: ColumnLook, right: ColumnLook) -> ColumnLook:
        nulls = left.nulls + right.nulls
        if left.values is not None and right.values is not None:
            values = pa.concat_arrays([left.values.values, right.values.values])
            return self._few(nulls, histogram_of(values, pa.array(np.append(left.values.counts, right.values.counts))))
        hashes = [each.smallest if each.values is None else self._hashed(each.values.values) for each in (left, right)]
        return ColumnLook(nulls, smallest=_smallest(np.concatenate(hashes)))

    def _hashed(self, values: pa.Array) -> Words:
        from privpipe.kernels.ids.record_ids import content_hash

        rows = pa.record_batch([values.drop_null()], names=["value"])
        return _smallest(content_hash(rows, self.seed)[:, 0].view(np.uint64))


def _smallest(hashes: Words) -> Words:
    """The smallest distinct hashes, as many as are kept."""
    if len(hashes) > 8 * KEPT:
        some = np.unique(hashes[hashes <= np.partition(hashes, 4 * KEPT)[4 * KEPT]])
        if len(some) >= KEPT:
            return some[:KEPT]
    return np.unique(hashes)[:KEPT]
