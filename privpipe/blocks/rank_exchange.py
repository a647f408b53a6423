"""Rank swapping: which rank gives its value to which; the assignment does not depend on the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RankExchange", "unsigned_zeros"]


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


def unsigned_zeros(values: pa.Array) -> pa.Array:
    """-0.0 is 0.0, as in a histogram.

    Examples
    --------
    >>> import pyarrow as pa
    >>> str(unsigned_zeros(pa.array([-0.0]))[0])
    '0.0'
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values
