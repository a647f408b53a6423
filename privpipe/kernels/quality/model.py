"""What the search asks of a quality model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Forced", "QualityModel"]


@dataclass(frozen=True)
class Forced:
    """What a checked node says of all its specializations.

    Parameters
    ----------
    levels : tuple of int
        Of the checked node.
    gone : ndarray of bool, shape (t,)
        Combinations of hereditarily failing classes: suppressed at every specialization.
    partial : sequence of (ndarray of int, float)
        Of each class that fails by a convex model: combinations of it that show all its labels at these levels, and
        how many of its records are suppressed at every specialization, at least. Disjoint from `gone` and from one
        another.
    """

    levels: tuple[int, ...]
    gone: NDArray[np.bool_] = field(repr=False)
    partial: Sequence[tuple[NDArray[np.int64], float]] = field(default=(), repr=False)


class QualityModel(Protocol):
    """Loss of vectors of levels over one table: a tuple of `width` figures, compared entry by entry.

    Attributes
    ----------
    width : int
        One figure; under the aggregate `rank` one a column.
    closed_form : bool
        Whether `exact` with nothing suppressed equals `bounds` at every node.
    """

    width: int
    closed_form: bool

    def exact(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> tuple[tuple[float, ...], list[float]]:
        """Loss of a node with these combinations suppressed, and each column's figure."""
        ...

    def bounds(self, nodes: NDArray[np.int16]) -> NDArray[np.float64]:
        """A lower bound of the loss of each node, whatever is suppressed there, shape (M, width)."""
        ...

    def forced_bounds(self, nodes: NDArray[np.int16], forced: Forced) -> NDArray[np.float64]:
        """A lower bound for specializations of a checked node, at least that of `bounds`, shape (M', width)."""
        ...

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """A lower bound of the first figure for every generalization of a node; None where there is none."""
        ...

    def own(self, keys: Sequence[str], levels: Sequence[int], rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Own loss of some combinations' classes over some keys, shape (n, r): that of a kept record of it."""
        ...
