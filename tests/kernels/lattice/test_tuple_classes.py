"""Class numbers, totals and cells of combinations, against dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpipe.kernels.lattice.node_classes import class_cells, class_numbers, class_totals

Lookup = tuple[int, NDArray[np.int64], int]


@st.composite
def tables(draw: st.DrawFn) -> tuple[NDArray[np.int32], list[Lookup]]:
    """Codes, and a level of some of their columns; label counts large enough to overflow one word."""
    m, t = draw(st.integers(1, 5)), draw(st.integers(0, 30))
    codes = np.array(draw(st.lists(st.lists(st.integers(0, 4), min_size=m, max_size=m), min_size=t, max_size=t)))
    lookups = []
    for place in draw(st.lists(st.integers(0, m - 1), unique=True)):
        labels = draw(st.sampled_from([1, 3, 5, 10_000, 2**40]))
        table = draw(st.lists(st.integers(0, labels - 1), min_size=5, max_size=5))
        lookups.append((place, np.array(table, dtype=np.int64), labels))
    return codes.reshape(t, m).astype(np.int32), lookups


@given(tables())
def test_numbers_follow_first_occurrence(made: tuple[NDArray[np.int32], list[Lookup]]) -> None:
    codes, lookups = made
    seen: dict[tuple[int, ...], int] = {}
    wanted = [seen.setdefault(tuple(int(t[row[p]]) for p, t, _ in lookups), len(seen)) for row in codes]
    numbers, count = class_numbers(codes, lookups)
    assert numbers.tolist() == wanted
    assert count == len(seen)


def test_a_key_that_no_word_holds() -> None:
    with pytest.raises(OverflowError, match="62 bits"):
        class_numbers(np.zeros((1, 1), np.int32), [(0, np.zeros(1, np.int64), 2**63)])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3), st.integers(0, 4)), max_size=40))
def test_totals_and_cells(rows: list[tuple[int, int, int]]) -> None:
    numbers = np.array([number for number, _, _ in rows], dtype=np.int64)
    codes = np.array([code for _, code, _ in rows], dtype=np.int64)
    counts = np.array([count for _, _, count in rows], dtype=np.int64)
    wanted: dict[int, dict[int, int]] = {number: {} for number in range(6)}
    for number, code, count in rows:
        if count:
            wanted[number][code] = wanted[number].get(code, 0) + count
    assert class_totals(numbers, 6, counts).tolist() == [sum(wanted[number].values()) for number in range(6)]
    offsets, found, totals = class_cells(numbers, 6, np.argsort(codes, kind="stable"), codes, counts)
    for number in range(6):
        cells = slice(offsets[number], offsets[number + 1])
        pairs = list(zip(found[cells].tolist(), totals[cells].tolist(), strict=True))
        assert pairs == sorted(wanted[number].items())
    assert offsets[-1] == len(found) == len(totals)
