"""The audit: whether published figures let a reader estimate a sensitive cell too closely, with proofs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import DataError
from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Integers, Levels
from privpipe.tables.exact_programmes import Point, extreme, feasible_point
from privpipe.tables.insiders import insider_failures
from privpipe.tables.proofs import FAILS, UNPROVED, parts, prove
from privpipe.tables.shrinking import LARGEST, NO_BOUND, OpenSystem, Shrunk, components_of, shrink, tightened
from privpipe.tables.witnesses import Move

__all__ = ["AuditResult", "Intervals", "Kind", "audit", "intervals", "recomputable", "verified"]


def recomputable(problem: AuditProblem, variables: Integers, deadline: float) -> tuple[NDArray[np.bool_], int]:
    """Which of some hidden variables follow from the relations alone, and how many programmes that took.

    A variable is known so if every solution of the relations that is 0 for published variables is 0 for it: all moves
    within -1 and 1, from 0, leave it at 0. Multipliers that make its unit vector from relations prove that exactly.
    """
    hidden = np.flatnonzero(~problem.published)
    matrix = problem.relations[:, hidden]
    matrix = matrix[np.flatnonzero(np.diff(matrix.indptr))]
    ones = np.ones(len(hidden), dtype=np.int64)
    right = np.zeros(matrix.shape[0], dtype=np.int64)
    low, high = tightened(OpenSystem(matrix, right, -ones, ones, False), rounds=len(hidden) + 1)
    place = np.full(len(problem.low), -1, dtype=np.int64)
    open_columns = np.flatnonzero(low < high)
    place[hidden[open_columns]] = np.arange(len(open_columns))
    matrix = matrix[:, open_columns]
    matrix = matrix[np.flatnonzero(np.diff(matrix.indptr))]
    system = OpenSystem(
        matrix, np.zeros(matrix.shape[0], dtype=np.int64), -ones[open_columns], ones[open_columns], False
    )
    found = place[variables] < 0
    found[problem.published[variables]] = True
    columns = place[variables]
    waiting = np.flatnonzero(columns >= 0)
    requirements = (
        columns[waiting],
        np.ones(len(waiting), dtype=np.int64),
        np.zeros(len(waiting), dtype=np.int64),
    )
    base = np.zeros(system.size, dtype=np.int64)
    proofs = prove(system, components_of(matrix), base, requirements, 1, deadline)
    found[waiting[proofs.outcome == FAILS]] = True
    return found, proofs.programmes


Ends = NDArray[np.object_]
"""Of `Fraction`, or None for no bound."""


class Kind(IntEnum):
    """What the audit found of one sensitive cell."""

    HOLDS = 0
    RECOMPUTABLE = 1
    """One value, by sums and differences of published cells alone."""
    EXACT = 2
    """One value, also by what a reader knows of signs and bounds."""
    LEVEL = 3
    """Several values, but not as many as its levels require."""
    UNPROVED = 4


@dataclass(frozen=True, repr=False, eq=False)
class AuditResult:
    """What was proved of each sensitive variable. Private: it holds true values; its text shows counts only.

    Parameters
    ----------
    variables : ndarray of int64
        Sensitive variables, in the order of the levels.
    kinds : ndarray of int64
        A `Kind` for each.
    above, below : ndarray of int64
        For each the number of the move that shows its upper and lower level; -1 for a level of 0, or none.
    moves : list of Move
        Differences of two tables that agree with everything published, over the variables of the problem.
    base : ndarray of int64
        The table that the moves start at, in units of 1/scale: the true one where it is known.
    scale : int
    insiders : dict of int to ndarray of int64
        For each insider that fails, by position, the variables of others that follow from what it knows.
    insiders_unproved : int
    implied : int
        Implied populations that fail.
    determined : ndarray of int64
        Hidden variables that are not sensitive and have one value: those that bounds fix, and those asked for.
    undecided : int
        Requested variables for which neither was proved.
    components, largest_component, programmes : int
    requirements, by_tableaus : int
        Levels of sensitive variables in one direction, and those of them that tableaus of integers settled.
    """

    variables: Integers
    kinds: Integers
    above: Integers
    below: Integers
    moves: list[Move]
    base: Integers
    scale: int
    insiders: dict[int, Integers] = field(default_factory=dict)
    insiders_unproved: int = 0
    implied: int = 0
    determined: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    undecided: int = 0
    components: int = 0
    largest_component: int = 0
    programmes: int = 0
    requirements: int = 0
    by_tableaus: int = 0

    def __repr__(self) -> str:
        return f"AuditResult({len(self.variables)} sensitive cells, {self.counts})"

    @property
    def counts(self) -> dict[str, int]:
        """Failures by kind."""
        found = {kind.name.lower(): int((self.kinds == kind).sum()) for kind in Kind if kind != Kind.HOLDS}
        found["implied"] = self.implied
        found["insider"] = sum(map(len, self.insiders.values()))
        found["unproved"] += self.insiders_unproved + self.undecided
        return found

    @property
    def failures(self) -> int:
        """Sensitive cells, implied populations and targets of insiders that are shown to fail."""
        return sum(count for kind, count in self.counts.items() if kind != "unproved")

    @property
    def unproved(self) -> int:
        return self.counts["unproved"]

    @property
    def passed(self) -> bool:
        """Whether everything is shown to hold."""
        return self.failures == 0 and self.unproved == 0


def audit(problem: AuditProblem, *, time_limit: float = 600.0, others: NDArray[np.bool_] | None = None) -> AuditResult:
    """Whether each sensitive variable keeps its levels, proved in exact integers.

    A side that holds has a witness, a side that fails a certificate; the rest is unproved. Without true values every
    variable that is not published is sensitive.

    Parameters
    ----------
    others : ndarray of bool, shape (variables,), optional
        Variables for which it is also determined whether they have one value, although that is not a failure.

    Raises
    ------
    DataError
        If published figures do not add up, no table agrees with them, or none was found.
    """
    deadline = time.monotonic() + time_limit
    shrunk = shrink(problem)
    base, scale = _base(shrunk, problem, deadline)
    system = _scaled(shrunk.system, scale)
    levels = _levels(problem)
    column = shrunk.place[levels.variables]
    is_open = np.flatnonzero(column >= 0)
    # Sides with a level of 0 need nothing; a variable without any level must only not be exact.
    both = (levels.lower[is_open] <= 0) & (levels.upper[is_open] <= 0)
    target = np.concatenate([is_open[levels.upper[is_open] > 0], is_open[levels.lower[is_open] > 0], is_open[both]])
    ups, downs = int((levels.upper[is_open] > 0).sum()), int((levels.lower[is_open] > 0).sum())
    needs = np.concatenate(
        [levels.upper[target[:ups]], levels.lower[target[ups : ups + downs]], np.zeros(int(both.sum()), dtype=np.int64)]
    )
    signs = np.ones(len(target), dtype=np.int64)
    signs[ups : ups + downs] = -1
    requirements = (column[target], signs, _times(needs, scale))
    proofs = prove(system, shrunk.component, base, requirements, levels.denominator, deadline)
    kinds = np.full(len(levels.variables), Kind.HOLDS, dtype=np.int64)
    kinds[column < 0] = Kind.EXACT
    kinds[target[proofs.outcome == UNPROVED]] = Kind.UNPROVED
    kinds[target[proofs.outcome == FAILS]] = Kind.LEVEL
    never = np.flatnonzero(kinds == Kind.LEVEL)
    never = never[~proofs.moved[column[never]]]
    exact, changed, programmes = _exact(system, shrunk.component, base, column[never], deadline)
    kinds[never[exact == FAILS]] = Kind.EXACT
    farther = _judge_spans(kinds, levels, system, shrunk, base, column, scale, deadline)
    if problem.true is None and problem.at_least is not None:
        _judge_masks(kinds, problem.at_least, system, shrunk, column, deadline)
    known = np.flatnonzero(kinds == Kind.EXACT)
    if len(known):
        linear, more = recomputable(problem, levels.variables[known], deadline)
        kinds[known[linear]] = Kind.RECOMPUTABLE
        programmes += more
    above, below = (np.full(len(levels.variables), -1, dtype=np.int64) for _ in range(2))
    above[target[signs > 0]] = proofs.witness[signs > 0]
    below[target[signs < 0]] = proofs.witness[signs < 0]
    whole_base = shrunk.constants * scale
    whole_base[shrunk.variables] = base
    constant = np.zeros(shrunk.system.size, dtype=np.bool_)
    constant[column[never[exact == FAILS]]] = True
    insiders, unproved, more = insider_failures(problem, shrunk, base, [*proofs.moves, *changed], constant, deadline)
    secondary = ~problem.published
    secondary[levels.variables] = False
    fixed = np.flatnonzero(secondary & (shrunk.place < 0))
    # Variables that a move changes have several values; the others are tested one by one.
    still = np.flatnonzero(secondary & (shrunk.place >= 0) & (False if others is None else others))
    still = still[~proofs.moved[shrunk.place[still]]]
    outcome, _, further = _exact(system, shrunk.component, base, shrunk.place[still], deadline)
    return AuditResult(
        variables=levels.variables,
        kinds=kinds,
        above=above,
        below=below,
        moves=[
            Move(shrunk.variables[move.columns], move.numerators, move.denominator)
            for move in [*proofs.moves, *farther]
        ],
        base=whole_base,
        scale=scale,
        insiders=insiders,
        insiders_unproved=unproved,
        implied=0 if problem.implied is None else int(problem.implied.sum()),
        determined=np.union1d(fixed, still[outcome == FAILS]),
        undecided=int((outcome == UNPROVED).sum()),
        components=shrunk.components,
        largest_component=int(np.bincount(shrunk.component).max(initial=0)),
        programmes=proofs.programmes + programmes + more + further,
        requirements=len(target),
        by_tableaus=proofs.by_tableaus,
    )


def verified(problem: AuditProblem, result: AuditResult) -> bool:
    """Whether the moves of a result show, without any solver, that every sensitive variable that holds does so.

    Insiders and implied populations are not looked at.
    """
    levels = _levels(problem)
    everywhere = np.arange(len(problem.low))
    if problem.true is not None and (result.scale != 1 or not np.array_equal(result.base, problem.true)):
        return False
    if not _in_set(problem, everywhere, result.base.astype(object), result.scale):
        return False
    up, down = ([Fraction(0)] * len(levels.variables) for _ in range(2))
    place: dict[int, list[int]] = {}
    for at, variable in enumerate(levels.variables.tolist()):
        place.setdefault(variable, []).append(at)
    for move in result.moves:
        table = result.base[move.columns].astype(object) * move.denominator + move.numerators
        fine = _in_set(problem, move.columns, table, result.scale * move.denominator, move.numerators)
        if not fine or (problem.whole and move.denominator * result.scale != 1):
            return False
        for variable, distance in zip(move.columns.tolist(), move.numerators.tolist(), strict=True):
            for at in place.get(variable, ()):
                far = Fraction(distance, move.denominator * result.scale)
                up[at], down[at] = max(up[at], far), max(down[at], -far)
    for at in np.flatnonzero(result.kinds == Kind.HOLDS).tolist():
        upper, lower, span = (
            Fraction(int(side[at]), levels.denominator) for side in (levels.upper, levels.lower, levels.span)
        )
        if up[at] < upper or down[at] < lower or up[at] + down[at] < span or up[at] + down[at] == 0:
            return False
    return True


def _in_set(
    problem: AuditProblem,
    columns: Integers,
    table: NDArray[np.object_],
    scale: int,
    sums_over: NDArray[np.object_] | Integers | None = None,
) -> bool:
    """Whether values of some variables are within their bounds, and they (or a move) add up to 0 in each relation."""
    for value, low, high in zip(
        table.tolist(), problem.low[columns].tolist(), problem.high[columns].tolist(), strict=True
    ):
        if (low != UNBOUNDED and value < low * scale) or (high != UNBOUNDED and value > high * scale):
            return False
    entries = problem.relations[:, columns].tocoo()
    summed = table if sums_over is None else sums_over
    sums = np.zeros(problem.relations.shape[0], dtype=object)
    np.add.at(sums, entries.row, entries.data.astype(object) * summed[entries.col].astype(object))
    return not np.any(sums != 0)


@dataclass(frozen=True, repr=False, eq=False)
class Intervals:
    """What a reader can infer about each open variable: the exact least and greatest value.

    Parameters
    ----------
    variables : ndarray of int64
        Variables that are not published, in ascending order.
    low, high : ndarray of Fraction or None
        Ignoring integrality; None where there is no bound.
    whole_low, whole_high : ndarray of Fraction or None, or None
        Among whole numbers, if the problem is whole.
    """

    variables: Integers
    low: Ends
    high: Ends
    whole_low: Ends | None
    whole_high: Ends | None

    def __iter__(self) -> Iterator[Ends]:
        return iter((self.low, self.high))

    @property
    def closest(self) -> tuple[Ends, Ends]:
        """The ends that hold for the problem: among whole numbers if it is integral."""
        if self.whole_low is None or self.whole_high is None:
            return self.low, self.high
        return self.whole_low, self.whole_high


def intervals(problem: AuditProblem, *, time_limit: float = 600.0) -> Intervals:
    """The exact interval of every variable that is not published.

    Raises
    ------
    DataError
        If published figures do not add up, no table agrees with them, or an interval was not proved in time.
    """
    deadline = time.monotonic() + time_limit
    variables = np.flatnonzero(~problem.published)
    linear = AuditProblem(problem.relations, problem.low, problem.high, False, problem.true)
    low, high = _ends(shrink(linear), variables, deadline)
    if not problem.whole:
        return Intervals(variables, low, high, None, None)
    return Intervals(variables, low, high, *_ends(shrink(problem), variables, deadline))


def _ends(shrunk: Shrunk, variables: Integers, deadline: float) -> tuple[Ends, Ends]:
    """The exact least and greatest value of each of some variables of a problem."""
    ends = {}
    for sign in (-1, 1):
        found = np.empty(len(variables), dtype=object)
        for at in np.flatnonzero(shrunk.place[variables] < 0):
            found[at] = Fraction(int(shrunk.constants[variables[at]]))
        ends[sign] = found
    rank = np.full(len(shrunk.place), -1)
    rank[variables] = np.arange(len(variables))
    unproved = 0
    for number in range(shrunk.components):
        columns = np.flatnonzero(shrunk.component == number)
        system = shrunk.system.part(columns)
        for sign in (-1, 1):
            limits = system.high if sign > 0 else -system.low
            reached: list[set[int]] = [set() for _ in columns]
            for column in range(len(columns)):
                if int(limits[column]) in reached[column]:
                    value: Fraction | None = Fraction(int(limits[column]))
                else:
                    found_end = extreme(system, column, sign, deadline)
                    unproved += not found_end.closed
                    value = None if found_end.unbounded else found_end.value
                    if found_end.point is not None and found_end.point.denominator == 1:
                        for other in np.flatnonzero(sign * found_end.point.numerators == limits):
                            reached[other].add(int(limits[other]))
                ends[sign][rank[shrunk.variables[columns[column]]]] = None if value is None else sign * value
    if unproved:
        raise DataError(f"{unproved} ends of intervals were not proved in time; set a longer time_limit")
    return ends[-1], ends[1]


def _levels(problem: AuditProblem) -> Levels:
    """The levels of a problem; without them, or without true values, no hidden variable may have one value."""
    if problem.levels is not None and problem.true is not None:
        return problem.levels
    variables = np.flatnonzero(~problem.published)
    none = np.zeros(len(variables), dtype=np.int64)
    return Levels(variables, none, none, none)


def _base(shrunk: Shrunk, problem: AuditProblem, deadline: float) -> tuple[Integers, int]:
    """A table of the set, numerators over one scale: the true one, or one that is found."""
    if problem.true is not None:
        return problem.true[shrunk.variables], 1
    numerators = np.zeros(shrunk.system.size, dtype=object)
    scales = np.ones(shrunk.system.size, dtype=object)
    for columns, system in parts(shrunk.system, shrunk.component, np.arange(shrunk.system.size)):
        point = feasible_point(system, deadline)
        if point is None:
            raise DataError(
                "no table was found that agrees with the published figures; check that they add up, or set a longer "
                "time_limit"
            )
        numerators[columns] = point.numerators
        scales[columns] = point.denominator
    scale = lcm(*set(scales.tolist()))
    base = numerators * (scale // scales)
    if len(base) and max(map(abs, base.tolist())) >= LARGEST:
        raise DataError("figures of the table are too large to be audited in 64 bits; use fewer decimals")
    return base.astype(np.int64), scale


def _scaled(system: OpenSystem, scale: int) -> OpenSystem:
    """The system in units of 1/scale."""
    if scale == 1:
        return system
    low = np.where(system.low == -NO_BOUND, -NO_BOUND, _times(np.where(system.low == -NO_BOUND, 0, system.low), scale))
    high = np.where(system.high == NO_BOUND, NO_BOUND, _times(np.where(system.high == NO_BOUND, 0, system.high), scale))
    return OpenSystem(system.matrix, _times(system.right, scale), low, high, system.whole)


def _times(values: Integers, factor: int) -> Integers:
    if max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0)))) * factor >= LARGEST:
        raise DataError("figures of the table are too large to be audited in 64 bits; use fewer decimals")
    return values * factor


def _exact(
    system: OpenSystem, component: Integers, base: Integers, columns: Integers, deadline: float
) -> tuple[Integers, list[Move], int]:
    """For each column whether it can be anything else than it is: an outcome of `prove`, with its moves."""
    ones = np.ones(len(columns), dtype=np.int64)
    proofs = prove(system, component, base, (columns, ones, 0 * ones), 1, deadline)
    return proofs.outcome, proofs.moves, proofs.programmes


def _judge_spans(
    kinds: Integers,
    levels: Levels,
    system: OpenSystem,
    shrunk: Shrunk,
    base: Integers,
    column: Integers,
    scale: int,
    deadline: float,
) -> list[Move]:
    """Judge variables whose two levels do not already make up their span, by the distance of both ends.

    Returns
    -------
    list of Move
        To the ends that are far enough apart.
    """
    moves: list[Move] = []
    asked = (kinds == Kind.HOLDS) & (levels.span > np.maximum(levels.upper, 0) + np.maximum(levels.lower, 0))
    for at in np.flatnonzero(asked):
        columns = np.flatnonzero(shrunk.component == shrunk.component[column[at]])
        part = system.part(columns)
        place = int(np.searchsorted(columns, column[at]))
        high, low = (extreme(part, place, sign, deadline) for sign in (1, -1))
        need = Fraction(int(levels.span[at]) * scale, levels.denominator)
        if high.unbounded or low.unbounded:
            continue
        if high.value is not None and low.value is not None and high.value + low.value >= need:
            moves += [_move(columns, base, point) for point in (high.point, low.point) if point is not None]
            continue
        short = high.bound is not None and low.bound is not None and high.bound + low.bound < need
        kinds[at] = Kind.LEVEL if short else Kind.UNPROVED
    return moves


def _move(columns: Integers, base: Integers, point: Point) -> Move:
    distance = point.numerators.astype(object) - base[columns].astype(object) * point.denominator
    moving = np.flatnonzero(distance)
    return Move(columns[moving], distance[moving], point.denominator)


def _judge_masks(
    kinds: Integers, at_least: int, system: OpenSystem, shrunk: Shrunk, column: Integers, deadline: float
) -> None:
    """Counts that a reader knows to be small, and figures of which a reader knows more."""
    for at in np.flatnonzero(kinds == Kind.HOLDS):
        columns = np.flatnonzero(shrunk.component == shrunk.component[column[at]])
        part = system.part(columns)
        place = int(np.searchsorted(columns, column[at]))
        high, low = (extreme(part, place, sign, deadline) for sign in (1, -1))
        if high.unbounded or (high.value is not None and high.value >= at_least):
            continue
        if low.value is not None and -low.value <= 0:
            continue
        if high.value == at_least - 1 and low.value == -1:
            continue
        within = high.bound is not None and high.bound < at_least and low.bound is not None and low.bound <= -1
        kinds[at] = Kind.LEVEL if within and high.closed and low.closed else Kind.UNPROVED
