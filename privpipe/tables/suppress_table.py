"""The stage that hides cells: unsafe ones, and others so that no unsafe one can be computed from all tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt
from typing_extensions import Doc

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.marks import FilePath
from privpipe.errors import NoSolutionError, UsageError
from privpipe.tables.aggregates import pattern_mask
from privpipe.tables.aggregation import COUNT
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.cells import Cells
from privpipe.tables.entries import TableSet, TableStage
from privpipe.tables.exact_audit import Kind, audit
from privpipe.tables.families import Family, families, merged_levels
from privpipe.tables.guarantees import GroupDisclosure, MinimumFrequency, PrimaryRule
from privpipe.tables.implied_populations import ImpliedPopulations
from privpipe.tables.least_cost_patterns import Limits
from privpipe.tables.moves import Hiding
from privpipe.tables.population_differences import Differencing
from privpipe.tables.response_judgement import hidden_statistics
from privpipe.tables.suppression import AVOIDED, COSTS, Suppression, costs, kept_pattern, pattern_of, suppress
from privpipe.tables.table import Table
from privpipe.tables.table_audit import TableAudit, audit_problem, audited, group_levels, rules_of
from privpipe.tables.table_loss import losses
from privpipe.tables.union_patterns import closed_over_releases, fixed_cells

__all__ = ["SuppressTable"]

MOST_ROUNDS = 10
"""Passes over the measures of a release until none needs more cells."""


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressTable(TableStage):
    """Hide unsafe cells, and others at the least cost, so that no unsafe one can be computed.

    The guarantees of the policy say which cells are unsafe. The pattern is sought over all tables of the release
    together, those of other populations among them, has passed their joint audit before it is returned, and is the same
    on every engine and in every run. It reveals something: anyone who knows the method knows that cheaper cells did not
    suffice.

    Parameters
    ----------
    method : {"auto", "optimal", "hierarchical", "gauss"}
        ``optimal``: least cost, with a proof or a bound. ``hierarchical``: subtable by subtable, from the top.
        ``gauss``: cells by falling value, as linear algebra allows. ``auto``: optimal up to 300 cells to choose from in
        a component, else hierarchical for sums, gauss for counts. All are closed by the exact audit.
    cost : {"value", "cells", "contributors", "root"} or str
        What is kept small; any other text is a column that the table adds up.
    fixed : sequence of mapping of column to label
        Cells that are never hidden.
    share_pattern : bool
        One pattern for all responses of a row; else each sum hides its own cells and those of the count.
    show : {"below"}, optional
        Hidden counts below n of `minimum_frequency` carry the status ``<n``; the audit knows it.

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

    source = "Fischetti, Salazar, JASA 95 (2000); de Wolf, HiTaS, LNCS 2316 (2002); Langsrud, GaussSuppression"
    preserves: ClassVar[str] = "every figure that is not hidden"
    reveals: ClassVar[str] = "which cells are hidden; an interval for each of them"
    withheld: ClassVar[tuple[str, ...]] = ("cost", "fixed", "avoid", "nodes", "time_limit", "pattern")

    method: Annotated[Literal["auto", "optimal", "hierarchical", "gauss"], Doc("how cells are chosen")] = "auto"
    cost: Annotated[
        str,
        Doc("price of hiding a cell, whose sum is kept small: value, cells, contributors, root, or a column added up"),
    ] = "value"
    fixed: Annotated[tuple[dict[str, str], ...], Doc("cells that are never hidden, as label by column")] = ()
    avoid: Annotated[tuple[dict[str, str], ...], Doc("cells that are hidden only where others do not suffice")] = ()
    zeros: Annotated[bool, Doc("empty cells may be hidden too; `structural` ones never")] = False
    share_pattern: Annotated[
        bool, Doc("one pattern for all responses; false: each sum hides its own cells and those of the count")
    ] = True
    restore: Annotated[
        bool, Doc("publish cells that were hidden in vain because they follow from others, if all is still safe")
    ] = False
    show: Annotated[
        Literal["below"] | None, Doc("below: hidden counts under n of minimum_frequency are marked as such")
    ] = None
    nodes: Annotated[int, Ge(0), Doc("most work of one integer program; never seconds, so that runs agree")] = 20_000
    pattern: Annotated[str | None, FilePath(), Doc("private plan of an earlier run, whose cells are hidden first")] = (
        None
    )
    tables: Annotated[tuple[str, ...] | None, Doc("tables it works on; left out: all")] = None
    time_limit: Annotated[float, Gt(0), Doc("seconds of each audit")] = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("fixed", "avoid"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.cost:
            raise UsageError(f"suppress_table: cost is one of {', '.join(COSTS)}, or a column that the table adds up")

    def run(self, tables: TableSet) -> TableSet:
        if not any(guarantee.primary for guarantee in tables.guarantees):
            raise UsageError(
                "suppress_table: no guarantee decides which cells are unsafe; add minimum_frequency, p_percent or "
                "another rule on cells"
            )
        chosen = tuple(tables.chosen(self.tables))
        self._require_known_labels(tables, chosen)
        search = _Joint(self, tables, chosen)
        found = search.closed(search.started())
        found = closed_over_releases(found, chosen, search.asked, search, zeros=self.zeros)
        if self.restore and not tables.history:  # cells hidden for earlier releases are not known to be superfluous
            found = search.restored(found)
        found = hidden_statistics(found, chosen)
        return found.having({}, step=search.step(found))

    def _require_known_labels(self, tables: TableSet, chosen: Sequence[str]) -> None:
        """Refuse a column that no table of the stage has."""
        for what in ("fixed", "avoid"):
            for pattern in getattr(self, what):
                if not any(_has_columns(tables.tables[name].cells, pattern) for name in chosen):
                    columns = sorted({each.name for name in chosen for each in tables.tables[name].cells.dimensions})
                    raise UsageError(
                        f"suppress_table: {what}: no table has all of {', '.join(map(repr, pattern))} as dimensions; "
                        f"there are {', '.join(columns)}"
                    )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(method="gauss", cost="cells")]


