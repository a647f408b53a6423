"""Cells of numbers, beside every cut that there is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from privpipe.kernels.synthesis.copula import ValueRanks
from privpipe.kernels.synthesis.value_cells import ValueCells
from tests.tiers import deep_beyond

FEWEST = 5
Cell = list[tuple[int, int]]
"""Values with their records."""


def spread(cell: Cell) -> Fraction:
    """Sum of squares about the mean."""
    n = sum(count for _, count in cell)
    mean = Fraction(sum(value * count for value, count in cell), n)
    return sum((count * (value - mean) ** 2 for value, count in cell), Fraction(0))


def best_cut(cell: Cell) -> tuple[Fraction, int]:
    """How much the best cut takes off the spread, and where it is; 0 where a part would have too few records."""
    found = (Fraction(0), 0)
    for at in range(1, len(cell)):
        parts = cell[:at], cell[at:]
        if min(sum(count for _, count in part) for part in parts) >= 2 * FEWEST:
            found = max(found, (spread(cell) - sum(spread(part) for part in parts), at), key=lambda each: each[0])
    return found


def parted(values: Cell, bins: int) -> list[Cell]:
    """By the definition: half of the cells of equal counts, then each time the cut that takes most off the spread."""
    total = sum(count for _, count in values)
    most = min(bins, total // (2 * FEWEST))
    numbers, before = [], 0
    for _, count in values:
        numbers.append(before * (most // 2) // total)
        before += count
    cells = [[each for each, own in zip(values, numbers, strict=True) if own == n] for n in sorted(set(numbers))]
    while len(cells) < most:
        gain, at, place = max((*best_cut(cell), place) for place, cell in enumerate(cells))
        if not gain:
            break
        cells[place : place + 1] = [cells[place][:at], cells[place][at:]]
    return cells


def rare_values(seed: int) -> Cell:
    """Many values of few records each, with a long tail to one side."""
    rng = np.random.default_rng(seed)
    tail = np.unique(rng.lognormal(6, 1.2, 120).astype(int)) * (-1) ** seed
    return [(int(value), int(rng.integers(1, FEWEST))) for value in np.sort(tail)]


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("seed", deep_beyond(2, range(6)))
def test_the_cell_that_varies_most_is_parted_where_it_lessens_that_most(seed: int, kind: type) -> None:
    values = rare_values(seed)
    ranks = ValueRanks.of(np.array([value for value, _ in values], kind), np.array([count for _, count in values]))
    cells, wanted = ValueCells.of(ranks, 14, FEWEST, parted=True), parted(values, 14)
    assert cells.starts.tolist() == [cell[0][0] for cell in wanted]
    for mean, cell in zip(cells.means, wanted, strict=True):
        total = sum(count for _, count in cell)
        assert mean == pytest.approx(float(Fraction(sum(value * count for value, count in cell), total)))


def test_of_very_many_common_values_the_commonest_have_cells_of_their_own() -> None:
    values = np.arange(1101) * 10
    counts = np.where(np.arange(1101) % 50 == 0, 90, 30)
    cells = ValueCells.of(ValueRanks.of(values, counts), 600, FEWEST)
    assert cells.atoms.tolist() == values[counts == 90].tolist()
    assert cells.cells(cells.atoms).tolist() == cells.atom_cells.tolist()
    # The others share cells, and are no rare values: where a group holds one alone, it is that value.
    others = values[counts == 30]
    codes = cells.cells(others)
    assert not np.isin(codes, cells.atom_cells).any()
    for cell in np.unique(codes):
        assert 1 <= np.sum(codes == cell) <= 2
        assert set(cells.points[cell]) == set(others[codes == cell])
        assert cells.means[cell] == others[codes == cell].mean()
