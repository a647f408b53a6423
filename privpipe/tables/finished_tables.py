"""Finished tables of anybody: read from frames, with the cells that are blank, and audited."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem
from privpipe.tables.cells import Cells, Dimension, LinkedCells, linked
from privpipe.tables.exact_audit import Intervals
from privpipe.tables.recomputable import recomputable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TOTAL", "FinishedTable", "finished_table", "interval_rows", "linked_problem"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SUPPRESSED = ("c", "suppressed", "primary", "secondary")
"""Texts of a status that say that a figure is blank."""
MARK = re.compile(r"<\s*([1-9]\d{0,8})")
"""Text of a status that says that a blank figure is below a number."""
TOTAL = "Total"
TIME_LIMIT = 600.0
"""Seconds for what cells can be recomputed."""


@dataclass(frozen=True, eq=False)
class FinishedTable:
    """Cells of a finished table and one response.

    Parameters
    ----------
    cells : Cells
    response : str
    values : ndarray of int64, shape (cells,)
        Published figures in units of 10^-decimals; 0 where blank.
    blank : ndarray of bool, shape (cells,)
    decimals : int
    marks : ndarray of int64, shape (cells,)
        What a blank figure is marked to be below, as in a status ``<10``; 0 without a mark.
    """

    cells: Cells
    response: str
    values: Ints
    blank: Bools
    decimals: int
    marks: Ints


def finished_table(
    table: pa.Table,
    dims: Sequence[str] | Mapping[str, Any],
    response: str | None = None,
    *,
    total: str = TOTAL,
    decimals: int | None = None,
) -> FinishedTable:
    """A finished table in long form: one row per cell.

    Parameters
    ----------
    table : pyarrow.Table
    dims : list of columns, or mapping of column to the parent of each label
        Of a column in a list, or with None, every label is below `total`.
    response : str, optional
        The column of figures; default: the only column that is none of `dims` and no status.
    total : str
        Label of all.
    decimals : int, optional
        Default: the most that a figure has.

    Raises
    ------
    DataError
        A column or label is not there, a cell occurs twice, a figure is no number.
    """
    trees = dict(dims) if isinstance(dims, Mapping) else dict.fromkeys(dims)
    for name in trees:
        if name not in table.schema.names:
            raise DataError(f"the table has no column {name!r}{did_you_mean(name, table.schema.names)}")
    name = _response(table, trees, response)
    columns = {each: _labels(table, each) for each in trees}
    dimensions = [_dimension(each, columns[each], parents, total) for each, parents in trees.items()]
    cells = Cells.labelled(dimensions, list(zip(*columns.values(), strict=True)))
    given = table.column(name).to_pylist()
    blank = np.array([each is None or each != each for each in given], dtype=np.bool_)
    status = f"{name}_status" if f"{name}_status" in table.schema.names else "status"
    marks = np.zeros(len(given), dtype=np.int64)
    if status in table.schema.names and status not in trees:
        texts = table.column(status).to_pylist()
        found = [MARK.fullmatch(each) if isinstance(each, str) else None for each in texts]
        marks = np.array([0 if each is None else int(each[1]) for each in found], dtype=np.int64)
        blank |= np.array([each in SUPPRESSED for each in texts], dtype=np.bool_) | (marks > 0)
    figures = [None if gone else _decimal(each, name) for each, gone in zip(given, blank, strict=True)]
    places = max((-int(each.as_tuple().exponent) for each in figures if each is not None), default=0)
    places = max(places, 0) if decimals is None else decimals
    values = np.array([0 if each is None else _unit(each, places, name) for each in figures], dtype=np.int64)
    return FinishedTable(cells, name, values, blank, places, marks)


def _response(table: pa.Table, trees: Mapping[str, Any], response: str | None) -> str:
    if response is not None:
        if response not in table.schema.names:
            raise DataError(f"the table has no column {response!r}{did_you_mean(response, table.schema.names)}")
        return response
    left = [name for name in table.schema.names if name not in trees and not name.endswith("status")]
    if len(left) != 1:
        raise UsageError(f"response: name the column of figures; {len(left)} columns are left: {', '.join(left)}")
    return str(left[0])


def _labels(table: pa.Table, name: str) -> list[str]:
    found = table.column(name).to_pylist()
    missing = sum(each is None for each in found)
    if missing:
        raise DataError(f"dimension {name!r}: {missing:,} rows have no label; write one, such as (missing)")
    return [str(each) for each in found]


def _dimension(name: str, labels: Sequence[str], parents: Any, total: str) -> Dimension:
    if isinstance(parents, Mapping):
        return Dimension.tree(name, {str(label): str(above) for label, above in parents.items()})
    if parents is not None:
        raise UsageError(f"dims: {name!r}: give the parent of each label as a mapping, or None for a flat dimension")
    seen = [label for label in dict.fromkeys(labels) if label != total]
    if not seen:
        raise DataError(f"dimension {name!r} has no label but that of the total")
    return Dimension.tree(name, dict.fromkeys(seen, total))


def _decimal(value: Any, name: str) -> Decimal:
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        found = Decimal("nan")
    if isinstance(value, bool) or not found.is_finite():
        raise DataError(f"column {name!r} holds figures that are no numbers; write null for a suppressed one")
    return found.normalize() if found == found.to_integral() else found


def _unit(value: Decimal, places: int, name: str) -> int:
    scaled = value.scaleb(places)
    if scaled != scaled.to_integral_value():
        raise DataError(f"column {name!r} has figures of more than {places} decimals")
    if abs(scaled) >= UNBOUNDED // 4:
        raise DataError(f"column {name!r} has figures beyond 64 bits; give it in larger units")
    return int(scaled)


def linked_problem(
    tables: Sequence[FinishedTable],
    *,
    original: Sequence[FinishedTable] | None = None,
    whole: bool | None = None,
    lower: int | None = 0,
    prior: Fraction | None = None,
    at_least: int | None = None,
) -> tuple[LinkedCells, AuditProblem, int]:
    """What a reader of finished tables knows, and how many of its units are 1.

    Parameters
    ----------
    original : sequence of FinishedTable, optional
        The same tables without blanks.
    whole : bool, optional
        Whether figures are whole numbers; default: none has a fraction.
    lower : int or None
        Least value of a blank figure, in units of 1; None: there is none.
    prior : Fraction, optional
        Share to which readers know each blank figure; needs `original`.
    at_least : int, optional
        Least count that may be published.

    Raises
    ------
    DataError, UsageError
    """
    places = max(table.decimals for table in tables)
    places = max([places, *(table.decimals for table in original or ())])
    unit = 10**places
    whole = places == 0 if whole is None else whole
    # Bounds of whole numbers are whole; those of others are fractions of the unit, which becomes finer.
    factor = 1 if prior is None or whole else prior.denominator
    cells = linked([table.cells for table in tables])
    low = np.full(cells.size, UNBOUNDED if lower is None else lower * unit * factor, dtype=np.int64)
    high = np.full(cells.size, UNBOUNDED, dtype=np.int64)
    known = np.zeros(cells.size, dtype=np.bool_)
    true = _true(cells, original, places, factor)
    if prior is not None:
        if true is None:
            raise UsageError("prior: what readers know of blank figures is a share of the true ones; give `original`")
        away = np.array([abs(int(each)) * prior.numerator // prior.denominator for each in true], dtype=np.int64)
        low = true - away if lower is None else np.maximum(low, true - away)
        high = true + away
    for table, variables in zip(tables, cells.variables, strict=True):
        _mark(table, variables, (low, high), true, unit * factor)
        shown = np.flatnonzero(~table.blank)
        value = table.values[shown] * (10 ** (places - table.decimals) * factor)
        at = variables[shown]
        again = known[at]
        if (low[at[again]] != value[again]).any():
            raise DataError("cells that two tables share are published with different figures")
        low[at] = high[at] = value
        known[at] = True
    problem = AuditProblem(cells.relations, low, high, whole, true=true, at_least=at_least)
    return cells, problem, unit * factor


def _mark(table: FinishedTable, variables: Ints, bounds: tuple[Ints, Ints], true: Ints | None, one: int) -> None:
    """Narrow the bounds of blank figures to what marks say of them, and of those without one.

    A blank beside marks is 0 or at least the number of the marks. It is taken for the latter, unless it is 0 in truth
    or the table publishes no 0: readers know no more than that.
    """
    if not table.marks.any():
        return
    low, high = bounds
    below = int(table.marks.max()) * one
    marked, rest = variables[table.marks > 0], variables[table.blank & (table.marks == 0)]
    high[marked] = np.minimum(high[marked], table.marks[table.marks > 0] * one - 1)
    least = np.full(len(marked), one) if true is None else np.minimum(true[marked], one)
    low[marked] = np.where(low[marked] == UNBOUNDED, least, np.maximum(low[marked], least))
    empty = np.full(len(rest), not (table.values[~table.blank] == 0).any()) if true is None else true[rest] == 0
    least = np.where(empty, 0, below)
    low[rest] = np.where(low[rest] == UNBOUNDED, least, np.maximum(low[rest], least))
    if true is not None:
        high[rest[empty]] = 0


def _true(cells: LinkedCells, original: Sequence[FinishedTable] | None, places: int, factor: int) -> Ints | None:
    if original is None:
        return None
    true = np.zeros(cells.size, dtype=np.int64)
    for table, whole, variables in zip(cells.tables, original, cells.variables, strict=True):
        if whole.blank.any():
            raise DataError(f"the original has {int(whole.blank.sum()):,} blank figures; give all of them")
        order = {key: at for at, key in enumerate(whole.cells.keys.tolist())}
        if any(key not in order for key in table.keys.tolist()):
            raise DataError("the original does not hold every cell of the table")
        rows = np.array([order[key] for key in table.keys.tolist()], dtype=np.int64)
        true[variables] = whole.values[rows] * (10 ** (places - whole.decimals) * factor)
    return true


def interval_rows(
    cells: LinkedCells,
    problem: AuditProblem,
    found: Intervals,
    unit: int,
    whole: Intervals | None,
    fixed: Mapping[int, int],
) -> pa.Table:
    """A row for each blank cell: its labels and what can be said of it.

    Parameters
    ----------
    found : Intervals
        In units of which `unit` are 1.
    whole : Intervals, optional
        The same among whole numbers.
    fixed : mapping of int to int
        Variables that have one whole number within their bounds alone.
    """
    import pyarrow as pa

    linear, _ = recomputable(problem, found.variables, time.monotonic() + TIME_LIMIT)
    place = np.full(cells.size, -1)
    place[found.variables] = np.arange(len(found.variables))
    names = list(dict.fromkeys(dimension.name for table in cells.tables for dimension in table.dimensions))
    rows: dict[int, dict[str, Any]] = {}
    for table, variables in zip(cells.tables, cells.variables, strict=True):
        for cell, variable in enumerate(variables.tolist()):
            if place[variable] >= 0 and variable not in rows:
                labels = {d.name: d.labels[c] for d, c in zip(table.dimensions, table.codes[cell], strict=True)}
                rows[variable] = {name: labels.get(name) for name in names}
    columns: dict[str, list[Any]] = {name: [row[name] for row in rows.values()] for name in names}
    at = place[list(rows)]
    made = pa.table({name: pa.array(column, pa.string()) for name, column in columns.items()})
    low, high = [found.low[each] for each in at], [found.high[each] for each in at]
    for name, ends in (("low", low), ("high", high)):
        made = made.append_column(name, pa.array([_float(end, unit) for end in ends], pa.float64()))
    if whole is not None and whole.whole_low is not None and whole.whole_high is not None:
        among = dict(zip(whole.variables.tolist(), zip(whole.whole_low, whole.whole_high, strict=True), strict=True))
        # What bounds leave no choice is no variable of that problem.
        pairs = [among.get(variable, (fixed.get(variable),) * 2) for variable in rows]
        low, high = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        for name, ends in (("integer_low", low), ("integer_high", high)):
            values = [None if end is None else int(end) for end in ends]
            made = made.append_column(name, pa.array(values, pa.int64()))
    made = made.append_column("recomputable", pa.array(linear[at].tolist(), pa.bool_()))
    exact = [one is not None and one == other for one, other in zip(low, high, strict=True)]
    return made.append_column("exact", pa.array(exact, pa.bool_()))


def _float(end: Fraction | None, unit: int) -> float | None:
    return None if end is None else float(end / unit)
