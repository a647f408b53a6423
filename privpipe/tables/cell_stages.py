"""Stages over tables of cells: secondary suppression and rounding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables.aggregation import COUNT
from privpipe.tables.cells import Cells, linked
from privpipe.tables.controlled_rounding import controlled
from privpipe.tables.entries import TableSet, TableStage
from privpipe.tables.families import Family, families
from privpipe.tables.guarantees import GroupDisclosure
from privpipe.tables.implied_populations import ImpliedPopulations
from privpipe.tables.moves import Hiding
from privpipe.tables.perturbed_tables import keyed_spec, keys_of, require_added_up
from privpipe.tables.rounding import (
    CellDraws,
    reader_intervals,
    rounded,
    rounded_small_counts,
    small_count_intervals,
)
from privpipe.tables.suppression import costs, suppress, table_loss
from privpipe.tables.table import Measure, Table
from privpipe.tables.table_audit import TableAudit, audit_problem, rules_of

if TYPE_CHECKING:
    from privpipe.draws import Seed
    from privpipe.tables.aggregation import TableSpec

__all__ = ["RoundTable", "SuppressTable"]

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
MOST_ROUNDS = 10
"""Times that the measures of a release are gone through until none asks for more cells."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressTable(TableStage):
    """Hide unsafe cells, and others for as little as possible, so that no unsafe one can be worked out.

    The guarantees of the policy say which cells are unsafe. A hidden cell is hidden in all responses of its row. The
    pattern has passed the audit before it is returned, and is the same on every engine.

    Parameters
    ----------
    method : {"auto", "optimal", "hierarchical", "gauss"}
        ``auto``: optimal up to 300 cells to choose from in a component, else hierarchical for sums, gauss for counts.
    cost : {"value", "cells", "contributors", "root"}
        What is kept small.

    Examples
    --------
    >>> import pandas as pd
    >>> from privpipe.tables import Aggregate, MinimumFrequency
    >>> visits = pd.DataFrame({"region": list("NNNNSSSWWW"), "sex": list("mmffmffmmm")})
    >>> table = Aggregate(by=["region", "sex"], responses=["count"]).apply(visits)
    >>> hidden = SuppressTable().apply(table, guarantees=[MinimumFrequency(at_least=2)])
    >>> int(hidden.public()["count"].isna().sum())
    4
    """

    source: ClassVar[str] = (
        "Fischetti, Salazar, JASA 95 (2000); de Wolf, HiTaS, LNCS 2316 (2002); Langsrud, GaussSuppression"
    )
    preserves: ClassVar[str] = "every figure that is not hidden"
    reveals: ClassVar[str] = "which cells are hidden; an interval for each of them"
    withheld: ClassVar[tuple[str, ...]] = ("cost", "fixed", "avoid", "time_limit")

    method: Annotated[Literal["auto", "optimal", "hierarchical", "gauss"], Doc("how cells are chosen")] = "auto"
    cost: Annotated[
        Literal["value", "cells", "contributors", "root"], Doc("price of hiding a cell; their sum is kept small")
    ] = "value"
    fixed: Annotated[tuple[dict[str, str], ...], Doc("cells that are never hidden, as label by column")] = ()
    avoid: Annotated[tuple[dict[str, str], ...], Doc("cells that are hidden only where others do not suffice")] = ()
    zeros: Annotated[bool, Doc("empty cells may be hidden too")] = False
    tables: Annotated[tuple[str, ...] | None, Doc("tables it works on; left out: all")] = None
    time_limit: Annotated[float, Gt(0), Doc("seconds of each audit")] = 600.0

    def run(self, tables: TableSet) -> TableSet:
        if not any(guarantee.primary for guarantee in tables.guarantees):
            raise UsageError(
                "suppress_table: no guarantee says which cells are unsafe; add minimum_frequency, p_percent or another "
                "rule on cells"
            )
        asked = next((each for each in tables.guarantees if isinstance(each, TableAudit)), TableAudit())
        asked = replace(asked, time_limit=self.time_limit)
        chosen = dict(tables.chosen(self.tables))
        primary = {name: _unsafe(tables, table) for name, table in chosen.items()}
        found = tables.having({name: table.hiding(primary[name], primary[name]) for name, table in chosen.items()})
        for _ in range(MOST_ROUNDS):
            before = {name: found.tables[name].hidden for name in chosen}
            for family in families({name: found.tables[name] for name in chosen}):
                found = self._hidden(found, family, asked)
            if all(np.array_equal(found.tables[name].hidden, before[name]) for name in chosen):
                break
        else:
            raise NoSolutionError(
                "suppress_table: measures of one table kept asking for more cells; nothing was hidden"
            )
        return found.having({}, step={"tables": {name: _loss(found.tables[name]) for name in chosen}})

    def _hidden(self, tables: TableSet, family: Family, asked: TableAudit) -> TableSet:
        """The tables with what one measure needs hidden in addition."""
        rules = rules_of(tables, family.key)
        problem = audit_problem(tables, family, asked)
        if problem.levels is None or not len(problem.levels.variables) or not family.additive:
            return tables
        prior = None if asked.prior is None else problem
        already = family.hidden
        high = np.full(family.cells.size, np.iinfo(np.int64).max, dtype=np.int64)
        low = np.full(family.cells.size, 0 if family.least is not None else np.iinfo(np.int64).max, dtype=np.int64)
        if prior is not None:
            low, high = np.where(already, prior.low, low), np.where(already, prior.high, high)
        price = self._prices(family, already)
        hiding = Hiding(
            relations=family.cells.relations,
            true=family.true,
            low=low,
            high=high,
            cost=price,
            candidates=self._candidates(family) | already,
            levels=problem.levels,
            whole=problem.whole,
            knowing=problem.knowing,
        )
        every = list({id(rule): rule for own in rules.values() for rule in own}.values())

        def unsafe(populations: ImpliedPopulations) -> Bools:
            return family.with_populations(populations).implied_failures(every)

        pattern = suppress(
            hiding,
            family.cells,
            method=self.method,
            implied=unsafe if asked.implied else None,
            time_limit=self.time_limit,
        )
        changed = {}
        for table, variable in zip(family.tables, family.cells.variables, strict=True):
            more = pattern.hidden[variable] & ~table.hidden
            if more.any():
                changed[table.name] = tables.tables[table.name].hiding(more)
        return tables.having(changed)

    def _prices(self, family: Family, already: Bools) -> Ints:
        figures = np.zeros(family.cells.size, dtype=np.int64)
        contributors = np.zeros(family.cells.size, dtype=np.int64)
        avoided = np.zeros(family.cells.size, dtype=np.bool_)
        for table, measure, variable in zip(family.tables, family.measures, family.cells.variables, strict=True):
            figures[variable] = measure.figures.magnitudes
            contributors[variable] = measure.figures.contributors
            avoided[variable] |= bearing(table.cells, self.avoid, "avoid")
        price = costs(self.cost, figures, contributors)
        price = np.where(avoided, price * AVOIDED, price)
        return np.where(already, 1, price)

    def _candidates(self, family: Family) -> Bools:
        found = np.ones(family.cells.size, dtype=np.bool_)
        for table, measure, variable in zip(family.tables, family.measures, family.cells.variables, strict=True):
            found[variable[bearing(table.cells, self.fixed, "fixed")]] = False
            if not self.zeros:
                found[variable[measure.figures.contributors == 0]] = False
        return found

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(method="gauss", cost="cells")]


