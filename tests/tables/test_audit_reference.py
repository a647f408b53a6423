"""The reference cases of the audit: intervals, levels, recomputable cells, insiders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privpipe.tables.audit_problem import AuditProblem, Insider
from privpipe.tables.exact_audit import Intervals, Kind, audit, intervals, verified
from tests.tables.audit_cases import Case, case_of, fraction


def ends_of(case: Case, found: Intervals) -> dict[str, dict[str, Any]]:
    """The ends of each hidden cell, by its name."""
    ends = {"low": found.low, "high": found.high}
    if found.whole_low is not None and found.whole_high is not None:
        ends |= {"integer_low": found.whole_low, "integer_high": found.whole_high}
    return {
        case.names[variable]: {n: None if each[at] is None else each[at] / case.scale for n, each in ends.items()}
        for at, variable in enumerate(found.variables)
    }


def test_intervals_are_those_by_definition(audit_row: dict[str, Any]) -> None:
    case = case_of(audit_row)
    got = ends_of(case, intervals(case.problem))
    names = ("low", "high", "integer_low", "integer_high")
    assert got == {
        cell: {name: fraction(figures[name]) for name in names if name in figures}
        for cell, figures in audit_row["expected"]["cells"].items()
    }


def test_levels_hold_where_they_do_by_definition(audit_row: dict[str, Any]) -> None:
    case = case_of(audit_row)
    result = audit(case.problem)
    assert verified(case.problem, result)
    assert result.unproved == 0
    cells = audit_row["expected"]["cells"]
    got = {
        case.names[variable]: kind == Kind.HOLDS for variable, kind in zip(result.variables, result.kinds, strict=True)
    }
    assert got == {name: figures["protected"] for name, figures in cells.items() if "protected" in figures}


@pytest.mark.parametrize("true", [True, False], ids=["true values", "a stranger's table"])
def test_exact_and_recomputable_cells_are_those_by_definition(audit_row: dict[str, Any], true: bool) -> None:
    case = case_of(audit_row)
    problem = replace(case.problem, levels=None, true=case.problem.true if true else None)
    result = audit(problem)
    assert verified(problem, result)
    got = {case.names[variable]: Kind(kind) for variable, kind in zip(result.variables, result.kinds, strict=True)}
    assert got == {name: kind_of(figures) for name, figures in audit_row["expected"]["cells"].items()}


def kind_of(figures: dict[str, Any]) -> Kind:
    if figures["recomputable"]:
        return Kind.RECOMPUTABLE
    return Kind.EXACT if figures["exact"] else Kind.HOLDS


def test_insiders_learn_what_they_do_by_definition(audit_row: dict[str, Any]) -> None:
    case = case_of(audit_row)
    expected = audit_row["expected"].get("insiders", {})
    hidden = np.flatnonzero(~case.problem.published)
    names = sorted({row["contributor"] for row in case.rows if row.get("contributor")})
    known = [np.array([v for v in hidden if case.rows[v].get("contributor") == name], dtype=np.int64) for name in names]
    knowing = tuple(Insider(mine, hidden) for mine in known)
    result = audit(replace(case.problem, knowing=knowing))
    assert set(names) >= set(expected)
    for position, name in enumerate(names):
        learned = ends_of(case, intervals(informed(case.problem, known[position])))
        assert {cell: [ends["low"], ends["high"]] for cell, ends in learned.items()} == {
            cell: [fraction(end) for end in ends] for cell, ends in expected[name].items()
        }
        follows = {case.names[variable] for variable in result.insiders.get(position, ())}
        assert follows == {cell for cell, (low, high) in expected[name].items() if low is not None and low == high}
    assert result.insiders_unproved == 0


def informed(problem: AuditProblem, known: Any) -> AuditProblem:
    """What a contributor knows who is alone in some cells."""
    low, high = problem.low.copy(), problem.high.copy()
    assert problem.true is not None
    low[known] = high[known] = problem.true[known]
    return replace(problem, low=low, high=high)
