"""Intervals that an attacker can derive for blank cells of finished tables, in a private file for the officer."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.errors import UsageError
from privpipe.private_files import write_private
from privpipe.reporting.table_pages import drawn_tables, table_page
from privpipe.running.table_validation import FinishedTables, finished_tables
from privpipe.sinks.records import document_values
from privpipe.tables.aggregation import COUNT
from privpipe.tables.exact_audit import intervals
from privpipe.tables.finished_tables import linked_problem

if TYPE_CHECKING:
    from privpipe.judging import Assessment
    from privpipe.policy import Policy

__all__ = ["write_intervals"]

FORMATS = (".csv", ".html")


def write_intervals(policy: Policy, data: Any, judged: Assessment, path: str, original: Any = None, **said: str) -> int:
    """Write a line for each blank figure of finished tables: where it is, and between which values a reader knows it.

    Parameters
    ----------
    judged : Assessment
        What `validate_tables` said, for the page.
    path : str
        A new file, CSV, or HTML for the internal edition of the page; readable only by its owner.

    Returns
    -------
    int
        Figures written.

    Raises
    ------
    UsageError
        A file that exists, or of another format.
    DataError
        An interval was not proved in time.
    """
    target = Path(path).absolute()
    if target.suffix not in FORMATS:
        raise UsageError(f"--intervals takes a file named {' or '.join(FORMATS)}, got {target.name!r}")
    if target.exists():
        raise UsageError(f"--intervals: {target.name!r} exists already; nothing was overwritten")
    finished = finished_tables(policy, data, original, extra_columns=False, **said)
    rows = {name: list(_rows(finished, name)) for name in finished.specs}
    if target.suffix == ".csv":
        text = _lines(finished, rows)
    else:
        total = next(iter(finished.specs.values())).total
        verdict = {**judged.to_dict(), "name": policy.name, "edition": "private"}
        drawn = drawn_tables(finished.rows, total)
        text = table_page(*(document_values(each) for each in (verdict, drawn, {"tables": rows})))
    write_private(target, text)
    return sum(map(len, rows.values()))


def _rows(finished: FinishedTables, name: str) -> Iterator[dict[str, Any]]:
    for key in finished.keys:
        own = finished.figures(key)
        if name not in own:
            continue
        signed = any(bool((each.values < 0).any()) for each in own.values())
        lower = None if signed else 0
        cells, problem, unit = linked_problem(list(own.values()), whole=key == COUNT, lower=lower)
        found = intervals(problem)
        low, high = found.closest
        place = np.full(len(problem.low), -1)
        place[found.variables] = np.arange(len(found.variables))
        table, variables = own[name], cells.variables[list(own).index(name)]
        for at in np.flatnonzero(table.blank).tolist():
            here = int(place[variables[at]])
            labels = {d.name: d.labels[c] for d, c in zip(table.cells.dimensions, table.cells.codes[at], strict=True)}
            ends = [problem.low[variables[at]]] * 2 if here < 0 else [low[here], high[here]]
            least, most = (None if end is None else float(end / unit) for end in ends)
            yield {**labels, "figure": table.response, "low": least, "high": most, "exact": least == most}


def _lines(finished: FinishedTables, rows: dict[str, list[dict[str, Any]]]) -> str:
    dims = list(dict.fromkeys(column for spec in finished.specs.values() for column in spec.by))
    text = io.StringIO()
    lines = csv.DictWriter(text, ["table", *dims, "figure", "low", "high", "exact"], lineterminator="\n")
    lines.writeheader()
    lines.writerows({"table": name, **row} for name, own in rows.items() for row in own)
    return text.getvalue()
