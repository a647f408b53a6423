"""Means, ratios and percentages of finished tables: quotients of published figures, and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError
from privpipe.tables.cells import Cells
from privpipe.tables.finished_tables import FinishedTable, blank_or_decimal
from privpipe.tables.responses import Response
from privpipe.tables.table import measures_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["base_rows", "require_quotients", "with_blanks_alone"]

FLOAT_ERROR = Fraction(1, 2**48)
"""Relative error of a quotient of floats."""


def with_blanks_alone(rows: pa.Table, name: str) -> pa.Table:
    """The table with 0 for each figure of a column: quotients have more digits than a unit of 64 bits holds."""
    import pyarrow as pa

    if name not in rows.schema.names:
        return rows
    column = rows.column(name)
    read = {each: blank_or_decimal(each, name) for each in column.unique().to_pylist() if each == each}
    marks = [each if each != each or read[each] is None else "0" for each in column.to_pylist()]
    texts = pa.array([None if each is None or each != each else str(each) for each in marks], pa.string())
    return rows.set_column(rows.schema.get_field_index(name), name, texts)


def base_rows(cells: Cells, response: Response) -> Ints:
    """Of each cell the row of what is 100 % of it, itself where nothing is."""
    codes = cells.codes.copy()
    for place, dimension in enumerate(cells.dimensions):
        if dimension.name in response.of:
            codes[:, place] = 0
    wanted = np.ravel_multi_index(tuple(codes.T), cells.shape)
    order = np.argsort(cells.keys)
    at = np.minimum(np.searchsorted(cells.keys[order], wanted), max(len(order) - 1, 0))
    found = order[at]
    return np.asarray(np.where(cells.keys[found] == wanted, found, np.arange(len(cells))), dtype=np.int64)


def require_quotients(
    table: str, response: Response, shown: pa.ChunkedArray, parts: Mapping[str, FinishedTable], cells: Cells
) -> None:
    """Refuse figures that are not the quotients of the published ones: they tell more than these do.

    Raises
    ------
    DataError
    """
    keys = measures_of(response)
    if any(key not in parts for key in keys):
        return
    if response.kind == "percentage":
        above = below = parts[keys[-1]]
        bases, factor = base_rows(cells, response), Fraction(100)
    else:
        above, below = (parts[key] for key in (keys[::-1] if response.kind == "mean" else keys))
        bases, factor = np.arange(len(cells)), Fraction(1)
    factor *= Fraction(10) ** (below.decimals - above.decimals)
    wrong = 0
    for row, (value, base) in enumerate(zip(shown.to_pylist(), bases.tolist(), strict=True)):
        figure = blank_or_decimal(value, response.name)
        if figure is None or above.blank[row] or below.blank[base]:
            continue
        over, under = int(above.values[row]), int(below.values[base])
        digits = max(-int(figure.as_tuple().exponent), 0)
        wrong += not _is_quotient(Fraction(figure), factor * over, under, Fraction(1, 2 * 10**digits))
    if wrong:
        raise DataError(
            f"table {table!r}: {wrong:,} figures of {response.name!r} are not the quotients of the published figures, "
            "and so tell more than these do; compute them from what is published"
        )


def _is_quotient(figure: Fraction, over: Fraction, under: int, half: Fraction) -> bool:
    if not under:
        return not over and not figure
    exact: Any = over / under
    return bool(abs(figure - exact) <= max(half, abs(exact) * FLOAT_ERROR))
