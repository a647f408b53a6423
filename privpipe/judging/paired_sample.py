"""The records of a release paired with those they were made from, as many as the driver looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, RowBlock
from privpipe.judging.paired_columns import CodedColumn, ColumnValues, coded_column

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Stream
    from privpipe.engines import Engine

__all__ = ["LARGEST_SAMPLE", "PairedSample", "looked_at", "paired_sample"]

Side = Literal["original", "released"]
LARGEST_SAMPLE = 200_000
"""Records that are looked at on the driver, at most."""
WIDE = 50
"""Released columns from which on fewer are looked at, so that their cells stay as many."""
SMALLEST_SAMPLE = 20_000


@dataclass(frozen=True)
class PairedSample:
    """Records of both tables: all of them, or those of smallest id where the released table is large.

    Parameters
    ----------
    original, released : RowBlock
        Each in a separate order, records that only one table has among them.
    whole : bool
        Whether they are all there are.
    """

    original: RowBlock = field(repr=False)
    released: RowBlock = field(repr=False)
    whole: bool
    _values: dict[tuple[Side, str, str], ColumnValues] = field(default_factory=dict, repr=False, compare=False)

    def coded(self, side: Side, name: str, mark: str) -> CodedColumn:
        """A column of one side in codes, whose values are known from then on."""
        found = coded_column((self.released if side == "released" else self.original).column(name), mark)
        self._values[side, name, mark] = found.alone
        return found

    def values(self, side: Side, name: str, mark: str) -> ColumnValues:
        """The values of a column of one side."""
        known = self._values.get((side, name, mark))
        return self.coded(side, name, mark).alone if known is None else known

    @cached_property
    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions in both of the records that are in both."""
        from privpipe.kernels.ids.record_ids import partners

        return partners(self.original.record_ids, self.released.record_ids)

    def chosen(self, order: Stream, kept: NDArray[np.bool_] | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """As many of the pairs as are looked at, the first in a keyed order.

        Parameters
        ----------
        order : Stream
        kept : ndarray of bool, optional
            Which of the released records may be chosen.
        """
        first, second = self.pairs
        if kept is not None:
            allowed = kept[second]
            first, second = first[allowed], second[allowed]
        places = order.arrange(self.released.record_ids[second])[: looked_at(len(self.released.schema.names))]
        return first[places], second[places]


def looked_at(columns: int) -> int:
    """Records that are looked at of a release of so many columns.

    Examples
    --------
    >>> [looked_at(columns) for columns in (1, 50, 100, 300, 10_000)]
    [200000, 200000, 100000, 33333, 20000]
    """
    return max(min(LARGEST_SAMPLE, SMALLEST_SAMPLE), LARGEST_SAMPLE * WIDE // max(columns, WIDE))


def paired_sample(engine: Engine, released: Any, original: Any, columns: Sequence[str]) -> PairedSample | None:
    """The records of a table and of its original, with these columns of the original.

    None where the two tables cannot be aligned.
    """
    if original is None or not (original.has_record_ids and released.has_record_ids):
        return None
    records = max(engine.count(released), 1)
    share = 1.05 * LARGEST_SAMPLE / records
    if share < 1:  # a table that is brought whole needs no second count of its labels, however wide it is
        share = 1.05 * looked_at(len(released.schema.names)) / records
    sides = [
        _brought(engine, engine.select(table, list(names)), share)
        for table, names in ((original, columns), (released, released.schema.names))
    ]
    if not all(sides):
        return None
    first, second = (_together(side) for side in sides)
    return PairedSample(first, second, whole=share >= 1)


def _brought(engine: Engine, table: Any, share: float) -> list[pa.RecordBatch]:
    """The records of smallest id, which is keyed, on the driver."""
    thin = engine.thinned(table, share) if share < 1 else table
    return engine.reduce_rows(thin, list(table.schema.names), _Gathered(), Facts()) or []


class _Gathered:
    """A reduction that brings rows to the driver."""

    def measure(self, block: RowBlock, facts: Facts) -> list[pa.RecordBatch]:
        return [block.to_batch()]

    def merge(self, left: list[pa.RecordBatch], right: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return left + right


def _together(batches: Sequence[pa.RecordBatch]) -> RowBlock:
    import pyarrow as pa

    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return RowBlock(whole[0] if whole else batches[0])
