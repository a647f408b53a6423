"""Secondary suppression: the reference figures, exhaustive searches on small tables, faults of the solver."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Levels
from privpipe.tables.cells import Cells, Dimension, LinkedCells, linked
from privpipe.tables.exact_audit import audit, intervals, verified
from privpipe.tables.implied_populations import ImpliedPopulations, implied_populations
from privpipe.tables.least_cost_patterns import Limits, drawn_prime, least_cost, linear_pattern
from privpipe.tables.moves import Hiding
from privpipe.tables.suppression import METHODS, costs, label_order, suppress
from privpipe.tables.table_loss import table_loss
from tests.tables.random_tables import flat, inner_cells, nested, random_table
from tests.tiers import deep_beyond

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def hiding_of(
    cells: LinkedCells,
    values: Ints,
    levels: Levels,
    *,
    price: Ints | None = None,
    fixed: Bools | None = None,
    whole: bool = True,
) -> Hiding:
    """What to choose from, for a reader who knows that no value is negative."""
    size = cells.size
    none = np.zeros(size, dtype=np.bool_)
    return Hiding(
        cells.relations,
        values,
        np.zeros(size, dtype=np.int64),
        np.full(size, UNBOUNDED),
        costs("value", values, values) if price is None else price,
        (values > 0) & ~(none if fixed is None else fixed),
        levels,
        whole,
    )


def masked_levels(values: Ints, at_least: int) -> Levels:
    """Counts below a minimum are sensitive: their interval must contain 1 and the minimum less 1."""
    small = np.flatnonzero((values > 0) & (values < at_least))
    lower, upper = values[small] - 1, at_least - 1 - values[small]
    return Levels(small, lower, upper, np.zeros(len(small), dtype=np.int64))


def small_hiding(seed: int, at_least: int = 4) -> tuple[LinkedCells, Hiding]:
    cells, values = random_table(seed)
    fixed = np.zeros(len(cells), dtype=np.bool_)
    fixed[0] = True
    whole = linked([cells])
    return whole, hiding_of(whole, values, masked_levels(values, at_least), fixed=fixed)


def reference_hiding(row: dict[str, Any]) -> tuple[LinkedCells, Hiding, list[str]]:
    table = row["table"]
    dimensions = [Dimension.tree(each["name"], each["parent"]) for each in table["dims"]]
    cells = Cells.labelled(dimensions, [each[: len(dimensions)] for each in table["cells"]])
    column = {name: [each[at] for each in table["cells"]] for at, name in enumerate(table["columns"])}
    status = np.array(column["status"])
    primary = np.flatnonzero(status == "primary")
    lower, upper, span = (np.array([column[name][at] for at in primary]) for name in ("lpl", "upl", "spl"))
    values, price = np.array(column["value"]), np.array(column["cost"])
    levels = Levels(primary, lower, upper, span)
    whole = linked([cells])
    found = hiding_of(whole, values, levels, price=price, fixed=status == "fixed", whole=False)
    return whole, found, [cells.name(at) for at in range(len(cells))]


def test_reference_least_costs(suppress_row: dict[str, Any]) -> None:
    cells, hiding, names = reference_hiding(suppress_row)
    expected = suppress_row["expected"]["interval"]
    found = suppress(hiding, cells, method="optimal")
    assert (found.cost, found.bound, found.gap) == (expected["cost"], expected["cost"], 0.0)
    secondary = found.hidden & ~hiding.primary
    assert found.cost == suppress_row["expected"]["milp_cost"]
    if expected["patterns"] == 1:
        assert sorted(names[at] for at in np.flatnonzero(secondary)) == expected["one"]


def test_reference_linear_patterns(suppress_row: dict[str, Any]) -> None:
    cells, hiding, names = reference_hiding(suppress_row)
    zero = hiding.true == 0
    fixed = ~hiding.candidates & ~hiding.primary & ~zero
    among = np.flatnonzero(~hiding.primary)
    order = among[np.lexsort((label_order(cells)[among], -hiding.true[among], ~fixed[among]))]
    found = linear_pattern(hiding.relations, hiding.primary, order.tolist())
    assert sorted(names[at] for at in np.flatnonzero(found)) == suppress_row["expected"]["gauss"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_passes_the_audit_of_the_reference(method: str, suppress_row: dict[str, Any]) -> None:
    cells, hiding, _ = reference_hiding(suppress_row)
    found = suppress(hiding, cells, method=method)
    assert found.audit.passed
    assert verified(hiding.problem(found.hidden), found.audit)
    assert found.cost >= suppress_row["expected"]["interval"]["cost"]


def is_safe(hiding: Hiding, hidden: Bools) -> bool:
    """Exact intervals of every sensitive cell against its levels: the definition."""
    problem = hiding.problem(hidden)
    linear = AuditProblem(problem.relations, problem.low, problem.high, False, problem.true)
    found = intervals(linear)
    place = {int(variable): at for at, variable in enumerate(found.variables)}
    levels = hiding.levels
    for at, variable in enumerate(levels.variables.tolist()):
        low, high, true = found.low[place[variable]], found.high[place[variable]], int(hiding.true[variable])
        if low is not None and (low > true - int(levels.lower[at]) or low == high):
            return False
        if high is not None and high < true + int(levels.upper[at]):
            return False
    return True


def exhaustive_cost(hiding: Hiding, most: int) -> int:
    """The least cost of all patterns, cheapest first, up to a cost that is known to do."""
    free = np.flatnonzero(hiding.open).tolist()
    entries = np.abs(hiding.relations.toarray())
    patterns: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for cell in free:
        patterns += [
            (price + int(hiding.cost[cell]), (*chosen, cell))
            for price, chosen in patterns
            if price + int(hiding.cost[cell]) < most
        ]
    for price, chosen in sorted(patterns):
        hidden = hiding.primary.copy()
        hidden[list(chosen)] = True
        # The only hidden cell of a relation is its total less the others.
        alone = entries @ hidden == 1
        if not (entries[alone] @ hiding.primary).any() and is_safe(hiding, hidden):
            return price
    return most


@pytest.mark.parametrize("seed", [0, 1, 4, 5, 9, 10, 11, 14])
def test_the_least_cost_is_that_of_all_patterns(seed: int) -> None:
    cells, hiding = small_hiding(seed)
    hiding = Hiding(**{**hiding.__dict__, "whole": False})
    try:
        found = suppress(hiding, cells, method="optimal")
    except NoSolutionError:
        everything = hiding.primary | hiding.open
        assert not is_safe(hiding, everything)
        return
    assert is_safe(hiding, found.hidden)
    assert found.bound == found.cost
    assert exhaustive_cost(hiding, found.cost) == found.cost


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", deep_beyond(4, range(10)))
def test_every_pattern_is_safe_or_there_is_none(seed: int, method: str) -> None:
    cells, hiding = small_hiding(seed, at_least=3 + seed % 4)
    try:
        found = suppress(hiding, cells, method=method)
    except NoSolutionError:
        assert not audit(hiding.problem(hiding.primary | hiding.open)).passed
        return
    assert audit(hiding.problem(found.hidden)).passed
    assert not (found.hidden & ~hiding.primary & ~hiding.candidates).any()


def spans(hiding: Hiding, hidden: Bools) -> Bools:
    """Whether each cell follows from published ones by sums and differences: ranks of matrices of 1 and -1."""
    relations = hiding.relations.toarray().astype(np.float64)
    unknown = np.flatnonzero(hidden).tolist()
    every = np.linalg.matrix_rank(relations[:, unknown]) if unknown else 0
    found = ~hidden
    for cell in unknown:
        others = [other for other in unknown if other != cell]
        found[cell] = (np.linalg.matrix_rank(relations[:, others]) if others else 0) < every
    return found


@pytest.mark.parametrize("seed", range(10))
def test_linear_patterns_are_those_of_the_definition(seed: int) -> None:
    """Cells one after the other, each published unless a sensitive one then is in the span: by exact ranks."""
    _, hiding = small_hiding(seed)
    draws = np.random.default_rng(seed)
    order = draws.permutation(np.flatnonzero(hiding.open)).tolist()
    hidden = hiding.primary | hiding.open
    lost = spans(hiding, hidden) & hiding.primary
    for cell in order:
        tried = hidden.copy()
        tried[cell] = False
        if not (spans(hiding, tried) & hiding.primary & ~lost).any():
            hidden = tried
    assert linear_pattern(hiding.relations, hiding.primary, order).tolist() == hidden.tolist()


def test_primes_have_61_bits_and_no_divisor() -> None:
    for _ in range(20):
        prime = drawn_prime()
        assert prime.bit_length() == 61
        assert all(prime % divisor for divisor in range(3, 2000, 2))


def minimum(counts: Ints, at_least: int) -> Any:
    def unsafe(found: ImpliedPopulations) -> Bools:
        people = found.sums(counts)
        return np.asarray((people > 0) & (people < at_least), dtype=np.bool_)

    return unsafe


@pytest.mark.parametrize("method", METHODS)
def test_implied_populations_are_large_enough(method: str) -> None:
    """Minimum 11, and 5 and 3 hidden under 23 with 15 shown: 8 people would be known."""
    cells = Cells.complete([Dimension.tree("a", {"A": "T", "B": "T", "C": "T"})])
    counts = np.array([23, 15, 5, 3])
    small = np.array([2, 3])
    none = np.zeros(2, dtype=np.int64)
    whole = linked([cells])
    hiding = hiding_of(whole, counts, Levels(small, none, none, none))
    found = suppress(hiding, whole, method=method, implied=minimum(counts, 11))
    assert found.hidden.tolist() == [False, True, True, True]
    assert found.audit.passed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", deep_beyond(2, range(5)))
def test_no_implied_population_is_small(seed: int, method: str) -> None:
    cells, hiding = small_hiding(seed, at_least=5)
    unsafe = minimum(hiding.true, 5)
    try:
        found = suppress(hiding, cells, method=method, implied=unsafe)
    except NoSolutionError as error:
        assert "suppress_table" in str(error)  # noqa: PT017
        return
    assert not unsafe(implied_populations(cells, found.hidden)).any()
    assert found.audit.passed


def test_what_insiders_know_does_not_give_others_away() -> None:
    """Two single contributors hidden in one row know each other's value, so a third cell is hidden."""
    cells = Cells.complete([Dimension.tree("a", {"A": "T", "B": "T", "C": "T"})])
    whole = linked([cells])
    none = np.zeros(2, dtype=np.int64)
    plain = hiding_of(whole, np.array([60, 10, 20, 30]), Levels(np.array([1, 2]), none, none, none), whole=False)
    knowing = (Insider(np.array([1]), np.array([2])), Insider(np.array([2]), np.array([1])))
    insiders = Hiding(**{**plain.__dict__, "knowing": knowing})
    for method in METHODS:
        assert suppress(plain, whole, method=method).hidden.tolist() == [False, True, True, False]
        found = suppress(insiders, whole, method=method)
        assert found.hidden.tolist() == [False, True, True, True]
        assert found.audit.passed


