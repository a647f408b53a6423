"""Where records stand in the released files and where they stood in the original."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from numpy.typing import NDArray

from privpipe.blocks.guarantee import Guarantee
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import POSITIONS, Way

__all__ = ["PositionMeasure", "RowPositions"]


@dataclass(frozen=True, kw_only=True)
class RowPositions:
    """Records of both tables; never published.

    Parameters
    ----------
    classes : ndarray of int64, shape (n,)
        Rows that are released identically have the same number.
    released, original : ndarray of int64, shape (n,)
        Positions, all different on each side.
    proved : bool
        The order of the files was compared with the keyed one and is that.
    ordered : bool
        The released rows stand in the order of their own values.
    """

    classes: NDArray[Any] = field(repr=False)
    released: NDArray[Any] = field(repr=False)
    original: NDArray[Any] = field(repr=False)
    proved: bool = False
    ordered: bool = False


@dataclass(frozen=True, kw_only=True, repr=False)
class PositionMeasure(Guarantee):
    """A measure of what the order of released rows discloses. Subclasses give `judge_positions`."""

    way: ClassVar[Way] = POSITIONS

    def judge_positions(self, positions: RowPositions | str) -> Verdict:
        """The verdict; a text says why there are no positions."""
        raise TypeError(f"{type(self).__name__} judges no positions")
