"""Private tables: distributions of the noise, sensitivities by exhaustive change, and the budget."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from privpipe.draws import Stream
from privpipe.errors import DataError, Refused, UsageError
from privpipe.kernels.synthesis.noisy_marginals import discrete_laplace
from privpipe.tables.cells import Cells
from privpipe.tables.private_tables import Account, PrivateTable, Spend, kept_contributions
from tests.tables.random_tables import added_up, flat, inner_cells, nested

CELLS = Cells.complete([nested("a", 2, 3), flat("b", 2)])


def account(limit: int = 10, unit: str = "epsilon") -> Account:
    return Account(unit, Fraction(limit), lambda spend: None)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_the_discrete_laplace(scale: Fraction) -> None:
    draws = 20_000
    found = Counter(discrete_laplace(scale) for _ in range(draws))
    weights = {y: math.exp(-abs(y) / float(scale)) for y in range(-200, 201)}
    total = sum(weights.values())
    common = [y for y, weight in weights.items() if draws * weight / total >= 20]
    seen = np.array([*(found[y] for y in common), 0.0])
    wanted = np.array([*(draws * weights[y] / total for y in common), 0.0])
    seen[-1], wanted[-1] = draws - seen.sum(), draws - wanted.sum()
    if wanted[-1] < 5:
        seen, wanted = seen[:-1], wanted[:-1] * (seen[:-1].sum() / wanted[:-1].sum())
    assert chisquare(seen, wanted).pvalue > 1e-5


def neighbours(table: PrivateTable, cells: int) -> list[np.ndarray]:
    """What one contributor may add to the leaf cells of a tiny table: all choices of cells and extreme values."""
    assert table.bounds is not None
    found = []
    for values in product([0, table.bounds[0], table.bounds[1]], repeat=cells):
        if sum(value != 0 for value in values) <= table.contribution_bound:
            found.append(np.array(values))
    return found


@pytest.mark.parametrize("kind", ["add_remove", "replace"])
@pytest.mark.parametrize("bounds", [(0, 7), (-3, 5), (2, 9), (-6, -1)])
@pytest.mark.parametrize("c", [1, 2, 3])
def test_sensitivities_bound_every_change(kind: str, bounds: tuple[int, int], c: int) -> None:
    table = PrivateTable(epsilon=Fraction(1), contribution_bound=c, bounds=bounds, neighbours=kind)
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
    budget = {"laplace": {"epsilon": Fraction(1)}, "gaussian": {"rho": Fraction(1, 2)}}[mechanism]
    table = PrivateTable(contribution_bound=2, bounds=(0, 100), mechanism=mechanism, split=split, **budget)
    counts = added_up(CELLS, [5, 0, 9, 100, 3, 0, 0, 7, 2, 1])
    paid = account(unit=table.spend.unit)
    found = table.noisy(CELLS, {"count": counts, "cost": counts * 40}, paid)
    for response in ("count", "cost"):
        assert not (CELLS.relations @ found[response]).any()
    assert paid.spent == table.spend.amount
    assert (found["cost"] != counts * 40).any()


def test_levels_are_brought_together_by_weighted_least_squares() -> None:
    """Against the normal equations solved densely, with noise that is known."""
    table = PrivateTable(epsilon=Fraction(10**9), contribution_bound=1, split="levels")
    counts = added_up(CELLS, [40, 30, 20, 100, 30, 50, 60, 70, 20, 10])
    shift = iter(range(1000))
    noise = [int(7 * math.sin(at)) for at in range(len(CELLS))]
    found = table.noisy(CELLS, {"count": counts}, account(10**9), noise=lambda scale: noise[next(shift)])["count"]
    depth = np.column_stack([d.depth[CELLS.codes[:, at]] for at, d in enumerate(CELLS.dimensions)]).tolist()
    order = sorted(range(len(CELLS)), key=lambda at: (depth[at], at))
    measured = counts.astype(float)
    measured[order] += noise
    design = np.column_stack([added_up(CELLS, [int(at == other) for other in range(10)]) for at in range(10)]).astype(
        float
    )
    best, *_ = np.linalg.lstsq(design, measured, rcond=None)
    assert found[inner_cells(CELLS)].tolist() == np.rint(best).astype(int).tolist()


def test_the_spend_is_written_before_any_noise_is_drawn() -> None:
    order: list[str] = []
    paid = Account("epsilon", Fraction(1), lambda spend: order.append("written"))
    table = PrivateTable(epsilon=Fraction(1), contribution_bound=1)

    def noise(scale: Fraction) -> int:
        order.append("drawn")
        raise RuntimeError("the run breaks down")

    counts = added_up(CELLS, [1] * 10)
    with pytest.raises(RuntimeError):
        table.noisy(CELLS, {"count": counts}, paid, noise=noise)
    assert order == ["written", "drawn"]
    assert paid.left == 0


def test_a_spend_that_cannot_be_written_draws_nothing() -> None:
    def failing(spend: Spend) -> None:
        raise OSError("the ledger is read-only")

    drawn: list[int] = []
    table = PrivateTable(epsilon=Fraction(1), contribution_bound=1)
    paid = Account("epsilon", Fraction(1), failing)
    with pytest.raises(OSError, match="read-only"):
        table.noisy(CELLS, {"count": added_up(CELLS, [1] * 10)}, paid, noise=lambda scale: drawn.append(1) or 0)
    assert not drawn
    assert paid.spent == 0


def test_budgets_add_up_exactly_and_end() -> None:
    paid = Account("epsilon", Fraction(3, 10), lambda spend: None)
    for _ in range(3):
        paid.spend(Spend("epsilon", Fraction(1, 10)))
    with pytest.raises(Refused, match=r"costs epsilon 0\.1, and 0 of 0\.3 is left"):
        paid.spend(Spend("epsilon", Fraction(1, 10)))
    with pytest.raises(UsageError, match="kept in epsilon"):
        paid.spend(Spend("rho", Fraction(1, 10)))


@pytest.mark.parametrize("c", [1, 2, 5])
def test_a_contributor_counts_in_so_many_cells(c: int) -> None:
    table = PrivateTable(epsilon=Fraction(1), contribution_bound=c, bounds=(-5, 20))
    draws = np.random.default_rng(c)
    pairs = zip(draws.integers(0, 40, 200).tolist(), draws.integers(0, 9, 200).tolist(), strict=True)
    rows = sorted(set(pairs))
    people, cells = np.array(rows).T
    ids, values = np.column_stack([people, people * 7]), draws.integers(-100, 100, len(rows))
    stream = Stream(bytes(range(16)))
    kept, clipped = kept_contributions(ids, cells, values, table, stream)
    held = Counter(people.tolist())
    assert Counter(people[kept].tolist()) == {person: min(c, number) for person, number in held.items()}
    assert clipped.tolist() == np.clip(values, -5, 20).tolist()
    order = draws.permutation(len(rows))
    again, _ = kept_contributions(ids[order], cells[order], values[order], table, stream)
    assert again.tolist() == kept[order].tolist()


def test_a_table_without_all_combinations_is_an_error() -> None:
    table = PrivateTable(epsilon=Fraction(1), contribution_bound=1)
    part = Cells(CELLS.dimensions, CELLS.codes[:-2])
    paid = account()
    with pytest.raises(DataError, match="2 combinations of labels"):
        table.noisy(part, {"count": np.zeros(len(part), dtype=np.int64)}, paid)
    assert paid.spent == 0


def test_the_statement_says_nothing_of_the_data() -> None:
    table = PrivateTable(
        rho=Fraction(1, 100), delta=Fraction(1, 10**6), contribution_bound=3, mechanism="gaussian", bounds=(0, 50)
    )
    said = table.statement()
    assert said["epsilon"] == pytest.approx(0.01 + 2 * math.sqrt(0.01 * math.log(1e6)))
    assert set(said) == {
        "mechanism", "rho", "contribution_bound", "neighbours", "split", "responses", "bounds", "delta", "epsilon",
    }  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        {"contribution_bound": 1},
        {"epsilon": Fraction(1), "rho": Fraction(1), "contribution_bound": 1},
        {"epsilon": Fraction(1), "contribution_bound": 0},
        {"epsilon": Fraction(1), "contribution_bound": 1, "bounds": (3, 3)},
        {"epsilon": Fraction(1), "contribution_bound": 1, "mechanism": "uniform"},
        {"epsilon": Fraction(1), "contribution_bound": 1, "delta": Fraction(1, 2)},
    ],
    ids=str,
)
def test_bad_options_are_usage_errors(options: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="private_table"):
        PrivateTable(**options)  # type: ignore[arg-type]
