"""Equal records of a table count as often as they occur, though they are compared once."""

from __future__ import annotations

import numpy as np
import pytest

from privpipe.kernels.linkage.distance import LinkedFile, linkage_scores, pair_distances
from privpipe.measures.risk.membership.record_distances import closest, nearest_two, within


def few_values(rng: np.random.Generator, records: int) -> LinkedFile:
    numbers = rng.integers(0, 3, (records, 2)) / 4
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    return LinkedFile(numbers, rng.integers(0, 2, (records, 1)))


@pytest.mark.parametrize("seed", range(5))
def test_distances_are_those_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked, among = few_values(rng, 25), few_values(rng, 30)
    every = pair_distances(asked, among, squared=False)
    own = pair_distances(asked, asked, squared=False)
    np.fill_diagonal(own, np.inf)
    assert closest(asked, among, "gower").tolist() == every.min(axis=1).tolist()
    assert nearest_two(asked, among).tolist() == np.sort(every, axis=1)[:, :2].tolist()
    assert nearest_two(asked, asked, itself=True).tolist() == np.sort(own, axis=1)[:, :2].tolist()
    assert within(asked, among, 0.3).tolist() == (every <= 0.3 + 2e-12).sum(axis=1).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_links_are_shared_among_all_equally_near_records(seed: int) -> None:
    rng = np.random.default_rng(seed)
    attacked, candidates = few_values(rng, 25), few_values(rng, 30)
    partner = rng.integers(0, 30, 25)
    every = pair_distances(attacked, candidates, squared=False)
    near = np.isclose(every, every.min(axis=1, keepdims=True), rtol=0, atol=1e-12)
    wanted = near[np.arange(25), partner] / near.sum(axis=1)
    assert linkage_scores(attacked, candidates, partner, squared=False).tolist() == wanted.tolist()