def _has_columns(cells: Cells, pattern: Mapping[str, str]) -> bool:
    return set(pattern) <= {dimension.name for dimension in cells.dimensions}


def bearing(cells: Cells, patterns: Sequence[Mapping[str, str]], what: str) -> Bools:
    """Cells that have exactly the labels of one of some patterns; patterns with columns of other tables match none.

    Raises
    ------
    UsageError
        A pattern names a label that the table does not have.
    """
    found = np.zeros(len(cells), dtype=np.bool_)
    names = [dimension.name for dimension in cells.dimensions]
    for pattern in patterns:
        if not _has_columns(cells, pattern):
            continue
        inside = np.ones(len(cells), dtype=np.bool_)
        for column, label in pattern.items():
            place = names.index(column)
            codes = cells.dimensions[place].codes
            if label not in codes:
                raise UsageError(
                    f"suppress_table: {what}: dimension {column!r} has no such label as the one written there"
                )
            inside &= cells.codes[:, place] == codes[label]
        found |= inside
    return found


@dataclass
class _Joint:
    """One search over the tables of a release."""

    stage: SuppressTable
    tables: TableSet
    chosen: tuple[str, ...]
    found: dict[str, Suppression] = field(default_factory=dict)
    apart: dict[str, Bools] = field(default_factory=dict)
    before: dict[str, Bools] = field(default_factory=dict)
    """Cells whose persons have a figure in an earlier release, by table: hiding them is in vain."""

    def __post_init__(self) -> None:
        asked = next((each for each in self.tables.guarantees if isinstance(each, TableAudit)), TableAudit())
        self.asked = replace(asked, tables=None, time_limit=self.stage.time_limit)

    def started(self) -> TableSet:
        """The tables with their unsafe cells hidden, and those that an earlier run hid."""
        now = {name: self.tables.tables[name] for name in self.chosen}
        kept = {} if self.stage.pattern is None else kept_pattern(self.stage.pattern, now)
        primary = {name: np.logical_or.reduce(list(self._unsafe(table).values())) for name, table in now.items()}
        self.before = fixed_cells(self.tables, primary)
        changed = {}
        for name, table in now.items():
            if self.stage.show is not None:
                table = _marking(table, self._frequency(name))
            unsafe = self._unsafe(table)
            fixed = bearing(table.cells, self.stage.fixed, "fixed")
            for key, cells in unsafe.items():
                only = None if self.stage.share_pattern or key == COUNT else key
                table = table.hiding(cells, cells, only=only)
            lost = int((np.logical_or.reduce(list(unsafe.values())) & fixed).sum())
            if lost:
                raise NoSolutionError(
                    f"suppress_table: {lost:,} unsafe cells of table {name!r} are `fixed`, so nothing can hide them; "
                    "take them from `fixed`, give fewer labels, or ask for a lower minimum"
                )
            for key, cells in kept.get(name, {}).items():
                if key in table.measures:
                    only = None if self.stage.share_pattern or key == COUNT else key
                    table = table.hiding(cells & ~fixed, only=only)
            changed[name] = table
        return self.tables.having(changed)

    def _unsafe(self, table: Table) -> dict[str, Bools]:
        """By measure, cells that must not be published; of groups those of the count, which hide their row."""
        found = {key: np.zeros(len(table), dtype=np.bool_) for key in (COUNT, *table.shown_measures)}
        for key in table.shown_measures:
            for rule in rules_of(self.tables, key)[table.name]:
                found[key] |= rule.unsafe(table.measures[key].figures)
        for guarantee in self.tables.guarantees:
            if isinstance(guarantee, GroupDisclosure) and (guarantee.tables is None or table.name in guarantee.tables):
                found[COUNT] |= guarantee.children(table, self.tables.sensitive)
        return found

    def _frequency(self, name: str) -> MinimumFrequency:
        """The rule whose n the marks of a table show."""
        asked = [
            each
            for each in self.tables.guarantees
            if isinstance(each, MinimumFrequency)
            and (each.tables is None or name in each.tables)
            and each.response in (None, COUNT)
        ]
        plain = [each for each in asked if each.count == "contributors" and not each.population and each.at_least > 1]
        if not plain or len(plain) < len(asked):
            raise UsageError(
                f"suppress_table: `show: below` marks counts under n of minimum_frequency; table {name!r} has no such "
                "guarantee about contributors with n of at least 2, or has another one as well"
            )
        return max(plain, key=lambda each: each.at_least)

    def closed(self, tables: TableSet) -> TableSet:
        """The tables with cells hidden until no measure needs more.

        Raises
        ------
        NoSolutionError
        """
        found = tables
        for _ in range(MOST_ROUNDS):
            before = found
            for family in self._families(found):
                found = self._hidden(found, family.key)
            found = self._without_differences(found)
            if all(_same(found.tables[name], before.tables[name]) for name in self.chosen):
                return found
        raise NoSolutionError("suppress_table: measures of one table kept asking for more cells; nothing was hidden")

    def _families(self, tables: TableSet) -> list[Family]:
        """The measures, contributors first: where those are hidden, sums are too.

        Other tables that show unsafe cells are not finished: another stage follows, or the gate refuses them.
        """
        finished = {name: table for name, table in tables.tables.items() if name in self.chosen or self._is_safe(table)}
        return sorted(families(finished, tables.joint), key=lambda family: family.key != COUNT)

    def _is_safe(self, table: Table) -> bool:
        unsafe = self._unsafe(table)
        return not any((unsafe[key] & ~table.measures[key].hidden).any() for key in table.shown_measures)

    def _hidden(self, tables: TableSet, key: str) -> TableSet:
        """The tables with the cells hidden that one measure needs in addition."""
        family = next(each for each in self._families(tables) if each.key == key)
        rules = rules_of(tables, key)
        if not any(rules.values()) and not group_levels(tables, family) and not self.apart:
            return tables
        problem, hiding = self._hiding(tables, family)
        every = list({id(rule): rule for own in rules.values() for rule in own}.values())

        def unsafe(populations: ImpliedPopulations) -> Bools:
            return family.with_populations(populations).implied_failures(every)

        pattern = suppress(
            hiding,
            family.cells,
            method=self.stage.method,
            rules=self._named(tables, family, hiding.levels),
            implied=unsafe if self.asked.implied else None,
            limits=Limits(nodes=self.stage.nodes),
            time_limit=self.stage.time_limit,
            published=family.published,
        )
        self.found.setdefault(key, pattern)
        return self._with(tables, family, pattern.hidden & ~family_hidden(family, len(problem.low)))

    def _without_differences(self, tables: TableSet) -> TableSet:
        """The tables with one cell hidden of each small difference: the cheaper one that may be.

        Raises
        ------
        NoSolutionError
            None may be.
        """
        for guarantee in tables.guarantees:
            if not isinstance(guarantee, Differencing):
                continue
            judged = list(tables.chosen(guarantee.tables).values())
            cost = np.concatenate([self._prices_of(table, COUNT) for table in judged])
            free = np.concatenate([self._free(table, COUNT) for table in judged])
            failures, gone, lost = guarantee.failures(tables), np.zeros(len(free), dtype=np.bool_), 0
            pairs = zip(failures.outer.tolist(), failures.inner.tolist(), strict=True)
            for cells in (*pairs, *((rest,) for rest in failures.rests.tolist())):
                among = [cell for cell in cells if free[cell]]
                lost += not among
                if among and not gone[list(cells)].any():
                    gone[min(among, key=lambda cell: (cost[cell], cell))] = True
            if lost and all(table.name in self.chosen for table in judged):
                raise NoSolutionError(
                    f"suppress_table: differencing: {lost:,} small differences are between cells that are `fixed`; "
                    "take cells from `fixed`, or give fewer labels"
                )
            parts = np.split(gone, np.cumsum([len(table) for table in judged])[:-1])
            changed = {}
            for table, part in zip(judged, parts, strict=True):
                if part.any():
                    changed[table.name] = table.hiding(part)
                    self.apart[table.name] = part | self.apart.get(table.name, np.False_)
            tables = tables.having(changed)
        return tables

    def _kept_apart(self, family: Family) -> Levels:
        """Cells hidden because of a difference, which must not be computable either."""
        own = [
            variable[self.apart[table.name]]
            for table, variable in zip(family.tables[: family.published], family.cells.variables, strict=False)
            if table.name in self.apart and family.key == COUNT
        ]
        variables = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *own])).astype(np.int64)
        none = np.zeros(len(variables), dtype=np.int64)
        return Levels(variables, none, none, none)

    def _with(self, tables: TableSet, family: Family, more: Bools) -> TableSet:
        """The tables with more variables of a family hidden."""
        only = None if self.stage.share_pattern or family.key == COUNT else family.key
        changed = {}
        for table, variable in zip(family.tables[: family.published], family.cells.variables, strict=False):
            if table.name in self.chosen and more[variable].any():
                changed[table.name] = tables.tables[table.name].hiding(more[variable], only=only)
        return tables.having(changed)

    def _hiding(self, tables: TableSet, family: Family) -> tuple[AuditProblem, Hiding]:
        """Cells of a family that can be hidden, and figures that must not follow from the rest."""
        problem = audit_problem(tables, family, self.asked)
        if problem.levels is None or problem.true is None:
            raise TypeError("an audit of tables with their true values has levels")
        more = len(problem.low) - family.cells.size
        given = family_hidden(family, len(problem.low))
        levels = _levels_of(merged_levels([problem.levels, self._kept_apart(family)]), given)
        blank = Family(
            family.key,
            tuple(table.hiding(np.ones(len(table), dtype=np.bool_)) for table in family.tables),
            family.published,
            family.cells,
        ).problem(levels, prior=self.asked.known_share, knowing=(), implied=np.zeros(0, dtype=np.bool_))
        candidates = np.concatenate([self.candidates(family), np.zeros(more, dtype=np.bool_)])
        nothing = np.zeros(family.cells.size, dtype=np.bool_)
        price = np.concatenate([self.prices(family, nothing), np.ones(more, dtype=np.int64)])
        hiding = Hiding(
            relations=problem.relations,
            true=problem.true,
            low=np.where(candidates | given, blank.low, problem.low),
            high=np.where(candidates | given, blank.high, problem.high),
            cost=np.where(given, 1, price),
            candidates=candidates & ~given,
            levels=levels,
            whole=problem.whole,
            knowing=problem.knowing,
            insider_levels=problem.insider_levels,
            given=given,
            shown=(problem.low, problem.high),
            additive=family.adds_up,
        )
        return problem, hiding

    def prices(self, family: Family, already: Bools) -> Ints:
        """The price of hiding each variable of a family: 1 if it is hidden already."""
        found = np.ones(family.cells.size, dtype=np.int64)
        for table, variable in zip(family.tables[: family.new], family.cells.variables, strict=False):
            found[variable] = self._prices_of(table, family.key)
        return np.where(already, 1, found)

    def candidates(self, family: Family) -> Bools:
        """Variables that the stage may hide: free in all tables of this release that show them."""
        found = np.zeros(family.cells.size, dtype=np.bool_)
        barred = np.zeros(family.cells.size, dtype=np.bool_)
        for table, variable in zip(family.tables[: family.new], family.cells.variables, strict=False):
            free = self._free(table, family.key)
            found[variable[free]] = True
            barred[variable[~free]] = True
        return found & ~barred

    def _prices_of(self, table: Table, key: str) -> Ints:
        """The price of each cell of a table when a measure needs it."""
        own, by_column = table.measures[key].figures, self.stage.cost not in COSTS
        magnitudes = own.magnitudes
        if by_column and table.name in self.chosen:
            if self.stage.cost not in table.measures or self.stage.cost == COUNT:
                known = ", ".join([*COSTS, *(name for name in table.measures if name != COUNT)])
                raise UsageError(
                    f"suppress_table: cost: table {table.name!r} adds up no column {self.stage.cost!r}; give one of "
                    f"{known}"
                )
            magnitudes = table.measures[self.stage.cost].figures.magnitudes
        price = costs("value" if by_column else self.stage.cost, magnitudes, own.contributors)
        return np.where(bearing(table.cells, self.stage.avoid, "avoid"), price * AVOIDED, price)

    def _free(self, table: Table, key: str) -> Bools:
        """Cells of a table that may be hidden: in a table of the stage, neither fixed nor empty."""
        if table.name not in self.chosen:
            return np.zeros(len(table), dtype=np.bool_)
        empty = table.measures[key].figures.contributors == 0
        if self.stage.zeros:
            empty &= self._structural(table)
        fixed = bearing(table.cells, self.stage.fixed, "fixed") | self.before.get(table.name, np.False_)
        return np.asarray(~empty & ~fixed, dtype=np.bool_)

    def _structural(self, table: Table) -> Bools:
        """Cells that everyone knows to be empty."""
        found = np.zeros(len(table), dtype=np.bool_)
        for each in self.tables.guarantees:
            if isinstance(each, MinimumFrequency) and (each.tables is None or table.name in each.tables):
                found |= pattern_mask(table.cells, each.structural, "minimum_frequency: structural")
        return found

    def _named(self, tables: TableSet, family: Family, levels: Levels) -> list[str]:
        """Of each sensitive variable the guarantee that makes it so, for messages."""
        names = dict.fromkeys(levels.variables.tolist(), "group_disclosure or differencing")
        for guarantee in reversed(tables.guarantees):
            if not isinstance(guarantee, PrimaryRule):
                continue
            judged = tables.chosen(guarantee.tables)
            for table, variable in zip(family.tables[: family.published], family.cells.variables, strict=False):
                figures = dict(guarantee.measures(table)).get(family.key) if table.name in judged else None
                if figures is not None:
                    for each in variable[guarantee.rule.unsafe(figures)].tolist():
                        names[each] = guarantee.name()
        return [names[variable] for variable in levels.variables.tolist()]

    def restored(self, tables: TableSet) -> TableSet:
        """The tables with cells published that are exact anyway and unsafe nowhere, if all of it still passes."""
        changed = {name: tables.tables[name] for name in self.chosen}
        for key, exact in self._exact(tables).items():
            for name, cells in exact.items():
                table = changed[name]
                keys = list(table.measures) if self.stage.share_pattern else [key]
                measures = {
                    each: replace(table.measures[each], hidden=table.measures[each].hidden & ~cells) for each in keys
                }
                changed[name] = replace(table, measures={**table.measures, **measures})
        found = tables.having(changed)
        if all(_same(found.tables[name], tables.tables[name]) for name in self.chosen):
            return tables
        for family in self._families(found):
            rules = rules_of(found, family.key)
            judged = any(rules.values()) or group_levels(found, family)
            if judged and not audited(found, family, audit_problem(found, family, self.asked), self.asked).passed:
                return tables
        return found

    def _exact(self, tables: TableSet) -> dict[str, dict[str, Bools]]:
        """By measure and table, hidden cells that no rule calls unsafe and that have one value."""
        found: dict[str, dict[str, Bools]] = {}
        for family in self._families(tables):
            problem = audit_problem(tables, family, self.asked)
            hidden = family_hidden(family, len(problem.low))
            sensitive = problem.levels.variables if problem.levels is not None else np.empty(0, dtype=np.int64)
            hidden[sensitive] = False
            hidden[family.cells.size :] = False
            variables = np.flatnonzero(hidden)
            none = np.zeros(len(variables), dtype=np.int64)
            asked = replace(problem, levels=Levels(variables, none, none, none), knowing=(), implied=None)
            result = audit(asked, time_limit=self.stage.time_limit)
            known = np.isin(result.kinds, [Kind.EXACT, Kind.RECOMPUTABLE])
            exact = np.zeros(len(problem.low), dtype=np.bool_)
            exact[variables[known]] = True
            for table, variable in zip(family.tables[: family.published], family.cells.variables, strict=False):
                if table.name in self.chosen:
                    found.setdefault(family.key, {})[table.name] = exact[variable] & ~table.primary
        if self.stage.share_pattern:
            merged: dict[str, Bools] = {}
            for name in self.chosen:
                merged[name] = np.logical_and.reduce([own[name] for own in found.values() if name in own])
            return {COUNT: merged}
        return {key: {name: self._apart(tables, found, key, name) for name in own} for key, own in found.items()}

    def _apart(self, tables: TableSet, found: Mapping[str, Mapping[str, Bools]], key: str, name: str) -> Bools:
        """Exact figures of a sum whose count is published, or will be."""
        if key == COUNT:
            return found[key][name]
        counted = ~tables.tables[name].measures[COUNT].hidden | found.get(COUNT, {}).get(name, np.False_)
        return np.asarray(found[key][name] & counted, dtype=np.bool_)

    def step(self, tables: TableSet) -> dict[str, Any]:
        """What was done, in private: losses, costs with their bounds, and the pattern."""
        chosen = {name: tables.tables[name] for name in self.chosen}
        return {
            "tables": {
                name: {
                    "primary": int(table.primary.sum()),
                    "responses": {response: loss.to_dict() for response, loss in losses(table).items()},
                }
                for name, table in chosen.items()
            },
            "measures": {
                key: {"cost": found.cost, "bound": found.bound, "gap": found.gap, "repaired": found.repaired}
                for key, found in self.found.items()
            },
            "pattern": {name: pattern_of(table) for name, table in chosen.items()},
        }


