"""The exact intervals of the reference cases."""

from __future__ import annotations

from typing import Any

from privpipe.tables.audit import intervals
from tests.tables.audit_cases import case_of, fraction


def test_intervals_are_those_by_definition(audit_row: dict[str, Any]) -> None:
    case = case_of(audit_row)
    found = intervals(case.problem)
    ends = {"low": found.low, "high": found.high}
    if case.problem.whole:
        assert found.whole_low is not None
        assert found.whole_high is not None
        ends |= {"integer_low": found.whole_low, "integer_high": found.whole_high}
    got = {
        case.names[variable]: {
            name: None if values[at] is None else values[at] / case.scale for name, values in ends.items()
        }
        for at, variable in enumerate(found.variables)
    }
    expected = {
        cell: {name: fraction(figures[name]) for name in ends if name in figures}
        for cell, figures in audit_row["expected"]["cells"].items()
    }
    assert got == expected
