"""Cells in another order of their values."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.classes.distance import cells_by_rank


@given(st.integers(0, 2**32), st.integers(0, 30), st.sampled_from([3, 20, 60]))
def test_cells_in_rank_order_are_those_sorted(seed: int, classes: int, values: int) -> None:
    rng = np.random.default_rng(seed)
    held = [np.flatnonzero(rng.random(values) < rng.random()) for _ in range(classes)]
    offsets = np.concatenate([[0], np.cumsum([len(codes) for codes in held])]).astype(np.int64)
    codes = np.concatenate([np.zeros(0, dtype=np.int64), *held])
    counts, rank = rng.integers(1, 99, len(codes)), rng.permutation(values)
    owner = np.repeat(np.arange(classes), np.diff(offsets))
    order = np.lexsort((rank[codes], owner))
    ranked, found = cells_by_rank(offsets, codes, counts, rank)
    assert ranked.tolist() == rank[codes][order].tolist()
    assert found.tolist() == counts[order].tolist()
