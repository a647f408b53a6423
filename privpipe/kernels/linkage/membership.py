"""How well a score distinguishes members from others."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["advantage_limit", "member_figures"]

Numbers = NDArray[np.float64]


def member_figures(members: Numbers, others: Numbers, false_positive_rate: float = 0.01) -> dict[str, float]:
    """Advantage, AUC and true-positive rate of calling member whoever lies at most so far away.

    Source: Yeom, Giacomelli, Fredrikson, Jha, CSF 2018.

    Parameters
    ----------
    members, others : ndarray of float64, shape (m,)
        Distances, or other scores of which the least are members', at least one each. Two are equal when they differ by
        at most 1e-12 (1 + the size of the larger).
    false_positive_rate : float
        At which the true-positive rate is read, at the most.

    Returns
    -------
    mapping
        ``advantage``: the largest TPR - FPR over thresholds, in [0, 1]; ``auc``; ``tpr``.

    Examples
    --------
    >>> member_figures(np.array([0.0, 0.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    {'advantage': 0.6666666666666666, 'auc': 0.8333333333333334, 'tpr': 0.6666666666666666}
    """
    whole = np.sort(np.concatenate([members, others]))
    steps = np.diff(whole) > 1e-12 * (1.0 + np.abs(whole[1:]))
    first = whole[np.concatenate([[True], steps])]
    counts = [
        np.bincount(np.searchsorted(first, values, side="right") - 1, minlength=len(first))
        for values in (members, others)
    ]
    hits, misses = (np.cumsum(count) for count in counts)
    tpr, fpr = hits / len(members), misses / len(others)
    below = np.concatenate([[0], hits[:-1]])
    pairs = float((counts[1] * (below + counts[0] / 2)).sum())
    allowed = fpr <= false_positive_rate + 1e-12
    return {
        "advantage": max(0.0, float((tpr - fpr).max())),
        "auc": pairs / (len(members) * len(others)),
        "tpr": float(tpr[allowed].max(initial=0.0)),
    }


def advantage_limit(advantage: float, members: int, others: int, confidence: float = 0.95) -> float:
    """Upper limit of an advantage by the Dvoretzky-Kiefer-Wolfowitz inequality, at most 1.

    Examples
    --------
    >>> round(advantage_limit(0.1, 1000, 1000), 4)
    0.1774
    """
    slack = sum(math.sqrt(math.log(1 / (1 - confidence)) / (2 * count)) for count in (members, others))
    return min(1.0, advantage + slack)
