"""When one loss is less than another: by the first figure in which they differ beyond a tie."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["TIE", "Loss", "above_and_not_below", "is_below", "tie", "tied"]

TIE = 1e-9
"""Losses this close are equal: the smaller vector of levels wins."""
ROUNDING = 1e-12

Loss = tuple[float, ...]


def is_below(one: Loss, other: Loss) -> bool:
    """Whether a loss is less, by the first entry in which the two differ beyond a tie, else by rounding.

    Examples
    --------
    >>> is_below((0.5, 0.2), (0.5 - 1e-15, 0.3)), is_below((0.5,), (0.5 + 1e-15,))
    (True, True)
    """
    differing = next((a < b for a, b in zip(one, other, strict=True) if _apart(a, b)), None)
    return one < other if differing is None else differing


def tied(one: Loss, other: Loss) -> bool:
    """Whether two losses are equal within a tie."""
    return not any(_apart(a, b) for a, b in zip(one, other, strict=True))


def above_and_not_below(bounds: NDArray[np.float64], loss: Loss) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which bounds exceed a loss beyond a tie, and which are not below it at all, entry by entry.

    Examples
    --------
    >>> above, rest = above_and_not_below(np.array([[0.5, 0.2], [0.5, 0.3], [0.5, 0.4], [0.4, 0.9]]), (0.5, 0.3))
    >>> above.tolist(), rest.tolist()
    ([False, False, True, False], [False, True, True, False])
    """
    if len(loss) == 1:
        column = bounds[:, 0]
        return column > loss[0] + tie(loss[0]), column >= loss[0]
    above, more = np.zeros((2, len(bounds)), dtype=np.bool_)
    same, equal = np.ones((2, len(bounds)), dtype=np.bool_)
    for column, figure in zip(bounds.T, loss, strict=True):
        above |= same & (column > figure + tie(figure))
        same &= np.abs(column - figure) <= tie(figure)
        more |= equal & (column > figure)
        equal &= column == figure
    return above, more | equal


def _apart(a: float, b: float) -> bool:
    return abs(a - b) > tie(b) if a != b else False


def tie(figure: float) -> float:
    """How close to a loss others are equal: absolute, save for figures so large that it is below their rounding.

    Examples
    --------
    >>> tie(0.25), tie(1e12)
    (1e-09, 1.0)
    """
    return max(TIE, ROUNDING * min(abs(figure), 1e300))
