"""What robust estimates are learnt from: records chosen alike on every engine, the middle and spread of a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, RowBlock

__all__ = ["LARGEST_SAMPLE", "LEAST_SPREAD", "FirstRecords", "Sample", "median_and_spread"]

Numbers = NDArray[np.float64]
Sample = tuple[NDArray[np.int64], Numbers]
LARGEST_SAMPLE = 20_000
LEAST_SPREAD = 1e-290
NORMAL_MAD = 1.482602218505602
"""Standard deviations of a normal variable in a median absolute deviation."""


def median_and_spread(values: Numbers) -> tuple[float, float]:
    """The median, and 1.4826 times the median absolute deviation from it.

    Examples
    --------
    >>> median_and_spread(np.array([1.0, 2, 3, 4, 90]))
    (3.0, 1.482602218505602)
    """
    middle = float(np.median(values))
    return middle, NORMAL_MAD * float(np.median(np.abs(values - middle)))


@dataclass(frozen=True)
class FirstRecords:
    """A reduction: ids and values, NaN where there is none, of the `LARGEST_SAMPLE` records of smallest id.

    Ids are keyed, so that this is a random sample, the same on every engine.
    """

    columns: tuple[str, ...]

    def measure(self, block: RowBlock, facts: Facts) -> Sample:
        return _first(block.record_ids, np.stack([block[name] for name in self.columns], axis=1))

    def merge(self, left: Sample, right: Sample) -> Sample:
        return _first(np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]]))


def _first(ids: NDArray[np.int64], points: Numbers) -> Sample:
    order = np.lexsort((ids[:, 1], ids[:, 0]))[:LARGEST_SAMPLE]
    return ids[order], points[order]
