"""The interval that an attacker can derive for each suppressed figure of a release; for the private record only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from privpipe.errors import DataError
from privpipe.tables.aggregates import rational
from privpipe.tables.audit_problem import Levels
from privpipe.tables.entries import TableSet
from privpipe.tables.exact_audit import intervals
from privpipe.tables.families import Family, families
from privpipe.tables.table_audit import TableAudit

__all__ = ["suppressed_rows"]

MOST_FIGURES = 2_000
"""Open figures of a measure up to which their intervals are worked out, two programs each."""
SECONDS = 60.0
Ends = dict[tuple[str, str, int], tuple[Fraction | None, Fraction | None]]


def suppressed_rows(tables: TableSet) -> dict[str, list[dict[str, Any]]]:
    """For each table a row for each suppressed figure: labels, value, contributors, reason, and ``low`` and ``high``.

    Both ends are None where there is no bound; ``interval`` says ``not worked out`` where there are too many figures or
    it took too long.
    """
    found: Ends = {}
    asked = next((each for each in tables.guarantees if isinstance(each, TableAudit)), TableAudit())
    # What private_table publishes are not intervals of true figures, and nothing of it is hidden.
    exact = {name: table for name, table in tables.tables.items() if table.process is None}
    for family in families(exact, tables.joint):
        found.update(_ends(family, asked))
    return {name: [_row(name, at, row, found) for at, row in _figures(tables, name)] for name in tables.tables}


def _figures(tables: TableSet, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    table = tables.tables[name]
    places = [
        at
        for at in np.flatnonzero(table.hidden).tolist()
        for key in table.shown_measures
        if table.measures[key].hidden[at]
    ]
    yield from zip(places, table.private_rows(), strict=True)


def _row(name: str, at: int, row: dict[str, Any], found: Ends) -> dict[str, Any]:
    ends = found.get((name, row["figure"], at))
    if ends is None:
        return {**row, "low": None, "high": None, "interval": "not worked out"}
    low, high = (None if end is None else _text(end) for end in ends)
    return {**row, "low": low, "high": high, "interval": "exact" if low is not None and low == high else "open"}


def _text(end: Fraction) -> str:
    return str(end.numerator) if end.denominator == 1 else format(float(end), ".10g")


def _ends(family: Family, asked: TableAudit) -> Ends:
    """The interval of each hidden figure of a measure, by table, measure and cell."""
    if not family.hidden.any():
        return {}
    none = np.empty(0, dtype=np.int64)
    problem = family.problem(
        Levels(none, none.copy(), none.copy(), none.copy()),
        prior=None if asked.prior is None else rational(asked.prior, "table_audit: prior") / 100,
        knowing=(),
        implied=np.zeros(0, dtype=np.bool_),
    )
    if not asked.whole:
        problem = replace(problem, whole=False)
    if int((~problem.published).sum()) > MOST_FIGURES:
        return {}
    try:
        found = intervals(problem, time_limit=SECONDS)
    except DataError:  # not proved in time: the verdict shows what was
        return {}
    low, high = found.closest
    place = np.full(len(problem.low), -1)
    place[found.variables] = np.arange(len(found.variables))
    ends: Ends = {}
    for table, measure, variable in zip(family.tables, family.measures, family.cells.variables, strict=True):
        unit = 10**measure.places
        for at in np.flatnonzero(measure.hidden).tolist():
            here = int(place[variable[at]])
            if here >= 0:
                ends[table.name, family.key, at] = tuple(  # type: ignore[assignment]
                    None if end is None else Fraction(end) / unit for end in (low[here], high[here])
                )
            else:  # another table publishes it
                value = Fraction(int(measure.figures.totals[at]), unit)
                ends[table.name, family.key, at] = (value, value)
    return ends