AVOIDED = 100
"""How much more an avoided cell costs."""


def bearing(cells: Cells, patterns: Sequence[Mapping[str, str]], what: str) -> Bools:
    """Cells that bear exactly the labels of one of some patterns.

    Raises
    ------
    UsageError
        A pattern names a column or label that the table does not have.
    """
    found = np.zeros(len(cells), dtype=np.bool_)
    names = [dimension.name for dimension in cells.dimensions]
    for pattern in patterns:
        inside = np.ones(len(cells), dtype=np.bool_)
        for column, label in pattern.items():
            if column not in names:
                raise UsageError(f"suppress_table: {what}: {column!r} is no dimension; there are {', '.join(names)}")
            place = names.index(column)
            codes = cells.dimensions[place].codes
            if label not in codes:
                raise UsageError(
                    f"suppress_table: {what}: dimension {column!r} has no such label as the one written there"
                )
            inside &= cells.codes[:, place] == codes[label]
        found |= inside
    return found


def _unsafe(tables: TableSet, table: Table) -> Bools:
    """Cells of which some measure must not be published."""
    found = np.zeros(len(table), dtype=np.bool_)
    for key in table.shown_measures:
        for rule in rules_of(tables, key)[table.name]:
            found |= rule.unsafe(table.measures[key].figures)
    for guarantee in tables.guarantees:
        if isinstance(guarantee, GroupDisclosure) and (guarantee.tables is None or table.name in guarantee.tables):
            found |= guarantee.children(table, tables.sensitive)
    return found


def _loss(table: Table) -> dict[str, Any]:
    """What was hidden of a table; private."""
    figures = table.measures[table.shown_measures[0]].figures
    loss = table_loss(table.cells, figures.magnitudes, table.hidden)
    return {
        "cells": loss.cells,
        "hidden": loss.hidden,
        "primary": int(table.primary.sum()),
        "hidden_share": loss.cell_share,
        "hidden_value_share": loss.value_share,
    }


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

    source: ClassVar[str] = "Hundepool et al., Statistical Disclosure Control, Wiley 2012, 5.4; SmallCountRounding"
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
        """Counts without small ones; the interval of each is that of who knows which cells were rounded."""
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
