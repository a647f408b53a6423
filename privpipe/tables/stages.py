"""The stage `aggregate`: records in, tables of cells out, some taken from larger tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks.arrays import Ints
from privpipe.border import bordered
from privpipe.errors import DataError, UsageError
from privpipe.hierarchies.canonical import plain_decimal, scalar_text
from privpipe.tables.aggregates import CellFigures
from privpipe.tables.aggregation import COUNT, Aggregated, TableSpec, aggregated, squares_of
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.dimension_labels import MISSING, UNKNOWN, typed_label
from privpipe.tables.entries import CellGuarantee, TableSet, TableStage
from privpipe.tables.leaf_totals import all_cells
from privpipe.tables.responses import Response, responses_of
from privpipe.tables.table import STATUS_SUFFIX, Table
from privpipe.wired import room_above

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.engines import Engine
    from privpipe.hierarchies import HierarchySpec

__all__ = ["ONE_TABLE", "Aggregate", "derived", "needs_joint"]


def derived(spec: TableSpec, whole: Aggregated) -> Aggregated | None:
    """The table of `spec` from one of more dimensions over the same records; None where it has to be counted.

    A table of all combinations of labels has those of fewer dimensions where the others are at their total, and those
    of a restricted population where the restricting dimension is at its label.

    Examples
    --------
    >>> from privpipe.tables.responses import responses_of
    >>> spec = TableSpec(by=("region",), responses=responses_of("count"))
    >>> cells = all_cells([Dimension.tree("region", {"N": "Total"}), Dimension.tree("sex", {"f": "Total"})])
    >>> figures = CellFigures.of_contributions(cells, [[(1, 1)]] * 4)
    >>> whole = Aggregated(replace(spec, by=("region", "sex")), cells, {COUNT: figures})
    >>> derived(spec, whole).cells.codes.tolist()
    [[0], [1]]
    """
    if not _follows(spec, whole):
        return None
    dimensions = {dimension.name: dimension for dimension in whole.cells.dimensions}
    fixed = {} if whole.spec.only else {name: dimensions[name].codes[label] for name, label in spec.only.items()}
    records = whole.figures[COUNT].records
    kept: list[Dimension] = []
    choices: list[Ints] = []
    for name in spec.by:
        # A label that no record of the population has is not a label of the table.
        own = np.arange(len(dimensions[name].labels))
        places = _places(whole.cells, [name], [own], fixed)
        labels = own[(records[places] > 0) | (own == 0)]
        kept.append(_part(dimensions[name], labels, overlapping=name in spec.overlapping))
        choices.append(labels)
    cells = replace(all_cells(kept), only=dict(spec.only))
    codes = [labels[cells.codes[:, at]] for at, labels in enumerate(choices)]
    places = _places(whole.cells, list(spec.by), codes, fixed)
    keys = [COUNT, *spec.sums, *map(squares_of, sorted(spec.squared))]
    return Aggregated(spec, cells, {key: _moved(whole.figures[key], places, cells) for key in keys}, whole.dropped)


def _follows(spec: TableSpec, whole: Aggregated) -> bool:
    """Whether all that the table shows is in the whole one."""
    if not whole.additive or spec.contribution_bound is not None or spec.drop_nulls:
        # Persons in several cells of the whole may be in one of the table; kept cells depend on the dimensions.
        return False
    dimensions = {dimension.name: dimension for dimension in whole.cells.dimensions}
    if whole.spec.only:
        inside = dict(whole.spec.only) == dict(spec.only)
    else:
        inside = all(name in dimensions and _is_value(dimensions[name], label) for name, label in spec.only.items())
    wanted = [*spec.sums, *map(squares_of, spec.squared)]
    return (
        inside
        and not any(response.ordered for response in spec.responses)
        and set(spec.by) <= set(dimensions)
        and all(spec.levels.get(name) == whole.spec.levels.get(name) for name in spec.by)
        and all(name in whole.figures for name in wanted)
        and all(whole.spec.sums.get(name) == decimals for name, decimals in spec.sums.items())
    )


def _is_value(dimension: Dimension, label: str) -> bool:
    """Whether a label is a value of the records, whose text it is."""
    code = dimension.codes.get(label)
    return code is not None and not dimension.children[code] and code > 0 and label not in (MISSING, UNKNOWN)


def _part(dimension: Dimension, labels: Ints, *, overlapping: bool) -> Dimension:
    """The dimension with some of its labels, and all that are above them."""
    position = {int(code): at for at, code in enumerate(labels.tolist())}
    parent = tuple(position.get(dimension.parent[code], -1) for code in labels.tolist())
    return Dimension(dimension.name, tuple(dimension.labels[code] for code in labels.tolist()), parent, overlapping)


def _places(cells: Cells, names: list[str], codes: list[Ints], fixed: Mapping[str, int]) -> Ints:
    """Positions of cells with these labels, and all other dimensions at their total."""
    columns: list[Any] = []
    for dimension in cells.dimensions:
        if dimension.name in names:
            columns.append(codes[names.index(dimension.name)])
        else:
            columns.append(np.full(len(codes[0]), fixed.get(dimension.name, 0), dtype=np.int64))
    return np.asarray(np.ravel_multi_index(tuple(columns), cells.shape), dtype=np.int64)


def _moved(figures: CellFigures, places: Ints, cells: Cells) -> CellFigures:
    others = {column: _moved(other, places, cells) for column, other in figures.others.items()}
    return replace(figures.taken(places), cells=cells, others=others)


ONE_TABLE = "table"
"""Name of the only table of a stage that names none."""
JOINT = "(all tables)"
DEFINITION = ("by", "responses", "only", "levels", "overlapping")
"""Keys of a table within `tables`; the rest holds for all of them."""


@bordered
@dataclass(frozen=True, kw_only=True, repr=False)
class Aggregate(TableStage):
    """Count records into tables of cells: contributors, sums, means and ratios with all their totals.

    Each combination of labels is a cell, those without records too. Columns with a hierarchy show all its levels.
    Contributors are the persons of the policy's `person_id`, else records. What is made is private until guarantees on
    cells hold.

    Parameters
    ----------
    tables : mapping of str to mapping, optional
        Several tables by name, each with `by`, `responses` and, where it has them, `only`, `levels`, `overlapping`.
    by : tuple of str, optional
        Dimensions of the only table.
    responses : tuple, optional
        ``count``; ``{sum: a, decimals: 2}``, ``{mean: a}``, ``{ratio: [a, b]}``; ``{variance: a}``, ``{sd: a}``;
        ``{percentage: count, of: [column], digits: 1}``; ``{minimum: a}``, ``{maximum: a, structural: 100}``;
        ``{quantile: a, q: 0.5, smoothed: 10}``, or with ``unit: 100`` rounded; ``{mode: a}``.

    Examples
    --------
    >>> import pandas as pd
    >>> visits = pd.DataFrame({"region": ["N", "N", "S"], "cost": [5, 7, 4]})
    >>> table = Aggregate(by=["region"], responses=["count", {"sum": "cost"}]).apply(visits)
    >>> table
    Table(3 cells, 2 responses)
    >>> table.public()
      region  count count_status  sum_cost sum_cost_status
    0  Total      3    published        16       published
    1      N      2    published        12       published
    2      S      1    published         4       published
    """

    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, chapters 4 and 5"
    preserves: ClassVar[str] = "counts and sums over all combinations of labels"
    reveals: ClassVar[str] = "everything about a cell with one contributor, until `suppress_table` hides it"

    tables: Annotated[dict[str, dict[str, Any]], Doc("tables by name, each with its `by` and `responses`")] = None  # type: ignore[assignment]
    by: Annotated[tuple[str, ...], Doc("columns of the dimensions of the only table")] = ()
    responses: Annotated[
        tuple[Any, ...],
        Doc(
            "count; sum, mean, ratio, variance, sd, percentage, minimum, maximum, quantile, mode of columns, as in "
            "{sum: a, decimals: 2}, {ratio: [a, b]}, {percentage: count, of: [region]}, {quantile: a, q: 0.5, "
            "smoothed: 10}"
        ),
    ] = ()
    total: Annotated[str, Doc("label of all; no value of a dimension may read like it")] = "Total"
    only: Annotated[dict[str, str], Doc("label by column: the population of the only table")] = None  # type: ignore[assignment]
    levels: Annotated[dict[str, list[Any]], Doc("levels of a column's hierarchy that are shown; default: all")] = None  # type: ignore[assignment]
    overlapping: Annotated[tuple[str, ...], Doc("dimensions whose labels are not a partition of their total")] = ()
    layout: Annotated[
        Literal["long", "wide"],
        Doc("of a finished table; wide: the labels of the last dimension are columns. Releases are long"),
    ] = "long"
    nulls: Annotated[
        Literal["label", "drop"],
        Doc("label: a missing dimension is the label (missing); drop: such records are left out"),
    ] = "label"
    weight: Annotated[str | None, Doc("column with the sampling weight of a record")] = None
    weight_decimals: Annotated[int, Ge(0), Le(9), Doc("decimals of weights that are floats")] = 6
    waived: Annotated[str | None, Doc("truth values: contributors that waive their protection")] = None
    contribution_bound: Annotated[
        int | None, Ge(1), Doc("leaf cells of each contributor that are kept, chosen by a key; left out: all")
    ] = None

    def __post_init__(self) -> None:
        for name in ("tables", "only", "levels"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        for name in ("by", "responses", "overlapping"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        super().__post_init__()
        if bool(self.tables) == bool(self.by):
            raise UsageError("Aggregate: give either `tables`, or `by` and `responses` of a single one")
        if self.tables and (self.responses or self.only or self.levels or self.overlapping):
            raise UsageError(
                "Aggregate: with `tables`, each table has its own `responses`, `only`, `levels`, `overlapping`"
            )
        for name in self.tables:
            if not name or not all(sign.isalnum() or sign in "-_" for sign in name):
                raise UsageError("Aggregate: a table is named by letters, digits, - and _, for it names a file")
        if self.nulls == "drop" and len(self.tables) > 1:
            raise UsageError(
                "Aggregate: `nulls: drop` gives each of several tables another population; make one table, or leave "
                "these records out before"
            )
        if not self.total.strip():
            raise UsageError("Aggregate: total must be a text that can be read")
        self._check_responses()
        for spec in self._specs(3).values():
            names = {each.name for each in spec.responses}
            if names & {*spec.by, *(f"{name}{STATUS_SUFFIX}" for name in names)}:
                raise UsageError(
                    "Aggregate: a response has the name of a dimension or of a status; give it another `name`"
                )

    def _check_responses(self) -> None:
        """Refuse figures without a meaning under weights, bases that are not dimensions, disclosure by tables together.

        Raises
        ------
        UsageError
        """
        specs = self._specs(3).values()
        listed = [response for spec in specs for response in spec.responses]
        if self.weight is not None and any(each.ordered or each.spread for each in listed):
            raise UsageError(
                "Aggregate: extremes, quantiles, modes and variances are of the records, not of a weighted sample; "
                "leave `weight` out, or these responses"
            )
        for spec in specs:
            for response in spec.responses:
                outside = [name for name in response.of if name not in spec.by]
                if outside:
                    raise UsageError(f"Aggregate: percentage of {outside[0]!r}: that is not a dimension of its table")
        units: dict[str, Any] = {}
        bounds: dict[tuple[str, str], int] = {}
        for response in listed:
            if response.unit is not None and units.setdefault(response.columns[0], response.unit) != response.unit:
                raise UsageError(
                    f"Aggregate: quantiles of {response.columns[0]!r} are rounded to two units, which together show "
                    "more than each; give one `unit`"
                )
        for spec in specs:
            for key in {(each.kind, each.columns[0]) for each in spec.responses if each.structural is not None}:
                bounds[key] = bounds.get(key, 0) + 1
        if any(number > 1 for number in bounds.values()):
            raise UsageError(
                "Aggregate: an extreme with a `structural` bound is in two tables, whose cells together may show who "
                "has it; write `structural` in only one table"
            )

    @property
    def table_names(self) -> tuple[str, ...]:
        """Names of the tables that it makes."""
        return tuple(self.tables) or (ONE_TABLE,)

    def specs(self) -> dict[str, TableSpec]:
        """What each table shows."""
        return self._specs(3)

    def columns_named(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Columns of the records that it reads, each with its place among the parameters."""
        for name, spec in self._specs(3).items():
            place: tuple[str | int, ...] = ("tables", name) if self.tables else ()
            yield from (((*place, "by", at), column) for at, column in enumerate(spec.by))
            yield from (((*place, "responses"), column) for column in spec.sums)
            yield from (((*place, "only", column), column) for column in spec.only)
        for key in ("weight", "waived"):
            if getattr(self, key) is not None:
                yield (key,), getattr(self, key)

    def _specs(self, largest: int, around: int = 0) -> dict[str, TableSpec]:
        given = self.tables or {ONE_TABLE: {name: getattr(self, name) for name in DEFINITION if getattr(self, name)}}
        found = {name: self._spec(name, table, largest) for name, table in given.items()}
        before: dict[str, list[Response]] = {}
        for name, spec in found.items():
            rivals = {}
            for response in spec.responses:
                if response.smoothed is not None:
                    earlier = before.setdefault(response.columns[0], [])
                    rivals[response.name] = tuple(earlier)
                    earlier.append(response)
            found[name] = replace(spec, rivals=rivals, around=max(around, spec.around))
        return found

    def _spec(self, name: str, given: Mapping[str, Any], largest: int) -> TableSpec:
        unknown = [key for key in given if key not in DEFINITION]
        if unknown:
            raise UsageError(f"Aggregate: tables.{name}: unknown key {unknown[0]!r}; known: {', '.join(DEFINITION)}")
        by = given.get("by")
        if isinstance(by, str) or not by or not all(isinstance(each, str) for each in by) or len(set(by)) < len(by):
            raise UsageError(f"Aggregate: tables.{name}: by must be a list of distinct columns")
        only = given.get("only") or {}
        if not isinstance(only, Mapping) or set(only) & set(by):
            raise UsageError(f"Aggregate: tables.{name}: only is a mapping of columns to labels, none of them in `by`")
        return TableSpec(
            by=tuple(by),
            responses=responses_of(list(given.get("responses") or ())),
            total=self.total,
            only={column: _label_of(f"{name}: only", label) for column, label in only.items()},
            drop_nulls=self.nulls == "drop",
            levels=given.get("levels") or {},
            overlapping=tuple(given.get("overlapping") or ()),
            weight=self.weight,
            weight_decimals=self.weight_decimals,
            waived=self.waived,
            contribution_bound=self.contribution_bound,
            largest=largest,
        )

    def tables_over(
        self,
        engine: Engine,
        records: Any,
        *,
        person: str | None,
        seed: Seed,
        hierarchies: Mapping[str, HierarchySpec],
        guarantees: Sequence[CellGuarantee] = (),
        sensitive: Sequence[str] = (),
        stages: Sequence[TableStage] = (),
    ) -> TableSet:
        """The tables over records of an engine; no record leaves it but the largest contributions of each cell.

        Raises
        ------
        DataError, UsageError, HierarchyError, EngineError
        """
        specs = self._specs(
            max([3, *(guarantee.largest() for guarantee in guarantees)]),
            max([0, *(guarantee.around() for guarantee in guarantees)]),
        )
        specs = {name: _with_typed_labels(name, spec, records.schema) for name, spec in specs.items()}
        secret = seed.bound("privpipe/table-contributors/1")
        holdings = list(dict.fromkeys(column for guarantee in guarantees for column in guarantee.holdings()))
        if holdings and self.contribution_bound is not None:
            raise UsageError(
                "Aggregate: `contribution_bound` keeps other records of persons than of holdings; leave it out, or the "
                "guarantees with `holding`"
            )

        def counted(spec: TableSpec) -> Aggregated:
            found = aggregated(engine, records, spec, person=person, hierarchies=hierarchies, secret=secret)
            if spec.domain is not None:
                return found
            plain = replace(spec, responses=tuple(each for each in spec.responses if not each.ordered), record_keys={})
            for column in holdings:
                if column != person:
                    other = aggregated(engine, records, plain, person=column, hierarchies=hierarchies, secret=secret)
                    found = found.counted_by(column, other)
                else:
                    found = found.counted_by(column, found)
            return found

        asked = {name: _counted_for(stages, name, spec, specs, seed) for name, spec in specs.items()}
        joint, whole = None, None
        if needs_joint(list(asked.values())):
            whole = counted(joint_spec(list(specs.values())))
            joint = Table.of(JOINT, whole)
        else:
            plain = [spec for spec in asked.values() if not _by_itself(spec)]
            whole = counted(max(plain, key=lambda spec: len(spec.by))) if plain else None
        tables = {}
        for name, spec in asked.items():
            if whole is None or _by_itself(spec):
                found = counted(spec)
            else:
                found = whole if spec is whole.spec else derived(spec, whole) or counted(spec)
            if spec.domain is None:
                _require_whole_means(name, found)
            tables[name] = replace(Table.of(name, found), seed=seed)
        notes: tuple[str, ...] = ()
        if self.nulls == "drop":  # differential privacy may have to hide whether there were any
            notes = ("records with a missing dimension were left out of tables (`nulls: drop`)",)
        return TableSet(
            tables=tables, guarantees=tuple(guarantees), sensitive=tuple(sensitive), seed=seed, joint=joint, notes=notes
        )

    def apply(self, tables: Any, **options: Any) -> Any:
        """The table of a frame; of a stage with `tables`, tables by name.

        Parameters
        ----------
        tables : path, or pandas, polars, pyarrow, DuckDB, Dask or Spark frame
            The records.
        person_id : str, optional
            Column that distinguishes contributors; default: each record is one.
        hierarchies : mapping of column to Hierarchy, builder mapping or path, optional
        guarantees : sequence of CellGuarantee, optional
            Those that will judge the table, so that it holds what they read.
        seed : Seed, text, bytes or place, optional
            Needed where draws of stages must be the same in every release.
        stages : sequence of TableStage, optional
            Those that will be applied to the table, so that it holds what they read.
        engine : str, Engine or DuckDB connection, optional

        Returns
        -------
        Table, or mapping of str to Table

        Raises
        ------
        DataError, UsageError, HierarchyError, EngineError
        """
        return room_above("running.table_frames").aggregate(self, tables, options)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(by=("region",), responses=("count",))]