def test_patterns_of_linked_tables_are_safe_together() -> None:
    region, age, sex = flat("region", 3), flat("age", 3), flat("sex", 2)
    draws = np.random.default_rng(4)
    people = draws.poisson(4, (3, 3, 2))
    first, second = Cells.complete([region, age]), Cells.complete([region, sex])
    both = linked([first, second])
    values = np.zeros(both.size, dtype=np.int64)
    sums = (people.sum(axis=2), people.sum(axis=1))
    for variables, inner in zip(both.variables, sums, strict=True):
        whole = np.zeros(tuple(side + 1 for side in inner.shape), dtype=np.int64)
        whole[1:, 1:] = inner
        whole[0] = whole[1:].sum(axis=0)
        whole[:, 0] = whole[:, 1:].sum(axis=1)
        values[variables] = whole.ravel()
    assert not (both.relations @ values).any()
    hiding = hiding_of(both, values, masked_levels(values, 9))
    for method in METHODS:
        assert suppress(hiding, both, method=method).audit.passed


@pytest.mark.parametrize("fault", ["perturbed", "wrong status", "none", "nonsense", "infeasible"])
@pytest.mark.parametrize("method", METHODS)
def test_a_solver_that_lies_never_gives_an_unsafe_pattern(
    method: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults of the searches alone: the audit afterwards is honest; then of everything: no pattern at all, or safe."""
    cells, hiding = small_hiding(5, at_least=4)

    def faulty(honest: Any) -> Any:
        def lying(*arguments: Any, **more: Any) -> Any:
            answer = honest(*arguments, **more)
            if fault == "wrong status":
                answer.status = {0: 4}.get(answer.status, 0)
            if answer.x is not None and fault == "perturbed":
                answer.x = answer.x + 1e-6
            if fault == "none":
                answer.x = None
            if answer.x is not None and fault == "nonsense":
                answer.x = answer.x[::-1] + 0.5
            if fault == "infeasible":
                answer.status, answer.x = 2, None
            return answer

        return lying

    monkeypatch.setattr(optimize, "milp", faulty(optimize.milp))
    monkeypatch.setattr(optimize, "linprog", faulty(optimize.linprog))
    try:
        found = suppress(hiding, cells, method=method, limits=Limits(rounds=5))
    except (NoSolutionError, DataError):
        return
    monkeypatch.undo()
    assert audit(hiding.problem(found.hidden)).passed
    assert verified(hiding.problem(found.hidden), found.audit)


def test_rules_that_cannot_hold_are_named() -> None:
    """A sensitive cell in a relation of fixed cells only."""
    cells = Cells.complete([Dimension.tree("a", {"A": "T", "B": "T"})])
    whole = linked([cells])
    one = np.ones(1, dtype=np.int64)
    fixed = np.array([True, False, True])
    hiding = hiding_of(whole, np.array([12, 2, 10]), Levels(np.array([1]), one, one, 0 * one), fixed=fixed)
    for method in METHODS:
        with pytest.raises(NoSolutionError, match=r"minimum_frequency: 1") as caught:
            suppress(hiding, whole, method=method, rules=["minimum_frequency"])
        assert "A" not in str(caught.value).split("Take")[0].replace("suppress_table", "")


@pytest.mark.parametrize("method", METHODS)
def test_a_pattern_does_not_depend_on_the_order_of_rows(method: str) -> None:
    cells, hiding = small_hiding(2, at_least=5)
    found = suppress(hiding, cells, method=method)
    order = np.random.default_rng(1).permutation(cells.size)
    moved = linked([Cells(cells.tables[0].dimensions, cells.tables[0].codes[order])])
    values = hiding.true[order]
    fixed = np.zeros(len(order), dtype=np.bool_)
    fixed[np.flatnonzero(order == 0)] = True
    again = suppress(hiding_of(moved, values, masked_levels(values, 5), fixed=fixed), moved, method=method)
    if method == "gauss":
        assert again.cost == found.cost
    if method == "optimal":
        assert again.cost == found.cost


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=30))
def test_costs_are_exact(totals: list[int]) -> None:
    import math

    found = costs("root", np.array(totals), np.ones(len(totals), dtype=np.int64)).tolist()
    assert found == [max(math.isqrt(100 * abs(total)), 1) for total in totals]


def test_bad_options_are_errors() -> None:
    cells, hiding = small_hiding(0)
    with pytest.raises(UsageError, match="method is one of"):
        suppress(hiding, cells, method="hypercube")
    with pytest.raises(UsageError, match="cost is one of"):
        costs("price", hiding.true, hiding.true)
    with pytest.raises(DataError, match="larger units"):
        costs("root", np.array([2**60]), np.array([1]))


def test_table_loss_counts_by_level() -> None:
    cells = Cells.complete([nested("a", 2, 1), flat("b", 2)])
    values = np.arange(len(cells)) * 10
    hidden = np.zeros(len(cells), dtype=np.bool_)
    hidden[inner_cells(cells)[:3]] = True
    loss = table_loss(cells, values, hidden)
    assert (loss.cells, loss.hidden, loss.hidden_value) == (len(cells), 3, int(values[hidden].sum()))
    assert loss.levels[(2, 1)] == (3, 6)
    assert sum(count for _, count in loss.levels.values()) == len(cells)
    assert loss.value_share == pytest.approx(values[hidden].sum() / values.sum())


def test_a_search_that_ends_early_gives_a_safe_pattern_and_its_gap() -> None:
    cells, hiding = small_hiding(3, at_least=5)
    best = suppress(hiding, cells, method="optimal")
    rough = suppress(hiding, cells, method="optimal", limits=Limits(rounds=0))
    assert rough.audit.passed
    assert rough.bound is not None
    assert rough.bound <= best.cost <= rough.cost
    assert least_cost(hiding, Limits(rounds=1, entries=1)).bound <= best.cost
