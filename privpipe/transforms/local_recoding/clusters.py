"""Local recoding by clusters: groups of combinations, block by block, each labelled by its lowest common ancestors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.draws import Stream
from privpipe.kernels.clusters.labels import FORBIDDEN, UNIT, Labels, labels_of
from privpipe.transforms.local_recoding.rounds import GONE, Tuples

Ints = NDArray[np.int64]
Levels = NDArray[np.int16]
NEIGHBOURS = 20
POOL = 500
RESETS = 4


def tables(tuples: Tuples, weights: Ints | None = None) -> Labels:
    levels, lost = [], []
    for at, h in enumerate(tuples.hierarchies):
        used = range(h.min_level, h.max_level + 1)
        own = [h.codes(l).astype(np.int64) for l in used]
        d = h.domain_size
        pen = [np.rint((h.shares(l) * d - 1.0) / max(d - 1.0, 1.0) * (d > 1) * UNIT).astype(np.int64) for l in used]
        if weights is not None:
            pen = [p * int(weights[at]) // UNIT for p in pen]
        if own[-1].max(initial=0) > 0:
            own.append(np.zeros_like(own[-1]))
            pen.append(np.full(len(own[-1]), FORBIDDEN))
        levels.append(own)
        lost.append(pen)
    return labels_of(levels, lost)
