"""Noise of private tables: its distributions, sensitivities by exhaustive change, and that it is paid for once."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privpipe.errors import DataError, UsageError
from privpipe.kernels.synthesis.noisy_marginals import discrete_gaussian, discrete_laplace
from privpipe.tables.cells import Cells
from privpipe.tables.private_noise import Paid, PrivateNoise, Spend
from tests.tables.random_tables import added_up, flat, inner_cells, nested

CELLS = Cells.complete([nested("a", 2, 3), flat("b", 2)])


def paid(amount: int = 10, unit: str = "epsilon") -> Paid:
    return Paid(unit, Fraction(amount))


@pytest.mark.deep
@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2)])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_distribution_of_the_noise(mechanism: str, scale: Fraction) -> None:
    """Discrete Laplace by its scale, discrete Gaussian by its variance."""
    draws = 20_000
    noise = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}[mechanism]
    found = Counter(noise(scale) for _ in range(draws))
    weights = {
        y: math.exp(-abs(y) / float(scale) if mechanism == "laplace" else -y * y / (2 * float(scale)))
        for y in range(-200, 201)
    }
    total = sum(weights.values())
    common = [y for y, weight in weights.items() if draws * weight / total >= 20]
    seen = np.array([*(found[y] for y in common), 0.0])
    wanted = np.array([*(draws * weights[y] / total for y in common), 0.0])
    seen[-1], wanted[-1] = draws - seen.sum(), draws - wanted.sum()
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1] * (seen[:-1].sum() / wanted[:-1].sum())
    assert chisquare(seen, wanted).pvalue > 1e-5


def neighbours(table: PrivateNoise, cells: int) -> list[np.ndarray]:
    """What one contributor may add to the leaf cells of a tiny table: all choices of cells and extreme values."""
    found = []
    for values in product([0, *table.bounds["cost"]], repeat=cells):
        if sum(value != 0 for value in values) <= table.contribution_bound:
            found.append(np.array(values))
    return found


@pytest.mark.parametrize("kind", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(0, 7), (-3, 5), (2, 9), (-6, -1)])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_sensitivities_bound_every_change(kind: str, bounds: tuple[int, int], c: int) -> None:
    table = PrivateNoise(epsilon=Fraction(1), contribution_bound=c, bounds={"cost": bounds}, neighbours=kind)
    some = neighbours(table, 4)
    pairs = product(some, some) if kind == "replace" else [(values, 0 * values) for values in some]
    first = second = merged = 0
    for a, b in pairs:
        change = a - b
        first, second = max(first, int(np.abs(change).sum())), max(second, int((change**2).sum()))
        above = np.array([change[:2].sum(), change[2:].sum()])
        merged = max(merged, int((above**2).sum()))
    assert first <= table.sensitivity("cost")
    assert second <= table.squared_sensitivity("cost", leaves=True)
    assert merged <= table.squared_sensitivity("cost", leaves=False)
    if kind == "add_remove":
        assert (first, second) == (table.sensitivity("cost"), table.squared_sensitivity("cost", leaves=True))


@pytest.mark.parametrize("split", ["leaves", "levels"])
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_tables_add_up_and_every_cell_has_noise(split: str, mechanism: str) -> None:
    budget: dict[str, Any] = {"laplace": {"epsilon": Fraction(1)}, "gaussian": {"rho": Fraction(1, 2)}}[mechanism]
    table = PrivateNoise(contribution_bound=2, bounds={"cost": (0, 100)}, mechanism=mechanism, split=split, **budget)
    counts = added_up(CELLS, [5, 0, 9, 100, 3, 0, 0, 7, 2, 1])
    purse = paid(unit=table.spend.unit)
    found = table.noisy(CELLS, {"count": counts, "cost": counts * 40}, purse)
    for response in ("count", "cost"):
        assert not (CELLS.relations @ found[response]).any()
    assert purse.left == 10 - table.spend.amount
    assert (found["cost"] != counts * 40).any()


def test_levels_are_brought_together_by_weighted_least_squares() -> None:
    """Against the normal equations solved densely, with noise that is known."""
    table = PrivateNoise(epsilon=Fraction(10**9), contribution_bound=1, split="levels")
    counts = added_up(CELLS, [40, 30, 20, 100, 30, 50, 60, 70, 20, 10])
    shift = iter(range(1000))
    noise = [int(7 * math.sin(at)) for at in range(len(CELLS))]
    found = table.noisy(CELLS, {"count": counts}, paid(10**9), noise=lambda scale: noise[next(shift)])["count"]
    depth = np.column_stack([d.depth[CELLS.codes[:, at]] for at, d in enumerate(CELLS.dimensions)]).tolist()
    order = sorted(range(len(CELLS)), key=lambda at: (depth[at], at))
    measured = counts.astype(float)
    measured[order] += noise
    design = np.column_stack([added_up(CELLS, [int(at == other) for other in range(10)]) for at in range(10)]).astype(
        float
    )
    best, *_ = np.linalg.lstsq(design, measured, rcond=None)
    assert found[inner_cells(CELLS)].tolist() == np.rint(best).astype(int).tolist()


def test_noise_is_paid_for_once() -> None:
    table, purse = PrivateNoise(epsilon=Fraction(1), contribution_bound=1), paid(1)
    drawn: list[Fraction] = []

    def noise(scale: Fraction) -> int:
        drawn.append(scale)
        return 0

    counts = added_up(CELLS, [1] * 10)
    table.noisy(CELLS, {"count": counts}, purse, noise=noise)
    assert len(drawn) == 10
    with pytest.raises(UsageError, match="was not paid for"):
        table.noisy(CELLS, {"count": counts}, purse, noise=noise)
    assert len(drawn) == 10
    with pytest.raises(UsageError, match="was not paid for"):
        paid(1).take(Spend("rho", Fraction(1, 2)))


def test_a_table_without_all_combinations_is_an_error() -> None:
    table = PrivateNoise(epsilon=Fraction(1), contribution_bound=1)
    part = Cells(CELLS.dimensions, CELLS.codes[:-2])
    purse = paid()
    with pytest.raises(DataError, match="2 combinations of labels"):
        table.noisy(part, {"count": np.zeros(len(part), dtype=np.int64)}, purse)
    assert purse.left == 10


@pytest.mark.parametrize(
    "options",
    [
        {"contribution_bound": 1},
        {"epsilon": Fraction(1), "rho": Fraction(1), "contribution_bound": 1},
        {"epsilon": Fraction(1), "contribution_bound": 0},
        {"epsilon": Fraction(1), "contribution_bound": 1, "bounds": {"cost": (3, 3)}},
        {"epsilon": Fraction(1), "contribution_bound": 1, "mechanism": "uniform"},
        {"epsilon": Fraction(1), "contribution_bound": 1, "delta": Fraction(1, 2)},
    ],
    ids=str,
)
def test_bad_options_are_usage_errors(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="private_table"):
        PrivateNoise(**options)  # type: ignore[arg-type]
