"""Finished tables of anyone: read from frames, with the cells that are blank, and audited."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem
from privpipe.tables.cells import Cells, Dimension, LinkedCells, linked
from privpipe.tables.exact_audit import Intervals, recomputable
from privpipe.tables.families import with_overlaps

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "MARK",
    "SUPPRESSED",
    "TOTAL",
    "FinishedTable",
    "blank_or_decimal",
    "figures_of",
    "finished_cells",
    "finished_table",
    "in_declared_units",
    "interval_rows",
    "labels_of",
    "linked_problem",
    "require_exact",
]

SUPPRESSED = ("c", "suppressed", "primary", "secondary")
"""Texts of a status that say that a figure is blank."""
MARK = re.compile(r"<\s*([1-9]\d{0,8})")
"""Text of a status that shows that a blank figure is below a number."""
CHANGED = ("rounded", "perturbed", "noisy")
MARKS = ("", "c", "s", "x", "*", ":", "..", "...", "suppressed")
"""Texts instead of a figure that say no more than null does, in lower case."""
TOTAL = "Total"
FLOAT_ERROR = Decimal(2) ** -45
"""Relative error that adding up floats leaves in a figure."""
TIME_LIMIT = 600.0
"""Seconds for finding recomputable cells."""


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
    left : int
        Figures that are still there although their status shows that they are suppressed.
    low, high : ndarray of int64, shape (cells,), optional
        What readers conclude from each figure that is not blank; left out: the figure itself.
    marks : ndarray of int64, shape (cells,), optional
        What a blank figure is marked to be below, as in a status ``<10``; 0 without a mark.
    """

    cells: Cells
    response: str
    values: Ints
    blank: Bools
    decimals: int
    left: int = 0
    low: Ints | None = None
    high: Ints | None = None
    marks: Ints | None = None


def finished_table(
    table: pa.Table,
    dims: Sequence[str] | Mapping[str, Any],
    response: str | None = None,
    *,
    total: str = TOTAL,
    cells: Cells | None = None,
) -> FinishedTable:
    """A finished table in long form: one row per cell.

    Parameters
    ----------
    table : pyarrow.Table
    dims : list of columns, or mapping of column to a Dimension or to the parent of each label
        Of a column in a list, or with None, every label is below `total`.
    response : str, optional
        The column of figures; default: the only column that is none of `dims` and no status.
    total : str
        Label of all.
    cells : Cells, optional
        Those of the table, where they are read already.

    Raises
    ------
    DataError
        A column or label is not there, a cell occurs twice, a figure is not a number.
    """
    trees = dict(dims) if isinstance(dims, Mapping) else dict.fromkeys(dims)
    own = finished_cells(table, trees, total=total) if cells is None else cells
    name = _response(table, trees, response)
    values, blank, places = figures_of(table.column(name), name)
    marked = f"{name}_status" if f"{name}_status" in table.schema.names else "status"
    left, marks = 0, None
    if marked in table.schema.names and marked not in trees:
        gone, marks = _suppressed(table, marked)
        left = int((gone & ~blank).sum())
        blank = blank | gone
    return FinishedTable(own, name, np.where(blank, 0, values), blank, places, left, marks=marks)


def require_exact(table: pa.Table, response: str) -> None:
    """Refuse figures whose status shows that they are not the counted ones.

    Raises
    ------
    UsageError
    """
    marked = f"{response}_status" if f"{response}_status" in table.schema.names else "status"
    if marked in table.schema.names:
        texts = {str(each) for each in table.column(marked).unique().to_pylist()} & set(CHANGED)
        if texts:
            raise UsageError(
                f"audit: figures of {response!r} are {min(texts)}, and intervals that take them for exact would be "
                "wrong; judge such tables where they are made, by `table_audit`"
            )


def finished_cells(
    table: pa.Table, dims: Mapping[str, Any], *, total: str = TOTAL, only: Mapping[str, str] | None = None
) -> Cells:
    """The cells of a finished table, by the labels of its dimensions (see `finished_table`).

    Raises
    ------
    DataError
    """
    dimensions, codes = [], np.empty((table.num_rows, len(dims)), dtype=np.int64)
    for place, (name, parents) in enumerate(dims.items()):
        if name not in table.schema.names:
            raise DataError(f"the table has no column {name!r}{did_you_mean(name, table.schema.names)}")
        distinct, at = labels_of(table, name)
        dimension = _dimension(name, distinct, parents, total)
        codes[:, place] = _codes(dimension, distinct, at)
        dimensions.append(dimension)
    return Cells(tuple(dimensions), codes, dict(only or {}))


