"""Minimal sample uniques are those of the definition, with blanks, repeated rows and a limit of size."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.kernels.uniqueness.special_uniques import MinimalUniques, dis_scores, minimal_uniques, size_weights
from tests.tiers import at_most


def alone(codes: NDArray[np.int64], counts: NDArray[np.int64], row: int, columns: tuple[int, ...]) -> bool:
    """Whether a record is the only one with its values, blanks taking no part."""
    own = codes[row, list(columns)]
    same = (codes[:, list(columns)] == own).all(axis=1)
    return bool((own >= 0).all()) and int(counts[same].sum()) == 1


def by_definition(codes: NDArray[np.int64], counts: NDArray[np.int64], most: int) -> set[tuple[int, int]]:
    found = set()
    for row in range(len(codes)):
        for size in range(1, most + 1):
            for columns in combinations(range(codes.shape[1]), size):
                parts = [part for part in combinations(columns, size - 1) if part]
                if alone(codes, counts, row, columns) and not any(alone(codes, counts, row, part) for part in parts):
                    found.add((row, sum(1 << column for column in columns)))
    return found


tables = st.integers(1, 5).flatmap(
    lambda m: st.lists(st.tuples(*[st.integers(-1, 2)] * m, st.integers(1, 2)), min_size=1, max_size=14)
)


@settings(max_examples=at_most(200))
@given(tables, st.integers(1, 5))
def test_they_are_those_of_the_definition(rows: list[tuple[int, ...]], most: int) -> None:
    distinct = {row[:-1]: row[-1] for row in rows}
    codes, counts = np.array(list(distinct)), np.array(list(distinct.values()))
    found = minimal_uniques(codes, counts, most)
    listed = list(zip(found.owner.tolist(), found.masks.tolist(), strict=True))
    assert len(set(listed)) == len(listed)
    assert set(listed) == by_definition(codes, counts, min(most, codes.shape[1]))
    backwards = minimal_uniques(codes[::-1], counts[::-1], most)
    for weighted in (False, True):
        weights = size_weights(codes.shape[1], weighted)
        assert found.scores(weights).tolist() == backwards.scores(weights)[::-1].tolist()
        assert found.shares(weights).tolist() == pytest.approx(backwards.shares(weights).tolist(), nan_ok=True)


def test_many_sets_find_room() -> None:
    codes = np.unique(np.random.default_rng(5).integers(0, 9, (900, 8)), axis=0)
    counts = np.ones(len(codes), dtype=np.int64)
    found = minimal_uniques(codes, counts, 4)
    assert len(found.owner) > 5000
    for row in (0, len(codes) - 1):
        for mask in found.masks[found.owner == row].tolist():
            columns = tuple(at for at in range(8) if mask >> at & 1)
            assert alone(codes, counts, row, columns)
            assert not any(alone(codes, counts, row, part) for part in combinations(columns, len(columns) - 1))


def test_scores_without_anything_to_score() -> None:
    none = MinimalUniques(2, 3, np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert none.scores(size_weights(3, False)).tolist() == [0.0, 0.0]
    assert np.isnan(none.shares(size_weights(3, False))).all()
    assert dis_scores(np.zeros(3), 2, 3, 0.01).tolist() == [0, 0, 0]
    assert dis_scores(np.array([0.0, 5.0]), 0, 3, 0.01).tolist() == [0, 1]
