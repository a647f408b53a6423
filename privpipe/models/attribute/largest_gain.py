"""The largest gain of each class, as both kinds of beta-likeness ask for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, Facts
from privpipe.tolerance import slack

__all__ = ["largest_gains"]


def largest_gains(block: ClassBlock, facts: Facts, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Largest gain of each class; the same, infinite where a value exceeds its cap of -ln p; once a block."""

    def compute(them: Cells) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        from privpipe.kernels.classes.gain import capped_gain_by_class, nats

        p = facts.base(column)
        caps = nats(p)
        return capped_gain_by_class(them.offsets, them.codes, them.counts, block.sizes, p, caps + slack(caps))

    return block.cells[column].once("gains", compute)