def _label_of(where: str, value: Any) -> str:
    """The text of a label that is written as a value."""
    try:
        text = scalar_text(value)
    except ValueError:
        raise UsageError(f"Aggregate: tables.{where} takes texts, numbers, booleans and dates as labels") from None
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return plain_decimal(Decimal(text)) if number and Decimal(text).is_finite() else text


def _with_typed_labels(name: str, spec: TableSpec, schema: Any) -> TableSpec:
    """The table with the labels of `only` as the records have them, read as values of their columns' types.

    Raises
    ------
    DataError
        A label that is not a value of its column's type: no record would be in the table.
    """
    only = {
        column: typed_label(f"table {name!r}: only: {column}", label, schema.field(column).type)
        for column, label in spec.only.items()
        if column in schema.names
    }
    return replace(spec, only={**spec.only, **only})


def needs_joint(specs: Sequence[TableSpec]) -> bool:
    """Whether how the populations of tables are in one another does not follow from their shared margins.

    It does where all are of one population and the dimensions of one table are those of all.
    """
    specs = [spec for spec in specs if spec.domain is None]  # of others no true figure is published or judged
    if len(specs) < 2:
        return False
    most = max(specs, key=lambda spec: len(spec.by))
    nested = all(set(spec.by) <= set(most.by) for spec in specs)
    alike = all(
        spec.only == most.only and all(spec.levels.get(name) == most.levels.get(name) for name in spec.by)
        for spec in specs
    )
    return not (nested and alike)


