"""Figures of the distances between a release, its original and other people, ties by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.measures.risk.membership.closest_records import Compared, nearest_two, plain

if TYPE_CHECKING:
    from privpipe.kernels.linkage.distance import LinkedFile

__all__ = ["DistanceFigures", "distance_figures"]

Numbers = NDArray[np.float64]
EQUAL = 1e-12


@dataclass(frozen=True, kw_only=True)
class DistanceFigures:
    """Gower's distances of released rows to as many originals as others.

    Parameters
    ----------
    rows, cut : int
        Released rows looked at; records of the original and of the holdout they are compared with.
    closer : float
        Rows nearer to an original than to one of the others, half of those as near: hits.
    copies, copies_others : int
        Rows at distance 0 from an original, and from one of the others.
    shown : mapping
        Ratios of nearest to second nearest, and adversarial accuracies.
    """

    rows: int
    cut: int
    closer: float
    copies: int
    copies_others: int
    shown: dict[str, Any]


def distance_figures(found: Compared, sample: int | None) -> DistanceFigures | None:
    """The figures; None without a holdout.

    Parameters
    ----------
    found : Compared
        By Gower's distance.
    sample : int, optional
        Rows of each table that are looked at, at the most; None: all.
    """
    if not len(found.holdout):
        return None
    cut = min(len(found.original), len(found.holdout))
    sides = found.original.take(np.arange(cut)), found.holdout.take(np.arange(cut))
    released = _first(found.released, sample)
    near = [nearest_two(released, side) for side in sides]
    first, others = near[0][:, 0], near[1][:, 0]
    tied = _equal(first, others)
    size = min(len(found.original), len(found.released), len(found.holdout), sample or len(found.released))
    accuracies = [_accuracy(side.take(np.arange(size)), released) for side in sides]
    return DistanceFigures(
        rows=len(released),
        cut=cut,
        closer=float(((first < others) & ~tied).sum() + tied.sum() / 2),
        copies=int((first <= EQUAL).sum()),
        copies_others=int((others <= EQUAL).sum()),
        shown={
            "nndr": _nndr(near[0]),
            "nndr_holdout": _nndr(near[1]),
            "adversarial_accuracy": accuracies[0],
            "adversarial_accuracy_holdout": accuracies[1],
            "privacy_loss": None if None in accuracies else accuracies[1] - accuracies[0],  # type: ignore[operator]
        },
    )


def _first(side: LinkedFile, size: int | None) -> LinkedFile:
    return side if size is None else side.take(np.arange(min(size, len(side))))


def _equal(one: Numbers, other: Numbers) -> NDArray[np.bool_]:
    larger = np.maximum(one, other)
    same: NDArray[np.bool_] = np.abs(one - other) <= EQUAL * (1 + larger)
    return same


def _nndr(near: Numbers) -> float | None:
    """The 5 % quantile of nearest over second nearest, 1 for 0 / 0; None where there is no second."""
    if not np.isfinite(near).all():
        return None
    zero = near[:, 1] <= EQUAL
    ratios = np.where(zero, 1.0, near[:, 0] / np.where(zero, 1.0, near[:, 1]))
    return float(np.quantile(ratios, 0.05))


def _accuracy(table: LinkedFile, released: LinkedFile) -> float | None:
    """How often a record of either table lies nearer to its own; None where one has no other of its own."""
    if min(len(table), len(released)) < 2:
        return None
    own, shown = plain(table), plain(released)
    sides = (
        (nearest_two(table, released), nearest_two(own, own, itself=True)),
        (nearest_two(released, table), nearest_two(shown, shown, itself=True)),
    )
    shares = [
        float(((across[:, 0] > among[:, 0]) & ~_equal(across[:, 0], among[:, 0])).mean()) for across, among in sides
    ]
    return sum(shares) / 2
