"""What earlier releases of tables showed of the same persons, next to the tables of a new one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.blocks.release_history import ReleaseRows, TableRows
from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.families import Contributions, Members, added_up, expanded
from privpipe.tables.leaf_totals import all_cells
from privpipe.tables.responses import Response
from privpipe.tables.table import Measure, Table

__all__ = ["PlacedTable", "TableHistory", "columns_of", "remembered", "require_same_noise", "without_cells"]

FIGURES = ("shown", "low", "high", "hidden", "total", "contributors")

OTHER_UNIT = (
    "column {key!r} was added up with {decimals} decimals in an earlier release that the ledger remembers; declare as "
    "many"
)
OTHER_ROWS = (
    "{cells:,} cells of a table do not agree with the rows that the ledger keeps of it, so nothing can be judged by "
    "it; does `normalise:` make one person of two?"
)


def without_cells(tables: Mapping[str, Table]) -> tuple[dict[str, Any], ...]:
    """The definition of each table, as a ledger keeps it."""
    return tuple(_definition(table) for table in tables.values())


def remembered(rows: TableRows, tables: Mapping[str, Table]) -> TableRows:
    """The rows of a release with the cells to be released."""
    cells = []
    for table in tables.values():
        if table.process is not None:
            raise UsageError(
                f"table {table.name!r} has noise of private_table, and no ledger keeps its true figures; leave "
                "`ledger` out"
            )
        found: dict[str, Ints] = {}
        for key in table.shown_measures:
            measure = table.measures[key]
            # What was not published is not kept as if it were: a stage may have rounded it before it was hidden.
            kept = {name: np.where(measure.hidden, 0, getattr(measure, name)) for name in FIGURES[:3]}
            kept |= {"hidden": measure.hidden.astype(np.int64), "total": measure.figures.totals}
            kept["contributors"] = measure.figures.contributors
            found |= {f"{key}:{name}": array for name, array in kept.items()}
        cells.append(found)
    return replace(rows, definitions=without_cells(tables), cells=tuple(cells))


def _definition(table: Table) -> dict[str, Any]:
    dimensions = [
        {
            "name": each.name,
            "labels": list(each.labels),
            "parent": list(each.parent),
            "overlapping": each.overlapping,
            "digest": hashlib.sha256(json.dumps([each.labels, each.parent]).encode()).hexdigest(),
        }
        for each in table.cells.dimensions
    ]
    responses = [
        {"kind": each.kind, "columns": list(each.columns), "decimals": each.decimals, "name": each.name}
        for each in table.responses
    ]
    measures = {
        key: {
            "decimals": table.measures[key].figures.decimals,
            "status": table.measures[key].status,
            "noise": _noise_of(table, key),
        }
        for key in table.shown_measures
    }
    return {
        "name": table.name,
        "only": dict(table.cells.only),
        "dimensions": dimensions,
        "responses": responses,
        "measures": measures,
        "additive": table.aggregated.additive,
    }


def _noise_of(table: Table, key: str) -> str | None:
    """What the noise of a measure follows from, as a digest: the same people have one figure where it is the same."""
    measure = table.measures[key]
    if measure.noise is None or table.seed is None:
        return None
    rows = [[list(row.values), list(row.bounds)] for row in measure.noise.rows]
    text = json.dumps([rows, [None if each is None else str(each) for each in measure.drawn_by]])
    return hashlib.sha256(table.seed.bound("privpipe/noise-of-tables/1", text)).hexdigest()


def require_same_noise(tables: Mapping[str, Table], history: TableHistory | None) -> None:
    """Refuse noise by another seed or other parameters than an earlier release had: the average of both reveals more.

    Raises
    ------
    UsageError
    """
    earlier = [] if history is None else [_tables_of(each) for each in history.earlier if each.tables is not None]
    before = {
        (key, measure["noise"])
        for rows in earlier
        for definition in rows.definitions
        for key, measure in definition["measures"].items()
        if measure.get("noise") is not None
    }
    for table in tables.values():
        for key in table.shown_measures:
            if table.measures[key].noise is not None:
                others = {noise for measure, noise in before if measure == key} - {_noise_of(table, key)}
                if others:
                    raise UsageError(
                        f"cell_key: {key!r} was perturbed under another seed, purpose or parameters in an earlier "
                        "release that the ledger remembers, and the same people would have another figure; give the "
                        "same ones"
                    )


@dataclass(frozen=True, eq=False, repr=False)
class PlacedTable:
    """A table of one release.

    Parameters
    ----------
    table : Table
        Its figures are made again from contributions.
    release : int
        In the order of publication; the new one is the last.
    members : Members
        Of one measure.
    together : ndarray of int64, shape (n, 3 + tables)
        Of each record of the release: person, contribution, whether its protection is waived, and the leaf cell of each
        table that shows the measure; -1 outside.
    """

    table: Table
    release: int
    members: Members
    together: Ints


@dataclass(frozen=True, kw_only=True, repr=False)
class TableHistory:
    """Earlier releases of tables, and the rows of the new one.

    Parameters
    ----------
    current : ReleaseRows
        With `tables`; their definitions are the new tables in order.
    earlier : tuple of ReleaseRows
    """

    current: ReleaseRows = field(repr=False)
    earlier: tuple[ReleaseRows, ...] = field(default=(), repr=False)
    judged: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    recalled: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:
        return f"TableHistory({len(self.earlier)} earlier releases)"

    def __bool__(self) -> bool:
        return bool(self.earlier)

    @cached_property
    def _persons(self) -> list[Ints]:
        """Of each release, one number for each of its units; the same person has the same number."""
        from privpipe.kernels.grouping.word_groups import group_rows

        releases = [*self.earlier, self.current]
        numbers, _ = group_rows(np.ascontiguousarray(np.concatenate([each.units for each in releases])))
        ends = np.cumsum([len(each.units) for each in releases])[:-1]
        return np.split(numbers.astype(np.int64), ends)

    @cached_property
    def waivers(self) -> bool:
        """Whether a contributor of some release waived protection."""
        return any(bool((_tables_of(each).present > 1).any()) for each in [*self.earlier, self.current])

    def placed(self, tables: Mapping[str, Table], key: str) -> list[PlacedTable]:
        """Every table that shows a measure: the new ones in the given order, then the earlier ones.

        Raises
        ------
        DataError
            Rows and cells disagree, or a column was added up in another unit before.
        """
        persons = self._persons
        own = [table for table in tables.values() if key in table.shown_measures]
        most = max((table.measures[key].figures.largest.shape[1] for table in own), default=1)
        last = len(self.earlier)
        rows = _tables_of(self.current)
        names = [str(each["name"]) for each in rows.definitions]
        found = []
        together = _together(rows, persons[last], [names.index(table.name) for table in own], key)
        for table in own:
            members = _members(rows, persons[last], names.index(table.name), key, waivers=self.waivers)
            found.append(_placed(table, key, last, members, together, most))
        decimals = {each.table.measures[key].figures.decimals for each in found}
        for release in range(last):
            for each in self._earlier(release, key, most):
                unit = each.table.measures[key].figures.decimals
                if unit not in decimals:
                    raise DataError(OTHER_UNIT.format(key=key, decimals=unit))
                found.append(each)
        return found

    def _earlier(self, release: int, key: str, most: int) -> list[PlacedTable]:
        """Tables of an earlier release that show a measure; made once, for they stay unchanged."""
        name = (release, key, most)
        if name not in self.recalled:
            rows, persons = _tables_of(self.earlier[release]), self._persons[release]
            shown = [at for at, definition in enumerate(rows.definitions) if key in definition["measures"]]
            # A release without the column has no contributions to it.
            together = _together(rows, persons, shown, key) if shown else np.empty((0, 3), dtype=np.int64)
            self.recalled[name] = [
                _placed(
                    _recalled(rows.definitions[at], rows.cells[at], release, most),
                    key,
                    release,
                    _members(rows, persons, at, key, waivers=self.waivers),
                    together,
                    most,
                )
                for at in shown
            ]
        placed: list[PlacedTable] = self.recalled[name]
        return placed


def _tables_of(release: ReleaseRows) -> TableRows:
    if release.tables is None:
        raise TypeError("a release of records is not an earlier table")
    return release.tables


def _members(rows: TableRows, numbers: Ints, column: int, key: str, *, waivers: bool) -> Members:
    """Rows of a table, those of one person and leaf cell joined."""
    leaves = rows.leaves[:, column]
    inside, waived = leaves >= 0, None
    if key == COUNT:
        values = np.ones(len(leaves), dtype=np.int64)
    else:
        at = rows.columns.index(key)
        values = rows.values[:, at]
        inside = inside & (rows.present[:, at] > 0)
        waived = (rows.present[:, at] > 1).astype(np.int64) if waivers else None
    persons, leaves, values = numbers[rows.persons[inside]], leaves[inside], values[inside]
    order = np.lexsort((leaves, persons))
    persons, leaves, values = persons[order], leaves[order], values[order]
    waived = None if waived is None else waived[inside][order]
    first = np.flatnonzero((np.diff(persons, prepend=-1) != 0) | (np.diff(leaves, prepend=-1) != 0))
    if not len(first):
        return Members(persons, leaves, values, waived)
    joined = np.ones(len(first), dtype=np.int64) if key == COUNT else np.add.reduceat(values, first)
    waived = None if waived is None else np.minimum.reduceat(waived, first)
    return Members(persons[first], leaves[first], joined, waived)


def _together(rows: TableRows, numbers: Ints, tables: Sequence[int], key: str) -> Ints:
    """Rows of a release over some of its tables."""
    leaves = rows.leaves[:, list(tables)]
    inside = (leaves >= 0).any(axis=1)
    values, waived = np.ones(len(leaves), dtype=np.int64), np.zeros(len(leaves), dtype=np.int64)
    if key != COUNT:
        at = rows.columns.index(key)
        values, inside = rows.values[:, at], inside & (rows.present[:, at] > 0)
        waived = (rows.present[:, at] > 1).astype(np.int64)
    return np.column_stack([numbers[rows.persons[inside]], values[inside], waived[inside], leaves[inside]])


def _recalled(definition: Mapping[str, Any], cells: Mapping[str, Ints], release: int, most: int) -> Table:
    """A table as an earlier release showed it."""
    dimensions = [
        Dimension(each["name"], tuple(each["labels"]), tuple(each["parent"]), each["overlapping"])
        for each in definition["dimensions"]
    ]
    grid = replace(all_cells(dimensions), only=dict(definition["only"]))
    responses = tuple(
        Response(kind=each["kind"], columns=tuple(each["columns"]), decimals=each["decimals"], name=each["name"])
        for each in definition["responses"]
    )
    spec = TableSpec(by=tuple(each.name for each in dimensions), responses=responses, only=dict(definition["only"]))
    measures = {
        key: _measure(grid, key, measure, cells, additive=bool(definition["additive"]), most=most)
        for key, measure in definition["measures"].items()
    }
    figures = {key: measure.figures for key, measure in measures.items()}
    none = np.zeros(len(grid), dtype=np.bool_)
    name = f"{definition['name']} (release {release + 1})"
    return Table(name=name, aggregated=Aggregated(spec, grid, figures), measures=measures, primary=none)


def _measure(
    grid: Cells, key: str, measure: Mapping[str, Any], cells: Mapping[str, Ints], *, additive: bool, most: int
) -> Measure:
    kept = {name: cells[f"{key}:{name}"] for name in FIGURES}
    nothing = np.zeros((len(grid), most), dtype=np.int64)
    figures = CellFigures(
        cells=grid,
        response=key,
        contributors=kept["contributors"],
        records=kept["contributors"],
        totals=kept["total"],
        largest=nothing,
        holders=nothing,
        negative=np.zeros(len(grid), dtype=np.int64),
        nonzero=kept["contributors"],
        single=np.zeros(len(grid), dtype=np.int64),
        magnitudes=np.abs(kept["total"]),
        decimals=int(measure["decimals"]),
        additive=additive,
        persons=True,
        counting=key == COUNT,
    )
    hidden = kept["hidden"] > 0
    return Measure(
        figures=figures,
        shown=kept["shown"],
        low=kept["low"],
        high=kept["high"],
        hidden=hidden,
        status=str(measure["status"]),
    )


def _placed(table: Table, key: str, release: int, members: Members, together: Ints, most: int) -> PlacedTable:
    """The table with figures by the rows that a ledger keeps.

    Raises
    ------
    DataError
        They are not those of its cells.
    """
    at, cell = expanded(table.cells, members.leaves)
    waived = None if members.waived is None else members.waived[at]
    made = added_up(cell, members.persons[at], members.values[at], len(table), most, waived)
    figures = table.measures[key].figures
    if key == COUNT:
        made = replace(made, totals=made.contributors)
    wrong = (made.contributors != figures.contributors) | (made.totals != figures.totals)
    if wrong.any():
        raise DataError(OTHER_ROWS.format(cells=int(wrong.sum())))
    measure = replace(table.measures[key], figures=made_figures(figures, made))
    return PlacedTable(replace(table, measures={**table.measures, key: measure}), release, members, together)


def made_figures(figures: CellFigures, made: Contributions) -> CellFigures:
    """The figures with contributors and contributions as they were added up."""
    if figures.counting:
        nothing = np.zeros_like(figures.largest)
        return replace(figures, single=made.single, largest=nothing, holders=nothing)
    return replace(
        figures,
        magnitudes=made.magnitudes,
        negative=made.negative,
        nonzero=made.nonzero,
        single=made.single,
        largest=made.largest,
        holders=made.holders,
        unwaived=made.unwaived,
    )


def columns_of(tables: Sequence[Table]) -> Iterator[str]:
    """Columns that tables add up."""
    yield from dict.fromkeys(key for table in tables for key in table.shown_measures if key != COUNT)
