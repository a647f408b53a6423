"""Aggregation: cells of a table counted by an engine; totals from leaves, or level by level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from privpipe.blocks.aggregate_query import AggregateMeasure, AggregateQuery
from privpipe.engines import Engine
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.hierarchies import Hierarchy, HierarchySpec
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.contribution_rows import (
    KeepCells,
    UnitRows,
    Units,
    bucket_of,
    cell_keys_of,
    decimals_of,
    in_whole_units,
    keyed_contributions,
)
from privpipe.tables.dimension_labels import Ladder, fixed_domains, fixed_leaves, kind_of, texts_of
from privpipe.tables.leaf_totals import Grid
from privpipe.tables.order_statistics import OrderStatistic, RankedValues, ranks_of, require_units
from privpipe.tables.responses import Response

__all__ = ["COUNT", "Aggregated", "TableSpec", "aggregated", "leaf_codes", "squares_of"]

COUNT = "count"
"""Key of the contributors among the figures; sums have their column's name, sums of squares `squares_of` it."""
MOST_CELLS = 8_000_000
WEIGHT, WAIVED, RECORDS = "__privpipe_weight", "__privpipe_waived", "__privpipe_records"


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """What a table shows.

    Parameters
    ----------
    by : tuple of str
        Columns of the dimensions.
    responses : tuple of Response
    total : str
        Label of all, other than every value.
    only : mapping of column to label
        Restriction of the population.
    drop_nulls : bool
        Leave records with a missing dimension out; else their label is ``(missing)``.
    levels : mapping of column to levels of its hierarchy
    overlapping : tuple of str
        Dimensions whose labels are not a partition.
    weight : str, optional
    weight_decimals : int
        Of weights that are floats, which are never rounded.
    waived : str, optional
        Truth values: contributors that waive protection.
    contribution_bound : int, optional
        Leaf cells of a contributor that are kept, by a keyed order.
    largest : int
        How many of the largest contributions are kept of each cell.
    around : int
        How many contributions are kept on each side of a rounded quantile.
    rivals : mapping of response name to Response
        Smoothed quantiles of the same column that are published before it, in any table of the release.
    record_keys : mapping of (purpose, measure) to bytes
        What keys the record keys that are added up: of `COUNT` those of all contributors of a cell, of a column those
        of contributors who contribute something.
    bounds : mapping of column to (Fraction, Fraction)
        Bounds to which the sum of a contributor in a leaf cell is clipped.
    domain : mapping of column to tuple of str, optional
        Labels are fixed before the records are looked at: the values of these dimensions, and of all others those of
        their hierarchies. Records with other values are left out.
    """

    by: tuple[str, ...]
    responses: tuple[Response, ...]
    total: str = "Total"
    only: Mapping[str, str] = field(default_factory=dict)
    drop_nulls: bool = False
    levels: Mapping[str, Sequence[int | str]] = field(default_factory=dict)
    overlapping: tuple[str, ...] = ()
    weight: str | None = None
    weight_decimals: int = 6
    waived: str | None = None
    contribution_bound: int | None = None
    largest: int = 3
    around: int = 10
    rivals: Mapping[str, Sequence[Response]] = field(default_factory=dict)
    record_keys: Mapping[tuple[str, str], bytes] = field(default_factory=dict, repr=False)
    bounds: Mapping[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    domain: Mapping[str, tuple[str, ...]] | None = None

    @property
    def sums(self) -> dict[str, int | None]:
        """Columns to add up, with their declared decimals."""
        found: dict[str, int | None] = {}
        for response in self.responses:
            for column in response.columns:
                found[column] = response.decimals if response.decimals is not None else found.get(column)
        return found

    @property
    def squared(self) -> set[str]:
        """Columns whose squares are added up."""
        return {response.columns[0] for response in self.responses if response.spread}

    @property
    def columns(self) -> list[str]:
        """Columns of the source that it reads."""
        more = [name for name in (self.weight, self.waived) if name is not None]
        return list(dict.fromkeys([*self.by, *self.only, *self.sums, *more]))


@dataclass(frozen=True, repr=False)
class Aggregated:
    """Cells of a table with the figures of everything that was added up.

    Parameters
    ----------
    spec : TableSpec
    cells : Cells
        All combinations of labels.
    figures : mapping of str to CellFigures
        `COUNT`, and each column that is added up.
    dropped : int
        Records without a value in a dimension that were left out; private.
    statistics : mapping of str to OrderStatistic
        By response: extremes, quantiles and modes.
    keys : mapping of (purpose, measure) to ndarray of int64, shape (cells,)
        Cell keys, as `TableSpec.record_keys` asks for them; they never leave.
    """

    spec: TableSpec
    cells: Cells
    figures: Mapping[str, CellFigures]
    dropped: int = 0
    statistics: Mapping[str, OrderStatistic] = field(default_factory=dict)
    keys: Mapping[tuple[str, str], np.ndarray[Any, Any]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Aggregated({len(self.cells)} cells)"

    @property
    def additive(self) -> bool:
        """Whether contributors add up along dimensions."""
        return self.figures[COUNT].additive

    def counted_by(self, column: str, other: Aggregated) -> Aggregated:
        """With what rules about the values of a column see: the same table, counted by these."""
        figures = {
            key: own.counted_by(column, other.figures[key]) if key in other.figures else own
            for key, own in self.figures.items()
        }
        return replace(self, figures=figures)


def squares_of(column: str) -> str:
    """Key of the sums of squares of a column among the figures."""
    return f"{column} squared"


def aggregated(
    engine: Engine,
    table: Any,
    spec: TableSpec,
    *,
    person: str | None = None,
    hierarchies: Mapping[str, Hierarchy | HierarchySpec] | None = None,
    secret: bytes = b"privpipe",
) -> Aggregated:
    """Count one table.

    Parameters
    ----------
    engine : Engine
    table : Table
        Of that engine. Neither it nor any record of it comes here, but a cell's largest contributions.
    person : str, optional
        Column of the contributors; default: each record.
    hierarchies : mapping of column to Hierarchy or HierarchySpec
    secret : bytes
        Key of contributors' codes.

    Raises
    ------
    DataError, UsageError, HierarchyError, EngineError
    """
    count = _Count(engine, spec, person, dict(hierarchies or {}), secret)
    return count.run(table)


def leaf_codes(
    engine: Engine,
    table: Any,
    found: Aggregated,
    *,
    person: str | None,
    hierarchies: Mapping[str, Hierarchy | HierarchySpec],
) -> list[dict[str | None, int]]:
    """For each dimension of a table that was counted, the label code of each value of the records.

    Parameters
    ----------
    table : Table
        The records that it was counted from.

    Returns
    -------
    list of dict
        From the canonical text of a value, None for null, to its code in the dimension.
    """
    return _Count(engine, found.spec, person, dict(hierarchies), b"").codebooks(table, found.cells)


@dataclass(frozen=True)
class _Counted:
    """Cells with what they were counted from: one row for each contributor and leaf, or records."""

    grid: Grid
    rows: Any
    query: AggregateQuery
    ladders: Sequence[Ladder]
    leaves: pa.Table


@dataclass(frozen=True)
class _Step:
    """One combination of levels: its rows, the query over them, and the codes of what comes back."""

    rows: Any
    query: AggregateQuery
    ladders: Sequence[Ladder]
    levels: tuple[int, ...]
    dimensions: Sequence[Dimension]

    def codes(self, found: pa.Table) -> np.ndarray[Any, Any]:
        """Codes of cells in each dimension; 0 where it is at its total."""
        codes = np.zeros((len(found), len(self.ladders)), dtype=np.int64)
        for place, (ladder, level) in enumerate(zip(self.ladders, self.levels, strict=True)):
            if level < len(ladder.levels):
                column = found.column(f"key_{self.query.keys.index(ladder.name)}").combine_chunks()
                # Cells repeat labels, and labels are looked up one by one.
                coded = column.dictionary_encode(null_encoding="encode")
                of = ladder.codes if level == 0 else ladder.rung_codes
                known = of(self.dimensions[place], texts_of(coded.dictionary))
                codes[:, place] = known[coded.indices.to_numpy()]
        return codes


@dataclass(frozen=True)
class _Count:
    engine: Engine
    spec: TableSpec
    person: str | None
    hierarchies: Mapping[str, Hierarchy | HierarchySpec]
    secret: bytes
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Bounds of contributions, by the column that holds them in units."""

    def run(self, table: Any) -> Aggregated:
        self._check(table)
        units, weight = self._units(table)
        if self.spec.domain is not None:
            domain, fixed = fixed_domains(self.spec.by, self.spec.domain, table.schema, self.hierarchies)
            spec = replace(self.spec, domain=domain)
            bounds = {units[name].name: in_whole_units(units[name], each) for name, each in spec.bounds.items()}
            settled = replace(self, spec=spec, hierarchies={**self.hierarchies, **fixed}, bounds=bounds)
            return settled._settled(table, units, weight)
        return self._settled(table, units, weight)

    def _settled(self, table: Any, units: Mapping[str, Units], weight: Units | None) -> Aggregated:
        rows, dropped = self._population(table, units, weight)
        ladders = [self._ladder(rows, name) for name in self.spec.by]
        rows = self._coarsened(rows, ladders)
        query = AggregateQuery(
            keys=self.spec.by,
            measures=self._measures(units, weight),
            person=self.person,
            largest=self.spec.largest,
            secret=self.secret,
        )
        counted = self._all_cells(rows, ladders, query)
        cells = replace(counted.grid.cells, only=dict(self.spec.only))
        return Aggregated(
            self.spec,
            cells,
            self._figures(counted.grid, cells, units, weight),
            dropped,
            self._statistics(counted, cells, units),
            cell_keys_of(counted.grid, self.spec.record_keys),
        )

    def codebooks(self, table: Any, cells: Cells) -> list[dict[str | None, int]]:
        rows, _ = self._population(table, *self._units(table))
        found = []
        for name, dimension in zip(self.spec.by, cells.dimensions, strict=True):
            ladder = self._ladder(rows, name)
            texts = texts_of(self.engine.distinct(rows, [name]).column(name))
            leaves = ladder.labels(texts, ladder.levels[0]) if ladder.coarsens else list(texts)
            distinct = list(dict.fromkeys(leaves))
            known = dict(zip(distinct, ladder.codes(dimension, distinct).tolist(), strict=True))
            found.append({text: known[leaf] for text, leaf in zip(texts, leaves, strict=True)})
        return found

    def _check(self, table: Any) -> None:
        names = table.schema.names
        for name in [*self.spec.columns, *([self.person] if self.person else [])]:
            if name not in names:
                raise DataError(f"column {name!r} is not in the table{did_you_mean(name, names)}")
        for name in (COUNT, *map(squares_of, self.spec.squared)):
            if name in self.spec.sums:
                raise UsageError(f"column {name!r} has the name of another figure of the table; rename it before")
        for name in self.spec.levels:
            if name not in self.hierarchies:
                raise UsageError(f"levels: column {name!r} has no hierarchy")
        for name in self.spec.overlapping:
            if name not in self.spec.by:
                raise UsageError(f"overlapping: {name!r} is not a dimension of the table")
        if self.person is not None and self.person in (*self.spec.by, *self.spec.sums):
            raise UsageError(f"person column {self.person!r} can be neither a dimension nor added up")

    def _units(self, table: Any) -> tuple[dict[str, Units], Units | None]:
        """The columns to add up, as integers; a column that holds them already keeps its name."""
        weight = None
        if self.spec.weight is not None:
            kind = table.schema.field(self.spec.weight).type
            decimals = self.spec.weight_decimals if pt.is_floating(kind) else None
            weight = Units(column=self.spec.weight, decimals=decimals_of(self.spec.weight, kind, decimals), name=WEIGHT)
        units = {}
        for at, (column, declared) in enumerate(self.spec.sums.items()):
            kind = table.schema.field(column).type
            decimals = decimals_of(column, kind, declared)
            plain = pt.is_int64(kind) and not decimals and column not in self.spec.by
            weighted = None if weight is None else f"__privpipe_product_{at}"
            units[column] = Units(
                column=column,
                decimals=decimals,
                name=column if plain else f"__privpipe_units_{at}",
                weight=None if weight is None else WEIGHT,
                product=weighted,
            )
        return units, weight

    def _population(self, table: Any, units: Mapping[str, Units], weight: Units | None) -> tuple[Any, int]:
        """The records of the table, with their contributions as integers, and how many were left out."""
        columns = dict.fromkeys([*self.spec.columns, *([self.person] if self.person else [])])
        rows = self.engine.select(table, list(columns))
        plain = [each.name for each in units.values() if each.name == each.column]
        changed = len(plain) < len(units) or weight is not None or self.spec.waived is not None
        changed |= self.spec.domain is not None
        if not (changed or self.spec.only or self.spec.drop_nulls):
            return rows, 0
        full = self.spec.by if self.spec.drop_nulls else ()
        function = UnitRows(
            kept=tuple(dict.fromkeys([*self.spec.by, *([self.person] if self.person else []), *plain])),
            only=dict(self.spec.only),
            domain=self.spec.domain or {},
            full=full,
            weight=weight,
            units=tuple(each for each in units.values() if each.name != each.column or each.product is not None),
            waived=self.spec.waived,
            waived_name=WAIVED,
        )
        made = self.engine.map_rows(rows, function, function.schema(rows.schema))
        if not full:
            return made, 0
        everyone = replace(function, full=())
        before = made if not self.spec.only else self.engine.map_rows(rows, everyone, everyone.schema(rows.schema))
        return made, self.engine.count(before if self.spec.only else rows) - self.engine.count(made)

    def _ladder(self, rows: Any, name: str) -> Ladder:
        overlapping = name in self.spec.overlapping
        given = self.hierarchies.get(name)
        if given is None:
            return Ladder.of(name, self.spec.total, None, None, overlapping=overlapping)
        if self.spec.domain is not None and not isinstance(given, HierarchySpec):
            covered = given.cover([*self.spec.domain[name], *(() if self.spec.drop_nulls else (None,))])
            return Ladder.of(name, self.spec.total, covered, self.spec.levels.get(name), overlapping=overlapping)
        found = self.engine.distinct(rows, [name])
        texts = texts_of(found.column(name))
        if isinstance(given, HierarchySpec):
            given = given.build(texts, found.column("__count").to_pylist(), kind_of(rows.schema.field(name).type))
        return Ladder.of(name, self.spec.total, given.cover(texts), self.spec.levels.get(name), overlapping=overlapping)

    def _coarsened(self, rows: Any, ladders: Iterable[Ladder]) -> Any:
        """Records with the labels of the lowest level that is shown."""
        codebooks = {}
        for ladder in ladders:
            if ladder.coarsens:
                values = self.engine.distinct(rows, [ladder.name]).column(ladder.name).combine_chunks()
                labels = ladder.labels(texts_of(values), ladder.levels[0])
                codebooks[ladder.name] = (values, pa.array(labels, pa.string()))
        return self.engine.recode(rows, codebooks) if codebooks else rows

    def _measures(self, units: Mapping[str, Units], weight: Units | None) -> tuple[AggregateMeasure, ...]:
        waived = WAIVED if self.spec.waived is not None else None
        found = [
            AggregateMeasure(column=each.name, product=each.product, waived=waived, squares=column in self.spec.squared)
            for column, each in units.items()
        ]
        if weight is not None:
            found.append(AggregateMeasure(column=WEIGHT, once=True))
        return tuple(found)

    def _all_cells(self, rows: Any, ladders: Sequence[Ladder], query: AggregateQuery) -> _Counted:
        """All cells: totals from leaves where each contributor is in one, else level by level."""
        if self.person is None:
            rows, query = self._keyed(rows, query)
            leaves = self.engine.aggregate(rows, query)
            dimensions, codes = self._labelled(leaves, ladders)
            grid = Grid.of_leaves(leaves, dimensions, codes, query)
            grid.with_totals(own_codes=not getattr(rows, "has_record_ids", False))
            return _Counted(grid, rows, query, ladders, leaves)
        contributions, one = self.engine.contributions(rows, query)
        if self.spec.contribution_bound is not None and not one:
            contributions, one = self._bounded(contributions, query)
        plain = replace(query, gathered=True, records=RECORDS)
        prepared, settled = self._keyed(contributions, replace(plain, unique=True))
        leaves = self.engine.aggregate(prepared, settled)
        dimensions, codes = self._labelled(leaves, ladders)
        grid = Grid.of_leaves(leaves, dimensions, codes, settled)
        if self.spec.record_keys:
            counted = _Counted(grid, contributions, replace(plain, unique=one), ladders, leaves)
        else:
            counted = _Counted(grid, prepared, replace(settled, unique=one), ladders, leaves)
        if one:
            grid.with_totals()
        else:
            for step in self._steps(counted):
                rows, higher = step.rows, step.query
                if self.spec.record_keys:  # a contributor has one key in a cell, in however many leaves below it
                    gathered, _ = self.engine.contributions(rows, higher)
                    rows, higher = self._keyed(gathered, replace(higher, unique=True))
                found = self.engine.aggregate(rows, higher)
                grid.place(found, step.codes(found))
            grid.counted_by_levels()
        return counted

    def _keyed(self, contributions: Any, query: AggregateQuery) -> tuple[Any, AggregateQuery]:
        """The contributions clipped, and with keys of their contributors to be added up."""
        columns = dict(zip(self.spec.sums, (each.column for each in query.measures), strict=False))
        keys = {which: (key, columns.get(which[1])) for which, key in self.spec.record_keys.items()}
        return keyed_contributions(self.engine, contributions, query, self.person, self.bounds, keys)

    def _bounded(self, contributions: Any, query: AggregateQuery) -> tuple[Any, bool]:
        """The contributions without those beyond a contributor's bound."""
        bound = self.spec.contribution_bound
        if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
            raise UsageError(f"contribution_bound must be an integer of at least 1, got {bound!r}")
        assert self.person is not None
        keep = KeepCells(person=self.person, keys=self.spec.by, bound=bound, secret=self.secret)
        kept = self.engine.map_groups(contributions, bucket_of(self.person, self.secret), keep, contributions.schema)
        return kept, bound == 1

    def _labelled(self, leaves: pa.Table, ladders: Sequence[Ladder]) -> tuple[list[Dimension], np.ndarray[Any, Any]]:
        """The dimensions of the leaf cells, and the code of each cell in each."""
        dimensions, codes = [], np.zeros((len(leaves), len(ladders)), dtype=np.int64)
        for place, ladder in enumerate(ladders):
            texts = texts_of(leaves.column(f"key_{place}"))
            distinct = list(
                dict.fromkeys([*fixed_leaves(ladder, self.spec.domain, drop_nulls=self.spec.drop_nulls), *texts])
            )
            dimension = ladder.dimension(distinct)
            known = dict(zip(distinct, ladder.codes(dimension, distinct).tolist(), strict=True))
            dimensions.append(dimension)
            codes[:, place] = [known[text] for text in texts]
        number = prod(len(each.labels) for each in dimensions)
        if number > MOST_CELLS:
            raise DataError(
                f"the table has {number:,} cells ({' x '.join(str(len(each.labels)) for each in dimensions)}), and "
                f"{MOST_CELLS:,} are served; take fewer dimensions, or fewer `levels` of a hierarchy"
            )
        return dimensions, codes

    def _steps(self, counted: _Counted) -> Iterator[_Step]:
        """Each combination of levels above the leaves, with its rows and its query."""
        ladders, leaves = counted.ladders, counted.leaves
        levels_of = [range(len(ladder.levels) + 1) for ladder in ladders]  # the last is the total
        books = [self._books(ladder, leaves.column(f"key_{at}")) for at, ladder in enumerate(ladders)]
        for levels in product(*levels_of):
            if not any(levels):
                continue
            keys = [ladder.name for ladder, level in zip(ladders, levels, strict=True) if level < len(ladder.levels)]
            codebooks = {
                ladder.name: books[at][levels[at]]
                for at, ladder in enumerate(ladders)
                if 0 < levels[at] < len(ladder.levels)
            }
            rows = self.engine.recode(counted.rows, codebooks) if codebooks else counted.rows
            yield _Step(rows, replace(counted.query, keys=tuple(keys)), ladders, levels, counted.grid.cells.dimensions)

    def _statistics(self, counted: _Counted, cells: Cells, units: Mapping[str, Units]) -> dict[str, OrderStatistic]:
        """Extremes, quantiles and modes: of each column, and each combination of levels, one count of its values."""
        by_column: dict[str, list[Response]] = {}
        for response in self.spec.responses:
            if response.ordered:
                by_column.setdefault(response.columns[0], []).append(response)
                require_units(response, units[response.columns[0]].decimals)
        found = {}
        for column, responses in by_column.items():
            measure = AggregateMeasure(column=units[column].name)
            ranks = [ranks_of(response, self.spec.around) for response in responses]
            parts = []
            none = tuple(0 for _ in counted.ladders)
            leaves = _Step(counted.rows, replace(counted.query, unique=True), counted.ladders, none, cells.dimensions)
            for step in (leaves, *self._steps(counted)):
                ranked = self.engine.ranked(step.rows, replace(step.query, measures=(measure,)), ranks)
                place = np.ravel_multi_index(tuple(step.codes(ranked).T), cells.shape)
                parts.append((ranked, place.astype(np.int64)))
            values = RankedValues.of(parts)
            for response in responses:
                rivals = self.spec.rivals.get(response.name, ())
                decimals = units[column].decimals
                found[response.name] = OrderStatistic.of(response, cells, values, decimals, self.spec.around, rivals)
        return found

    def _books(self, ladder: Ladder, leaves: pa.ChunkedArray) -> dict[int, tuple[pa.Array, pa.Array]]:
        """Codebooks from the leaves of a dimension to the labels of each level above."""
        if ladder.hierarchy is None or len(ladder.levels) == 1:
            return {}
        values = leaves.combine_chunks().unique()
        texts = texts_of(values)
        rungs = ladder.rungs(texts)
        return {at: (values, pa.array(rung, pa.string())) for at, rung in enumerate(rungs)}

    def _figures(
        self, grid: Grid, cells: Cells, units: Mapping[str, Units], weight: Units | None
    ) -> dict[str, CellFigures]:
        unit = 1 if weight is None else 10**weight.decimals
        found = {COUNT: grid.counts(cells, None if weight is None else len(units), unit)}
        for at, (column, each) in enumerate(units.items()):
            found[column] = grid.sums(cells, at, column, each.decimals, unit)
            if column in self.spec.squared:
                found[squares_of(column)] = grid.squares(found[column], at, squares_of(column))
        persons = self.person is not None
        return {name: replace(figures, persons=persons) for name, figures in found.items()}
