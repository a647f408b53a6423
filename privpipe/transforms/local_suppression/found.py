"""What a choice of cells to blank has found, whole or in part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privpipe.transforms.local_suppression.cell_blanks import BlankGroup

__all__ = ["Answer", "BlanksFound", "Part"]


@dataclass(frozen=True)
class BlanksFound:
    """Blanks, what they cost, and what is known of the least cost.

    Parameters
    ----------
    blank_groups : tuple of BlankGroup
        By place in the cell table.
    bound : float
        No blanks cost less.
    optimal : bool
        Whether the bound closed.
    status : str
        How the search ended.
    solved : int
        Integer programs that were solved.
    """

    blank_groups: tuple[BlankGroup, ...]
    bound: float = 0.0
    optimal: bool = False
    status: str = "heuristic"
    solved: int = 0


@dataclass(frozen=True)
class Answer:
    """What a program over a part of the table said: parcels of the whole table, or None where nothing better is."""

    blank_groups: list[BlankGroup] | None
    proved: bool
    by_clock: bool


class Part(Protocol):
    """Solves a part of a table with the rest as it is."""

    def __call__(self, free: NDArray[np.int64], blank_groups: Sequence[BlankGroup], seconds: float) -> Answer:
        """Better parcels, where only those of the free combinations may change."""
        ...
