"""More candidates than a tile holds are each looked at once."""

from __future__ import annotations

import numpy as np

from privpipe.kernels.linkage.agreement import TILE, Agreement, CodeColumn


def test_the_last_tile_ends_with_the_candidates() -> None:
    rng = np.random.default_rng(1)
    n = TILE + 7
    x, y = rng.integers(0, 5, (2, n)), rng.integers(0, 5, (2, n))
    agreement = Agreement([CodeColumn(*sides) for sides in zip(x, y, strict=True)])
    attacked, ranks = np.arange(3), np.array([0, 2, 1, 3])
    patterns = (y[0, :3, None] == x[0]) + 2 * (y[1, :3, None] == x[1])
    assert agreement.counts(attacked, np.arange(n)).tolist() == np.bincount(patterns.ravel(), minlength=4).tolist()
    best, ties = agreement.heaviest(attacked, np.arange(n), ranks)
    assert best.tolist() == ranks[patterns].max(axis=1).tolist()
    assert ties.tolist() == (ranks[patterns] == best[:, None]).sum(axis=1).tolist()
