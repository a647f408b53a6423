"""The class table of coded columns, by counters and by sorting."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.classes import coded_classes as kernel
from privpipe.kernels.classes.coded_classes import Coded, coded_cells, joined


@pytest.mark.parametrize("room", [0, 1 << 21], ids=["sorted", "counted"])
@given(rows=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=40), wide=st.booleans())
def test_classes_are_those_of_a_dictionary(room: int, rows: list[tuple[int, int, int]], wide: bool) -> None:
    usual, kernel.ROOM = kernel.ROOM, room
    try:
        spread = 2**40 if wide else 1  # more combinations than 64 bits number, so that they are numbered anew
        first, second, values = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
        keys = [Coded(first * spread, 4 * spread + 1), Coded(second * spread, 4 * spread + 1)]
        found = coded_cells(keys, Coded(values, 5))
    finally:
        kernel.ROOM = usual
    classes: dict[tuple[int, int], Counter[int]] = {}
    for one, other, value in rows:
        classes.setdefault((one, other), Counter())[value] += 1
    wanted = [classes[key] for key in sorted(classes)]
    assert found.sizes.tolist() == [counts.total() for counts in wanted]
    cells = [
        dict(zip(found.codes[start:end].tolist(), found.counts[start:end].tolist(), strict=True))
        for start, end in zip(found.offsets[:-1], found.offsets[1:], strict=True)
    ]
    assert cells == [dict(counts) for counts in wanted]


def test_columns_together_have_as_many_codes_as_combinations() -> None:
    columns = [Coded(np.array([1, 0]), 2), Coded(np.array([2, 1]), 3), Coded(np.array([0, 3]), 4)]
    assert (joined(columns).codes.tolist(), joined(columns).distinct) == ([20, 7], 24)


def test_one_column_is_left_as_it_is() -> None:
    found = joined([Coded(np.array([3, 0, 1]), 4)])
    assert (found.codes.tolist(), found.distinct) == ([3, 0, 1], 4)
