"""How much of a class's information its labels have lost: the column that carries it, and the formula."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["INFORMATION", "information_lost"]

INFORMATION = "__privpipe_information"
"""A column with the loss of each record's labels, added to a table while it is judged."""


def information_lost(log_shares: NDArray[np.float64], log_domains: float) -> NDArray[np.float64]:
    """IL of labels, in [0, 1]: 0 where all are raw values, 1 where all stand for their whole domain.

    Parameters
    ----------
    log_shares : ndarray of float64, shape (n,)
        sum_j ln share_j(v) of each combination of labels, at most 0.
    log_domains : float
        sum_j ln D_j; at 0 nothing can be lost.

    Notes
    -----
    Source: Prasser et al., AMIA Annu. Symp. Proc. 2017 (entropy-based information loss).

    Examples
    --------
    >>> information_lost(np.log([0.25, 0.5, 1.0]), float(np.log(4))).tolist()
    [0.0, 0.5, 1.0]
    """
    if not log_domains > 0:
        return np.zeros(len(log_shares))
    return np.clip(1 + log_shares / log_domains, 0.0, 1.0)
