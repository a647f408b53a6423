"""Aggregation: cells of a table counted by an engine; totals from leaves, or level by level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from privpipe.tables.contribution_bound import KeepCells, bucket_of
from privpipe.tables.contribution_rows import cell_keys_of, keyed_contributions
from privpipe.tables.dimension_labels import Ladder, kind_of, texts_of
from privpipe.tables.fixed_domains import fixed_domains, fixed_leaves
from privpipe.tables.leaf_totals import Grid
from privpipe.tables.responses import Response
from privpipe.tables.unit_rows import UnitRows, Units, decimals_of, in_whole_units

__all__ = ["COUNT", "Aggregated", "TableSpec", "aggregated"]

COUNT = "count"
"""Key of the contributors among the figures; sums have their column's name."""
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
        Dimensions whose labels are no partition.
    weight : str, optional
    weight_decimals : int
        Of weights that are floats, which are never rounded.
    waived : str, optional
        Truth values: contributors that waive protection.
    contribution_bound : int, optional
        Leaf cells of a contributor that are kept, by a keyed order.
    largest : int
        How many of the largest contributions are kept of each cell.
    record_keys : mapping of (purpose, measure) to bytes
        What keys the record keys that are added up: of `COUNT` those of all contributors of a cell, of a column those
        of contributors who contribute something.
    bounds : mapping of column to (Fraction, Fraction)
        What the sum of a contributor in a leaf cell is clipped to.
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
    keys : mapping of (purpose, measure) to ndarray of int64, shape (cells,)
        Cell keys, as `TableSpec.record_keys` asks for them; they never leave.
    """

    spec: TableSpec
    cells: Cells
    figures: Mapping[str, CellFigures]
    dropped: int = 0
    keys: Mapping[tuple[str, str], np.ndarray[Any, Any]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"Aggregated({len(self.cells)} cells)"

    @property
    def additive(self) -> bool:
        """Whether contributors add up along dimensions."""
        return self.figures[COUNT].additive


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


@dataclass(frozen=True)
class _Count:
    engine: Engine
    spec: TableSpec
    person: str | None
    hierarchies: Mapping[str, Hierarchy | HierarchySpec]
    secret: bytes
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """What contributions are clipped to, by the column that holds them in units."""

    def run(self, table: Any) -> Aggregated:
        self._check(table)
        units, weight = self._units(table)
        if self.spec.domain is not None:
            domain, fixed = fixed_domains(self.spec.by, self.spec.domain, table.schema, self.hierarchies)
            spec = replace(self.spec, domain=domain)
            bounds = {units[name].name: in_whole_units(units[name], each) for name, each in spec.bounds.items()}
            settled = replace(self, spec=spec, hierarchies={**self.hierarchies, **fixed}, bounds=bounds)
            return settled._counted(table, units, weight)
        return self._counted(table, units, weight)

    def _counted(self, table: Any, units: Mapping[str, Units], weight: Units | None) -> Aggregated:
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
        grid = self._grid(rows, ladders, query)
        cells = replace(grid.cells, only=dict(self.spec.only))
        return Aggregated(
            self.spec,
            cells,
            self._figures(grid, cells, units, weight),
            dropped,
            cell_keys_of(grid, self.spec.record_keys),
        )

    def _check(self, table: Any) -> None:
        names = table.schema.names
        for name in [*self.spec.columns, *([self.person] if self.person else [])]:
            if name not in names:
                raise DataError(f"column {name!r} is not in the table{did_you_mean(name, names)}")
        for name in self.spec.levels:
            if name not in self.hierarchies:
                raise UsageError(f"levels: column {name!r} has no hierarchy")
        for name in self.spec.overlapping:
            if name not in self.spec.by:
                raise UsageError(f"overlapping: {name!r} is no dimension of the table")
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
        found = [AggregateMeasure(column=each.name, product=each.product, waived=waived) for each in units.values()]
        if weight is not None:
            found.append(AggregateMeasure(column=WEIGHT, once=True))
        return tuple(found)

    def _grid(self, rows: Any, ladders: Sequence[Ladder], query: AggregateQuery) -> Grid:
        """All cells: totals from leaves where each contributor is in one, else level by level."""
        if self.person is None:
            rows, query = self._keyed(rows, query)
            leaves = self.engine.aggregate(rows, query)
            grid = Grid.of_leaves(leaves, *self._labelled(leaves, ladders), query)
            return grid.with_totals(own_codes=not getattr(rows, "has_record_ids", False))
        contributions, one = self.engine.contributions(rows, query)
        if self.spec.contribution_bound is not None and not one:
            contributions, one = self._bounded(contributions, query)
        plain = replace(query, gathered=True, records=RECORDS)
        prepared, settled = self._keyed(contributions, replace(plain, unique=True))
        leaves = self.engine.aggregate(prepared, settled)
        dimensions, codes = self._labelled(leaves, ladders)
        grid = Grid.of_leaves(leaves, dimensions, codes, settled)
        if one:
            return grid.with_totals()
        if self.spec.record_keys:
            return self._by_levels(grid, contributions, ladders, dimensions, leaves, plain)
        return self._by_levels(grid, prepared, ladders, dimensions, leaves, settled)

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

    def _by_levels(
        self,
        grid: Grid,
        contributions: Any,
        ladders: Sequence[Ladder],
        dimensions: Sequence[Dimension],
        leaves: pa.Table,
        query: AggregateQuery,
    ) -> Grid:
        """The grid with the cells of each combination of levels above the leaves, each counted by contributors."""
        steps = [range(len(ladder.levels) + 1) for ladder in ladders]  # the last is the total
        books = [self._books(ladder, leaves.column(f"key_{at}")) for at, ladder in enumerate(ladders)]
        for levels in product(*steps):
            if not any(levels):
                continue
            keys = [ladder.name for ladder, level in zip(ladders, levels, strict=True) if level < len(ladder.levels)]
            codebooks = {
                ladder.name: books[at][levels[at]]
                for at, ladder in enumerate(ladders)
                if 0 < levels[at] < len(ladder.levels)
            }
            recoded = self.engine.recode(contributions, codebooks) if codebooks else contributions
            higher = replace(query, keys=tuple(keys), unique=False)
            if self.spec.record_keys:  # a contributor has one key in a cell, in however many leaves below it
                gathered, _ = self.engine.contributions(recoded, higher)
                recoded, higher = self._keyed(gathered, replace(higher, unique=True, records=RECORDS))
            found = self.engine.aggregate(recoded, higher)
            codes = np.zeros((len(found), len(ladders)), dtype=np.int64)
            for place, (ladder, level) in enumerate(zip(ladders, levels, strict=True)):
                if level < len(ladder.levels):
                    texts = texts_of(found.column(f"key_{keys.index(ladder.name)}"))
                    of = ladder.codes if level == 0 else ladder.rung_codes
                    codes[:, place] = of(dimensions[place], texts)
            grid.place(found, codes)
        return grid.counted_by_levels()

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
        persons = self.person is not None
        return {name: replace(figures, persons=persons) for name, figures in found.items()}
