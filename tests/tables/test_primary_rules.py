"""Primary rules: reference figures, the definition on random contributions, ties, weights, negatives, waivers."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.primary_rules import (
    Dominance,
    MinimumFrequency,
    PPercent,
    PriorPosterior,
    Rule,
    Settings,
    protection_levels,
)
from tests.tables.table_cases import cases, figures_of, row_of_cells


def rule_of(given: dict[str, Any]) -> Rule:
    more = {"weights": given["weights"]} if "weights" in given else {}
    kind = given["rule"]
    if kind == "dominance":
        return Dominance(contributors=given["n"], at_most=Fraction(str(given["k"])) / 100, **more)
    if kind == "p":
        return PPercent(at_least=given["p"], **more)
    if kind == "pq":
        return PriorPosterior(at_least=given["p"], prior=given["q"], **more)
    assert kind == "frequency"
    return MinimumFrequency(at_least=given["n"])


@pytest.mark.parametrize("case", cases("primary"))
def test_reference_figures(case: dict[str, Any]) -> None:
    figures = figures_of(case["cells"])
    expected = case["expected"]["cells"]
    totals = [Fraction(int(total), figures.weight_unit) for total in figures.totals]
    assert totals == [Fraction(str(cell["total"])) for cell in expected]
    assert figures.contributors.tolist() == [cell["contributors"] for cell in expected]
    for at, given_rule in enumerate(case["rules"]):
        rule = rule_of(given_rule)
        unsafe = rule.unsafe(figures)
        assert unsafe.tolist() == [cell["rules"][at]["unsafe"] for cell in expected], given_rule
        levels = protection_levels([rule], figures)
        upper = dict(zip(levels.variables.tolist(), levels.upper.tolist(), strict=True))
        for cell, figure in enumerate(expected):
            if figure["rules"][at]["upl"] is not None:
                found = Fraction(upper.get(cell, 0), levels.denominator * figures.weight_unit)
                assert found == Fraction(str(figure["rules"][at]["upl"])), (given_rule, cell)


def by_definition(rule: Rule, contributions: list[int]) -> tuple[bool, Fraction]:
    """Whether a cell of non-negative contributions is unsafe, and its upper level, from the table of the handbook."""
    ranked = sorted(contributions, reverse=True) + [0] * 10
    total = sum(contributions)
    if isinstance(rule, MinimumFrequency):
        return 0 < len(contributions) < rule.at_least, Fraction(0)
    if contributions and not any(contributions):
        return True, Fraction(0)
    if isinstance(rule, Dominance):
        share = Fraction(str(rule.at_most))
        top = sum(ranked[: rule.contributors])
        return top > share * total, max(Fraction(0), top / share - total)
    if isinstance(rule, PriorPosterior):
        share, rest = Fraction(str(rule.at_least)) / Fraction(str(rule.prior)), total - ranked[0] - ranked[1]
    else:
        assert isinstance(rule, PPercent)
        share = Fraction(str(rule.at_least)) / 100
        rest = total - sum(ranked[: rule.coalition + 1])
    return rest < share * ranked[0], max(Fraction(0), share * ranked[0] - rest)


RULES = (
    MinimumFrequency(at_least=3),
    Dominance(contributors=1, at_most=0.5),
    Dominance(contributors=2, at_most="4/5"),
    PPercent(at_least=10),
    PPercent(at_least=33.3, coalition=2),
    PriorPosterior(at_least=10, prior=50),
)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(
    values=st.lists(
        st.lists(st.one_of(st.integers(0, 6), st.integers(0, 10**15)), max_size=7).map(tuple), min_size=1, max_size=12
    )
)
def test_the_definition_on_random_contributions(rule: Rule, values: list[tuple[int, ...]]) -> None:
    figures = figures_of([[[value] for value in cell] for cell in values])
    expected = [by_definition(rule, list(cell)) for cell in values]
    assert rule.unsafe(figures).tolist() == [unsafe for unsafe, _ in expected]
    levels = protection_levels([rule], figures)
    found = {
        int(cell): Fraction(int(upper), levels.denominator)
        for cell, upper in zip(levels.variables, levels.upper, strict=True)
    }
    assert found == {at: level for at, (unsafe, level) in enumerate(expected) if unsafe}


def test_several_rules_take_the_largest_level_of_those_that_call_a_cell_unsafe() -> None:
    figures = figures_of([[[300], [20], [10]], [[5], [5], [5], [5]]])
    rules = [PPercent(at_least=10), Dominance(contributors=1, at_most=0.85), MinimumFrequency(at_least=3)]
    levels = protection_levels(rules, figures)
    assert levels.variables.tolist() == [0]
    assert Fraction(int(levels.upper[0]), levels.denominator) == Fraction(390, 17)


def test_equality_is_safe() -> None:
    figures = figures_of([[[80], [20]], [[10], [9], [1]], [[1], [1], [1]]])
    assert Dominance(contributors=1, at_most=0.8).unsafe(figures).tolist() == [False, False, False]
    assert PPercent(at_least=10).unsafe(figures).tolist() == [True, False, False]
    assert MinimumFrequency(at_least=3).unsafe(figures).tolist() == [True, False, False]


def test_thresholds_are_the_rationals_of_their_decimal_text() -> None:
    figures = figures_of([[[1000], [50], [1]], [[1000], [50], [0]]])  # .1 % of 1000 is exactly 1
    assert PPercent(at_least=0.1).unsafe(figures).tolist() == [False, True]
    assert PriorPosterior(at_least=0.05, prior=50).unsafe(figures).tolist() == [False, True]


def test_a_larger_n_never_makes_fewer_primaries() -> None:
    draw = random.Random(3)
    figures = figures_of([[[draw.randrange(50)] for _ in range(draw.randrange(9))] for _ in range(200)])
    before = np.zeros(200, dtype=bool)
    for n in range(1, 10):
        now = MinimumFrequency(at_least=n).unsafe(figures)
        assert not (before & ~now).any()
        before = now


def test_a_weight_below_one_is_one_whole_contribution() -> None:
    figures = figures_of([[[100, "1/2"], [60, "3/2"], [10, 2]]])
    levels = protection_levels([Dominance(contributors=2, at_most="21/50")], figures)
    assert Fraction(int(levels.upper[0]), levels.denominator * figures.weight_unit) == Fraction(4640, 21)


def test_weights_do_not_depend_on_the_order_of_rows() -> None:
    cells = [[100, "2.5"], [90, "0.5"], [80, "1.5"], [7, "3"]]
    draw = random.Random(1)
    seen = set()
    for _ in range(10):
        draw.shuffle(cells)
        levels = protection_levels([Dominance(contributors=3, at_most=0.2)], figures_of([cells]))
        seen.add((int(levels.upper[0]), levels.denominator))
    assert len(seen) == 1


def test_weights_that_readers_know() -> None:
    figures = figures_of([[[100, 4], [10, 7]], [[100, 2], [50, 1], [9, 1]], [[100, 2], [50, 1], [10, 1]]])
    assert PPercent(at_least=10, weights="known").unsafe(figures).tolist() == [True, True, False]


def test_replicas_of_persons_are_refused() -> None:
    figures = replace(figures_of([[[100, 4], [10, 7]]]), persons=True)
    with pytest.raises(UsageError, match="replicas of a person"):
        PPercent(at_least=10).unsafe(figures)
    assert PPercent(at_least=10, weights="sample").unsafe(figures).tolist() == [False]


def test_frequency_of_the_population_is_the_sum_of_weights() -> None:
    figures = figures_of([[[1, "7/2"], [1, "5/2"]], [[1, "7/2"], [1, "2"]]])
    assert MinimumFrequency(at_least=6, population=True).unsafe(figures).tolist() == [False, True]
    assert MinimumFrequency(at_least=6).unsafe(figures).tolist() == [True, True]
    assert MinimumFrequency(at_least=6, population=True).observed(figures, np.ones(2, bool)) == Fraction(11, 2)


def test_negative_contributions() -> None:
    figures = figures_of([[[1000], [-990], [5]], [[100], [100], [90]]])
    for rule in (PPercent(at_least=10), Dominance(contributors=1, at_most=0.5)):
        with pytest.raises(DataError, match="1 cells hold negative contributions"):
            rule.unsafe(figures)
    absolute = PPercent(at_least=10, negative="absolute")
    assert absolute.unsafe(figures).tolist() == [True, False]
    assert protection_levels([absolute], figures).upper.tolist() == [95 * 10]  # 1/10 of 1000, less 5; over 10
    assert protection_levels([absolute], figures).denominator == 10
    assert PPercent(at_least=10, negative="frequency").unsafe(figures).tolist() == [False, False]


def test_parts_of_one_contributor_that_cancel_are_nothing() -> None:
    figures = CellFigures.of_contributions(row_of_cells(1), [[(5, 1), (-5, 1), (3, 2)]])
    assert (figures.totals.tolist(), figures.nonzero.tolist(), figures.negative.tolist()) == ([3], [1], [0])
    assert (figures.magnitudes.tolist(), figures.contributors.tolist()) == ([3], [2])


def test_an_open_lower_bound_leaves_the_level_symmetric() -> None:
    figures = figures_of([[[4]]])
    rule = PPercent(at_least=300)
    assert protection_levels([rule], figures).lower.tolist() == [4]
    assert protection_levels([rule], figures, Settings(lower_bound=None)).lower.tolist() == [12]
    assert protection_levels([rule], figures, Settings(lower="none")).lower.tolist() == [0]


def test_sliding_protection() -> None:
    levels = protection_levels([PPercent(at_least=10)], figures_of([[[300], [20], [10]]]), Settings(sliding=0.25))
    assert Fraction(int(levels.span[0]), levels.denominator) == Fraction(165, 2)


@pytest.mark.parametrize(
    ("protect", "zeros", "upper", "lower"),
    [
        ("masked", "safe", [8, 4, 0], [0, 4, 8]),
        ("masked", "unsafe", [8, 4, 0], [1, 5, 9]),
        ("exact", "safe", [0, 0, 0], [0, 0, 0]),
        ({"percent": 30}, "safe", [1, 2, 3], [1, 2, 3]),
    ],
)
def test_levels_of_the_frequency_rule(protect: Any, zeros: Any, upper: list[int], lower: list[int]) -> None:
    figures = replace(figures_of([[[1]] * 1, [[1]] * 5, [[1]] * 9]), counting=True)
    levels = protection_levels([MinimumFrequency(at_least=10, protect=protect, zeros=zeros)], figures)
    assert (levels.upper.tolist(), levels.lower.tolist(), levels.denominator) == (upper, lower, 1)


def test_zeros() -> None:
    figures = figures_of([[], [[0], [0], [0]], [[1], [2], [3]], []])
    rule = MinimumFrequency(at_least=3)
    assert rule.unsafe(figures).tolist() == [False, False, False, False]
    unsafe = MinimumFrequency(at_least=3, zeros="unsafe", structural=[{"cell": "c0003"}])
    assert unsafe.unsafe(figures).tolist() == [True, False, False, False]
    with pytest.raises(DataError, match="1 cells that `structural` declares"):
        MinimumFrequency(at_least=3, zeros="unsafe", structural=[{"cell": "c0002"}]).unsafe(figures)
    assert PPercent(at_least=1).unsafe(figures).tolist() == [False, True, False, False]
    assert PPercent(at_least=1, zero_sums="safe").unsafe(figures).tolist() == [False, False, False, False]
    assert MinimumFrequency(at_least=3, count="nonzero").unsafe(figures_of([[[0], [4], [5]]])).tolist() == [True]


def test_waivers() -> None:
    figures = figures_of([[[100], [50], [4]], [[100], [50], [4]], [[100], [50], [4]]])
    # Who protects 100; only 50 is protected; no one is.
    waived = replace(figures, unwaived=np.array([100, 50, -1]))
    assert PPercent(at_least=10).unsafe(waived).tolist() == [True, True, False]
    assert PPercent(at_least=8).unsafe(waived).tolist() == [True, False, False]
    assert PPercent(at_least=8, zero_sums="safe").observed(waived, np.ones(3, bool)) == 4
    assert Dominance(contributors=1, at_most=0.5).unsafe(waived).tolist() == [True, False, False]


def test_observed_figures() -> None:
    figures = figures_of([[[300], [20], [10]], [[5], [5], [5], [5]], [[7]]])
    published = np.array([True, True, False])
    assert MinimumFrequency(at_least=3).observed(figures, published) == 3
    assert Dominance(contributors=1, at_most=0.5).observed(figures, published) == Fraction(10, 11)
    assert PPercent(at_least=10).observed(figures, published) == Fraction(10, 3)
    assert PriorPosterior(at_least=10, prior=50).observed(figures, published) == Fraction(5, 3)
    assert PPercent(at_least=10).observed(figures, np.zeros(3, bool)) is None


def test_figures_beyond_integers_of_64_bits_are_judged_exactly() -> None:
    figures = figures_of([[[2**61], [2**59]], [[2**61 - 1], [2**59]]])
    share = Fraction(2**61, 2**61 + 2**59)
    assert Dominance(contributors=1, at_most=share).unsafe(figures).tolist() == [False, False]
    assert Dominance(contributors=1, at_most=share - Fraction(1, 10**30)).unsafe(figures)[0]
    with pytest.raises(DataError, match="64 bits"):
        protection_levels([PPercent(at_least="123456789/1000000007")], figures)


def test_more_of_the_largest_are_needed_than_were_kept() -> None:
    figures = figures_of([[[5], [4], [3]]], largest=2)
    assert PPercent(at_least=10).unsafe(figures).tolist() == [False]
    with pytest.raises(DataError, match="the 2 largest contributions"):
        PPercent(at_least=10, coalition=2).unsafe(figures)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dominance(contributors=1, at_most=90), "a share between 0 and 1"),
        (lambda: Dominance(contributors=0, at_most=0.9), "1 to 10"),
        (lambda: PPercent(at_least=0), "above 0"),
        (lambda: PPercent(at_least="much"), "must be a number"),
        (lambda: PPercent(at_least=float("nan")), "must be a number"),
        (lambda: PriorPosterior(at_least=10), "0 < p < q"),
        (lambda: PriorPosterior(at_least=50, prior=10), "0 < p < q"),
        (lambda: MinimumFrequency(at_least=0), "at least 1"),
        (lambda: MinimumFrequency(at_least=3, protect="much"), "protect"),
        (lambda: PPercent(at_least=3, negative="ignore"), "one of"),
    ],
)
def test_wrong_parameters(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
