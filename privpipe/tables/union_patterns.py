"""Cells to hide because of what earlier releases show, whose figures are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import NoSolutionError
from privpipe.tables.audit_problem import UNBOUNDED
from privpipe.tables.entries import TableSet
from privpipe.tables.families import Family
from privpipe.tables.implied_populations import ImpliedPopulations
from privpipe.tables.moves import Hiding
from privpipe.tables.primary_rules import Rule
from privpipe.tables.suppression import repaired
from privpipe.tables.table_audit import TableAudit, audit_problem, rules_of
from privpipe.tables.union_families import UnionFamily, seen_together

__all__ = ["Prices", "closed_over_releases", "fixed_cells"]

MOST_ROUNDS = 50
SHOWN_BEFORE = (
    "suppress_table: {cells:,} unsafe cells are of persons whose figure an earlier release published, and hiding it "
    "now hides nothing; make the cells of the table coarser, or leave these tables out"
)
NEXT_TO_EARLIER = (
    "what earlier releases of the ledger published is fixed, and may give these cells away whatever is hidden now"
)
NO_PAIR = (
    "suppress_table: {pairs:,} differences between figures of this release and of earlier ones are unsafe, and no cell "
    "that may be hidden is in them; make the cells of the table coarser, or take cells out of `fixed`"
)


class Prices(Protocol):
    """What hiding cells of a family costs, and which may be hidden at all."""

    def prices(self, family: Family, already: Bools) -> Ints:
        """The price of each variable, at least 1."""

    def candidates(self, family: Family) -> Bools:
        """Variables that may be hidden."""


def fixed_cells(tables: TableSet, primary: Mapping[str, Bools]) -> dict[str, Bools]:
    """Cells of the new tables, by table, whose persons have a figure in an earlier release; hiding them is in vain.

    Parameters
    ----------
    primary : mapping of str to ndarray of bool
        Unsafe cells of the tables.

    Raises
    ------
    NoSolutionError
        One of them is unsafe.
    """
    found = {name: np.zeros(len(cells), dtype=np.bool_) for name, cells in primary.items()}
    for family in seen_together(tables, tables.tables) if tables.history else ():
        if isinstance(family, UnionFamily):
            for table, variables in zip(family.tables[: family.new], family.cells.variables, strict=False):
                if table.name in found:
                    found[table.name] |= family.before[variables]
    shown = sum(int((found[name] & cells).sum()) for name, cells in primary.items())
    if shown:
        raise NoSolutionError(SHOWN_BEFORE.format(cells=shown))
    return found


def closed_over_releases(
    tables: TableSet, names: Sequence[str], asked: TableAudit, prices: Prices, *, zeros: bool
) -> TableSet:
    """The tables with further cells hidden, so that the audit over all releases passes.

    Parameters
    ----------
    names : sequence of str
        Tables whose cells may be hidden.
    zeros : bool
        Empty cells may be hidden too.

    Raises
    ------
    NoSolutionError
        What earlier releases published cannot be protected any more.
    """
    if not tables.history:
        return tables
    for _ in range(MOST_ROUNDS):
        work = _Round(tables, tuple(names), asked, prices, zeros)
        found = work.hidden()
        if found is None:
            return tables
        tables = found
    raise NoSolutionError("suppress_table: earlier releases kept asking for more hidden cells; nothing was hidden")


@dataclass(frozen=True)
class _Round:
    tables: TableSet
    names: tuple[str, ...]
    asked: TableAudit
    prices: Prices
    zeros: bool

    def hidden(self) -> TableSet | None:
        """The tables with more hidden; None where nothing is missing."""
        families = seen_together(self.tables, self.tables.tables, max_classes=self.asked.max_atoms, zeros=self.zeros)
        for family in families:
            if isinstance(family, UnionFamily):
                rules = rules_of(self.tables, family.key)
                every = list({id(rule): rule for own in rules.values() for rule in own}.values())
                more = self._differences(family, every)
                if not more.any():
                    more = self._repaired(family, every)
                if more.any():
                    return self._hiding(family, more)
        return None

    def _candidates(self, family: UnionFamily) -> Bools:
        """New cells that may be hidden: in every table that shows them, and in no earlier one."""
        found = self.prices.candidates(family) & family.now & ~family.before
        for table, variables in zip(family.tables[: family.new], family.cells.variables, strict=False):
            if table.name not in self.names:
                found[variables] = False
        return found

    def _differences(self, family: UnionFamily, rules: Sequence[Rule]) -> Bools:
        """For each unsafe difference of two releases, the cheaper cell that may be hidden."""
        more = np.zeros(family.cells.size, dtype=np.bool_)
        if not self.asked.implied:
            return more
        failing = family.implied_failures(rules)
        outer, inner = family.nested
        pairs = np.flatnonzero(failing[len(failing) - len(outer) :])
        candidates = self._candidates(family)
        price = self.prices.prices(family, family.hidden)
        wrong = 0
        for at in pairs.tolist():
            ends = np.array([outer[at], inner[at]])
            if more[ends].any():
                continue
            ends = ends[candidates[ends]]
            if len(ends):
                more[ends[np.argmin(price[ends])]] = True
            else:
                wrong += 1
        if wrong:
            raise NoSolutionError(NO_PAIR.format(pairs=wrong))
        return more

    def _repaired(self, family: UnionFamily, rules: Sequence[Rule]) -> Bools:
        """Further cells that the audit of all releases needs."""
        none = np.zeros(family.cells.size, dtype=np.bool_)
        problem = audit_problem(self.tables, family, self.asked)
        if problem.levels is None or not len(problem.levels.variables):
            return none
        shown = int(family.before[problem.levels.variables].sum())
        if shown:
            raise NoSolutionError(SHOWN_BEFORE.format(cells=shown))
        already = family.hidden
        low = np.full(family.cells.size, 0 if family.least is not None else UNBOUNDED, dtype=np.int64)
        high = np.full(family.cells.size, UNBOUNDED, dtype=np.int64)
        if self.asked.prior is not None:
            low, high = np.where(already, problem.low, low), np.where(already, problem.high, high)
        hiding = Hiding(
            relations=family.cells.relations,
            true=family.true,
            low=low,
            high=high,
            cost=self.prices.prices(family, already),
            candidates=self._candidates(family) | already,
            levels=problem.levels,
            whole=problem.whole,
            knowing=problem.knowing,
            insider_levels=problem.insider_levels,
        )

        def unsafe(populations: ImpliedPopulations) -> Bools:
            return family.with_populations(populations).implied_failures(rules)

        try:
            found = repaired(
                hiding,
                family.cells,
                already | hiding.primary,
                implied=unsafe if self.asked.implied else None,
                time_limit=self.asked.time_limit,
            )
        except NoSolutionError as error:
            raise NoSolutionError(f"{error}; {NEXT_TO_EARLIER}") from None
        return np.asarray(found & ~already, dtype=np.bool_)

    def _hiding(self, family: UnionFamily, more: Bools) -> TableSet:
        changed = {}
        for table, variables in zip(family.tables[: family.new], family.cells.variables, strict=False):
            own = self.tables.tables[table.name]
            added = more[variables] & ~own.measures[family.key].hidden
            if added.any():
                changed[table.name] = own.hiding(added)
        return self.tables.having(changed)
