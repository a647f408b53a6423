"""Sets of values as persons' values, from the definition in plain Python."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
from privpipe.blocks.class_block import HeldValues
from privpipe.kernels.classes.posterior import ruled_out_posterior
from privpipe.models import (
    AlphaKAnonymity,
    DistinctLDiversity,
    EntropyLDiversity,
    PSensitiveKAnonymity,
    RecursiveCLDiversity,
)
from privpipe.testing import judged
from tests.tiers import at_most

Rows = list[tuple[int, int, int]]
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=40)


def held_of(rows: Rows) -> tuple[HeldValues, int]:
    """Rows of (class, person, value), the classes numbered from 0 on."""
    numbers = {each: at for at, each in enumerate(sorted({row[0] for row in rows}))}
    classes, persons, codes = np.array([(numbers[c], 7 * p, 1000 - v) for c, p, v in rows], dtype=np.int64).T
    return HeldValues(classes, persons, codes), len(numbers)


def members(rows: Rows) -> dict[int, dict[int, set[int]]]:
    found: dict[int, dict[int, set[int]]] = {}
    for owner, person, value in rows:
        found.setdefault(owner, {}).setdefault(person, set()).add(value)
    return found


def sets_of(persons: dict[int, set[int]]) -> list[int]:
    """How many have each set, ascending; all of them the one value that all share."""
    if set.intersection(*persons.values()):
        return [len(persons)]
    return sorted(Counter(map(frozenset, persons.values())).values())


def by_class(cells: Cells) -> list[list[int]]:
    return [sorted(part.tolist()) for part in np.split(cells.counts, cells.offsets[1:-1])]


@settings(max_examples=at_most(200))
@given(rows=ROWS, seed=st.integers(0, 99))
def test_sets_are_counted_as_defined_in_any_order(rows: Rows, seed: int) -> None:
    held, classes = held_of(rows)
    wanted = [sets_of(persons) for _, persons in sorted(members(rows).items())]
    assert by_class(held.sets(classes)) == wanted
    order = np.random.default_rng(seed).permutation(len(rows))
    shuffled, _ = held_of([rows[at] for at in order])
    assert by_class(shuffled.sets(classes)) == wanted


@given(rows=ROWS, data=st.data())
def test_chosen_classes_hold_what_they_held(rows: Rows, data: st.DataObject) -> None:
    held, classes = held_of(rows)
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=classes, max_size=classes)), dtype=np.bool_)
    found = by_class(held.take(chosen).sets(int(chosen.sum()))) if chosen.any() else []
    assert found == [each for each, kept in zip(by_class(held.sets(classes)), chosen, strict=True) if kept]


@given(rows=ROWS)
def test_a_row_may_represent_persons_who_are_alike(rows: Rows) -> None:
    """Persons of a single row, put together by class and value, as a search holds them."""
    rows = sorted(set(rows))
    often = Counter(person for _, person, _ in rows)
    groups: dict[tuple[int, int], int] = {}
    together: Counter[tuple[int, int, int]] = Counter()
    for owner, person, value in rows:
        who = person if often[person] > 1 else groups.setdefault((owner, value), 100 + len(groups))
        together[owner, who, value] += 1
    held, classes = held_of(rows)
    merged, _ = held_of(list(together))
    merged.counts = np.array(list(together.values()), dtype=np.int64)
    assert by_class(merged.sets(classes)) == by_class(held.sets(classes))


def test_no_one_holds_nothing() -> None:
    none = np.zeros(0, dtype=np.int64)
    cells = HeldValues(none, none, none).sets(0)
    assert (cells.offsets.tolist(), len(cells.counts)) == ([0], 0)


def test_a_worker_counts_what_it_was_sent() -> None:
    held, classes = held_of([(0, 0, 1), (0, 1, 2), (0, 1, 3)])
    held.sets(classes)
    assert by_class(pickle.loads(pickle.dumps(held)).sets(classes)) == [[1, 1]]


def test_many_values_of_one_person() -> None:
    rows = [(0, 0, value) for value in range(3000)] + [(0, 1, value) for value in range(1, 3001)] + [(0, 2, 9999)]
    held, classes = held_of(rows)
    assert by_class(held.sets(classes)) == [[1, 1, 1]]


HIV = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 2), (0, 2, 0), (0, 2, 3)]
"""Three persons who all have one illness, each with one more."""
CROSSED = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 2), (0, 2, 1), (0, 2, 2), (0, 3, 0)]
"""The sets {a, b}, {a, c}, {b, c} and {a}: four, and no illness is everyone's."""


