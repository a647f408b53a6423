"""Persons under one id however their releases spell them, and the share of them that a ledger knows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from privpipe.blocks.release_history import ReleaseRows
from privpipe.ledger.ledger import known_share, recognised


def release(names: list[str], folded: bool = True) -> ReleaseRows:
    """A release of these persons, hashed by their texts, each in one class."""
    units, folds = (
        np.array([[hash((kind, text)), 1] for text in texts], dtype=np.int64).reshape(-1, 2)
        for kind, texts in (("spelt", names), ("folded", [name.strip().casefold() for name in names]))
    )
    ones = np.ones(len(names), dtype=np.int64)
    return ReleaseRows(units, np.zeros((len(names), 2), np.int64), ones, folds=folds if folded else None)


def share(earlier: list[str], current: list[str], folded: bool = True) -> tuple[int, int]:
    first, last = recognised([release(earlier, folded), release(current)])
    return known_share(last, [first])


def test_the_share_of_persons_known() -> None:
    assert share(["a", "b"], ["A ", "b", "c"]) == (2, 3)
    assert share(["a"], []) == (0, 0)
    assert share([], ["a"]) == (0, 1)


def test_a_spelling_that_two_persons_share_is_nobodys() -> None:
    assert share(["Ann", "ann", "Bob"], ["ANN", "BOB"]) == (1, 2)
    assert share(["Ann", "ann"], ["ann", "Ann"]) == (2, 2)


def test_releases_that_were_remembered_without_it_are_compared_as_spelt() -> None:
    assert share(["a", "B"], ["A", "B"], folded=False) == (1, 2)
    first, middle, last = recognised([release(["a"], folded=False), release(["a"]), release(["A"])])
    assert known_share(last, [first]) == known_share(last, [middle]) == (1, 1)


@given(*[st.lists(st.sampled_from(["a", "A", " a", "b", "B", "c"]), unique=True)] * 2)
def test_no_two_persons_of_a_release_become_one(one: list[str], other: list[str]) -> None:
    for before, after in zip((one, other), recognised([release(one), release(other)]), strict=True):
        assert len(np.unique(after.units, axis=0)) == len(before)
