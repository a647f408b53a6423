"""Pairs that belong to an assignment of every released record, compared with all assignments written out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from privpipe.kernels.linkage.distance import assignable


def by_enumeration(fits: np.ndarray) -> np.ndarray:
    """Pairs of records that some assignment of every column to a row of its own has; shape of `fits`."""
    found = np.zeros_like(fits)
    rows, columns = fits.shape
    for chosen in permutations(range(rows), columns):
        if all(fits[row, column] for column, row in enumerate(chosen)):
            found[list(chosen), range(columns)] = True
    return found


@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_all_assignments(seed: int) -> None:
    draw = np.random.default_rng(seed)
    feasible = 0
    for _ in range(75):
        n = int(draw.integers(1, 7))
        m = int(draw.integers(1, n + 1))
        fits = draw.random((n, m)) < draw.choice([0.3, 0.5, 0.8])
        rows, columns = np.nonzero(fits)
        found = assignable(rows, columns, np.ones(n, dtype=np.int64), np.ones(m, dtype=np.int64))
        expected = by_enumeration(fits)
        seen = np.zeros_like(fits)
        seen[rows[found.pairs], columns[found.pairs]] = True
        assert (seen == expected).all(), fits
        assert (found.assigned == m) == bool(expected.any())
        feasible += found.assigned == m
    assert 20 < feasible < 75


def test_classes_are_answered_as_their_records_are() -> None:
    draw = np.random.default_rng(9)
    for _ in range(60):
        n, m = (int(size) for size in draw.integers(1, 4, 2))
        records, wanted = draw.integers(1, 4, n), draw.integers(1, 3, m)
        if wanted.sum() > records.sum() or records.sum() > 7:
            continue
        fits = draw.random((n, m)) < 0.6
        rows, columns = np.nonzero(fits)
        found = assignable(rows, columns, records, wanted)
        of, to = np.repeat(np.arange(n), records), np.repeat(np.arange(m), wanted)
        expected = by_enumeration(fits[np.ix_(of, to)])
        pairs = {(int(of[i]), int(to[j])) for i, j in zip(*np.nonzero(expected), strict=True)}
        assert {(int(a), int(b)) for a, b in zip(rows[found.pairs], columns[found.pairs], strict=True)} == pairs


def test_no_pair_at_all_assigns_nothing() -> None:
    none = np.zeros(0, dtype=np.int64)
    found = assignable(none, none, np.array([2]), np.array([1]))
    assert (found.assigned, found.pairs.tolist()) == (0, [])
