"""Persons of values, and of runs of values, counted again by sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.kernels.synthesis.copula import ValueRanks
from privpipe.kernels.synthesis.value_cells import ValueCells, ValuePersons, first_of_each

SEEDS = st.integers(0, 10_000)


def held_of(places: np.ndarray, persons: np.ndarray, size: int, enough: int) -> ValuePersons:
    return ValuePersons.of([first_of_each(places, persons, enough)], size)


@given(seed=SEEDS, enough=st.integers(1, 9))
def test_persons_are_counted_up_to_what_is_enough(seed: int, enough: int) -> None:
    rng = np.random.default_rng(seed)
    places, persons = rng.integers(0, 8, 60), rng.integers(0, 7, 60)
    held = held_of(places, persons, 8, enough)
    sets = [set(persons[places == at].tolist()) for at in range(8)]
    assert held.counts().tolist() == [min(len(each), enough) for each in sets]
    some = np.array([1, 4, 6])
    union = set().union(*(sets[at] for at in some))
    assert min(held.number(some), enough) == min(len(union), enough)
    assert held.taken(some).counts().tolist() == held.counts()[some].tolist()


@given(seed=SEEDS, least=st.integers(1, 6))
def test_runs_are_joined_until_each_is_of_enough_persons(seed: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.sort(rng.integers(0, 20, 80))
    persons = rng.integers(0, 9, 80)
    held = held_of(places, persons, 20, 100)
    firsts = np.unique(np.concatenate([[0], rng.integers(0, 20, 6)]))
    found = held.joined(firsts, least)
    assert set(found.tolist()) <= set(firsts.tolist())
    assert found[0] == 0
    ends = [*found[1:].tolist(), 20]
    sizes = [len(set(persons[(places >= a) & (places < b)].tolist())) for a, b in zip(found, ends, strict=True)]
    assert len(found) == 1 or min(sizes) >= least


def test_no_point_is_a_value_of_few_persons() -> None:
    """Eight records of one person are one: its value is rare, and no mean is of it alone."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.normal(100, 9, 60).round(2), [9000.5] * 8])
    persons = np.concatenate([np.arange(60), [99] * 8])
    ranks = ValueRanks.of(values, np.ones(len(values), np.int64))
    held = held_of(np.searchsorted(ranks.values, values), persons, len(ranks.values), 10)
    for parted in (False, True):
        by_rows = ValueCells.of(ranks, 20, 5, parted=parted)
        by_persons = ValueCells.of(ranks, 20, 5, parted=parted, persons=held)
        assert 9000.5 in by_rows.atoms
        assert 9000.5 not in by_persons.atoms
        assert 9000.5 not in {point for points in by_persons.points for point in points}
        rest = by_persons.starts.tolist()
        for low, high in zip(rest, [*rest[1:], np.inf], strict=True):
            inside = (values >= low) & (values < high)
            assert len(set(persons[inside].tolist())) >= 10
