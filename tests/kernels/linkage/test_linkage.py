"""Linkage scores are those of all distances, by tiles and by tree; a sample's limit is Clopper and Pearson's."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.errors import UsageError
from privpipe.kernels.linkage import distance as linkage
from privpipe.kernels.linkage.attack_figures import upper_share
from privpipe.kernels.linkage.distance import LinkedFile, linkage_scores, one_to_one, pair_distances
from tests.tiers import at_most


def by_definition(distances: np.ndarray, partner: np.ndarray, ties: str) -> list[float]:
    scores = []
    for row, true in zip(distances.tolist(), partner.tolist(), strict=True):
        near = [at for at, d in enumerate(row) if d - min(row) <= 1e-12 * (1 + d)]
        t = len(near)
        scores.append(0.0 if true not in near else {"fractional": 1 / t, "strict": float(t == 1), "any": 1.0}[ties])
    return scores


@settings(max_examples=at_most(200))
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 12),
    columns=st.integers(1, 3),
    ties=st.sampled_from(["fractional", "strict", "any"]),
)
def test_scores_are_those_of_all_distances(seed: int, n: int, columns: int, ties: str) -> None:
    rng = np.random.default_rng(seed)
    none = np.zeros((n, 0), dtype=np.int64)
    x, y = (LinkedFile(rng.integers(0, 3, (n, columns)).astype(float), none) for _ in range(2))
    partner = rng.permutation(n)
    distances = np.sqrt(((x.numbers[:, None] - y.numbers[None]) ** 2).sum(axis=2))
    assert np.array_equal(pair_distances(x, y, squared=True), distances)
    wanted = by_definition(distances, partner, ties)
    assert linkage_scores(x, y, partner, squared=True, ties=ties).tolist() == wanted  # type: ignore[arg-type]
    by_tree = linkage._by_tree(x.numbers, y.numbers, partner)
    assert by_tree.tolist() == linkage._by_tiles(x, y, partner, True).tolist()


def test_candidates_apart_by_exactly_the_tolerance_tie() -> None:
    step = 1e-12 * (1 + 1e-12)
    assert step == 1e-12 * (1 + step), "the largest distance that still equals 0"
    none = np.zeros((1, 0), dtype=np.int64)
    attacked = LinkedFile(np.zeros((1, 1)), none)
    for apart, near in ((step, 2), (np.nextafter(step, 1), 0)):
        candidates = LinkedFile(np.array([[0.0], [apart]]), np.repeat(none, 2, axis=0))
        partner = np.array([1])
        assert linkage._by_tiles(attacked, candidates, partner, True).tolist() == [near]
        assert linkage._by_tree(attacked.numbers, candidates.numbers, partner).tolist() == [near]


def test_gower_counts_missing_values_and_covers() -> None:
    numbers = np.array([[0.1], [np.nan], [0.9]]), np.array([[0.3], [np.nan], [np.nan]])
    codes = np.array([[0], [1], [2]]), np.array([[0], [0], [1]])
    mismatch = np.array([[False, True], [False, True], [True, False]])
    x = LinkedFile(numbers[0], codes[0], (mismatch,))
    y = LinkedFile(numbers[1], codes[1], (mismatch.T,))
    found = pair_distances(x, y, squared=False)
    assert found == pytest.approx(np.array([[0.1, 0.5, 1.0], [0.5, 0.0, 0.5], [0.8, 1.0, 0.5]]))
    assert pair_distances(y, x, squared=False) == pytest.approx(found.T)
    plain = LinkedFile(numbers[0], codes[0], (None,))
    assert pair_distances(plain, plain, squared=False)[0].tolist() == [0.0, 1.0, 0.9]


def test_an_assignment_of_least_total() -> None:
    rng = np.random.default_rng(1)
    for n in (2, 3, 4):
        distances = rng.integers(0, 4, (n, n)).astype(float)
        totals = {p: sum(distances[i, j] for i, j in enumerate(p)) for p in permutations(range(n))}
        best = [p for p, total in totals.items() if total == min(totals.values())]
        right = [sum(i == j for i, j in enumerate(p)) for p in best]
        for ties, count in (("any", max(right)), ("strict", min(right)), ("fractional", (max(right) + min(right)) / 2)):
            assert one_to_one(distances, ties) == (count, min(totals.values()))  # type: ignore[arg-type]
    assert one_to_one(rng.random((3, 5)))[0] <= 3


def test_the_upper_limit_of_a_sample() -> None:
    assert upper_share(0, 60) == pytest.approx(1 - 0.05 ** (1 / 60))  # the closed form without a hit
    assert upper_share(2.2, 50) == upper_share(3, 50) > 3 / 50
    assert upper_share(5, 5) == 1.0
    with pytest.raises(UsageError):
        upper_share(3, 2)
