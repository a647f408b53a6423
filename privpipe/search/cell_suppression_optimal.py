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

from privpipe.search import cell_suppression_programs as programs
from privpipe.search.cell_suppression_found import CellsFound
from privpipe.search.cell_suppression_table import CellTable
from privpipe.transforms.cell_blanks import Parcel
from privpipe.transforms.suppress_cells import CellBudget

__all__ = ["improved"]

TIE = 1e-9
FREE_AT_A_TIME = {True: 10, False: 24}
"""Combinations of a part, under wildcards and without; there fractions cover cheaply, and parts must be small."""
LARGEST_PROGRAM = 2_500
"""Combinations times sets of columns of a stratum that is tried as a whole."""
SECONDS = 30.0
"""Of a program, where the policy sets no clock: far above what these need."""


def improved(table: CellTable, start: CellsFound, budget: CellBudget) -> CellsFound:
    """Blanks that cost no more than those given.

    Every stratum small enough is solved as a whole; of the others, one neighbourhood after the other, around each
    blanked combination in turn, until the budget or a full round without gain ends it.
    """
    solver = programs.wildcard_part(table) if table.wildcard else programs.strict_part(table)
    found = start if not table.wildcard else replace(start, parcels=_without_own_limit(table, start.parcels))
    clock = _Clock(budget.seconds)
    solved, proved, timed, bound = 0, 0, False, 0.0
    strata = list(_strata(table))
    large = []
    for members in strata:
        own = [parcel for parcel in found.parcels if parcel[0] in set(members.tolist())]
        floor = table.lower_bound(members)
        if table.cost(own) <= floor + TIE:
            bound, proved = bound + table.cost(own), proved + 1
            continue
        if len(members) << table.columns > LARGEST_PROGRAM or clock.over():
            large.append(members)
            bound += floor
            continue
        answer = solver(members, found.parcels, clock.left())
        solved += 1
        timed |= answer.by_clock
        if answer.parcels is not None:
            found = replace(found, parcels=tuple(answer.parcels))
        own = [parcel for parcel in found.parcels if parcel[0] in set(members.tolist())]
        proved += answer.proved
        bound += table.cost(own) if answer.proved else floor
    for members in large:
        for free in _neighbourhoods(table, members, found.parcels):
            if solved >= budget.neighbourhoods or clock.over():
                break
            answer = solver(free, found.parcels, clock.left())
            solved += 1
            timed |= answer.by_clock
            if answer.parcels is not None:
                found = replace(found, parcels=tuple(answer.parcels))
    closed = proved == len(strata)
    status = "optimal" if closed else "ended by the clock" if timed or clock.over() else "improved within the budget"
    return replace(found, bound=bound, optimal=closed, status=status, solved=solved)


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
    table: CellTable, members: NDArray[np.int64], parcels: Sequence[Parcel]
) -> Iterator[NDArray[np.int64]]:
    """Around each blanked combination, the costliest first, the others at risk that differ in fewest columns."""
    touched = {at for at, _, _ in parcels}
    near = np.array([at for at in members.tolist() if at in touched or table.counts[at] < table.k], dtype=np.int64)
    price = dict.fromkeys(near.tolist(), 0.0)
    for parcel in parcels:
        if parcel[0] in price:
            price[parcel[0]] += table.cost([parcel])
    for seed in sorted(price, key=lambda at: (-price[at], at)):
        apart = (table.codes[near] != table.codes[seed]).sum(axis=1)
        yield np.sort(near[np.lexsort((near, apart))][: FREE_AT_A_TIME[table.wildcard]])


def _without_own_limit(table: CellTable, parcels: Sequence[Parcel]) -> tuple[Parcel, ...]:
    """Blanks without regard to what each combination needs by itself: the objective asks for the least, and gets it.

    Two starts are dropped and exchanged: the blanks there are, and in each stratum as few records as will do blanked
    in every column, which match everything.
    """
    from privpipe.kernels.blank_dropping import BlankingTable, drop_blanks
    from privpipe.kernels.cell_suppression import blank_costs, hidden_words, matches

    words, missing, fields = table.packed
    cost = table.sets[1]
    given, whole = np.zeros((2, len(table)), dtype=np.int64)
    for at, blank, _ in parcels:
        given[at] = blank
    for members in _strata(table):
        rarest = members[np.argsort(table.counts[members], kind="stable")]
        needed = int(np.searchsorted(np.cumsum(table.counts[rarest]), table.k - 1)) + 1
        whole[rarest[:needed]] = len(cost) - 1
    best = given
    blanking = BlankingTable(words, missing, fields, table.counts, table.weights, cost)
    for start in (given, whole):
        if (matches(words, hidden_words(start, fields, missing), table.counts) >= table.k).all():
            tried = drop_blanks(blanking, start, table.k, passes=4)
            best = min(best, tried, key=lambda blanks: blank_costs(blanks, table.counts, cost))
    return tuple((at, int(best[at]), int(table.counts[at])) for at in np.flatnonzero(best).tolist())
