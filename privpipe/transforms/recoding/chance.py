"""Draws of a search: they make no noise, and the same table gives the same ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.draws import Draws, Seed
from privpipe.draws.stream import SHARED_SCHEME
from privpipe.transforms.recoding.lattice import Lattice

__all__ = ["Chance"]

Levels = tuple[int, ...]


class Chance:
    """A counter under a public key of its own.

    Parameters
    ----------
    purpose : str
        Draws for one purpose do not follow those for another.
    """

    def __init__(self, purpose: str) -> None:
        self._stream = Draws(Seed.public("privpipe/search"), 0, "generalize", scheme=SHARED_SCHEME).of(purpose)
        self._words: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._next = 0

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
        if self._next % 4096 == 0:
            self._words = self._stream.counter(self._next, 4096)
        word = int(self._words[self._next % 4096])
        self._next += 1
        return (word * bound) >> 64

    def node(self, lattice: Lattice) -> Levels:
        """Any vector."""
        return tuple(levels[self.below(len(levels))] for levels in lattice.allowed)

    def crossed(self, one: Levels, other: Levels) -> Levels:
        """Each column's level of one or the other."""
        return tuple(a if self.below(2) else b for a, b in zip(one, other, strict=True))

    def stepped(self, lattice: Lattice, node: Levels) -> Levels:
        """A step up or down in one column."""
        steps = [*lattice.above(node), *lattice.below(node)]
        return steps[self.below(len(steps))] if steps else node

    def changed(self, lattice: Lattice, node: Levels) -> Levels:
        """Any level in one column."""
        at = self.below(len(node))
        levels = lattice.allowed[at]
        return (*node[:at], levels[self.below(len(levels))], *node[at + 1 :])
