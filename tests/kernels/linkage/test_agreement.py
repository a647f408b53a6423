"""More candidates than a tile holds are each looked at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpipe.kernels.linkage.fellegi_sunter import TILE, Agreement, CodeColumn, NumberColumn


def test_the_last_tile_ends_with_the_candidates() -> None:
    rng = np.random.default_rng(1)
    n = TILE + 7
    x, y = rng.integers(0, 5, (2, n)), rng.integers(0, 5, (2, n))
    agreement = Agreement([CodeColumn(*sides) for sides in zip(x, y, strict=True)])
    attacked, ranks = np.arange(3), np.array([0, 2, 1, 3])
    patterns = (y[0, :3, None] == x[0]) + 2 * (y[1, :3, None] == x[1])
    assert agreement.counts(attacked, np.arange(n)).tolist() == np.bincount(patterns.ravel(), minlength=4).tolist()
    best, ties = agreement.heaviest(attacked, np.arange(n), ranks)
    assert best.tolist() == ranks[patterns].max(axis=1).tolist()
    assert ties.tolist() == (ranks[patterns] == best[:, None]).sum(axis=1).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_patterns_are_those_of_the_definition(seed: int) -> None:
    """Numbers of two tolerances, absolute and relative, blanks, codes, and labels that cover codes by two tables."""
    rng = np.random.default_rng(seed)
    n = 30
    numbers = [rng.integers(-5, 6, (2, n)).astype(float) for _ in range(2)]
    for each in numbers:
        each[rng.random((2, n)) < 0.15] = np.nan
    tables = [rng.random((3, 4)) < 0.5, rng.random((2, 3)) < 0.5]
    codes = [np.stack([rng.integers(0, size, n) for size in table.shape]) for table in tables]
    plain = rng.integers(0, 3, (2, n))
    columns: list[Any] = [
        CodeColumn(*codes[0], tables[0]),
        NumberColumn(*numbers[0], (1.0, 2.0)),
        CodeColumn(*plain),
        NumberColumn(*numbers[1], (0.25,), relative=True),
        CodeColumn(*codes[1], tables[1]),
    ]

    def level(column: Any, x: int, y: int) -> int:
        one, other = column.original[x], column.released[y]
        if isinstance(column, CodeColumn):
            return int(one == other if column.mismatch is None else not column.mismatch[one, other])
        if np.isnan(one) or np.isnan(other):
            return column.levels * int(np.isnan(one) and np.isnan(other))
        return sum(abs(one - other) <= width * (abs(one) if column.relative else 1) for width in column.within)

    def pattern(x: int, y: int) -> int:
        found, radix = 0, 1
        for column in columns:
            found += radix * level(column, x, y)
            radix *= column.levels + 1
        return found

    agreement, attacked, candidates = Agreement(columns), np.arange(0, n, 2), np.arange(n)
    wanted = np.array([[pattern(x, y) for x in candidates] for y in attacked])
    assert agreement.counts(attacked, candidates).tolist() == np.bincount(wanted.ravel(), minlength=48).tolist()
    assert agreement.of_partners(candidates).tolist() == [pattern(at, at) for at in range(n)]
    ranks = rng.integers(0, 9, 48)
    best, ties = agreement.heaviest(attacked, candidates, ranks)
    assert best.tolist() == ranks[wanted].max(axis=1).tolist()
    assert ties.tolist() == (ranks[wanted] == best[:, None]).sum(axis=1).tolist()
