"""Persons of several combinations count once in a class."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.classes.cells import counted_once

COMBINATIONS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2), st.sampled_from([1, 1, 6])), max_size=40
)


@given(COMBINATIONS)
def test_nobody_is_counted_twice_in_a_class(rows: list[tuple[int, int, int, int]]) -> None:
    who, numbers, left, persons = (np.array([row[at] for row in rows], np.int64) for at in range(4))
    order = np.argsort(who, kind="stable")
    expected, seen = [0] * len(rows), set()
    for at in order.tolist():
        if rows[at][2] and rows[at][:2] not in seen:
            seen.add(rows[at][:2])
            expected[at] = rows[at][3]
    assert counted_once(numbers, 4, order, who, persons, left).tolist() == expected