def _response(table: pa.Table, trees: Mapping[str, Any], response: str | None) -> str:
    if response is not None:
        if response not in table.schema.names:
            raise DataError(f"the table has no column {response!r}{did_you_mean(response, table.schema.names)}")
        return response
    left = [name for name in table.schema.names if name not in trees and not name.endswith("status")]
    if len(left) != 1:
        raise UsageError(f"response: name the column of figures; {len(left)} columns are left: {', '.join(left)}")
    return str(left[0])


def labels_of(table: pa.Table, name: str) -> tuple[list[str], Ints]:
    """The distinct labels of a dimension, in the order of the table, and which of them each row has.

    Raises
    ------
    DataError
        A row without one.
    """
    import pyarrow as pa

    column = table.column(name)
    if column.null_count:
        raise DataError(f"dimension {name!r}: {column.null_count:,} rows have no label; write one, such as (missing)")
    encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    distinct = [str(each) for each in encoded.dictionary.to_pylist()]
    at: Ints = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return distinct, at


def _codes(dimension: Dimension, distinct: Sequence[str], at: Ints) -> Ints:
    known = dimension.codes
    codes = np.array([known.get(label, -1) for label in distinct], dtype=np.int64).reshape(-1)[at]
    unknown = int((codes < 0).sum())
    if unknown:
        raise DataError(f"dimension {dimension.name!r}: {unknown:,} rows have a label that it does not hold")
    return codes


def _dimension(name: str, labels: Sequence[str], parents: Any, total: str) -> Dimension:
    if isinstance(parents, Dimension):
        return parents
    if isinstance(parents, Mapping):
        return Dimension.tree(name, {str(label): str(above) for label, above in parents.items()})
    if parents is not None:
        raise UsageError(f"dims: {name!r}: give the parent of each label as a mapping, or None for a flat dimension")
    seen = [label for label in dict.fromkeys(labels) if label != total]
    if not seen:
        raise DataError(f"dimension {name!r} has no label but that of the total")
    return Dimension.tree(name, dict.fromkeys(seen, total))


def _suppressed(table: pa.Table, status: str) -> tuple[Bools, Ints]:
    """Which figures a status calls suppressed, and below what it marks them."""
    distinct, at = labels_of(table.select([status]).set_column(0, status, _texts(table.column(status))), status)
    found = [MARK.fullmatch(each) for each in distinct]
    marks = np.array([0 if each is None else int(each[1]) for each in found], dtype=np.int64).reshape(-1)
    gone = np.array([each in SUPPRESSED for each in distinct], dtype=np.bool_).reshape(-1)
    return (gone | (marks > 0))[at], marks[at]


def _texts(column: Any) -> Any:
    """A column of texts, an empty one for null."""
    import pyarrow as pa

    return column.cast(pa.string()).fill_null("")


def figures_of(column: Any, name: str, decimals: int | None = None) -> tuple[Ints, Bools, int]:
    """Figures of a column in units of 10^-decimals (0 where blank), which are blank, and the decimals.

    A blank is null, NaN, an empty text or one mark such as ``c``.

    Raises
    ------
    DataError
        A figure is not a number, has more decimals, or is beyond 64 bits; two marks.
    """
    import pyarrow as pa
    import pyarrow.types as pt

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pt.is_integer(array.type):
        blank = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
        whole = array.fill_null(0).to_numpy(zero_copy_only=False)
        if len(whole) and max(abs(int(whole.max())), abs(int(whole.min()))) >= UNBOUNDED // (4 * 10 ** (decimals or 0)):
            raise DataError(f"column {name!r} has figures beyond 64 bits; give it in larger units")
        return whole.astype(np.int64) * 10 ** (decimals or 0), blank, decimals or 0
    encoded = array.dictionary_encode() if not pt.is_dictionary(array.type) else array
    distinct = encoded.dictionary.to_pylist()
    found = [None if _is_blank(each) else each for each in distinct]
    marks = {each.strip() for each, kept in zip(distinct, found, strict=True) if kept is None and isinstance(each, str)}
    missing = np.asarray(encoded.indices.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    if len(marks) + int(missing.any() or any(each != each for each in distinct)) > 1:
        raise DataError(
            f"column {name!r} marks blank figures in several ways, which reveals the reasons; use null for all"
        )
    exact = [None if each is None else _decimal(each, name) for each in found]
    places = max((-int(each.as_tuple().exponent) for each in exact if each is not None), default=0)
    places = max(places, 0) if decimals is None else decimals
    units = np.array([0 if each is None else _unit(each, places, name) for each in exact], dtype=np.int64).reshape(-1)
    gone = np.array([each is None for each in exact], dtype=np.bool_).reshape(-1)
    at = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    if not len(distinct):
        return np.zeros(len(array), dtype=np.int64), missing, places
    blank = missing | gone[at]
    return np.where(blank, 0, units[at]), blank, places


def in_declared_units(rows: pa.Table, names: Sequence[str], decimals: int | None) -> pa.Table:
    """The table with figures in whole units of 10^-decimals, where they differ only by floating-point errors.

    A sum of floats such as 0.30000000000000004 is 0.3; a figure that was published with more digits keeps them.
    """
    import pyarrow as pa
    import pyarrow.types as pt

    for name in names if decimals is not None else ():
        if name in rows.schema.names and not pt.is_integer(rows.schema.field(name).type):
            read = {each: _in_unit(each, int(decimals or 0)) for each in rows.column(name).unique().to_pylist()}
            texts = [read[each] if each == each else None for each in rows.column(name).to_pylist()]
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(texts, pa.string()))
    return rows