def block_of(rows: Rows) -> ClassBlock:
    held, classes = held_of(rows)
    numbers = {each: at for at, each in enumerate(sorted(members(rows)))}
    cells = sorted(Counter((numbers[owner], value) for owner, _, value in set(rows)).items())
    offsets = np.searchsorted([owner for (owner, _), _ in cells], np.arange(classes + 1)).astype(np.int64)
    codes, counts = (np.array(part, dtype=np.int64) for part in zip(*[(v, n) for (_, v), n in cells], strict=True))
    sizes = np.array([len(persons) for _, persons in sorted(members(rows).items())], dtype=np.int64)
    return ClassBlock(sizes, {"ill": Cells(offsets, codes, counts)}, held={"ill": held})


@pytest.mark.parametrize(
    ("rows", "alpha", "l", "entropy", "infimum"),
    [(HIV, 1.0, 1, 1.0, None), (CROSSED, 0.75, 4, 4.0, 1 / 3)],
    ids=["one illness is everyone's", "none is"],
)
def test_worked_classes(rows: Rows, alpha: float, l: int, entropy: float, infimum: float | None) -> None:
    block, facts = block_of(rows), Facts(unit="persons")
    found = [
        judged(model, block, facts)
        for model in (
            AlphaKAnonymity(k=2, alpha=0.6, column="ill"),
            DistinctLDiversity(column="ill", l=2),
            EntropyLDiversity(column="ill", l=1.5),
            EntropyLDiversity(column="ill", l=1.5, estimator="grassberger"),
            RecursiveCLDiversity(column="ill", l=2, c=100.0),
            PSensitiveKAnonymity(columns=("ill",), k=2, p=2),
        )
    ]
    assert found[0].observed == {"k": len(members(rows)[0]), "alpha": alpha}
    assert found[1].observed == l
    assert found[2].observed == pytest.approx(entropy)
    assert found[4].observed == (None if infimum is None else pytest.approx(infimum))
    assert found[5].observed == {"k": len(members(rows)[0]), "p": l}
    assert [verdict.passed for verdict in found[1:]] == [l > 1] * 5


@settings(max_examples=at_most(200))
@given(rows=ROWS, excluded=st.integers(0, 3))
def test_ruling_values_out_is_bounded_from_above(rows: Rows, excluded: int) -> None:
    """No choice of values that a person has not makes another one more certain than the attack says."""
    block = block_of(rows)
    cells = block.cells["ill"]
    bounds = ruled_out_posterior(cells.offsets, cells.counts, block.sizes, excluded)
    for bound, (_, persons) in zip(bounds.tolist(), sorted(members(rows).items()), strict=True):
        values = set().union(*persons.values())
        for out in combinations(sorted(values), min(excluded, len(values) - 1)):
            left = [held for held in persons.values() if not held & set(out)]
            chances = [sum(value in held for held in left) / len(left) for value in values - set(out) if left]
            assert max(chances, default=0.0) <= bound + 1e-12


@given(rows=ROWS)
def test_entropy_has_the_same_bits_however_sets_are_numbered(rows: Rows) -> None:
    model = EntropyLDiversity(column="ill")
    figures = {judged(model, block_of(order), Facts()).observed for order in (rows, rows[::-1], sorted(rows))}
    assert len(figures) == 1
    wanted = [sets_of(persons) for persons in members(rows).values()]
    least = min(math.exp(-math.fsum(n / sum(own) * math.log(n / sum(own)) for n in own)) for own in wanted)
    assert figures.pop() == pytest.approx(least)


def test_the_base_of_persons_is_of_persons() -> None:
    import pyarrow as pa

    both = Histogram(pa.array(["flu", "gout"]), np.array([3, 2]), 4)
    assert Facts(histograms={"ill": both}).base("ill").tolist() == [0.75, 0.5]
    assert both.shares.tolist() == [0.6, 0.4]
