"""Chances that the nearest rows of two sides share one, over every way to break ties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from privpipe.kernels.linkage.criteria import linked_by_chance, linked_shares
from privpipe.kernels.linkage.distance import LinkedFile
from privpipe.kernels.linkage.nearest_rows import SearchedRows


def file_of(values: list[int]) -> LinkedFile:
    return LinkedFile(np.array(values)[:, None] / 8, np.zeros((len(values), 0), dtype=np.int64))


def ways(rows: list[int], asked: int, k: int) -> list[set[int]]:
    """Every set of k nearest rows; those that tie for the last places are drawn at random."""
    distances = [abs(row - asked) for row in rows]
    last = sorted(distances)[k - 1]
    nearer = {at for at, distance in enumerate(distances) if distance < last}
    tied = [at for at, distance in enumerate(distances) if distance == last]
    return [nearer | set(some) for some in combinations(tied, k - len(nearer))]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(8))
def test_the_chance_is_that_over_all_ways_to_break_ties(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    n, spread = int(rng.integers(5, 9)), int(rng.integers(2, 6))
    rows, asked = rng.integers(0, spread, (2, n)).tolist(), rng.integers(0, 6, (2, 6)).tolist()
    sides = SearchedRows(file_of(rows[0])), SearchedRows(file_of(rows[1]))
    near = sides[0].nearest(file_of(asked[0]), k), sides[1].nearest(file_of(asked[1]), k)
    expected = []
    for first, second in zip(*asked, strict=True):
        pairs = [bool(one & other) for one in ways(rows[0], first, k) for other in ways(rows[1], second, k)]
        expected.append(sum(pairs) / len(pairs))
    assert linked_shares(sides, near, k).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("rows", "k"), [(1, 1), (5, 1), (5, 2), (5, 3), (6, 2), (4, 9)])
def test_by_chance_any_rows_are_drawn(rows: int, k: int) -> None:
    drawn = [set(some) for some in combinations(range(rows), min(k, rows))]
    assert linked_by_chance(rows, k) == pytest.approx(sum(bool(some & drawn[0]) for some in drawn) / len(drawn))
