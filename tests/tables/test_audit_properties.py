"""What must hold of the audit for every table: hiding more, other orders, other names, other units."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import DataError
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Levels, Matrix, matrix_of
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.exact_audit import Kind, audit, intervals, verified
from tests.tables.exhaustive_search import small_table

SEEDS = st.integers(0, 10**6)


@given(SEEDS, st.integers(0, 59))
def test_hiding_one_cell_more_never_narrows_an_interval(seed: int, more: int) -> None:
    problem = small_table(seed).problem
    more %= len(problem.low)
    low, high = problem.low.copy(), problem.high.copy()
    low[more], high[more] = 0, UNBOUNDED
    before, after = intervals(problem), intervals(replace(problem, low=low, high=high))
    place = {variable: at for at, variable in enumerate(after.variables.tolist())}
    assert before.whole_low is not None
    assert before.whole_high is not None
    assert after.whole_low is not None
    assert after.whole_high is not None
    for at, variable in enumerate(before.variables.tolist()):
        now = place[variable]
        assert after.low[now] <= before.low[at]
        assert after.whole_low[now] <= before.whole_low[at]
        assert after.high[now] is None or after.high[now] >= before.high[at]
        assert after.whole_high[now] is None or after.whole_high[now] >= before.whole_high[at]
        assert before.low[at] <= before.whole_low[at] <= before.whole_high[at] <= before.high[at]


@given(SEEDS, st.randoms(use_true_random=False))
def test_the_order_of_cells_and_relations_changes_nothing(seed: int, random: np.random.Generator) -> None:
    problem = small_table(seed).problem
    cells = list(range(len(problem.low)))
    rows = list(range(problem.relations.shape[0]))
    random.shuffle(cells)
    random.shuffle(rows)
    levels, true = problem.levels, problem.true
    assert levels is not None
    assert true is not None
    new_place = np.argsort(cells)
    other = AuditProblem(
        problem.relations[rows][:, cells],
        problem.low[cells],
        problem.high[cells],
        True,
        true[cells],
        replace(levels, variables=new_place[levels.variables]),
    )
    assert audit(other).kinds.tolist() == audit(problem).kinds.tolist()
    before, after = intervals(problem), intervals(other)
    found = dict(zip(after.variables.tolist(), zip(after.low, after.high, strict=True), strict=True))
    assert [found[new_place[v]] for v in before.variables] == list(zip(before.low, before.high, strict=True))


@given(SEEDS, st.integers(2, 1000))
def test_sums_in_a_smaller_unit_have_the_same_verdict(seed: int, factor: int) -> None:
    problem = replace(small_table(seed).problem, whole=False)
    assert problem.levels is not None
    assert problem.true is not None
    finer = replace(
        problem,
        low=problem.low * factor,
        high=np.where(
            problem.high == UNBOUNDED, UNBOUNDED, problem.high * np.where(problem.high == UNBOUNDED, 0, factor)
        ),
        true=problem.true * factor,
        levels=replace(problem.levels, lower=problem.levels.lower * factor, upper=problem.levels.upper * factor),
    )
    assert audit(finer).kinds.tolist() == audit(problem).kinds.tolist()
    before, after = intervals(problem), intervals(finer)
    assert [end * factor for end in before.high] == after.high.tolist()
    assert [end * factor for end in before.low] == after.low.tolist()


@given(SEEDS, st.integers(1, 9))
def test_a_level_in_fractions_is_met_exactly_at_the_end_of_the_interval(seed: int, part: int) -> None:
    problem = replace(small_table(seed).problem, whole=False)
    ends = intervals(problem)
    assert problem.true is not None
    wide = [at for at, (low, high) in enumerate(zip(ends.low, ends.high, strict=True)) if low < high][:4]
    true = [int(problem.true[ends.variables[at]]) for at in wide]
    scale = int(np.lcm.reduce([1, *(ends.high[at].denominator for at in wide)])) * 7
    room = np.array([int((ends.high[at] - t) * scale) for at, t in zip(wide, true, strict=True)], dtype=np.int64)
    none = np.zeros_like(room)
    for more, expected in ((0, Kind.HOLDS), (part, Kind.LEVEL)):
        levels = Levels(ends.variables[wide], none, room + more, none, scale)
        result = audit(replace(problem, levels=levels))
        assert set(result.kinds.tolist()) <= {expected}
        assert verified(replace(problem, levels=levels), result)


def of_relation(*signs: int) -> Matrix:
    return matrix_of(np.array(signs), np.zeros(len(signs), dtype=np.int64), np.arange(len(signs)), (1, len(signs)))


def made(low: list[int | None], high: list[int | None], true: list[int] | None = None, **more: object) -> AuditProblem:
    """One relation: the first is the sum of the others."""
    ends = [np.array([UNBOUNDED if end is None else end for end in side]) for side in (low, high)]
    known = None if true is None else np.array(true)
    return AuditProblem(of_relation(1, *[-1] * (len(low) - 1)), *ends, True, known, **more)  # type: ignore[arg-type]


def test_totals_that_do_not_add_up_are_an_error_without_figures() -> None:
    with pytest.raises(DataError, match="does not add up: 1 relations") as error:
        audit(made([17, 4, 12], [17, 4, 12]))
    assert "17" not in str(error.value)


@pytest.mark.parametrize(
    ("low", "high"),
    [([5, 0, 7], [5, None, 7]), ([5, 2, 4], [5, None, None]), ([5, 0, 0], [5, 2, 2])],
    ids=["negative", "lower bounds", "upper bounds"],
)
def test_a_table_that_cannot_be_is_an_error(low: list[int | None], high: list[int | None]) -> None:
    with pytest.raises(DataError, match="no table agrees"):
        audit(made(low, high))
    with pytest.raises(DataError, match="no table agrees"):
        intervals(made(low, high))


def test_true_figures_outside_of_what_is_published_are_an_error() -> None:
    with pytest.raises(DataError, match="true figures"):
        audit(made([8, 0, 5], [8, None, None], [8, 6, 2]))


def test_figures_near_64_bits_are_an_error_or_exact() -> None:
    with pytest.raises(DataError, match="64 bits"):
        audit(made([2**61, 0, 0], [2**61, None, None], [2**61, 2**61, 0]))
    huge = 2**55 + 1
    ends = intervals(replace(made([huge, 0, 0], [huge, None, None], [huge, huge, 0]), whole=False))
    assert ends.high.tolist() == [huge, huge]


def test_without_a_bound_the_end_is_none_and_shown_by_a_ray() -> None:
    ends = intervals(made([None, 0, 2], [None, None, 2]))
    assert ends.low.tolist() == [2, 0]
    assert ends.high.tolist() == [None, None]


def test_what_everyone_can_compute_is_computed_by_contributors_too() -> None:
    """Bounds alone give both hidden cells, so nothing is left to prove for the contributor of the first."""
    known = (Insider(np.array([1]), np.array([2])),)
    found = audit(replace(made([2, 0, 0], [2, 1, 1], [2, 1, 1]), knowing=known))
    assert found.insiders[0].tolist() == [2]
    assert not found.passed


def test_a_mask_of_small_counts_says_no_more_than_itself() -> None:
    """Of two masked counts that sum to 5, a reader knows [1, 4] of each: more than the mask "1 to 9" says."""
    problem = made([5, 1, 1], [5, 9, 9], at_least=10)
    assert set(audit(problem).kinds.tolist()) == {Kind.LEVEL}
    assert audit(made([12, 1, 1], [12, 9, 9], at_least=10)).kinds.tolist() == [Kind.LEVEL, Kind.LEVEL]
    assert audit(made([10, 1, 1], [10, 9, 9], at_least=10)).passed
    assert audit(made([30, 0, 0], [30, None, None], at_least=10)).passed


def test_the_span_is_judged_by_the_distance_of_both_ends() -> None:
    levels = Levels(np.array([1]), np.array([0]), np.array([0]), np.array([8]))
    assert audit(made([8, 0, 0], [8, None, None], [8, 6, 2], levels=levels)).passed
    wider = replace(levels, span=np.array([9]))
    assert audit(made([8, 0, 0], [8, None, None], [8, 6, 2], levels=wider)).counts["level"] == 1


def test_four_yes_or_no_variables_with_all_two_way_tables_are_exact_in_whole_numbers_only() -> None:
    """Linearly 2/3 is possible where only 0 is a whole number: no witness but a whole one proves anything."""
    cells = Cells.complete([Dimension.tree(name, {"0": "T", "1": "T"}) for name in "abcd"])
    ones = {
        (1, 1, 1, 2),
        (1, 1, 2, 2),
        (1, 2, 1, 2),
        (1, 2, 2, 1),
        (1, 2, 2, 2),
        (2, 1, 1, 1),
        (2, 2, 2, 1),
        (2, 2, 2, 2),
    }
    counts = np.array(
        [
            sum(all(c in (0, k) for c, k in zip(codes, one, strict=True)) for one in ones)
            for codes in cells.codes.tolist()
        ]
    )
    hidden = (cells.codes > 0).sum(axis=1) >= 3
    low, high = np.where(hidden, 0, counts), np.where(hidden, UNBOUNDED, counts)
    problem = AuditProblem(cells.relations, low, high, True, counts)
    ends = intervals(problem)
    assert ends.whole_low is not None
    assert ends.whole_high is not None
    only_whole = [
        at
        for at in range(len(ends.variables))
        if ends.low[at] < ends.high[at] and ends.whole_low[at] == ends.whole_high[at]
    ]
    assert Fraction(2, 3) in [ends.high[at] for at in only_whole]
    result = audit(problem)
    assert verified(problem, result)
    assert result.unproved == 0
    exact = set(result.variables[result.kinds != Kind.HOLDS].tolist())
    assert exact == {int(v) for at, v in enumerate(ends.variables) if ends.whole_low[at] == ends.whole_high[at]}


def test_verification_refuses_a_witness_that_was_tampered_with() -> None:
    levels = Levels(np.array([1]), np.array([2]), np.array([2]), np.array([0]))
    problem = made([8, 0, 0], [8, None, None], [8, 6, 2], levels=levels)
    result = audit(problem)
    assert verified(problem, result)
    moved = [replace(move, numerators=move.numerators * 2) for move in result.moves]
    assert not verified(problem, replace(result, moves=moved))
    assert not verified(problem, replace(result, moves=result.moves[:0]))
    assert not verified(problem, replace(result, base=result.base + 1))


def test_no_text_of_a_result_or_problem_shows_a_figure() -> None:
    problem = made([8123, 0, 0], [8123, None, None], [8123, 6017, 2106])
    result = audit(problem)
    texts = [repr(each) for each in (problem, result, intervals(problem), *result.moves)]
    assert not any(figure in text for text in texts for figure in ("8123", "6017", "2106"))
