"""What a sample of attacked records says of all: an upper confidence limit."""

from __future__ import annotations

import math

from privpipe.errors import UsageError

__all__ = ["upper_share"]


def upper_share(hits: float, attacked: int, confidence: float = 0.95) -> float:
    """Upper limit of the one-sided Clopper-Pearson interval for a share, fractional hits rounded up.

    Source: Clopper, Pearson, Biometrika 26(4), 1934.

    Parameters
    ----------
    hits : float
        In [0, attacked].
    attacked : int
        At least 1.
    confidence : float
        In (0, 1).

    Returns
    -------
    float
        In (0, 1]; 1 where every attacked record was hit.

    Raises
    ------
    UsageError
        Figures out of range.

    Examples
    --------
    >>> round(upper_share(0, 100), 4), upper_share(2, 2)
    (0.0295, 1.0)
    """
    if not (attacked >= 1 and 0 <= hits <= attacked and 0 < confidence < 1):
        raise UsageError(f"no interval for {hits!r} of {attacked!r} at confidence {confidence!r}")
    from scipy.special import betaincinv

    whole = math.ceil(hits - 1e-9)
    return 1.0 if whole >= attacked else float(betaincinv(whole + 1, attacked - whole, confidence))
