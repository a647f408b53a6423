"""Microaggregation by blocks: a function of the records, no worse than MDAV over all, whatever the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.draws import Draws, Seed
from privpipe.errors import UsageError
from privpipe.kernels.microaggregation.blocks import block_groups, group_means, microaggregate, regroup
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.kernels.microaggregation.refine import group_sse

STREAM = Draws(Seed.insecure(42), stage=0, transformer="microaggregate").of("")


def mixture(n: int, s: int = 3) -> NDArray[np.float64]:
    generator = np.random.default_rng(n)
    middles = generator.normal(0, 3, (8, s))
    points = middles[generator.integers(0, 8, n)] + generator.normal(size=(n, s))
    scores: NDArray[np.float64] = (points - points.mean(axis=0)) / points.std(axis=0, ddof=1)
    return scores


def ids_of(n: int) -> NDArray[np.int64]:
    return np.column_stack([np.arange(n), np.arange(n)])


@pytest.mark.parametrize("block", [None, 150])
def test_row_order_and_threads_change_nothing(block: int | None) -> None:
    points, ids = mixture(900), ids_of(900)
    labels = microaggregate(points, STREAM.arrange(ids), 4, block=block)
    assert 4 <= np.bincount(labels).min() <= np.bincount(labels).max() < 8
    order = np.random.default_rng(0).permutation(900)
    shuffled = microaggregate(points[order], STREAM.arrange(ids[order]), 4, block=block, workers=3)
    assert (shuffled == labels[order]).all()
    means = group_means(points, labels, STREAM.arrange(ids))
    assert (means == group_means(points[order], shuffled, STREAM.arrange(ids[order]))).all()


def test_blocks_refined_lose_less_than_mdav_over_all() -> None:
    points = mixture(6000)
    order = STREAM.arrange(ids_of(6000))
    plain = group_sse(points, mdav_groups(points, 5))
    losses = [group_sse(points, microaggregate(points, order, 5, block=1000, passes=p)) for p in (0, 1, 2)]
    assert plain > losses[0] > losses[1] > losses[2]
    unrefined = group_sse(points, microaggregate(points, order, 5, block=1000, refine=False))
    assert unrefined > losses[0]


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.tuples(st.just(k), st.lists(st.tuples(*[st.integers(0, 3)] * 2), min_size=k, max_size=60))
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_tied_records_are_grouped_by_keyed_order(
    case: tuple[int, list[tuple[int, int]]], refine: bool, shuffler: Any
) -> None:
    k, rows = case
    points, ids = np.array(rows, dtype=np.float64), ids_of(len(rows))
    labels = microaggregate(points, STREAM.arrange(ids), k, block=2 * k + 3, refine=refine)
    assert np.bincount(labels).min() >= k
    order = np.random.default_rng(shuffler.getrandbits(32)).permutation(len(rows))
    again = microaggregate(points[order], STREAM.arrange(ids[order]), k, block=2 * k + 3, refine=refine)
    assert (again == labels[order]).all()


def test_equal_records_are_chunked_in_keyed_order() -> None:
    order = np.array([3, 0, 4, 1, 6, 2, 5])
    labels = block_groups(np.zeros((7, 2)), order, 3)
    assert labels[order].tolist() == [0, 0, 0, 1, 1, 1, 1]


def test_a_block_that_cannot_be_cut_is_chunked_along_its_values() -> None:
    points = np.zeros((3000, 1))
    points[:2] = 50.0
    labels = microaggregate(points, np.arange(3000), 3, block=100)
    assert np.bincount(labels).min() >= 3
    assert labels[0] == labels[1]


def test_regrouping_keeps_sizes_and_never_loses() -> None:
    points = mixture(200)
    order = np.arange(200)
    start = np.repeat(np.arange(40), 5)
    labels = regroup(points, start * 7 - 100, order, 5)
    assert np.bincount(labels).min() >= 5
    assert group_sse(points, labels) <= group_sse(points, start)


def test_means_keep_the_sums_of_the_columns() -> None:
    points = mixture(500)
    values = 1e6 * points + 5e7
    order = np.arange(500)
    labels = microaggregate(points, order, 5)
    released = group_means(values, labels, order)[labels]
    assert released.sum(axis=0) == pytest.approx(values.sum(axis=0), rel=1e-12)
    assert (released.var(axis=0) <= values.var(axis=0)).all()


@pytest.mark.parametrize("n", [5, 9, 10, 14, 15])
def test_few_records(n: int) -> None:
    labels = microaggregate(mixture(n), np.arange(n), 5)
    assert np.bincount(labels).min() >= 5


def test_wrong_arguments_are_refused() -> None:
    points = mixture(50)
    for block, passes in ((9, 2), (20, 3)):
        with pytest.raises(UsageError):
            microaggregate(points, np.arange(50), 5, block=block, passes=passes)
    with pytest.raises(UsageError):
        microaggregate(points[:3], np.arange(3), 5)
