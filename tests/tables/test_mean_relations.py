"""Means that give perturbed or hidden counts away."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels, matrix_of, with_means
from privpipe.tables.exact_audit import audit, intervals
from tests.tiers import deep_beyond


def of_total(parts: int) -> Any:
    """The last variable is the sum of the others."""
    signs = np.array([*[-1] * parts, 1])
    return matrix_of(signs, np.zeros(parts + 1, dtype=np.int64), np.arange(parts + 1), (1, parts + 1))


def attacked(bounds: list[list[int]], means: list[tuple[Fraction, Fraction]]) -> list[tuple[int, int]]:
    """What a reader can say of each count, the total last."""
    low, high = np.array(bounds).T
    counts = AuditProblem(of_total(len(bounds) - 1), low, high, True)
    sums = AuditProblem(counts.relations, np.zeros_like(low), np.full_like(high, UNBOUNDED), True)
    given = [(at, at, least, greatest) for at, (least, greatest) in enumerate(means)]
    least, greatest = intervals(with_means(counts, sums, given)).closest
    return [(int(least[at]), int(greatest[at])) for at in range(len(bounds))]


def test_exact_means_leave_the_counts_by_definition(mean_attack_row: dict[str, Any]) -> None:
    options = mean_attack_row["options"]
    means = [Fraction(mean) for mean in (*options["means"], options["total_mean"])]
    found = attacked([*options["parts"], options["total"]], [(mean, mean) for mean in means])
    expected = np.array([[*each, sum(each)] for each in mean_attack_row["expected"]["counts"]])
    assert found == list(zip(expected.min(axis=0).tolist(), expected.max(axis=0).tolist(), strict=True))


@pytest.mark.parametrize("seed", deep_beyond(1, range(3)))
def test_rounded_means_leave_the_counts_of_an_exhaustive_search(seed: int) -> None:
    draw = np.random.default_rng(seed)
    true = draw.integers(3, 9, 2).tolist()
    sums = [int(draw.integers(2 * n, 6 * n)) for n in true]
    figures = [*zip(true, sums, strict=True), (sum(true), sum(sums))]
    half = Fraction(1, 20)
    rounded = [Fraction(round(Fraction(x, n) * 10), 10) for n, x in figures]
    bounds = [[n - 2, n + 2] for n, _ in figures]
    possible = [
        (*n, sum(n))
        for n in product(*(range(low, high + 1) for low, high in bounds[:2]))
        if bounds[2][0] <= sum(n) <= bounds[2][1]
        for x in product(*(range(int(each * r) - 1, int(each * r) + 3) for each, r in zip(n, rounded, strict=False)))
        if all(abs(Fraction(a, b) - r) <= half for a, b, r in zip((*x, sum(x)), (*n, sum(n)), rounded, strict=True))
    ]
    found = attacked(bounds, [(r - half, r + half) for r in rounded])
    assert found == [(min(values), max(values)) for values in zip(*possible, strict=True)]


def test_the_true_figures_are_carried_over_and_judged() -> None:
    counts = AuditProblem(
        of_total(2),
        np.array([7, 12, 17]),
        np.array([11, 16, 21]),
        True,
        np.array([8, 12, 20]),
        Levels(np.array([0]), np.array([0]), np.array([1]), np.array([0])),
    )
    sums = AuditProblem(
        counts.relations, np.zeros(3, dtype=np.int64), np.full(3, UNBOUNDED), True, np.array([90, 95, 185])
    )
    exact = [(at, at, mean, mean) for at, mean in enumerate([Fraction(45, 4), Fraction(95, 12), Fraction(37, 4)])]
    wide = [(at, at, mean - 1, mean + 1) for at, _, mean, _ in exact]
    assert audit(with_means(counts, sums, wide)).passed
    assert audit(with_means(counts, sums, exact)).counts["exact"] == 1
    assert audit(with_means(replace(counts, levels=None), sums, exact)).failures == 6
