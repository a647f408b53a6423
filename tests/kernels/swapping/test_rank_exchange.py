"""p-buckets and p-distribution: pairs, against the definitions written out rank by rank."""

from __future__ import annotations

from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.draws import Stream
from privpipe.errors import UsageError
from privpipe.kernels.rank_swapping import bucket_permutation, distribution_permutation


@given(n=st.integers(0, 200), buckets=st.integers(1, 30), p=st.floats(0.01, 1), key=st.binary(min_size=16, max_size=16))
def test_ranks_are_paired(n: int, buckets: int, p: float, key: bytes) -> None:
    for pi in (bucket_permutation(n, buckets, Stream(key)), distribution_permutation(n, p, Stream(key))):
        assert (pi[pi] == np.arange(n)).all()
        assert (pi == np.arange(n)).sum() == n % 2


def test_buckets_are_drawn_with_halving_probabilities() -> None:
    """The first rank of 4 buckets draws bucket s with 2^-(s+1) / (1 - 2^-4); 5 sd over 4000 keys."""
    trials, n = 4000, 40
    seen = Counter(int(bucket_permutation(n, 4, Stream(key.to_bytes(16, "little")))[0] // 10) for key in range(trials))
    for s in range(4):
        chance = 2.0 ** -(s + 1) / (1 - 2.0**-4)
        assert abs(seen[s] - trials * chance) <= 5 * (trials * chance * (1 - chance)) ** 0.5


def test_displacements_are_truncated_normal() -> None:
    """The first rank: partner at ceil of a normal (mean and sd 0.5 p n) conditioned on 1 .. n - 1."""
    trials, n, p = 4000, 200, 0.2
    moved = np.array([distribution_permutation(n, p, Stream(key.to_bytes(16, "little")))[0] for key in range(trials)])
    normal = NormalDist(0.5 * p * n, 0.5 * p * n)
    low, high = normal.cdf(0), normal.cdf(n - 1)
    for bound in (5, 10, 20, 30, 50):
        chance = (normal.cdf(bound) - low) / (high - low)
        assert abs((moved <= bound).sum() - trials * chance) <= 5 * (trials * chance * (1 - chance)) ** 0.5
    assert moved.min() >= 1


def test_wrong_numbers() -> None:
    with pytest.raises(UsageError, match="at least one bucket"):
        bucket_permutation(3, 0, Stream(bytes(16)))
    with pytest.raises(UsageError, match="p in"):
        distribution_permutation(3, 0, Stream(bytes(16)))
