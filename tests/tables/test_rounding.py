"""Rounding: the reference figures, exhaustive searches, and what a reader can say."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from privpipe.draws import Seed
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables import rounding
from privpipe.tables.cells import Cells, Dimension, linked
from privpipe.tables.contribution_rows import key_of_sums, record_keys
from privpipe.tables.rounding import CellDraws, controlled, reader_intervals, rounded, rounded_small_counts
from tests.tables.random_tables import added_up, flat, inner_cells, nested, random_table


def test_reference_controlled_rounding(controlled_rounding_row: dict[str, Any]) -> None:
    table, expected = controlled_rounding_row["table"], controlled_rounding_row["expected"]
    dimensions = [Dimension.tree(each["name"], each["parent"]) for each in table["dims"]]
    cells = Cells.labelled(dimensions, [row[: len(dimensions)] for row in table["cells"]])
    values = np.array([row[len(dimensions)] for row in table["cells"]])
    base = controlled_rounding_row["options"]["base"]
    if conventional := expected.get("conventional"):
        alone = rounded(values, base, "nearest").tolist()
        assert {cells.name(at): alone[at] for at in range(len(cells))} == conventional
    found = controlled(linked([cells]), values, base)
    assert (found.steps == 0) == expected["feasible"]
    assert not (cells.relations @ found.published).any()
    if expected["feasible"]:
        assert (np.abs(found.published - values) < base).all()
        assert (found.distance, found.proven) == (expected["least_distance"], True)


def exhaustive(cells: Cells, values: np.ndarray, base: int) -> int | None:
    """The least distance over all ways to round inner cells to a neighbouring multiple; None if none adds up."""
    inner = inner_cells(cells)
    ways = [sorted({value // base * base, -(-value // base) * base}) for value in values[inner].tolist()]
    best = None
    for chosen in product(*ways):
        table = added_up(cells, chosen)
        if (np.abs(table - values) < base).all():
            distance = int(np.abs(table - values).sum())
            best = distance if best is None else min(best, distance)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_controlled_rounding_is_the_best_of_all(seed: int) -> None:
    cells, values = random_table(seed, mean=2.5)
    base = 3 + seed % 3
    best = exhaustive(cells, values, base)
    found = controlled(linked([cells]), values, base)
    assert not (cells.relations @ found.published).any()
    assert (found.published % base == 0).all()
    if best is None:
        assert found.steps == 1
        assert (np.abs(found.published - values) < 2 * base).all()
    else:
        assert (found.steps, found.distance, found.proven) == (0, best, True)


def test_a_table_of_three_dimensions_may_need_one_more_step() -> None:
    """Some table of 2 x 2 x 2 x 2 cells of 0 and 1 has no rounding to neighbouring multiples."""
    cells = Cells.complete([flat("a", 3), flat("b", 3), flat("c", 3)])
    draws = np.random.default_rng(0)
    for _ in range(200):
        values = added_up(cells, draws.integers(0, 2, 27).tolist())
        found = controlled(linked([cells]), values, 2)
        assert not (cells.relations @ found.published).any()
        if found.steps:
            assert (np.abs(found.published - values) <= 3).all()
            return
    pytest.fail("no table without a rounding to neighbouring multiples was drawn")


def test_parts_of_a_large_table_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large table is rounded from the top."""
    monkeypatch.setattr(rounding, "WHOLE_MODEL", 10)
    cells = Cells.complete([nested("a", 3, 4, 2), nested("b", 2, 3)])
    for seed in range(5):
        counts = np.random.default_rng(seed).poisson(6, len(inner_cells(cells))).tolist()
        values = added_up(cells, counts)
        found = controlled(linked([cells]), values, 5)
        assert not (cells.relations @ found.published).any()
        assert (np.abs(found.published - values) < 5 * (found.steps + 1)).all()


