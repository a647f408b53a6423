"""The best guess in every class: how many records it is right for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privpipe.blocks import ClassBlock, Facts

__all__ = ["Guesses", "Guessing"]


@dataclass(frozen=True)
class Guesses:
    """Guesses over some classes.

    Parameters
    ----------
    records : int
    right : int
        Records of the most frequent value of their class.
    determined : int
        Records in classes of one value alone, large enough to count.
    """

    records: int = 0
    right: int = 0
    determined: int = 0


@dataclass(frozen=True)
class Guessing:
    """A reduction: in each class the most frequent value of `column` is guessed.

    Examples
    --------
    >>> from privpipe.testing.small import block_of
    >>> Guessing("region", 2).measure(block_of(region=[[2, 1], [3, 0], [1, 0]]), Facts())
    Guesses(records=7, right=6, determined=3)
    """

    column: str
    min_group: int = 1

    def measure(self, block: ClassBlock, facts: Facts) -> Guesses:
        """The guesses in whole classes."""
        if not len(block):
            return Guesses()
        cells = block.cells[self.column]
        starts = cells.offsets[:-1]
        alone = (np.diff(cells.offsets) == 1) & (block.sizes >= self.min_group)
        return Guesses(
            records=block.records,
            right=int(np.maximum.reduceat(cells.counts, starts).sum()),
            determined=int(block.sizes[alone].sum()),
        )

    def merge(self, left: Guesses, right: Guesses) -> Guesses:
        """Both together."""
        return Guesses(left.records + right.records, left.right + right.right, left.determined + right.determined)
