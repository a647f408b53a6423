"""Predicates are counted row by row, in however many pieces; chances of a thinned table are those of all draws."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from privpipe.kernels.linkage import criteria as kernel
from privpipe.kernels.linkage.criteria import CodedColumn, Parts, isolated_once_of, matches


@pytest.mark.parametrize(("rows", "bitmaps"), [(262_144, 2_000), (64, 3), (100, 1), (7, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_rows_that_meet_all_parts_are_counted(
    monkeypatch: pytest.MonkeyPatch, seed: int, rows: int, bitmaps: int
) -> None:
    monkeypatch.setattr(kernel, "ROWS", rows)
    monkeypatch.setattr(kernel, "BITMAPS", bitmaps)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    covered = rng.random((5, 3)) < 0.5
    columns = [
        CodedColumn(rng.integers(-1, 9, n)),
        CodedColumn(rng.integers(0, 40, n)),
        CodedColumn(rng.integers(0, 5, n), covered),
    ]
    column = rng.integers(0, 3, 12)
    low = np.where(column == 2, rng.integers(0, 3, 12), rng.integers(-1, 6, 12))
    high = np.where(rng.random(12) < 0.5, low, low + rng.integers(0, 9, 12))
    negated = rng.random(12) < 0.3 if seed % 2 else None
    parts = Parts(column, low, high, negated)

    def met(part: int, row: int) -> bool:
        at = int(column[part])
        code = int(columns[at].codes[row])
        found = bool(covered[code, low[part]]) if at == 2 else low[part] <= code <= high[part]
        return bool(found) != bool(negated is not None and negated[part])

    asked = rng.integers(0, 12, (7, 1 + seed % 3))
    counts, last = matches(asked, parts, columns)
    for predicate, count, at in zip(asked.tolist(), counts.tolist(), last.tolist(), strict=True):
        held = [row for row in range(n) if all(met(part, row) for part in predicate)]
        assert (count, at) == (len(held), held[-1] if held else -1)


@pytest.mark.parametrize(("total", "drawn"), [(6, 1), (6, 2), (6, 4), (6, 5), (6, 6), (1, 1)])
def test_chances_are_those_of_every_way_to_draw(total: int, drawn: int) -> None:
    draws = [set(some) for some in combinations(range(total), drawn)]
    expected = [
        sum(len(some & set(range(matching))) == 1 for some in draws) / len(draws) for matching in range(total + 1)
    ]
    assert isolated_once_of(np.arange(total + 1), total, drawn) == pytest.approx(expected, abs=1e-12)
