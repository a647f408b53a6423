"""Where floats meet thresholds, and shares become counts.

Source of the tolerance: exp of the entropy of three even values is 2.9999999999999996, and such a class has
three values' worth of entropy all the same. Integers are compared exactly, never through floats.
"""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privpipe.errors import UsageError

__all__ = ["at_least", "at_most", "below", "floor_share", "integer_at_least", "slack"]

ABSOLUTE = 1e-12
RELATIVE = 1e-9


def slack(bound: ArrayLike) -> Any:
    """The tolerance at `bound`: 1e-12 + 1e-9 |bound|."""
    return ABSOLUTE + RELATIVE * np.abs(np.asarray(bound, dtype=np.float64))


def at_least(value: ArrayLike, bound: ArrayLike) -> Any:
    """Whether `value` reaches `bound`, elementwise; False where either is NaN.

    Examples
    --------
    >>> bool(at_least(2.9999999999999996, 3))
    True
    >>> bool(at_least(2, 3))
    False
    """
    if _integral(value) and _integral(bound):
        return np.asarray(value) >= np.asarray(bound)
    return np.asarray(value, dtype=np.float64) >= np.asarray(bound, dtype=np.float64) - slack(bound)


def at_most(value: ArrayLike, bound: ArrayLike) -> Any:
    """Whether `value` stays within `bound`, elementwise; False where either is NaN.

    Examples
    --------
    >>> bool(at_most(0.1 + 0.2, 0.3))
    True
    """
    if _integral(value) and _integral(bound):
        return np.asarray(value) <= np.asarray(bound)
    return np.asarray(value, dtype=np.float64) <= np.asarray(bound, dtype=np.float64) + slack(bound)


def below(value: ArrayLike, bound: ArrayLike) -> Any:
    """Whether `value` is strictly less than `bound`; equality within tolerance is not below.

    Examples
    --------
    >>> bool(below(0.3, 0.1 + 0.2))
    False
    """
    if _integral(value) and _integral(bound):
        return np.asarray(value) < np.asarray(bound)
    return np.asarray(value, dtype=np.float64) < np.asarray(bound, dtype=np.float64) - slack(bound)


def integer_at_least(bound: float) -> int:
    """The least integer that reaches `bound` within 1e-9: the number of values a real l asks for.

    Examples
    --------
    >>> integer_at_least(2.5), integer_at_least(3.0000000000000004), integer_at_least(3)
    (3, 3, 3)
    """
    return math.ceil(bound - RELATIVE)


def floor_share(share: float, count: int) -> int:
    """floor(share x count + 1e-9) in exact decimals: budgets, windows and tails.

    Parameters
    ----------
    share : float
        In [0, 1].
    count : int
        At least 0, of any size.

    Raises
    ------
    UsageError
        When the share is not a number in [0, 1].

    Examples
    --------
    >>> floor_share(0.29, 100), floor_share(0.02, 30162), floor_share(0.1, 30)
    (29, 603, 3)
    """
    if isinstance(share, bool) or not 0 <= share <= 1:
        raise UsageError(f"a share must be a number in [0, 1], got {share!r}")
    exact = Decimal(repr(float(share))) * count + Decimal("1e-9")
    return int(exact.to_integral_value(rounding=ROUND_FLOOR))


def _integral(value: ArrayLike) -> bool:
    return np.asarray(value).dtype.kind in "iu"
