"""The audit against exhaustive search: 1,000 random tables of up to 60 cells."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from privpipe.tables import insiders
from privpipe.tables.audit_problem import Insider
from privpipe.tables.exact_audit import Kind, audit, intervals, verified
from tests.tables.exhaustive_search import Small, all_tables, linear_ends, small_table, solution_space
from tests.tiers import deep_beyond

TABLES = 1_000
AT_ONCE = 20


@pytest.mark.parametrize("first", deep_beyond(2, range(0, TABLES, AT_ONCE), then_rare=6))
def test_intervals_and_verdicts_are_those_of_exhaustive_search(first: int) -> None:
    differences = [(seed, what) for seed in range(first, first + AT_ONCE) for what in differences_of(small_table(seed))]
    assert differences == []


def differences_of(table: Small) -> list[object]:
    """What the product says otherwise than the search."""
    problem = table.problem
    found = intervals(problem)
    assert found.whole_low is not None
    assert found.whole_high is not None
    wrong: list[object] = []
    linear = linear_ends(problem)
    if linear is not None:
        got = {at: (found.low[i], found.high[i]) for i, at in enumerate(found.variables.tolist())}
        wrong += [("linear", at, got[at], linear[at]) for at in linear if got[at] != linear[at]]
    tables = all_tables(problem)
    if tables is None:
        return wrong
    ends = {at: (min(t[at] for t in tables), max(t[at] for t in tables)) for at in found.variables.tolist()}
    got = {at: (found.whole_low[i], found.whole_high[i]) for i, at in enumerate(found.variables.tolist())}
    wrong += [("whole", at, got[at], ends[at]) for at in ends if got[at] != ends[at]]
    result = audit(problem)
    if not verified(problem, result):
        wrong.append("not verified")
    hidden, basis = solution_space(problem)
    known = {at for column, at in enumerate(hidden) if not any(vector[column] for vector in basis)}
    assert problem.levels is not None
    for at, kind, lower, upper in zip(
        result.variables.tolist(), result.kinds, problem.levels.lower, problem.levels.upper, strict=True
    ):
        low, high = ends[at]
        true = table.counts[at]
        expected = (
            Kind.RECOMPUTABLE
            if at in known
            else Kind.EXACT
            if low == high
            else Kind.HOLDS
            if low <= true - lower and high >= true + upper
            else Kind.LEVEL
        )
        if kind != expected:
            wrong.append(("kind", at, Kind(kind), expected))
    stranger = audit(replace(problem, true=None, levels=None))
    exact = {at for at, kind in zip(stranger.variables.tolist(), stranger.kinds, strict=True) if kind != Kind.HOLDS}
    if exact != {at for at, (low, high) in ends.items() if low == high}:
        wrong.append(("stranger", exact))
    return wrong


@pytest.fixture(params=["programmes", "tableaus"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What insiders find is proved by programmes; where many ask, by tableaus of what is near before."""
    monkeypatch.setattr(insiders, "FEWEST", 0 if request.param == "tableaus" else 10**9)
    monkeypatch.setattr(insiders, "REGIONS", (6, 12))


@pytest.mark.parametrize("first", deep_beyond(1, range(0, 100, AT_ONCE), then_rare=3))
def test_what_insiders_find_is_that_of_exhaustive_search(first: int, ways: None) -> None:
    """Each insider knows one hidden cell, or two; all other sensitive cells are those of others."""
    searched = 0
    for seed in range(first, first + AT_ONCE):
        problem = small_table(seed).problem
        tables = all_tables(problem)
        if tables is None or problem.levels is None:
            continue
        hidden = np.flatnonzero(~problem.published).tolist()
        known = [np.array(sorted({at, other})) for at, other in pairwise([*hidden, *hidden[:1]])]
        known += [np.array([at]) for at in hidden]
        knowing = tuple(Insider(own, problem.levels.variables) for own in known)
        result = audit(replace(problem, knowing=knowing))
        assert result.insiders_unproved == 0
        assert problem.true is not None
        for position, insider in enumerate(knowing):
            own, others = insider.known, insider.others
            left = [table for table in tables if all(table[at] == problem.true[at] for at in own.tolist())]
            expected = {at for at in others.tolist() if len({table[at] for table in left}) == 1}
            assert set(result.insiders.get(position, np.empty(0)).tolist()) == expected, (seed, own)
            searched += 1
    assert searched > AT_ONCE


@pytest.mark.parametrize("first", deep_beyond(1, range(0, 100, AT_ONCE), then_rare=3))
def test_levels_for_insiders_who_know_bounds_are_those_of_exhaustive_search(first: int, ways: None) -> None:
    """Each insider knows one or two cells to within a few units: others must still find the levels possible."""
    draws, failing = np.random.default_rng(first), 0
    for seed in range(first, first + AT_ONCE):
        problem = small_table(seed).problem
        tables = all_tables(problem)
        if tables is None or problem.levels is None or problem.true is None:
            continue
        hidden = np.flatnonzero(~problem.published).tolist()
        known = [np.array(sorted({at, other})) for at, other in pairwise([*hidden, *hidden[:1]])]
        rests = [draws.integers(0, 3, len(own)) for own in known]
        knowing = tuple(
            Insider(own, problem.levels.variables, problem.true[own] - rest, problem.true[own] + rest)
            for own, rest in zip(known, rests, strict=True)
        )
        result = audit(replace(problem, knowing=knowing, insider_levels=True))
        assert result.insiders_unproved == 0
        anyway = set(result.variables[result.kinds != Kind.HOLDS].tolist())  # for every reader: not due to insiders
        ends = zip(problem.levels.variables, problem.levels.upper, problem.levels.lower, strict=True)
        unit, levels = problem.levels.denominator, {int(at): (int(up), int(down)) for at, up, down in ends}
        for position, (own, rest) in enumerate(zip(known, rests, strict=True)):
            near = [(at, int(problem.true[at]), int(most)) for at, most in zip(own.tolist(), rest, strict=True)]
            left = [table for table in tables if all(abs(table[at] - true) <= most for at, true, most in near)]
            expected = set()
            for at in set(levels) - set(own.tolist()):
                most, least = max(table[at] for table in left), min(table[at] for table in left)
                (up, down), true = levels[at], int(problem.true[at])
                if (most - true) * unit < up or (true - least) * unit < down or most == least:
                    expected.add(at)
            got = set(result.insiders.get(position, np.empty(0)).tolist())
            assert got - anyway == expected - anyway, (seed, own)
            failing += len(expected - anyway)
    assert failing


def test_exhaustive_search_finds_the_tables_of_geurts() -> None:
    """The oracle itself, on the published example with four tables."""
    from privpipe.tables.cells import Cells, Dimension

    r = Dimension.tree("r", {"1": "T", "2": "T", "3": "T"})
    c = Dimension.tree("c", {"1": "T", "2": "T"})
    cells = Cells.complete([r, c])
    counts = [16, 9, 7, 7, 4, 3, 3, 2, 1, 6, 3, 3]
    hidden = np.isin(np.arange(12), [4, 5, 7, 8]).tolist()
    table = Small(cells, counts, hidden, hidden)
    tables = all_tables(table.problem)
    assert tables is not None
    assert sorted(each[4] for each in tables) == [3, 4, 5, 6]
    assert linear_ends(table.problem) == {4: (3, 6), 5: (1, 4), 7: (0, 3), 8: (0, 3)}
