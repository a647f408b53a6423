"""A finished table with the true figures of its cells: the private table that guarantees judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec
from privpipe.tables.audit_problem import product
from privpipe.tables.cells import Cells
from privpipe.tables.finished_tables import FinishedTable, figures_of, finished_cells, in_declared_units
from privpipe.tables.table import Measure, Table, measures_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["counted_figures", "kept_contributions", "known_table", "lone_codes"]


def kept_contributions(rows: pa.Table, key: str) -> int:
    """How many of the largest contributions the true cells say of a sum: columns ``<key>:largest_1``, and so on."""
    number = 0
    while f"{key}:largest_{number + 1}" in rows.schema.names:
        number += 1
    return number


def known_table(
    name: str, spec: TableSpec, finished: Mapping[str, FinishedTable], original: pa.Table, cells: Cells
) -> Table:
    """The table with its published figures and its true ones.

    Parameters
    ----------
    finished : mapping of response to FinishedTable
        Also means and ratios, of which only the blanks are examined.
    original : pyarrow.Table
        A row for each cell: the dimensions, contributors (``count`` or ``count:contributors``; of a sum also
        ``<column>:contributors``), totals (the response, or ``<column>:total``) and ``<column>:largest_1``, and so on.
    cells : Cells
        Of the finished table.

    Raises
    ------
    DataError
        The original lacks a cell or a figure, or says something else than the table publishes.
    """
    true = finished_cells(original, {each.name: each for each in cells.dimensions}, only=cells.only)
    rows = _rows(true, cells)
    counted = [response.name for response in spec.responses if response.kind == "count"]
    # Published counts of a weighted table are sums of weights.
    plain = () if spec.weight is not None else (*counted, COUNT)
    names = tuple(dict.fromkeys((f"{COUNT}:contributors", *plain)))
    contributors = _counts(original, names, rows)
    _require_rows(name, true, cells, contributors, _counts(original, names, None))
    contributors = contributors.astype(np.int64)
    additive = not np.any(product(cells.relations, contributors))
    single = lone_codes(cells, contributors, additive=additive)
    figures = {COUNT: counted_figures(cells, contributors, single, additive=additive)}
    measures: dict[str, Measure] = {}
    shown_by: dict[str, list[FinishedTable]] = {}
    for response in spec.responses:
        for key in measures_of(response):
            # Who reads a mean or a ratio has its parts as good as read.
            shown_by.setdefault(key, []).append(finished[response.name])
    exact = {
        key: finished[response.name]
        for response in spec.responses
        if response.kind in ("count", "sum")
        for key in measures_of(response)
    }
    for key, shown in shown_by.items():
        if key != COUNT:
            told = in_declared_units(original, _columns_of(key, exact.get(key), original), spec.sums.get(key))
            figures[key] = _summed(key, cells, told, rows, exact.get(key), single, figures[COUNT])
        hidden = np.logical_and.reduce([each.blank for each in shown])
        measures[key] = _measure(name, figures[key], exact.get(key), hidden)
    if COUNT not in measures:
        every = np.logical_or.reduce([measure.hidden for measure in measures.values()])
        measures[COUNT] = _measure(name, figures[COUNT], None, every)
    none = np.zeros(len(cells), dtype=np.bool_)
    return Table(name=name, aggregated=Aggregated(spec, cells, figures), measures=measures, primary=none)


def _rows(true: Cells, cells: Cells) -> Ints:
    order = np.argsort(true.keys)
    keys = true.keys[order]
    at = np.minimum(np.searchsorted(keys, cells.keys), max(len(keys) - 1, 0))
    missing = int((keys[at] != cells.keys).sum()) if len(keys) else len(cells)
    if missing:
        raise DataError(f"the original does not hold {missing:,} cells of the table")
    return np.asarray(order[at], dtype=np.int64)


def _counts(original: pa.Table, names: tuple[str, ...], rows: Ints | None) -> Ints:
    name = next((each for each in names if each in original.schema.names), None)
    if name is None:
        wanted = " or ".join(map(repr, dict.fromkeys((names[-1], names[0]))))
        raise DataError(f"the original has no contributors; give it a column {wanted}, as `Table.private()` has")
    values, blank, decimals = figures_of(original.column(name), name)
    values, blank = (values, blank) if rows is None else (values[rows], blank[rows])
    if blank.any():
        raise DataError(f"the original has {int(blank.sum()):,} blank figures in {name!r}; give all of them")
    if decimals or (values < 0).any():
        raise DataError(
            f"column {name!r} of the original holds contributors, and they are not whole numbers of at least 0"
        )
    return values


def _require_rows(name: str, true: Cells, cells: Cells, inside: Ints, every: Ints) -> None:
    """Refuse a table from which a cell with contributors was left out: readers take it for 0."""
    left_out = int((every[~np.isin(true.keys, cells.keys)] > 0).sum())
    if left_out:
        raise DataError(
            f"table {name!r}: {left_out:,} cells of the original have contributors and no row here, which readers take "
            "for 0; give them a row, blank where it is suppressed"
        )


def lone_codes(cells: Cells, contributors: Ints, *, additive: bool) -> Ints:
    """A code for the only contributor of each cell with one: the same in a cell and the totals that hold no other."""
    alone = contributors == 1
    labels: Any = np.arange(len(cells))
    if additive and alone.any():
        entries = cells.relations.tocoo()
        whole = np.full(cells.relations.shape[0], -1, dtype=np.int64)
        whole[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
        above = whole[entries.row]
        joined = (entries.data < 0) & alone[entries.col] & (above >= 0) & alone[above]
        pairs = (np.ones(int(joined.sum())), (above[joined], entries.col[joined]))
        graph = scipy.sparse.csr_array(pairs, shape=(len(cells),) * 2)
        labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1]
    return np.where(alone, labels + 1, 0).astype(np.int64)


def counted_figures(
    cells: Cells, contributors: Ints, single: Ints | None = None, *, additive: bool = True
) -> CellFigures:
    """Figures of cells for which only the numbers of contributors are known."""
    none = np.zeros(len(cells), dtype=np.int64)
    return CellFigures(
        cells=cells,
        response=COUNT,
        contributors=contributors,
        records=contributors,
        totals=contributors,
        magnitudes=contributors,
        largest=none[:, None],
        holders=none[:, None],
        negative=none,
        nonzero=contributors,
        single=none if single is None else single,
        additive=additive,
        counting=True,
    )


def _columns_of(key: str, shown: FinishedTable | None, original: pa.Table) -> list[str]:
    """The column of the totals of a sum, and those of its largest contributions."""
    names = [f"{key}:total", *([] if shown is None else [shown.response])]
    name = next((each for each in names if each in original.schema.names), None)
    if name is None:
        raise DataError(f"the original has no sums of {key!r}; give it a column {names[-1]!r}")
    return [name, *(f"{key}:largest_{rank}" for rank in range(1, kept_contributions(original, key) + 1))]


def _summed(
    key: str,
    cells: Cells,
    original: pa.Table,
    rows: Ints,
    shown: FinishedTable | None,
    single: Ints,
    counts: CellFigures,
) -> CellFigures:
    name, *kept = _columns_of(key, shown, original)
    read = {each: figures_of(original.column(each), each) for each in (name, *kept)}
    places = max([places for *_, places in read.values()] + ([] if shown is None else [shown.decimals]))
    read = {each: figures_of(original.column(each), each, places) for each in read}
    blank = int(read[name][1][rows].sum())
    if blank:
        raise DataError(f"the original has {blank:,} blank figures in {name!r}; give all of them")
    totals = read[name][0][rows]
    largest = np.zeros((len(cells), max(len(kept), 1)), dtype=np.int64)
    for rank, each in enumerate(kept):
        largest[:, rank] = np.abs(read[each][0][rows])
    largest = -np.sort(-largest, axis=1)
    contributors = counts.contributors
    if f"{key}:contributors" in original.schema.names:
        contributors = _counts(original, (f"{key}:contributors",), rows)
    # The largest are more than all: some are below 0.
    negative = ((totals < 0) | (largest.sum(axis=1) > np.abs(totals))).astype(np.int64)
    some = np.count_nonzero(largest, axis=1)
    all_told = len(kept) > 0
    nonzero = np.where(some < largest.shape[1], some, contributors) if all_told else contributors
    return CellFigures(
        cells=cells,
        response=key,
        contributors=contributors,
        records=contributors,
        totals=totals,
        magnitudes=np.where(negative > 0, np.maximum(np.abs(totals), largest.sum(axis=1)), totals),
        largest=largest,
        holders=np.zeros_like(largest),
        negative=negative,
        nonzero=np.minimum(nonzero, contributors).astype(np.int64),
        single=np.where(contributors == 1, single, 0),
        decimals=places,
        additive=counts.additive,
    )


def _measure(name: str, figures: CellFigures, shown: FinishedTable | None, hidden: Bools) -> Measure:
    if shown is None:
        return Measure(figures=figures, shown=figures.totals, low=figures.totals, high=figures.totals, hidden=hidden)
    finer = 10 ** (figures.decimals - shown.decimals)
    values = shown.values * finer
    low, high = ((values if each is None else each * finer) for each in (shown.low, shown.high))
    own: dict[str, Any] = {
        side: np.where(shown.blank, figures.totals, each) for side, each in (("low", low), ("high", high))
    }
    wrong = int(((figures.totals < own["low"]) | (figures.totals > own["high"])).sum())
    if wrong:
        raise DataError(
            f"table {name!r}: {wrong:,} published figures of {shown.response!r} are not those of the original"
        )
    status = "published" if shown.low is None else "rounded"
    return Measure(
        figures=figures, shown=np.where(shown.blank, figures.totals, values), hidden=hidden, status=status, **own
    )
