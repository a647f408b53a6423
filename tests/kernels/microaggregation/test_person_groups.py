"""Groups of at least k persons, by the definition and record by record."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.microaggregation.groups import groups_of_persons, held_by_persons


def persons_of(labels: np.ndarray, persons: np.ndarray) -> dict[int, set[int]]:
    return {int(group): set(persons[labels == group].tolist()) for group in np.unique(labels)}


def by_definition(points: np.ndarray, labels: np.ndarray, persons: np.ndarray, k: int) -> np.ndarray:
    """The fewest persons first, each with the nearest of the others, the next in the ring where several are."""
    members = {group: np.flatnonzero(labels == group) for group in range(int(labels.max()) + 1)}
    who = persons_of(labels, persons)
    for group in sorted(members, key=lambda each: (len(who[each]), each)):
        while group in members and len({*persons[members[group]]}) < k:
            ring = [each for each in (*range(group + 1, len(who)), *range(group)) if each in members]
            centre = points[members[group]].mean(axis=0)
            apart = [((points[members[each]].mean(axis=0) - centre) ** 2).sum() for each in ring]
            taken = ring[int(np.argmin(np.round(apart, 9)))]
            members[group] = np.concatenate([members[group], members.pop(taken)])
    found = np.empty(len(labels), np.int64)
    for group, here in members.items():
        found[here] = group
    return found


@pytest.mark.deep
@given(seed=st.integers(0, 10_000), k=st.integers(1, 5), people=st.integers(5, 30))
def test_each_group_is_of_k_persons(seed: int, k: int, people: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(people, 90))
    persons = np.concatenate([np.arange(people), rng.integers(0, people, n - people)])
    labels = np.unique(rng.integers(0, max(n // 4, 1), n), return_inverse=True)[1]
    points = rng.integers(0, 9, (n, 2)).astype(float)
    found = groups_of_persons(points, labels, persons, k)
    assert found is not None
    assert min(map(len, persons_of(found, persons).values())) >= k
    # Whole groups join: no group that was made is divided.
    assert all(len(np.unique(found[labels == group])) == 1 for group in np.unique(labels))


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_group_is_taken_in(seed: int) -> None:
    rng = np.random.default_rng(seed)
    persons, labels = rng.integers(0, 12, 60), np.repeat(np.arange(15), 4)
    points = rng.normal(size=(60, 3))
    found = groups_of_persons(points, labels, persons, 4)
    assert found is not None
    assert found.tolist() == by_definition(points, labels, persons, 4).tolist()


def test_persons_of_one_record_change_nothing() -> None:
    labels = np.repeat(np.arange(6), 5)
    found = groups_of_persons(np.random.default_rng(1).normal(size=(30, 2)), labels, np.arange(30) * 7, 5)
    assert found is not None
    assert found.tolist() == labels.tolist()


def test_too_few_persons_make_no_group() -> None:
    assert groups_of_persons(np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1]), np.array([1, 1, 2, 2, 3, 3]), 4) is None
    assert held_by_persons(np.array([0, 0, 1]), np.array([[0.0], [1.0]]), np.array([5, 5, 6]), 3) is None
    empty = np.empty(0, np.int64)
    found = groups_of_persons(np.empty((0, 2)), empty, empty, 3)
    assert found is not None
    assert not len(found)


def test_a_person_with_half_of_many_equal_records_takes_no_longer() -> None:
    """Equal points: the next group is at hand, and no group grows by all that were joined before it."""
    n = 200_000
    persons = np.where(np.arange(n) % 2 == 0, 0, np.arange(n))
    labels = np.repeat(np.arange(n // 4), 4)
    found = groups_of_persons(np.zeros((n, 1)), labels, persons, 5)
    assert found is not None
    sizes = np.bincount(found)
    assert sizes[sizes > 0].max() < 30


@given(seed=st.integers(0, 10_000), k=st.integers(1, 4))
def test_what_is_published_is_held_by_k_persons(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    persons, drawn = rng.integers(0, 9, 50), rng.integers(0, 12, 50)
    found = held_by_persons(drawn, rng.normal(size=(12, 2)), persons, k)
    if len(set(persons.tolist())) < k:
        assert found is None
        return
    assert found is not None
    assert min(map(len, persons_of(found, persons).values())) >= k
