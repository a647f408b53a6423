"""Patterns of single records, record by record from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.blocks import DistinctBlock
from privpipe.measures.risk.identity.individual_risk import weighted_patterns

ROWS: list[tuple[Any, ...]] = [("a", 1), ("a", None), (None, 1), ("b", 1), ("a", 1), (None, None), ("b", 2), (None, 1)]
WEIGHTS = [2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]


def block_of(rows: list[tuple[Any, ...]]) -> DistinctBlock:
    """Records as an engine hands them over: a missing value has a code of its own, and is marked as blank."""
    levels = [sorted(set(column), key=str) for column in zip(*rows, strict=True)]
    codes = np.array([[own.index(cell) for own, cell in zip(levels, row, strict=True)] for row in rows])
    blanks = np.array([[cell is None for cell in row] for row in rows])
    counts = np.ones(len(rows), dtype=np.int64)
    return DistinctBlock(("key", "more"), codes, counts, blanks=blanks, weights=np.array(WEIGHTS))


def like(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if (set(one) == {None}) != (set(other) == {None}):
        return False  # who is blank everywhere vouches for no one
    return all(a == b or None in (a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("matching", [False, True])
def test_each_record_has_the_size_and_weight_of_those_like_it(matching: bool) -> None:
    block, owner = weighted_patterns(block_of(ROWS), matching)
    assert block.weights is not None
    assert block.sizes[owner].tolist() == [ROWS.count(row) for row in ROWS]
    alike = [
        [other for other in range(8) if (like(row, ROWS[other]) if matching else row == ROWS[other])] for row in ROWS
    ]
    assert block.alike[owner].tolist() == [len(others) for others in alike]
    assert block.weights[owner].tolist() == [sum(WEIGHTS[other] for other in others) for others in alike]
    if not matching:
        assert block.partial is None
        return
    assert block.partial is not None
    assert block.partial_weights is not None
    partly = [
        [other for other in others if None in ROWS[other] and ROWS[other] != row]
        for row, others in zip(ROWS, alike, strict=True)
    ]
    assert block.partial[owner].tolist() == [len(others) for others in partly]
    assert block.partial_weights[owner].tolist() == [sum(WEIGHTS[other] for other in others) for others in partly]
