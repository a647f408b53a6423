"""Ordinals among equal rows, over batches of sorted runs in which other rows may share a key."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.engines.spark.row_functions import RunOrdinals

ROWS = st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1), st.integers(0, 2)), max_size=40)


@given(ROWS, st.lists(st.integers(0, 40), max_size=4))
def test_equal_rows_are_numbered_from_zero_in_the_order_they_come(
    rows: list[tuple[int, int, int]], cuts: list[int]
) -> None:
    rows = sorted(rows, key=lambda row: row[0])  # by the key alone: contents of one key come mixed
    # The key is a function of the content, as a hash is; here with collisions.
    words = np.array([(3 * key + first, second) for key, first, second in rows], np.int64).reshape(-1, 2)
    keys = np.array([row[0] for row in rows], np.int64)
    runs, found = RunOrdinals(), []
    borders = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in itertools.pairwise(borders):
        found += runs.of(keys[start:stop], words[start:stop]).tolist()
    seen: Counter[tuple[int, ...]] = Counter()
    wanted = []
    for row in map(tuple, words.tolist()):
        wanted.append(seen[row])
        seen[row] += 1
    assert found == wanted
