"""Groups over mixed types against Gower's definition."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.gower import MixedRecords, gower_groups
from tests.tiers import at_most

PATHS = {0: (0, 0), 1: (1, 0), 2: (2, 1)}  # 0 and 1 share their parent, below a root two levels up


def apart(a: tuple[Any, ...], b: tuple[Any, ...]) -> float:
    """Number (weight 2), rank, nominal with a hierarchy of height 2; None: missing."""
    total = 0.0
    for x, y, weight in ((a[0], b[0], 2.0), (a[1], b[1], 1.0)):
        one, both = (x is None) != (y is None), x is None and y is None
        total += weight * (1.0 if one else 0.0 if both else abs(x - y))
    if a[2] != b[2]:
        shared = None not in (a[2], b[2])
        level = next((h for h in (0, 1) if shared and PATHS[a[2]][h] == PATHS[b[2]][h]), 2)
        total += level / 2
    return total


def mode(values: list[Any]) -> Any:
    counts = Counter(value for value in values if value is not None)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def oracle(rows: list[tuple[Any, ...]], k: int) -> list[int]:
    left, labels, label = list(range(len(rows))), [0] * len(rows), 0

    def take(start: int) -> None:
        nonlocal left, label
        near = sorted((i for i in left if i != start), key=lambda i: (apart(rows[i], rows[start]), i))
        for i in [start, *near[: k - 1]]:
            labels[i] = label
            left.remove(i)
        label += 1

    while len(left) >= 2 * k:
        pairs = len(left) >= 3 * k
        known = [rows[i][0] for i in left if rows[i][0] is not None]
        mean = sum(known) / len(known) if known else None
        centre = (mean, mode([rows[i][1] for i in left]), mode([rows[i][2] for i in left]))
        first = min(left, key=lambda i: (-apart(rows[i], centre), i))
        second = min(left, key=lambda i: (-apart(rows[i], rows[first]), i))
        take(first)
        if pairs and second in left:
            take(second)
    for i in left:
        labels[i] = label
    return labels


def mixed_of(rows: list[tuple[Any, ...]]) -> MixedRecords:
    return MixedRecords(
        scales=np.array([[math.nan if row[j] is None else row[j] for row in rows] for j in (0, 1)]),
        ranked=np.array([False, True]),
        scale_weights=np.array([2.0, 1.0]),
        codes=np.array([[-1 if row[2] is None else row[2] for row in rows]]),
        paths=np.array([[[PATHS[value][level] for value in range(3)] for level in (0, 1)]]),
        heights=np.array([2]),
        code_weights=np.array([1.0]),
    )


CELLS = st.tuples(
    st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0])),
    st.one_of(st.none(), st.integers(0, 2)),
)


@settings(max_examples=at_most(200))
@given(st.lists(CELLS, min_size=2, max_size=20), st.integers(1, 4))
def test_groups_are_those_of_the_definition(rows: list[tuple[Any, ...]], k: int) -> None:
    mixed = mixed_of(rows)
    if len(rows) < k:
        with pytest.raises(UsageError):
            gower_groups(mixed, k)
        return
    found = gower_groups(mixed, k)
    assert np.bincount(found).min() >= k
    assert found.tolist() == oracle(rows, k)
