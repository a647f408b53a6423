"""The rank of an empirical quantile, in exact decimals."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

__all__ = ["quantile_rank"]


def quantile_rank(quantile: float, n: int) -> int:
    """0-based rank of the lower empirical quantile among n values: ceil(q n) - 1, in exact decimals.

    Examples
    --------
    >>> quantile_rank(0.5, 4), quantile_rank(0.99, 100), quantile_rank(0.29, 100)
    (1, 98, 28)
    """
    exact = Decimal(repr(float(quantile))) * n - Decimal("1e-9")
    return max(int(exact.to_integral_value(rounding=ROUND_CEILING)) - 1, 0)
