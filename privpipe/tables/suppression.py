"""Secondary suppression: cells to hide so that no sensitive cell can be worked out, closed by the audit and kept
for the next run.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables.cells import Cells, LinkedCells
from privpipe.tables.exact_audit import AuditResult, Kind, audit
from privpipe.tables.hierarchical_patterns import hierarchical
from privpipe.tables.implied_populations import ImpliedPopulations, implied_populations
from privpipe.tables.least_cost_patterns import Limits, least_cost, linear_pattern
from privpipe.tables.moves import Hiding, Requirement, cheapest_move, joint_move
from privpipe.tables.table import Table

__all__ = [
    "AVOIDED",
    "COSTS",
    "METHODS",
    "Suppression",
    "costs",
    "kept_pattern",
    "label_order",
    "pattern_of",
    "repaired",
    "suppress",
]


METHODS = ("auto", "optimal", "hierarchical", "gauss")
COSTS = ("value", "cells", "contributors", "root")
LARGEST_INTEGER = int(np.iinfo(np.int64).max)
OPTIMAL_SIZE = 300
"""Cells to choose from in one component up to which ``auto`` looks for the least cost."""
OPTIMAL_CELLS = 3_000
"""Largest component, in cells, for which it does; unpublished cells count."""
SINGLE_REPAIRS = 200
"""Failing requirements up to which each gets its own cheapest move."""
MOST_REPAIRS = 50
AVOIDED = 100
"""How much more an avoided cell costs."""

Unsafe = Callable[[ImpliedPopulations], Bools]
"""Which populations that published cells imply fail the primary rules."""


def costs(kind: str, totals: Ints, contributors: Ints) -> Ints:
    """The price of hiding each cell, at least 1.

    Parameters
    ----------
    kind : str
        ``value``: |X|. ``cells``: 1. ``contributors``: N. ``root``: the square root of 100 |X|, rounded down.
    totals, contributors : ndarray of int64
        X and N of each cell; of counts X is N.

    Raises
    ------
    DataError
        If totals are too large.

    Examples
    --------
    >>> costs("root", np.array([0, 2, 50]), np.array([0, 1, 9])).tolist()
    [1, 14, 70]
    """
    size = np.abs(totals)
    if kind == "cells":
        return np.ones(len(totals), dtype=np.int64)
    if kind not in COSTS:
        raise UsageError(f"suppress_table: cost is one of {', '.join(COSTS)} or a column, not {kind!r}")
    if int(size.max(initial=0)) > LARGEST_INTEGER // (100 * AVOIDED):
        raise DataError("suppress_table: totals are too large for costs in 64 bits; publish them in larger units")
    if kind == "root":
        root = np.sqrt(100.0 * size).astype(np.int64)
        root -= root * root > 100 * size
        root += (root + 1) * (root + 1) <= 100 * size
        return np.maximum(root, 1)
    return np.maximum(size if kind == "value" else contributors, 1)


def label_order(linked: LinkedCells) -> Ints:
    """The place of each cell in the order of the texts ``"dim=label, ..."``, which breaks ties."""
    names: list[str] = [""] * linked.size
    for table, variables in zip(linked.tables, linked.variables, strict=True):
        for cell, variable in enumerate(variables.tolist()):
            names[variable] = names[variable] or table.name(cell)
    place = np.empty(linked.size, dtype=np.int64)
    place[sorted(range(linked.size), key=names.__getitem__)] = np.arange(linked.size)
    return place


@dataclass(frozen=True)
class Suppression:
    """A pattern of hidden cells that the audit has passed.

    Parameters
    ----------
    hidden : ndarray of bool, shape (cells,)
        Sensitive cells and those hidden for their sake.
    cost : int
        Of the cells that are hidden without being sensitive.
    bound : int or None
        No pattern costs less; None if nothing is known.
    repaired : int
        Cells that the audit of the whole table showed to be needed in addition.
    audit : AuditResult
        Of this pattern.
    """

    hidden: Bools
    cost: int
    bound: int | None
    repaired: int
    audit: AuditResult = field(repr=False)

    @property
    def gap(self) -> float | None:
        """How much of the cost may be unnecessary, at most; None if nothing is known."""
        if self.bound is None:
            return None
        return 0.0 if self.cost == self.bound else (self.cost - self.bound) / self.cost


def suppress(
    hiding: Hiding,
    linked: LinkedCells,
    *,
    method: str = "auto",
    rules: Sequence[str] = (),
    implied: Unsafe | None = None,
    limits: Limits | None = None,
    time_limit: float = 600.0,
    published: int | None = None,
) -> Suppression:
    """Hide cells until the audit finds every sensitive cell protected.

    The pattern is the same on every machine: searches end by work, not by time. Time only ends the audit, and a
    pattern that it has not proved to be safe is never returned.

    Parameters
    ----------
    hiding : Hiding
    linked : LinkedCells
        The tables of its relations; relations of `hiding` may have more variables, none of which is published.
    method : str
        ``optimal``, ``hierarchical``, ``gauss``; or ``auto``: optimal for components of up to 300 cells to choose
        from, the others hierarchical for sums and gauss for counts.
    rules : sequence of str
        The rule that made each of `hiding.levels` sensitive, for messages.
    implied : callable or None
        Which implied populations fail the primary rules; none is judged unless given.
    limits : Limits or None
        Of optimal searches.
    time_limit : float
        Seconds of each audit.
    published : int or None
        How many of the tables are published: the first ones; default: all.

    Raises
    ------
    NoSolutionError
        If sensitive cells cannot be protected, or were not proved to be.
    """
    if method not in METHODS:
        raise UsageError(f"suppress_table: method is one of {', '.join(METHODS)}, not {method!r}")
    shown = LinkedCells(linked.tables[:published], linked.variables[:published], linked.relations)
    search = _Suppressing(hiding, linked, shown, tuple(rules), limits, implied, time_limit)
    hidden, bound = search.first(method)
    hidden, passed, repaired = search.closed(hidden, optimal=bound is not None)
    cost = hiding.price(hidden)
    return Suppression(hidden, cost, None if bound is None else min(bound, cost), repaired, passed)


def repaired(
    hiding: Hiding, linked: LinkedCells, hidden: Bools, *, implied: Unsafe | None = None, time_limit: float = 600.0
) -> Bools:
    """A pattern with the further cells that the audit needs.

    Parameters
    ----------
    hidden : ndarray of bool, shape (cells,)
        The pattern; its hidden cells stay hidden.

    Raises
    ------
    NoSolutionError
        Sensitive cells cannot be protected, or were not proved to be.
    """
    return _Suppressing(hiding, linked, linked, (), None, implied, time_limit).closed(hidden, optimal=True)[0]


class _Suppressing:
    """What does not change while patterns of one table are tried."""

    def __init__(
        self,
        hiding: Hiding,
        linked: LinkedCells,
        shown: LinkedCells,
        rules: tuple[str, ...],
        limits: Limits | None,
        implied: Unsafe | None,
        time_limit: float,
    ) -> None:
        self.hiding, self.linked, self.shown, self.rules, self.limits = hiding, linked, shown, rules, limits
        self.implied, self.time_limit, self.follows = implied, time_limit, hiding.additive and implied is not None

    def first(self, method: str) -> tuple[Bools, int | None]:
        """A pattern by one method, with a bound on the cost if all of it has one."""
        hiding, hidden = self.hiding, self.hiding.required.copy()
        if method == "gauss":
            return self._linear(hidden, hiding.open), None
        if method == "hierarchical":
            return self._by_subtables(hidden), None
        cells = [part for part in hiding.components(hiding.required | hiding.open) if hiding.primary[part].any()]
        small = [part for part in cells if method == "optimal" or self._is_small(part)]
        bounds = [self._least_cost(part, hidden) for part in small]
        if len(small) == len(cells):
            return hidden, sum(bounds)
        if hiding.whole:
            among = np.zeros(len(hiding), dtype=np.bool_)
            among[np.concatenate(cells)] = True
            for part in small:
                among[part] = False
            return self._linear(hidden, among & hiding.open), None
        return self._by_subtables(hidden), None

    def _is_small(self, cells: Ints) -> bool:
        return int(self.hiding.open[cells].sum()) <= OPTIMAL_SIZE and len(cells) <= OPTIMAL_CELLS

    def _by_subtables(self, hidden: Bools) -> Bools:
        if len(self.hiding) > self.linked.size:
            # Parts do not add up to their totals: subtables mean nothing, and the repair does all.
            return hidden
        return hierarchical(self.hiding, self.shown, hidden)

    def _least_cost(self, cells: Ints, hidden: Bools) -> int:
        """Hide cells of one component for the least cost; a bound on it."""
        part = self.hiding.part(cells)
        covers: list[Ints] = []
        while True:
            found = least_cost(part, self.limits, covers)
            if found.unattainable:
                raise self._impossible(cells[list(found.unattainable)].tolist())
            hidden[cells] = found.hidden
            more = []
            for demand in self._demands(hidden)[1]:
                mine = np.flatnonzero(np.isin(cells, demand) & part.open)
                if len(mine):
                    more.append(mine)
            if not more:
                return found.bound
            covers += more

    def _linear(self, hidden: Bools, among: Bools) -> Bools:
        """Publish cells by falling value, ties by labels, as long as linear algebra allows it."""
        hiding = self.hiding
        cells = np.flatnonzero(among)
        order = cells[np.lexsort((label_order(self.shown)[cells], -np.abs(hiding.true[cells])))]
        given = np.flatnonzero(hidden & ~hiding.primary)
        found = linear_pattern(hiding.relations, hiding.primary, order.tolist(), given=given.tolist())
        return np.asarray(hidden | found, dtype=np.bool_)

    def closed(self, hidden: Bools, *, optimal: bool) -> tuple[Bools, AuditResult, int]:
        """The pattern with the further cells that the audit needs, its last audit, and their number."""
        before = int(hidden.sum())
        if len(self.hiding.requirements) > SINGLE_REPAIRS and not optimal:
            # To prove that many cells fail takes longer than to see it in floats.
            hidden = self._repaired(hidden, [need for need in self.hiding.requirements if not need.held], ())
        for _ in range(MOST_REPAIRS):
            result, failing, covers = self._judged(hidden)
            if result.passed:
                return hidden, result, int(hidden.sum()) - before
            grown = self._repaired(hidden, failing, covers)
            if not (grown & ~hidden).any():
                break
            hidden = grown
        raise self._impossible([need.variable for need in failing], result)

    def _judged(self, hidden: Bools) -> tuple[AuditResult, list[Requirement], list[Ints]]:
        """The audit of a pattern, requirements that it does not show to be met, and further cells to hide."""
        unsafe, covers = self._demands(hidden)
        problem = replace(self.hiding.problem(hidden), implied=unsafe)
        secondary = np.zeros(len(self.hiding), dtype=np.bool_)
        secondary[np.concatenate(self.shown.variables)] = self.follows
        result = audit(problem, time_limit=self.time_limit, others=secondary)
        if result.passed and self.follows and len(result.determined):
            # A cell that follows from others is as good as published.
            unsafe, covers = self._demands(hidden, result.determined)
            result = replace(result, implied=len(covers))
        failing: list[Requirement] = []
        by_variable: dict[int, list[Requirement]] = {}
        for need in self.hiding.requirements:
            if not need.held:
                by_variable.setdefault(need.variable, []).append(need)
        for at in np.flatnonzero(result.kinds != Kind.HOLDS).tolist():
            needs = by_variable.get(int(result.variables[at]), [])
            shown: dict[tuple[int, ...], bool] = {(1,): bool(result.above[at] >= 0), (-1,): bool(result.below[at] >= 0)}
            missing = [need for need in needs if not shown.get(need.signs, False)]
            failing += missing or needs
        for position, others in result.insiders.items():
            failing += self.hiding.for_insider(problem.knowing[position], others)
        return result, failing, covers

    def _demands(self, hidden: Bools, determined: Ints | None = None) -> tuple[Bools | None, list[Ints]]:
        """Implied populations that fail, and for each the published cells one of which must also be hidden.

        `determined` are hidden cells that a reader can compute.
        """
        if self.implied is None:
            return None, []
        given = None if self.hiding.given is None else self.hiding.given[: self.linked.size]
        empty = None if given is None else given & (self.hiding.high[: self.linked.size] == 0)
        still = hidden.copy()
        if determined is not None:
            still[determined] = False
        seen = still[: self.linked.size]
        found = implied_populations(self.linked, seen, empty=None if empty is None else empty & seen, unseen=given)
        unsafe = self.implied(found)
        by_cell = self.hiding.relations.tocsc()
        return unsafe, [
            self._cover(found, number, hidden, still, by_cell) for number in np.flatnonzero(unsafe).tolist()
        ]

    def _cover(
        self, found: ImpliedPopulations, number: int, hidden: Bools, still: Bools, by_cell: scipy.sparse.csc_array
    ) -> Ints:
        """The published cells that show a population, also by way of others that follow from them.

        Where none of them may be hidden, those that show which of the hidden cells around it are not `still` unknown.
        """
        relations, waiting, looked, cover = self.hiding.relations, [number], {number}, [np.empty(0, dtype=np.int64)]
        while waiting:
            number = waiting.pop()
            of, around = int(found.of[number]), [np.array([found.of[number]])]
            for row in np.unique(by_cell[:, found.members(number)].indices).tolist():
                cells = relations.indices[relations.indptr[row] : relations.indptr[row + 1]]
                parents = cells[relations.data[relations.indptr[row] : relations.indptr[row + 1]] > 0]
                if of in parents or (found.expanded[number] and still[parents].all()):
                    around.append(cells)
            rest = np.unique(np.concatenate(around))
            worked_out = rest[hidden[rest] & ~still[rest]]
            if len(worked_out) and not (self.hiding.open[rest] & ~hidden[rest]).any():
                rest = np.unique(relations[np.unique(by_cell[:, worked_out].indices)].indices)
            cover.append(rest[~hidden[rest]].astype(np.int64))
            more = {found.known_by[each] for each in rest.tolist() if each in found.known_by} - looked
            waiting += sorted(more)
            looked |= more
        return np.unique(np.concatenate(cover))

    def _repaired(self, hidden: Bools, failing: Sequence[Requirement], covers: Sequence[Ints]) -> Bools:
        """The pattern with cheap moves of the cells that fail in it."""
        hiding, grown = self.hiding, hidden.copy()
        for cover in covers:
            among = cover[hiding.open[cover]]
            if len(among) and not (grown[cover] & ~hidden[cover]).any():
                grown[among[np.argmin(hiding.cost[among])]] = True
        single = list(failing)
        if len(failing) > SINGLE_REPAIRS:
            single = [need for need in failing if need.held]
            rest = [need for need in failing if not need.held]
            for sign in (1, -1):
                mine = list({need.variable: need for need in rest if need.signs[0] == sign}.values())
                single += self._jointly(grown, mine, sign)
        for need in single:
            added = cheapest_move(hiding, grown, need)
            if added is not None and not added.any() and hiding.whole and not (grown & ~hidden).any():
                # The way is there in fractions, which is not enough for whole numbers.
                added = cheapest_move(hiding, grown, need, in_whole=True)
            if added is not None:
                grown |= added
        return grown

    def _jointly(self, grown: Bools, needs: list[Requirement], sign: int) -> list[Requirement]:
        """Hide cells of moves that meet many needs at once; those that none met.

        First within the lowest cells, where totals stay unchanged and parts of the table do not touch each other.
        """
        hiding, left = self.hiding, []
        allowed = grown | hiding.open
        by_variable = {need.variable: need for need in needs}
        for cells in hiding.components(allowed & hiding.lowest):
            mine = [by_variable.pop(cell) for cell in cells.tolist() if cell in by_variable]
            among = np.zeros(len(hiding), dtype=np.bool_)
            among[cells] = True
            left += self._until_none(grown, mine, sign, among)
        return self._until_none(grown, [*by_variable.values(), *left], sign, allowed)

    def _until_none(self, grown: Bools, needs: list[Requirement], sign: int, among: Bools) -> list[Requirement]:
        while needs:
            moved, met = joint_move(self.hiding, grown, needs, sign, among)
            grown |= moved
            if not met.any():
                break
            needs = [need for need, reached in zip(needs, met, strict=True) if not reached]
        return needs

    def _impossible(self, variables: Sequence[int], result: AuditResult | None = None) -> NoSolutionError:
        """The error that names the rules of sensitive cells that cannot be protected."""
        at = {variable: place for place, variable in enumerate(self.hiding.levels.variables.tolist())}
        named = Counter(
            self.rules[at[variable]] if self.rules and variable in at else "sensitive" for variable in set(variables)
        )
        parts = [f"{rule}: {count}" for rule, count in sorted(named.items())]
        if result is not None and result.implied:
            parts.append(f"implied populations: {result.implied}")
        if result is not None and result.unproved:
            parts.append(f"not proved either way: {result.unproved}")
        return NoSolutionError(
            f"suppress_table: no pattern was found that protects everything ({', '.join(parts)}): what could hide it "
            "is fixed, zero, structural or too small. Take cells from `fixed`, set `zeros: true`, give fewer labels, "
            "or ask for lower protection levels"
        )


Pattern = Mapping[str, Bools]
STAGE = "suppress_table"


def cells_digest(cells: Cells) -> str:
    """Which cells a table has, in which order."""
    named = [[each.name, list(each.labels), list(each.parent)] for each in cells.dimensions]
    about = json.dumps([named, sorted(cells.only.items())], ensure_ascii=True).encode()
    return hashlib.sha256(about + np.ascontiguousarray(cells.codes, dtype="<i8").tobytes()).hexdigest()


def pattern_of(table: Table) -> dict[str, Any]:
    """The hidden cells of a table as plain JSON without a label: a bit a cell, for each measure."""
    hidden = {
        key: base64.b64encode(np.packbits(table.measures[key].hidden).tobytes()).decode()
        for key in table.shown_measures
    }
    return {"table": cells_digest(table.cells), "cells": len(table), "hidden": hidden}


def kept_pattern(file: str, tables: Mapping[str, Table]) -> dict[str, Pattern]:
    """What the private plan of an earlier run hid of these tables, by table and measure.

    Parameters
    ----------
    file : str
        A plan, or a private record that holds one.
    tables : mapping of str to Table
        As they are counted now.

    Raises
    ------
    DataError
        No such plan, a public edition, or one of tables with other cells.
    """
    found: dict[str, Pattern] = {}
    for detail in _details(file):
        for name, kept in detail.items():
            if name not in tables:
                continue
            table = tables[name]
            if kept["table"] != cells_digest(table.cells):
                raise DataError(
                    f"suppress_table: pattern: the plan is of a table {name!r} with other cells; leave `pattern` out, "
                    "or take the plan of a run with the same labels"
                )
            found[name] = {key: _bits(text, len(table)) for key, text in kept["hidden"].items()}
    missing = [name for name in tables if name not in found]
    if missing:
        raise DataError(f"suppress_table: pattern: the plan has no pattern of table {', '.join(map(repr, missing))}")
    return found


def _details(file: str) -> list[Any]:
    """The patterns of all stages in a plan that hid cells."""
    try:
        document = json.loads(Path(file).read_text())
        stages: Sequence[Any] = document["stages"] if "stages" in document else document["plan"]["stages"]
        return [stage["detail"]["pattern"] for stage in stages if stage["name"] == STAGE]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"suppress_table: pattern: the file is not a private plan of a release of tables ({type(error).__name__}); "
            "give the plan of a private record"
        ) from None


def _bits(text: str, size: int) -> Bools:
    try:
        packed = np.frombuffer(base64.b64decode(text, validate=True), dtype=np.uint8)
    except (binascii.Error, ValueError):
        packed = np.empty(0, dtype=np.uint8)
    if len(packed) != -(-size // 8):
        raise DataError("suppress_table: pattern: the plan is damaged; take another one, or leave `pattern` out")
    return np.unpackbits(packed)[:size].astype(np.bool_)
