"""`method: optimal`: integer programs over parts of the table, each solved with the rest left as it is.

A part that is the whole (of a stratum) and is solved to a proof is the optimum: the least cost among blanks that
treat, under wildcards, all records of a combination alike. Anything else is an improvement, said with its bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privpipe.transforms.local_suppression import programs as programs
from privpipe.transforms.local_suppression.cell_blanks import BlankGroup
from privpipe.transforms.local_suppression.found import BlanksFound
from privpipe.transforms.local_suppression.stage import CellBudget
from privpipe.transforms.local_suppression.table import CellTable
from privpipe.transforms.local_suppression.wildcard import blanking_of, with_few_alone

__all__ = ["improved"]

TIE = 1e-9
FREE_AT_A_TIME = {True: 10, False: 24}
"""Combinations of a part, under wildcards and without; there fractions cover cheaply, and parts must be small."""
LARGEST_PROGRAM = 2_500
"""Combinations times sets of columns of a stratum that is tried as a whole."""
SECONDS = 30.0
"""Of a program, where the policy sets no clock: far above what these need."""


def improved(table: CellTable, start: BlanksFound, budget: CellBudget) -> BlanksFound:
    """Blanks that cost no more than those given.

    Every stratum small enough is solved as a whole; of the others, one neighbourhood after the other, around each
    blanked combination in turn, until the budget or a full round without gain ends it.
    """
    found = start if not table.wildcard else replace(start, blank_groups=_without_own_limit(table, start.blank_groups))
    run = _Run(table, found, _Clock(budget.seconds))
    strata = list(_strata(table))
    proved, bound, large = _solved_whole(run, strata)
    for members in large:
        _solve_neighbourhoods(run, members, budget)
    # How many may stay alone is one limit over all strata: parts that are solved each by itself prove nothing of it.
    closed = proved == len(strata) and (len(strata) == 1 or not table.limited)
    ended = "ended by the clock" if run.timed or run.clock.over() else "improved within the budget"
    return replace(run.found, bound=bound, optimal=closed, status="optimal" if closed else ended, solved=run.solved)


def _solved_whole(run: _Run, strata: Sequence[NDArray[np.int64]]) -> tuple[int, float, list[NDArray[np.int64]]]:
    """Strata that are proved, what all of them cost at the least, and those too large to solve as a whole."""
    proved, bound = 0, 0.0
    large = []
    for members in strata:
        floor = run.table.lower_bound(members)
        if (cost := run.cost_of(members)) <= floor + TIE:
            bound, proved = bound + cost, proved + 1
        elif len(members) << run.table.columns > LARGEST_PROGRAM or run.clock.over():
            large.append(members)
            bound += floor
        else:
            closed = run.solve(members)
            proved += closed
            bound += run.cost_of(members) if closed else floor
    return proved, bound, large


def _solve_neighbourhoods(run: _Run, members: NDArray[np.int64], budget: CellBudget) -> None:
    for free in _neighbourhoods(run.table, members, run.found.blank_groups):
        if run.solved >= budget.neighbourhoods or run.clock.over():
            break
        run.solve(free)


class _Run:
    """The blanks so far, the programs solved, and whether the clock ended one of them."""

    def __init__(self, table: CellTable, found: BlanksFound, clock: _Clock) -> None:
        self.table, self.found, self.clock = table, found, clock
        self.solved, self.timed = 0, False
        self._solver = programs.wildcard_part(table) if table.wildcard else programs.strict_part(table)

    def cost_of(self, members: NDArray[np.int64]) -> float:
        """What the blanks of some combinations cost."""
        inside = set(members.tolist())
        return self.table.cost([blank_group for blank_group in self.found.blank_groups if blank_group[0] in inside])

    def solve(self, free: NDArray[np.int64]) -> bool:
        """Take what a program over some combinations finds; whether it is proved."""
        answer = self._solver(free, self.found.blank_groups, self.clock.left())
        self.solved += 1
        self.timed |= answer.by_clock
        if answer.blank_groups is not None:
            self.found = replace(self.found, blank_groups=tuple(answer.blank_groups))
        return answer.proved


class _Clock:
    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that a program may take."""
        return SECONDS if self._end is None else max(0.1, min(SECONDS, self._end - time.monotonic()))

    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


