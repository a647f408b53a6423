"""The shape of a distribution of numbers: its ends, its tail, whether it is skewed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["NumberShape", "number_shape"]

RARE = 0.005
"""Share of records in a tail that is coded as one group."""
SKEWED = 3.0
"""How much farther the upper tenth of a skewed distribution reaches from its middle than the lower one."""
DECIMALS = 100
MIDDLE = 0.8
"""Share of its range that the middle eight tenths of an even distribution take."""


@dataclass(frozen=True)
class NumberShape:
    """See `Profile`, whose fields of the same names these are."""

    spread: float = 0.0
    bottom: float = 0.0
    top: float = 0.0
    tail: float = 0.0
    skewed: bool = False
    whole: bool = True
    fractions: bool = False
    even: bool = False


def number_shape(values: NDArray[np.float64], counts: NDArray[np.int64]) -> NumberShape:
    """Of distinct finite numbers and the records of each.

    Examples
    --------
    >>> shape = number_shape(np.array([1.0, 2, 3, 4, 9]), np.array([300, 300, 300, 97, 3]))
    >>> shape.bottom, shape.top, shape.tail, shape.whole
    (1.0, 9.0, 4.0, True)
    """
    finite = np.isfinite(values)
    values, counts = values[finite], counts[finite]
    if not len(values):
        return NumberShape()
    order = np.argsort(values)
    values, upto = values[order], np.cumsum(counts[order])
    total = upto[-1]
    low, middle, high = (float(values[np.searchsorted(upto, share * total)]) for share in (0.1, 0.5, 0.9))
    tail = float(values[min(np.searchsorted(upto, (1 - RARE) * total), len(values) - 1)])
    scaled = values * DECIMALS
    uneven = np.abs(scaled - np.round(scaled)) > 1e-6
    held = (high - low) / max(float(values[-1] - values[0]), 1e-300)
    far = values[-1] - middle > SKEWED * max(middle - values[0], 0.0)
    return NumberShape(
        spread=float(values[-1] - values[0]),
        bottom=float(values[0]),
        top=float(values[-1]),
        tail=tail if tail < values[-1] else 0.0,
        skewed=bool(values[0] >= 0 and far and high - middle > middle - low),
        whole=bool((values == np.round(values)).all()),
        fractions=bool(uneven.mean() > 0.5),
        even=bool(abs(held - MIDDLE) < 0.1 and abs((high + low) / 2 - middle) < 0.1 * (high - low)),
    )
