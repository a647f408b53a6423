"""The vectors of levels a search may choose from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.transforms.recoding.encoded import EncodedTable

__all__ = ["LARGEST_HELD", "LARGEST_SIFTED", "Lattice"]

LARGEST_HELD = 1 << 24
"""Vectors a search can hold one by one."""
LARGEST_SIFTED = 1 << 20
"""Going through all that are left at every step pays up to here; boxes serve more, where bounds allow."""

Levels = tuple[int, ...]


@dataclass(frozen=True)
class Lattice:
    """Levels allowed for each column.

    Parameters
    ----------
    allowed : tuple of tuple of int
        Of each column, ascending and not empty.

    Examples
    --------
    >>> lattice = Lattice(((0, 1), (0, 2)))
    >>> lattice.size, lattice.bottom, lattice.top, lattice.nodes().tolist()
    (4, (0, 0), (1, 2), [[0, 0], [0, 2], [1, 0], [1, 2]])
    """

    allowed: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, table: EncodedTable, *, roots_only: bool = False) -> Lattice:
        """Levels within each column's limits; `roots_only`: raw or wholly suppressed, as far as the limits allow."""
        allowed = []
        for hierarchy in table.hierarchies:
            levels = tuple(range(hierarchy.min_level, hierarchy.max_level + 1))
            allowed.append(tuple(dict.fromkeys((levels[0], levels[-1]))) if roots_only else levels)
        return cls(tuple(allowed))

    @property
    def size(self) -> int:
        """How many vectors."""
        return math.prod(len(levels) for levels in self.allowed)

    @property
    def bottom(self) -> Levels:
        """The finest."""
        return tuple(levels[0] for levels in self.allowed)

    @property
    def top(self) -> Levels:
        """The coarsest."""
        return tuple(levels[-1] for levels in self.allowed)

    def nodes(self) -> NDArray[np.int16]:
        """Every vector, in lexicographic order, shape (size, m)."""
        grids: Any = np.meshgrid(*[np.array(levels, dtype=np.int16) for levels in self.allowed], indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def above(self, node: Levels) -> list[Levels]:
        """Vectors one step up in one column, in order of the columns."""
        return self._steps(node, 1)

    def below(self, node: Levels) -> list[Levels]:
        """Vectors one step down in one column, in order of the columns."""
        return self._steps(node, -1)

    def around(self, node: Levels, free: tuple[int, ...]) -> Lattice:
        """The part in which some columns are free and the others as in a vector."""
        return Lattice(
            tuple(levels if at in free else (node[at],) for at, levels in enumerate(self.allowed)),
        )

    def _steps(self, node: Levels, step: int) -> list[Levels]:
        found = []
        for at, levels in enumerate(self.allowed):
            place = levels.index(node[at]) + step
            if 0 <= place < len(levels):
                found.append((*node[:at], levels[place], *node[at + 1 :]))
        return found
