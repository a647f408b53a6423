"""The search: a function of records, order, key and budget, never a loss, and as low as the specification asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.draws import Draws, Seed
from privpipe.kernels.microaggregation.groups import GroupCondition, meets, merged_groups
from privpipe.kernels.microaggregation.lower_bound import recombined_search
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.kernels.microaggregation.neighbourhood_search import nearest_first
from privpipe.kernels.microaggregation.neighbours import nearest_neighbours
from privpipe.kernels.microaggregation.refine import descend, group_sse, path_step, search
from tests.tiers import at_most

Points = NDArray[np.float64]


def stream(seed: int) -> object:
    return Draws(Seed.insecure(seed), 0, "microaggregate").of("")


def refined(points: Points, k: int) -> NDArray[np.int64]:
    return descend(points, path_step(points, mdav_groups(points, k), k), k)


@given(st.lists(st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=4, max_size=40), st.integers(2, 4))
def test_groups_keep_their_size_and_never_lose(rows: list[tuple[int, int]], k: int) -> None:
    points = np.array(rows, dtype=np.float64)
    if len(points) < k:
        return
    start = refined(points, k)
    found = search(points, start, k, stream(1), iterations=200)  # type: ignore[arg-type]
    sizes = np.bincount(found)
    assert k <= sizes.min() <= sizes.max() < 2 * k
    assert group_sse(points, found) <= group_sse(points, start) + 1e-9
    assert (found == search(points, start, k, stream(1), iterations=200)).all()  # type: ignore[arg-type]


def test_no_steps_change_nothing() -> None:
    points = np.random.default_rng(1).normal(size=(40, 2))
    start = mdav_groups(points, 3)
    assert (search(points, start, 3, stream(1), iterations=0) == start).all()  # type: ignore[arg-type]
    one = np.zeros(5, np.int64)
    assert (search(points[:5], one, 3, stream(1)) == one).all()  # type: ignore[arg-type]


def test_neighbours_come_nearest_first() -> None:
    points = np.random.default_rng(1).integers(0, 9, (60, 2)).astype(np.float64)
    found = nearest_first(points, nearest_neighbours(points, 7))
    for i in range(60):
        apart = ((points - points[i]) ** 2).sum(axis=1)
        wanted = [j for j in np.lexsort((np.arange(60), apart)).tolist() if j != i][:7]
        assert found[i].tolist() == wanted


def test_every_group_meets_the_condition_before_and_after() -> None:
    rng = np.random.default_rng(4)
    points, codes = rng.normal(size=(300, 3)), rng.choice(4, 300, p=[0.7, 0.1, 0.1, 0.1])
    shares = np.bincount(codes) / 300
    for l, t in ((2, np.inf), (3, np.inf), (0, 0.25)):
        condition = GroupCondition(codes, shares, l, t)
        start = merged_groups(points, mdav_groups(points, 4), condition)
        assert start is not None
        start = np.unique(start, return_inverse=True)[1]
        better = descend(points, start, 4, condition=condition)
        best = search(points, better, 4, stream(2), iterations=3000, condition=condition)  # type: ignore[arg-type]
        for labels in (start, better, best):
            counts = np.zeros((labels.max() + 1, 4), np.int64)
            np.add.at(counts, (labels, codes), 1)
            assert all(meets(each, int(each.sum()), shares, l, t) for each in counts)
            assert counts.sum(axis=1).min() >= 4
        assert group_sse(points, start) >= group_sse(points, better) >= group_sse(points, best)
    impossible = GroupCondition(np.zeros(300, np.int64), np.ones(1), 2, np.inf)
    assert merged_groups(points, mdav_groups(points, 4), impossible) is None


# For k = 5 and 10 as issue 16, point 4, asks; for k = 3, where the default goes on after the search, as the masking
# specification, section 14.
AT_MOST = {"census.csv": (4.83, 7.44, 11.53), "tarragona.csv": (14.7, 20.20, 30.12)}


@pytest.mark.deep
@pytest.mark.parametrize("file", AT_MOST)
def test_losses_are_as_low_as_asked_for(shared: Path, file: str) -> None:
    values = pd.read_csv(shared / "data/casc" / file).to_numpy(dtype=np.float64)
    points = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    for k, limit in zip((3, 5, 10), AT_MOST[file], strict=True):
        made = recombined_search if k == 10 else search
        found = made(points, refined(points, k), k, stream(3))  # type: ignore[arg-type]
        assert 100 * group_sse(points, found) / ((len(points) - 1) * points.shape[1]) <= limit


@settings(max_examples=at_most(15))
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-2, 2)), min_size=8, max_size=30), st.integers(4, 5))
def test_a_warm_search_never_loses_either(rows: list[tuple[int, int]], k: int) -> None:
    points = np.array(rows, dtype=np.float64)
    start = refined(points, k)
    found = search(points, start, k, stream(1), iterations=40 * len(points))  # type: ignore[arg-type]
    sizes = np.bincount(found)
    assert k <= sizes.min() <= sizes.max() < 2 * k
    assert group_sse(points, found) <= group_sse(points, start) + 1e-9