@pytest.mark.parametrize("fault", ["perturbed", "wrong status", "none", "nonsense"])
def test_a_solver_that_lies_never_gives_a_table_that_does_not_add_up(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = optimize.milp

    def lying(*arguments: Any, **more: Any) -> Any:
        answer = honest(*arguments, **more)
        if answer.x is not None and fault == "perturbed":
            answer.x = answer.x + 1e-6
        if fault == "wrong status":
            answer.status = 4
        if fault == "none":
            answer.x = None
        if answer.x is not None and fault == "nonsense":
            answer.x = 1.0 - answer.x
        return answer

    monkeypatch.setattr(optimize, "milp", lying)
    cells, values = random_table(3)
    try:
        found = controlled(linked([cells]), values, 5)
    except NoSolutionError:
        assert fault in ("none", "nonsense")
        return
    assert not (cells.relations @ found.published).any()
    assert (np.abs(found.published - values) < 10).all()


def test_what_does_not_add_up_is_an_error() -> None:
    cells, values = random_table(0)
    values[0] += 1
    with pytest.raises(DataError, match="2 totals do not equal"):
        controlled(linked([cells]), values, 5)


@pytest.mark.parametrize("method", ["nearest", "midpoint"])
@given(values=st.lists(st.integers(0, 60), min_size=1, max_size=20), base=st.integers(2, 12))
def test_intervals_are_all_counts_that_give_a_figure(values: list[int], base: int, method: str) -> None:
    published = rounded(np.array(values), base, method)
    low, high = reader_intervals(published, base, method, counts=True)
    every = rounded(np.arange(100), base, method)
    for figure, least, greatest in zip(published.tolist(), low.tolist(), high.tolist(), strict=True):
        able = np.flatnonzero(every == figure)
        assert (able.min(), able.max()) == (least, greatest)


@given(st.lists(st.integers(-60, 60), min_size=1, max_size=20), st.integers(2, 12))
def test_intervals_of_sums_may_be_negative(values: list[int], base: int) -> None:
    published = rounded(np.array(values), base, "nearest")
    low, high = reader_intervals(published, base, "nearest", counts=False)
    assert (low <= values).all()
    assert (values <= high).all()
    assert (rounded(low, base, "nearest") == published).all()
    assert (rounded(high, base, "nearest") == published).all()


def draws_of(number: int, purpose: str = "p") -> CellDraws:
    keys = record_keys(key_of_sums(Seed.insecure("round"), "counts", "count"), [str(at) for at in range(number)])
    return CellDraws(Seed.insecure(5), purpose, keys, np.full(number, 7))


@pytest.mark.parametrize("value", [1, 2, 3, 4, 8])
def test_random_rounding_is_unbiased(value: int) -> None:
    """Within four standard deviations over 100,000 keyed cells."""
    found = rounded(np.full(100_000, value), 5, "random", draws_of(100_000))
    assert set(found.tolist()) == {value // 5 * 5, value // 5 * 5 + 5}
    rest = value % 5
    sd = (rest * (5 - rest)) ** 0.5
    assert abs(found.mean() - value) <= 4 * sd / 100_000**0.5


def test_random_rounding_belongs_to_the_people() -> None:
    values = np.arange(1000) % 17
    one = rounded(values, 5, "random", draws_of(1000))
    assert one.tolist() == rounded(values, 5, "random", draws_of(1000)).tolist()
    assert one.tolist() != rounded(values, 5, "random", draws_of(1000, "other")).tolist()
    assert (one[values % 5 == 0] == values[values % 5 == 0]).all()
    low, high = reader_intervals(one, 5, "random", counts=True)
    assert ((low <= values) & (values <= high)).all()


@pytest.mark.parametrize("seed", range(25))
def test_small_counts_leave_no_small_count(seed: int) -> None:
    cells, values = random_table(seed, mean=1.5)
    shown = np.ones(len(cells), dtype=np.bool_)
    if seed % 2:
        shown[inner_cells(cells)] = False
    ties = record_keys(key_of_sums(Seed.insecure(1), "ties", "count"), [str(at) for at in range(len(cells))])
    found = rounded_small_counts(cells, values, 5, shown, ties)
    published = found.published[shown]
    assert not ((published > 0) & (published < 5)).any()
    assert not (cells.relations @ found.published).any()
    assert found.largest_difference == np.abs(published - values[shown]).max()
    inner = inner_cells(cells)
    changed = found.published[inner] != values[inner]
    assert (values[inner][changed] < 5).all()
    assert (values[inner][changed] > 0).all()


def test_bad_bases_and_methods_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="at least 2"):
        rounded(np.array([1]), 1, "nearest")
    with pytest.raises(UsageError, match="by itself"):
        rounded(np.array([1]), 3, "controlled")
    with pytest.raises(DataError, match="64 bits"):
        rounded(np.array([2**62]), 5, "nearest")