def _in_unit(value: Any, decimals: int) -> str | None:
    if value is None or value != value:
        return None
    try:
        exact = Decimal(str(value).strip())
        near = exact.quantize(Decimal(1).scaleb(-decimals))
    except InvalidOperation:  # no number, or one of more digits than a float has
        return str(value)
    if not exact.is_finite():
        return str(value)
    away = abs(exact - near)
    noise = away <= abs(exact) * FLOAT_ERROR and away * 10 < Decimal(1).scaleb(-decimals)
    return format(near, "f") if noise else str(value)


def _is_blank(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and value.strip().casefold() in MARKS)


def blank_or_decimal(value: Any, name: str) -> Decimal | None:
    """A figure of a column with its digits; None for a blank.

    Raises
    ------
    DataError
        It is not a number.
    """
    return None if _is_blank(value) else _decimal(value, name)


def _decimal(value: Any, name: str) -> Decimal:
    try:
        found = Decimal(str(value).strip())
    except InvalidOperation:
        found = Decimal("nan")
    if isinstance(value, bool) or not found.is_finite():
        raise DataError(
            f"column {name!r} holds figures that are not numbers; publish null for a suppressed one: a mask such as "
            "<10 reveals more"
        )
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
        finer = 10 ** (places - table.decimals) * factor
        least = (table.values if table.low is None else table.low)[shown] * finer
        most = (table.values if table.high is None else table.high)[shown] * finer
        at = variables[shown]
        again = known[at]
        if ((least[again] > high[at[again]]) | (most[again] < low[at[again]])).any():
            raise DataError("cells that two tables share are published with different figures")
        low[at] = np.where(again, np.maximum(low[at], least), least)
        high[at] = np.where(again, np.minimum(high[at], most), most)
        known[at] = True
    relations, distances = (cells.relations, None) if lower is None else with_overlaps(cells, true)
    more = relations.shape[1] - cells.size
    low = np.concatenate([low, np.zeros(more, dtype=np.int64)])
    high = np.concatenate([high, np.full(more, UNBOUNDED, dtype=np.int64)])
    true = true if true is None or distances is None else np.concatenate([true, distances])
    problem = AuditProblem(relations, low, high, whole, true=true, at_least=at_least)
    return cells, problem, unit * factor


def _mark(table: FinishedTable, variables: Ints, bounds: tuple[Ints, Ints], true: Ints | None, one: int) -> None:
    """Narrow the bounds of blank figures to what their marks, or missing marks, imply.

    A blank next to marks is 0 or at least the number of the marks. It is taken for the latter, unless it is 0 in truth
    or the table publishes no 0: readers know no more than that.
    """
    if table.marks is None or not table.marks.any():
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
    """A row for each blank cell: its labels and what is known about it.

    Parameters
    ----------
    found : Intervals
        In units of which `unit` are 1.
    whole : Intervals, optional
        The same among whole numbers.
    fixed : mapping of int to int
        Variables with only one whole number within their bounds.
    """
    import pyarrow as pa

    linear, _ = recomputable(problem, found.variables, time.monotonic() + TIME_LIMIT)
    place = np.full(len(problem.low), -1)
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
        # What bounds leave no choice is not a variable of that problem.
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