def family_hidden(family: Family, size: int) -> Bools:
    """Variables that no table publishes, and those after the cells, which represent inequalities."""
    found = np.ones(size, dtype=np.bool_)
    found[: family.cells.size] = family.hidden
    return found


def _levels_of(levels: Levels, hidden: Bools) -> Levels:
    """The levels of hidden variables; cells that another stage has yet to hide are judged at the end."""
    kept = hidden[levels.variables]
    return Levels(levels.variables[kept], levels.lower[kept], levels.upper[kept], levels.span[kept], levels.denominator)


def _same(table: Table, before: Table) -> bool:
    return all(np.array_equal(each.hidden, before.measures[key].hidden) for key, each in table.measures.items())


def _marking(table: Table, asked: MinimumFrequency) -> Table:
    """A table whose hidden counts are marked where they are below n: readers know of each blank on which side it is.

    A blank without a mark is 0 or at least n. Empty cells count as known to be empty, and n as the least of
    the others: an attacker who knows less learns less.
    """
    measure = table.measures[COUNT]
    counts = measure.figures.contributors
    small = counts < asked.at_least
    unsafe_zeros = asked.zeros == "unsafe"
    low = np.where(small, 0 if unsafe_zeros else 1, asked.at_least)
    high = np.where(small, asked.at_least - 1, UNBOUNDED)
    if unsafe_zeros:
        known = pattern_mask(table.cells, asked.structural, "minimum_frequency: structural")
    else:
        known = counts == 0
    blank = np.where(known, 0, low).astype(np.int64), np.where(known, 0, high).astype(np.int64)
    marked = replace(measure, blank=blank, below=asked.at_least)
    return replace(table, measures={**table.measures, COUNT: marked})
