"""Relaxations made whole: partitions among given groups, never worse than the search, a function of records and key."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.draws import Stream
from privpipe.kernels.microaggregation.group_pool import Pool, squared_distances
from privpipe.kernels.microaggregation.groups import GroupCondition
from privpipe.kernels.microaggregation.lower_bound import recombined_search, rounded_search
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.kernels.microaggregation.refine import group_sse, search, searched
from tests.tiers import at_most

STREAM = Stream(bytes(range(16)))


@pytest.mark.parametrize("seed", range(4))
def test_a_relaxation_over_all_groups_rounds_to_the_best_partition(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(8, 2))
    halves = [half for half in combinations(range(8), 4) if 0 in half]
    pool = Pool(squared_distances(points), 4)
    pool.add(np.array([*halves, *(sorted({*range(8)} - {*half}) for half in halves)]))
    losses = [group_sse(points, np.isin(np.arange(8), half).astype(np.int64)) for half in halves]
    pool.add_partition(np.isin(np.arange(8), halves[int(np.argmax(losses))]).astype(np.int64))
    assert pool.relaxed() is not None
    rounded = pool.rounded()
    assert rounded is not None
    assert group_sse(points, rounded) == pytest.approx(min(losses))


def test_records_left_over_join_the_nearest_mean() -> None:
    points = np.array([[0.0], [1.0], [2.0], [9.0], [10.0], [3.0], [8.0]])
    pool = Pool(squared_distances(points), 2)
    pool.add(np.array([[0, 1, 2], [3, 4, -1], [0, 1, 5], [2, 3, 6]]))
    pool._shares = np.array([0.9, 1.0, 0.1, 1e-9])
    rounded = pool.rounded()
    assert rounded is not None
    assert [sorted(np.flatnonzero(rounded == group).tolist()) for group in (0, 1)] == [[3, 4, 6], [0, 1, 2, 5]]


def test_without_a_relaxation_nothing_is_rounded() -> None:
    points = np.array([[0.0], [1.0], [5.0], [6.0]])
    pool = Pool(squared_distances(points), 2)
    pool.add_partition(np.array([0, 1, 0, 1]))
    assert pool.rounded() is None
    rounded_search(pool, points, STREAM)
    assert pool.labels().tolist() == [0, 1, 0, 1]


@settings(max_examples=at_most(15))
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=8, max_size=40), st.integers(4, 5))
def test_recombining_never_loses_beside_the_search(rows: list[tuple[int, int]], k: int) -> None:
    points = np.array(rows, dtype=np.float64)
    start, steps = mdav_groups(points, k), 20 * len(points)
    found = recombined_search(points, start, k, STREAM, iterations=steps)
    alone = search(points, start, k, STREAM, iterations=steps)
    sizes = np.bincount(found)
    assert k <= sizes.min()
    if len(points) >= 2 * k:
        assert sizes.max() < 2 * k
    assert group_sse(points, found) <= group_sse(points, alone) * (1 + 1e-9) + 1e-9
    assert (found == recombined_search(points, start, k, STREAM, iterations=steps)).all()


def test_it_gains_where_two_runs_differ() -> None:
    points = np.random.default_rng(3).normal(size=(200, 3))
    start = mdav_groups(points, 5)
    pairs = [
        (group_sse(points, made(points, start, 5, STREAM.child(str(at)), iterations=4_000)))
        for made in (search, recombined_search)
        for at in range(3)
    ]
    assert all(after <= before + 1e-9 for before, after in zip(pairs[:3], pairs[3:], strict=True))
    assert sum(pairs[3:]) < sum(pairs[:3]) - 1e-6


def test_conditions_small_k_and_short_searches_stay_with_the_search() -> None:
    points = np.random.default_rng(3).normal(size=(60, 2))
    codes = np.arange(60) % 2
    condition = GroupCondition(codes, np.array([0.5, 0.5]), 1, np.inf)
    for k, iterations, held in ((3, 1_500, None), (5, 600, None), (5, 1_500, condition)):
        start = mdav_groups(points, k)
        more = {} if held is None else {"condition": held}
        found = recombined_search(points, start, k, STREAM, iterations=iterations, **more)
        assert (found == search(points, start, k, STREAM, iterations=iterations, **more)).all()


@pytest.mark.deep
def test_by_default_four_runs_are_put_together_above_k_of_five() -> None:
    points = np.random.default_rng(5).normal(size=(90, 3))
    for k, runs in ((5, 2), (6, 4), (10, 4)):
        start = mdav_groups(points, k)
        best, groups = searched(points, start, k, STREAM, runs=runs)
        assert len(groups) == runs
        found = recombined_search(points, start, k, STREAM)
        assert group_sse(points, found) <= group_sse(points, best) + 1e-9
        fewer, first = searched(points, start, k, STREAM)
        assert group_sse(points, best) <= group_sse(points, fewer)
        assert all((one == other).all() for one, other in zip(first, groups, strict=False))
        given = recombined_search(points, start, k, STREAM, iterations=150 * len(points))
        assert group_sse(points, given) <= group_sse(points, fewer) + 1e-9
        assert (runs == 4) or (given == found).all()


def test_more_runs_are_made_in_default_budgets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*given: Any, **more: Any) -> Any:
        made.extend([more["runs"]] if "runs" in more else [])  # without: on from a relaxation
        return searched(*given, **more)

    monkeypatch.setattr("privpipe.kernels.microaggregation.lower_bound.searched", counted)
    points = np.random.default_rng(5).normal(size=(80, 2))
    codes = np.arange(80) % 2
    condition = GroupCondition(codes, np.array([0.5, 0.5]), 1, np.inf)
    for k, more in ((10, {}), (10, {"iterations": 200}), (10, {"condition": condition}), (5, {}), (21, {})):
        recombined_search(points, mdav_groups(points, k), k, STREAM, **more)  # type: ignore[arg-type]
    assert made == [4, 2, 2, 2, 2]
