"""Drawn groups: by membership, and none published to fewer than k."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.microaggregation.fuzzy_membership import drawn_groups, held_by_k


def test_shares_are_those_of_the_memberships() -> None:
    """One record at distances 1 and 2 of two centroids; fuzziness 2: shares 4/5 and 1/5."""
    points = np.array([[0.0], [2.0], [3.0], [5.0], [1.0 + 1.0]])
    labels = np.array([0, 0, 1, 1, 0])
    centres = [4.0 / 3.0, 4.0]
    share = (1 / (2.0 - centres[0]) ** 2) / (1 / (2.0 - centres[0]) ** 2 + 1 / (2.0 - centres[1]) ** 2)
    for uniform, group in ((share - 1e-6, 0), (share + 1e-6, 1)):
        drawn = drawn_groups(points, labels, np.arange(5), np.full(5, uniform), 1, neighbours=2, fuzziness=2.0)
        assert drawn[4] == group


def test_a_record_at_a_centroid_stays_and_equal_ones_share() -> None:
    points = np.array([[1.0], [1.0], [1.0], [1.0], [9.0], [9.0]])
    labels = np.array([0, 0, 1, 1, 2, 2])
    low, high = (
        drawn_groups(points, labels, np.arange(6), np.full(6, u), 1, neighbours=3, fuzziness=3.0) for u in (0.4, 0.6)
    )
    assert low.tolist() == [0, 0, 0, 0, 2, 2]
    assert high.tolist() == [1, 1, 1, 1, 2, 2]


@given(
    st.lists(st.integers(0, 6), min_size=3, max_size=40),
    st.integers(1, 5),
)
def test_every_published_group_has_k_holders(drawn: list[int], k: int) -> None:
    found = held_by_k(np.array(drawn), np.arange(7.0)[:, None] ** 2, k)
    sizes = np.bincount(found)
    assert sizes[sizes > 0].min() >= min(k, len(drawn))
    assert set(found.tolist()) <= set(drawn)
