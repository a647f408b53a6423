"""Stages over tables of cells: rounding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks.arrays import Ints
from privpipe.errors import DataError, UsageError
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cells import linked
from privpipe.tables.entries import TableSet, TableStage
from privpipe.tables.perturbed_tables import keyed_spec, keys_of, require_added_up
from privpipe.tables.rounding import (
    CellDraws,
    controlled,
    reader_intervals,
    rounded,
    rounded_small_counts,
    small_count_intervals,
)
from privpipe.tables.table import Measure, Table

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.tables.aggregation import TableSpec

__all__ = ["RoundTable"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RoundTable(TableStage):
    """Publish multiples of a base in the place of figures.

    Suppress first, and round what is left: rounding alone hides neither small cells nor differences, and the audit
    judges it with the interval of each figure. Means and ratios are made of rounded parts.

    Parameters
    ----------
    base : int
        At least 2; for sums in units of the column, not of its decimals.
    method : {"nearest", "midpoint", "random", "controlled", "small_counts"}
        ``nearest``: halves up. ``midpoint``: 0, or the middle of an interval (counts). ``random``: up with a
        probability of what is over a multiple, by the keys of the contributors: the same people have the same figure
        in every table and release. ``controlled``: up or down so that all totals are the sums of their parts.
        ``small_counts``: only counts below the base that make a published one below it, to 0 or the base, and added up
        again.
    purpose : str
        Cells of one purpose share their draws.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate
    >>> table = Aggregate(by=["region"], responses=["count"]).apply(pd.DataFrame({"region": list("NNNNNNNSSS")}))
    >>> RoundTable(base=5).apply(table).public()["count"].tolist()
    [10, 5, 5]
    """

    source = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 5.4; SmallCountRounding"
    preserves: ClassVar[str] = "figures to within the base; by random also their mean"
    reveals: ClassVar[str] = "the interval that each rounded figure can come from"

    base: Annotated[int, Ge(2), Doc("figures become multiples of it")]
    method: Annotated[
        Literal["nearest", "midpoint", "random", "controlled", "small_counts"],
        Doc("how figures are rounded; random and small_counts by keys of the contributors"),
    ] = "nearest"
    purpose: Annotated[str, Doc("for random and small_counts: cells of one purpose share their draws")] = "tables"
    tables: Annotated[tuple[str, ...] | None, Doc("tables that are rounded; left out: all")] = None

    @property
    def needs_seed(self) -> bool:
        return self.method in KEYED

    def counting(self, spec: TableSpec, seed: Seed) -> TableSpec:
        if self.method == "small_counts" and spec.sums:
            raise UsageError("round_table: small_counts is for counts; round sums by nearest, random or controlled")
        return keyed_spec(self.name(), spec, seed, self.purpose, sums=False) if self.needs_seed else spec

    def run(self, tables: TableSet) -> TableSet:
        chosen = tables.chosen(self.tables)
        for name, table in chosen.items():
            require_added_up("round_table", table.aggregated.spec)
            for key in table.shown_measures:
                if (status := table.measures[key].status) != "published":
                    raise UsageError(f"round_table: table {name!r} is {status} already; round once")
        made = self._controlled(chosen) if self.method == "controlled" else {}
        changed, differences = {}, []
        for name, table in chosen.items():
            measures = dict(table.measures)
            for key in table.shown_measures:
                if self.method == "small_counts":
                    measures[key], most = self._small_counts(table, measures[key])
                    differences.append(most)
                else:
                    rounding = made.get((name, key)) or self._alone(table, key, measures[key], tables.seed)
                    measures[key] = self._rounded(measures[key], *rounding)
            changed[name] = replace(table, measures=measures)
        note = f"figures are rounded to multiples of {self.base} one by one, so parts need not add up to totals"
        step = {} if self.method != "small_counts" else {"largest_difference": max(differences, default=0)}
        return tables.having(changed, *(() if self.method in ADDITIVE else (note,)), step=step)

    def _alone(self, table: Table, key: str, measure: Measure, seed: Seed | None) -> tuple[Ints, int]:
        """Each figure rounded by itself."""
        if self.method == "midpoint" and key != COUNT:
            raise UsageError("round_table: midpoint is for counts; round sums by nearest, random or controlled")
        draws = None
        if self.method == "random":
            keys = keys_of("round_table", table, self.purpose, COUNT)
            if seed is None:
                raise UsageError("round_table: random rounding needs the seed that is kept for all releases")
            contributors = table.measures[COUNT].figures.contributors
            draws = CellDraws(seed, self.purpose, keys, contributors, key)
        return rounded(measure.figures.totals, self.base * 10**measure.places, self.method, draws), 0

    def _rounded(self, measure: Measure, shown: Ints, steps: int) -> Measure:
        nonnegative = not (measure.figures.negative > 0).any()
        base = self.base * 10**measure.places
        low, high = reader_intervals(shown, base, self.method, counts=nonnegative, steps=steps)
        return replace(measure, shown=shown, low=low, high=high, status="rounded")

    def _controlled(self, chosen: Mapping[str, Table]) -> dict[tuple[str, str], tuple[Ints, int]]:
        """Each measure rounded in all tables together: a cell of two tables has one figure."""
        groups: dict[tuple[str, int], list[Table]] = {}
        for table in chosen.values():
            for key in table.shown_measures:
                measure = table.measures[key]
                if (measure.figures.negative > 0).any() or not measure.figures.additive:
                    raise DataError("round_table: controlled rounding needs figures that add up and are not negative")
                groups.setdefault((key, measure.places), []).append(table)
        found = {}
        for (key, places), own in groups.items():
            cells = linked([table.cells for table in own])
            values = np.zeros(cells.size, dtype=np.int64)
            for table, variable in zip(own, cells.variables, strict=True):
                values[variable] = table.measures[key].figures.totals
            done = controlled(cells, values, self.base * 10**places)
            for table, variable in zip(own, cells.variables, strict=True):
                found[table.name, key] = done.published[variable], done.steps
        return found

    def _small_counts(self, table: Table, measure: Measure) -> tuple[Measure, int]:
        """Counts without small ones; the interval of each holds for an attacker who knows which cells were rounded."""
        counts = measure.figures.totals
        if not measure.figures.additive:
            raise DataError("round_table: small_counts needs counts that add up; give `contribution_bound: 1`")
        ties = keys_of("round_table", table, self.purpose, COUNT)
        done = rounded_small_counts(table.cells, counts, self.base, ~measure.hidden, ties)
        low, high = small_count_intervals(table.cells, counts, done.rounded, self.base)
        made = replace(measure, shown=done.published, low=low, high=high, status="rounded", by_interval=True)
        return made, done.largest_difference

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(base=5), cls(base=3, method="controlled"), cls(base=5, method="random")]


KEYED = ("random", "small_counts")
"""Methods that draw."""
ADDITIVE = ("controlled", "small_counts")
"""Methods after which parts add up to totals."""
