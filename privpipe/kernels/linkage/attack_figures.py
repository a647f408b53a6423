"""What an attack achieves compared with a control: success, gain, excess and advantage, with confidence limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privpipe.blocks.arrays import Floats
from privpipe.errors import UsageError

__all__ = [
    "AttackFigures",
    "Figure",
    "advantage_limit",
    "attack_figures",
    "excess_limit",
    "lower_share",
    "member_figures",
    "upper_share",
]


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


Figure = Literal["excess", "gain", "success"]
SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class AttackFigures:
    """The figures of one attack; those of the control are None where there was none.

    Parameters
    ----------
    success, upper : float
        Mean success over the attacked originals, and its upper limit.
    naive : float
        Success of the same attacker without the rows of the release.
    control, lower : float, optional
        Mean success over the attacked others, and its lower limit.
    excess, excess_upper : float, optional
        (success - control) / (1 - control) and its upper limit, both in [0, 1]; also None where the control is 1.
    """

    success: float
    upper: float
    naive: float
    control: float | None = None
    lower: float | None = None
    excess: float | None = None
    excess_upper: float | None = None

    def observed(self, figure: Figure) -> float | None:
        """The estimate of a figure; None where it is not defined."""
        if figure == "excess":
            return self.excess
        return max(0.0, self.success - self.naive) if figure == "gain" else max(self.success, self.naive)

    def compared(self, figure: Figure) -> float | None:
        """The value that a threshold is compared with: a figure's upper limit; None where it is not defined."""
        if figure == "excess":
            return self.excess_upper
        return max(0.0, self.upper - self.naive) if figure == "gain" else max(self.upper, self.naive)


def attack_figures(
    hits: float,
    attacked: int,
    *,
    control_hits: float = 0.0,
    controls: int = 0,
    naive: float = 0.0,
    confidence: float = 0.95,
    everyone: bool = False,
) -> AttackFigures:
    """Success, gain and excess of an attack with their limits.

    Parameters
    ----------
    hits : float
        Sum of the success probabilities over the attacked originals, in [0, attacked].
    attacked : int
        At least 1.
    control_hits, controls : float, int
        The same for records that the release was not made from; 0 of 0: there is no control.
    naive : float
        Success without the release's rows.
    confidence : float
        Confidence of each limit, in (0, 1).
    everyone : bool
        Whether every original was attacked: then the success is exact. The control is always a sample.

    Raises
    ------
    UsageError
        Figures out of range.

    Examples
    --------
    >>> found = attack_figures(60, 500, control_hits=40, controls=500)
    >>> round(found.observed("excess"), 4), round(found.compared("excess"), 4)
    (0.0435, 0.0781)
    >>> found.observed("success"), round(found.compared("success"), 4)
    (0.12, 0.1466)
    """
    whole = min(max(hits, 0.0), float(attacked)) if -SLACK <= hits <= attacked + SLACK else hits
    upper = upper_share(whole, attacked, confidence)
    success = whole / attacked
    if everyone:
        upper = success
    if not controls:
        return AttackFigures(success=success, upper=upper, naive=naive)
    missed = min(max(control_hits, 0.0), float(controls)) if control_hits <= controls + SLACK else control_hits
    lower = lower_share(missed, controls, confidence)
    control = missed / controls
    return AttackFigures(
        success=success,
        upper=upper,
        naive=naive,
        control=control,
        lower=lower,
        excess=max(0.0, (success - control) / (1.0 - control)) if control < 1.0 else None,
        excess_upper=excess_limit(success, upper, control, lower),
    )


def lower_share(hits: float, attacked: int, confidence: float = 0.95) -> float:
    """Lower limit of the one-sided Clopper-Pearson interval for a share, fractional hits rounded down.

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
        In [0, 1); 0 without hits.

    Raises
    ------
    UsageError
        Figures out of range.

    Examples
    --------
    >>> round(lower_share(40, 500), 4), lower_share(0.9, 500)
    (0.0609, 0.0)
    """
    return 1.0 - upper_share(attacked - hits, attacked, confidence)


def excess_limit(success: float, upper: float, control: float, lower: float) -> float | None:
    """Upper limit of (a - c) / (1 - c), from the upper limit of a and the lower one of c; None where c = 1.

    The limits of the two shares 1 - a and 1 - c are combined into a limit of their ratio, on a logarithmic scale.

    Source: Zou, Donner, Statistics in Medicine 27, 2008.

    Parameters
    ----------
    success, upper : float
        a and its upper limit.
    control, lower : float
        c and its lower limit.

    Returns
    -------
    float or None
        In [0, 1].

    Examples
    --------
    >>> round(excess_limit(0.12, 0.12, 0.08, 0.0609), 4), excess_limit(1.0, 1.0, 0.9, 0.8)
    (0.0629, 1.0)
    """
    if control >= 1.0:
        return None
    if success >= 1.0 or upper >= 1.0:
        return 1.0
    p, q = 1.0 - success, 1.0 - control
    apart = math.hypot(math.log(p / (1.0 - upper)), math.log((1.0 - lower) / q))
    return min(1.0, max(0.0, 1.0 - p / q * math.exp(-apart)))


Numbers = Floats


def member_figures(members: Numbers, others: Numbers, false_positive_rate: float = 0.01) -> dict[str, float]:
    """Advantage, AUC and true-positive rate of calling every record within some distance a member.

    Source: Yeom, Giacomelli, Fredrikson, Jha, CSF 2018.

    Parameters
    ----------
    members, others : ndarray of float64, shape (m,)
        Distances, or other scores that are low for members, at least one each. Two are equal when they differ by at
        most 1e-12 (1 + the size of the larger).
    false_positive_rate : float
        Largest false-positive rate at which the true-positive rate is read.

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