def _strata(table: CellTable) -> Iterator[NDArray[np.int64]]:
    """Combinations that can meet at all: those equal in every column that must match and is never missing."""
    fixed = table.codes[:, table.columns :]
    fixed = fixed[:, (fixed >= 0).all(axis=0)] if len(fixed) else fixed
    if not fixed.shape[1]:
        yield np.arange(len(table))
        return
    _, owner = np.unique(fixed, axis=0, return_inverse=True)
    for stratum in range(int(owner.max(initial=-1)) + 1):
        yield np.flatnonzero(owner.ravel() == stratum)


def _neighbourhoods(
    table: CellTable, members: NDArray[np.int64], blank_groups: Sequence[BlankGroup]
) -> Iterator[NDArray[np.int64]]:
    """Around each blanked combination, the costliest first, the others at risk that differ in fewest columns."""
    touched = {at for at, _, _ in blank_groups}
    near = np.array([at for at in members.tolist() if at in touched or table.counts[at] < table.k], dtype=np.int64)
    price = dict.fromkeys(near.tolist(), 0.0)
    for blank_group in blank_groups:
        if blank_group[0] in price:
            price[blank_group[0]] += table.cost([blank_group])
    for seed in sorted(price, key=lambda at: (-price[at], at)):
        apart = (table.codes[near] != table.codes[seed]).sum(axis=1)
        yield np.sort(near[np.lexsort((near, apart))][: FREE_AT_A_TIME[table.wildcard]])


def _without_own_limit(table: CellTable, blank_groups: Sequence[BlankGroup]) -> tuple[BlankGroup, ...]:
    """Blanks without regard to what each combination needs by itself: the objective asks for the least, and gets it.

    Several starts are dropped and exchanged: the blanks there are, and for each column as few records of each of its
    values as will do, in each stratum, blanked in all the others: they match whoever has that value.
    """
    from privpipe.kernels.local_suppression.blank_dropping import drop_blanks
    from privpipe.kernels.local_suppression.covers import blank_costs, hidden_words, matches

    words, missing, fields = table.packed
    cost = table.sets[1]
    given = np.zeros(len(table), dtype=np.int64)
    for at, blank, _ in blank_groups:
        given[at] = blank
    best = given
    for start in (given, *_nearly_blank(table)):
        hidden = hidden_words(start, fields, missing)
        if (matches(words, hidden, table.judged_bits, table.counts) >= table.k).all():
            tried = with_few_alone(table, drop_blanks(blanking_of(table), start, table.k, passes=4))
            if not table.alone_too_many(tried):
                best = min(best, tried, key=lambda blanks: blank_costs(blanks, table.counts, cost))
    return tuple((at, int(best[at]), int(table.counts[at])) for at in np.flatnonzero(best).tolist())


def _nearly_blank(table: CellTable) -> Iterator[NDArray[np.int64]]:
    """For each column the blanks that leave some records of each value nothing but that value."""
    every = (np.int64(1) << table.columns) - 1
    for column in range(table.columns):
        start = np.zeros(len(table), dtype=np.int64)
        for members in _strata(table):
            members = members[table.codes[members, column] >= 0]
            values = table.codes[members, column]
            for value in np.unique(values):
                rarest = members[values == value]
                rarest = rarest[np.argsort(table.counts[rarest], kind="stable")]
                needed = int(np.searchsorted(np.cumsum(table.counts[rarest]), table.k - 1)) + 1
                start[rarest[:needed]] = every & ~(np.int64(1) << column) & ~table.missing[rarest[:needed]]
        yield start
