"""The nearest and the farthest by parts: what a look at every distance finds, ties by name."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from privpipe.kernels.microaggregation.nearest import (
    PART,
    farthest,
    farthest_part,
    nearest,
    nearest_part,
    nearest_parts,
    parts_of,
    squared_distances,
)
from tests.gathering import gathered


@pytest.mark.parametrize("s", [1, 2, 3, 5, 8])
def test_parts_give_what_all_distances_give(s: int) -> None:
    with gathered() as case:
        for count, distinct in product([1, 2, PART - 1, PART, PART + 1, 3 * PART + 7], [1, 3, 1000]):
            with case(f"{count} records of {distinct} values"):
                parts_give_it(s, count, distinct)


def parts_give_it(s: int, count: int, distinct: int) -> None:
    rng = np.random.default_rng([s, count, distinct])
    columns = rng.integers(0, distinct, (s, count + 5)) / 7.0  # what lies beyond `count` takes no part
    names, point = rng.permutation(count + 5), columns[:, 0].copy()
    places = np.argsort(names)
    whole, parts, ends = np.empty(count + 5), np.empty(count + 5), np.empty((2, count // PART + 1))
    squared_distances(columns, count, point, whole)
    parts_of(columns, count, point, parts, ends)
    assert (whole[:count] == parts[:count]).all()
    assert farthest_part(parts, names, places, count, ends) == farthest(whole, names, count)
    assert nearest_part(parts, names, places, count, ends) == min(range(count), key=lambda i: (whole[i], names[i]))
    for wanted in (0, 1, 4):
        for left_out in (-1, 0):
            first, second = np.empty(5, np.int64), np.empty(5, np.int64)
            found = nearest(whole, names, count, wanted, left_out, first)
            assert nearest_parts(parts, names, count, wanted, left_out, second, ends) == found
            assert set(first[:found]) == set(second[:found])