def _counted_for(
    stages: Sequence[TableStage], name: str, spec: TableSpec, names: Collection[str], seed: Seed
) -> TableSpec:
    """What is counted of a table for all stages that will work on it."""
    for stage in stages:
        if name in (getattr(stage, "tables", None) or names):
            spec = stage.counting(spec, seed)
    return spec


def _by_itself(spec: TableSpec) -> bool:
    """Whether a table is taken from no other: keys of its totals and clipped contributions are its own."""
    return bool(spec.record_keys) or bool(spec.bounds) or spec.domain is not None


def joint_spec(specs: Sequence[TableSpec]) -> TableSpec:
    """The table of all combinations of the dimensions and restrictions of some tables."""
    columns = dict.fromkeys(name for spec in specs for name in (*spec.by, *spec.only))
    responses = {
        (response.kind, response.columns): response
        for spec in specs
        for response in spec.responses
        if not response.ordered
    }
    overlapping = dict.fromkeys(name for spec in specs for name in spec.overlapping)
    first = specs[0]
    return replace(
        first,
        by=tuple(columns),
        responses=tuple(responses.values()),
        only={},
        levels={},
        overlapping=tuple(overlapping),
        drop_nulls=False,
    )


def _require_whole_means(name: str, found: Aggregated) -> None:
    """Refuse a mean over other contributors than those who are counted: it would publish one more count."""
    counted = found.figures[COUNT].contributors
    for response in found.spec.responses:
        if response.kind == "mean" or response.spread:
            cells = int((found.figures[response.columns[0]].contributors != counted).sum())
            if cells:
                raise DataError(
                    f"table {name!r}: column {response.columns[0]!r} has no value for contributors of {cells:,} cells, "
                    f"so its {response.kind} would publish another count; leave these records out, or publish the sum"
                )
