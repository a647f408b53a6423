"""`method: optimal`: integer programs of cell suppression in patterns, each over a part of the table with the rest
left unchanged.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privpipe.blocks.arrays import Ints
from privpipe.kernels.integer_programs import Limits, Solved, broken
from privpipe.kernels.integer_programs import solve as solve_problem
from privpipe.kernels.local_suppression.wildcard_matching import differing_columns, hidden_words, is_empty, matches
from privpipe.transforms.local_suppression.blank_matching import blanking_of, with_few_alone
from privpipe.transforms.local_suppression.cell_table import CellTable
from privpipe.transforms.local_suppression.suppress_cells_stage import Answer, BlankGroup, BlanksFound, CellBudget, Part

__all__ = ["improved", "new_program", "new_variable", "solve", "strict_part", "wildcard_part"]


MOST_NODES = 1_000


def new_program() -> Any:
    """A pulp problem whose objective is to be made small."""
    try:
        import pulp
    except ImportError as error:
        raise broken("pulp", error) from None
    return pulp.LpProblem("cells", pulp.LpMinimize)


def new_variable(program: Any, name: str, most: float, *, integer: bool = True) -> Any:
    """A variable of a program, from 0 to `most`; made as this version of pulp wants it."""
    import pulp

    make = getattr(program, "add_variable", pulp.LpVariable)
    return make(name, 0, most, cat="Integer" if integer else "Continuous")


def solve(program: Any, seconds: float) -> Solved:
    """Solve a pulp problem, by number of nodes first, by the clock as a last resort."""
    return solve_problem(program, Limits(seconds=seconds, nodes=MOST_NODES))


TIE = 1e-9


def wildcard_part(table: CellTable) -> Part:
    """Programs in which a blank matches anything, and all records of a combination have the same blanks."""

    def part(free: Ints, blank_groups: Sequence[BlankGroup], seconds: float) -> Answer:
        blanks = np.zeros(len(table), dtype=np.int64)
        for at, blank, _ in blank_groups:
            blanks[at] = blank
        return _WildcardProgram(table, free.tolist(), blanks).answer(seconds)

    return part


class _WildcardProgram:
    """Minimise the cost of the free combinations' blanks, such that every combination matches k records."""

    def __init__(self, table: CellTable, free: list[int], blanks: Ints) -> None:
        self.program = new_program()
        import pulp

        self.table, self.free, self.blanks = table, free, blanks
        self.before = sum(self._price(at, int(blanks[at])) for at in free)
        self.chosen = {
            at: {
                blank: new_variable(self.program, f"y_{at}_{blank}", 1)
                for blank in range(1 << table.columns)
                if not blank & int(table.missing[at]) and self._price(at, blank) <= self.before + TIE
            }
            for at in free
        }
        self.program += pulp.lpSum(
            self._price(at, blank) * chosen for at in free for blank, chosen in self.chosen[at].items()
        )
        for at in free:
            self.program += pulp.lpSum(self.chosen[at].values()) == 1
        self._require_matches()
        self._require_few_alone()

    def answer(self, seconds: float) -> Answer:
        """The best blanks of the part, if they cost less than those there are."""
        solved = solve(self.program, seconds)
        if not solved.found:
            return Answer(None, False, solved.by_clock)
        found = self.blanks.copy()
        for at in self.free:
            found[at] = max(self.chosen[at], key=lambda blank: self.chosen[at][blank].value())
        cost = sum(self._price(at, int(found[at])) for at in self.free)
        words, missing, fields = self.table.packed
        sizes = matches(words, hidden_words(found, fields, missing), self.table.judged_bits, self.table.counts)
        failing = (sizes < self.table.k).any() or self.table.alone_too_many(found)
        if failing or cost >= self.before - TIE:
            return Answer(None, solved.proved and cost <= self.before + TIE, solved.by_clock)
        blank_groups = [(at, int(found[at]), int(self.table.counts[at])) for at in np.flatnonzero(found).tolist()]
        return Answer(blank_groups, solved.proved, solved.by_clock)

    def _price(self, at: int, blank: int) -> float:
        return float(self.table.counts[at] * self.table.sets[1][blank])

    def _require_matches(self) -> None:
        """Every combination of the table matches k: with those that stay, and with those that are free.

        Who is blank in every judged column matches others that are, and no other records.
        """
        import pulp

        counts, k = self.table.counts, self.table.k
        words, missing, fields = self.table.packed
        judged, freed = self.table.judged_bits, set(self.free)
        rest = np.array([at for at in range(len(self.table)) if at not in freed], dtype=np.int64)
        hidden = hidden_words(self.blanks, fields, missing)
        empty = {at for at in rest.tolist() if is_empty(hidden, judged, at)}
        alone = np.zeros(len(self.table), dtype=np.int64)
        alone[rest] = matches(words[rest], hidden[rest], judged, counts[rest])
        hidden[self.free] = missing[self.free]
        short = [at for at in rest.tolist() if alone[at] < k]
        to_meet: dict[int, list[Any]] = defaultdict(list)
        for at in self.free:
            needs = {
                other: need
                for other in rest.tolist()
                if (need := differing_columns(words, hidden, fields, at, other)) >= 0
            }
            self._meet_staying(to_meet, at, needs, empty, short)
        self._pairs(to_meet, words, hidden, fields)
        for other in [*short, *self.free]:
            self.program += pulp.lpSum(to_meet[other]) >= k - int(alone[other])

    def _meet_staying(
        self, to_meet: dict[int, list[Any]], at: int, needs: dict[int, int], empty: set[int], short: Sequence[int]
    ) -> None:
        """What a free combination gives to those that stay and lack records to k, and what they all give to it.

        `needs` holds the columns in which it differs from each that stays, where blanks can make the two match.
        """
        counts, k = self.table.counts, self.table.k
        partly, whole = self._by_kind(at)
        own: dict[int, int] = defaultdict(int)
        like = 0
        for other, need in needs.items():
            if other in empty:
                like += int(counts[other])
            else:
                own[need] += int(counts[other])
        for other in short:
            if other in needs:
                met = whole if other in empty else _covering(partly, needs[other])
                to_meet[other] += [counts[at] * y for y in met.values()]
        to_meet[at].append(int(counts[at]))
        for blank, y in partly.items():
            met_by = sum(records for need, records in own.items() if not need & ~blank)
            to_meet[at].append(min(met_by, k) * y)
        to_meet[at] += [min(like, k) * y for y in whole.values()]

    def _require_few_alone(self) -> None:
        """No more records stay complete and alone than may."""
        import pulp

        exposed = [at for at in self.free if self.table.exposed[at]]
        left = self.table.left_alone(self.blanks)
        others = int(left.sum()) - int(left[exposed].sum())
        if others + len(exposed) > self.table.allowed:
            staying = (
                y for at in exposed for blank, y in self.chosen[at].items() if not blank & self.table.completing_bits
            )
            self.program += pulp.lpSum(staying) <= self.table.allowed - others

    def _by_kind(self, at: int) -> tuple[dict[int, Any], dict[int, Any]]:
        """The choices of a combination that leave some judged column, and those that leave none."""
        _, missing, fields = self.table.packed
        kinds: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        for blank, chosen in self.chosen[at].items():
            hidden = hidden_words(np.array([blank]), fields, missing[[at]])
            kinds[is_empty(hidden, self.table.judged_bits, 0)][blank] = chosen
        return kinds

    def _pairs(self, to_meet: dict[int, list[Any]], words: Any, hidden: Any, fields: Any) -> None:
        """Two free combinations match when each column they differ in is blanked in either, or all are in both."""
        import pulp

        counts = self.table.counts
        kinds = {at: self._by_kind(at) for at in self.free}
        for place, one in enumerate(self.free):
            for other in self.free[:place]:
                need = differing_columns(words, hidden, fields, one, other)
                if need < 0:
                    continue
                both = []
                if all(kinds[at][0] for at in (one, other)):
                    met = new_variable(self.program, f"z_{one}_{other}", 1, integer=False)
                    both.append(met)
                    self._require_columns(met, (kinds[one], kinds[other]), need)
                if all(kinds[at][1] for at in (one, other)):
                    met = new_variable(self.program, f"e_{one}_{other}", 1, integer=False)
                    both.append(met)
                    for at in (one, other):
                        self.program += met <= pulp.lpSum(kinds[at][1].values())
                to_meet[one] += [int(counts[other]) * met for met in both]
                to_meet[other] += [int(counts[one]) * met for met in both]

    def _require_columns(self, met: Any, sides: Sequence[tuple[dict[int, Any], dict[int, Any]]], need: int) -> None:
        """Two combinations, neither wholly blank, match only where one of them is blank in each column of `need`."""
        import pulp

        for partly, whole in sides:
            if whole:
                self.program += met <= pulp.lpSum(partly.values())
        for column in range(self.table.columns):
            if need >> column & 1:
                self.program += met <= pulp.lpSum(
                    y for partly, _ in sides for blank, y in partly.items() if blank >> column & 1
                )


def _covering(blanks: dict[int, Any], need: int) -> dict[int, Any]:
    """The choices that blank each column of `need`."""
    return {blank: chosen for blank, chosen in blanks.items() if not need & ~blank}


def strict_part(table: CellTable) -> Part:
    """Programs in which a blank is a value: numbers of records of each combination in each class of k or more."""

    def part(free: Ints, blank_groups: Sequence[BlankGroup], seconds: float) -> Answer:
        return _StrictProgram(table, free.tolist(), blank_groups).answer(seconds)

    return part


class _StrictProgram:
    """Minimise the cost of where the free combinations' records go, such that no class holds fewer than k."""

    def __init__(self, table: CellTable, free: list[int], blank_groups: Sequence[BlankGroup]) -> None:
        self.program = new_program()
        import pulp

        self.table, self.free, self.blank_groups = table, free, list(blank_groups)
        freed = set(free)
        self.kept = [blank_group for blank_group in blank_groups if blank_group[0] not in freed or blank_group[1] < 0]
        gone = {at: records for at, blank, records in blank_groups if blank < 0}
        self.records = {at: int(table.counts[at]) - gone.get(at, 0) for at in free}
        self.before = table.cost([blank_group for blank_group in blank_groups if blank_group[0] in freed])
        base = self._others(freed)
        options = self._options(base)
        self.moved = {
            (at, blank): new_variable(self.program, f"x_{at}_{blank}", self.records[at])
            for at in free
            for blank in options[at]
        }
        cost = table.sets[1]
        self.program += pulp.lpSum(
            float(cost[blank & ~int(table.missing[at])]) * x for (at, blank), x in self.moved.items()
        )
        for at in free:
            self.program += pulp.lpSum(self.moved[at, blank] for blank in options[at]) == self.records[at]
        self._require_classes(base)

    def answer(self, seconds: float) -> Answer:
        """Better places for the records of the part, if there are any."""
        solved = solve(self.program, seconds)
        if not solved.found:
            return Answer(None, False, solved.by_clock)
        placed = [(at, blank, round(x.value())) for (at, blank), x in self.moved.items()]
        own = [(at, blank, records) for at, blank, records in placed if records and blank != self.table.missing[at]]
        cost = self.table.cost(own)
        blank_groups = [*sorted([p for p in self.kept if p[1] >= 0] + own), *(p for p in self.kept if p[1] < 0)]
        if not self._all_placed(placed) or self.table.failing(blank_groups)["own_value"] or cost >= self.before - TIE:
            return Answer(None, solved.proved and cost <= self.before + TIE, solved.by_clock)
        return Answer(blank_groups, solved.proved, solved.by_clock)

    def _all_placed(self, placed: Sequence[BlankGroup]) -> bool:
        """Whether every record of the part has a place."""
        return all(sum(r for a, _, r in placed if a == at) == self.records[at] for at in self.free)

    def _key(self, at: int, blank: int) -> tuple[int, ...]:
        row = self.table.codes[at].copy()
        row[: self.table.columns][(blank >> np.arange(self.table.columns) & 1) == 1] = -1
        return tuple(row.tolist())

    def _others(self, freed: set[int]) -> dict[tuple[int, ...], int]:
        """Records in each class that stay where they are."""
        left = {at: int(count) for at, count in enumerate(self.table.counts) if at not in freed}
        base: dict[tuple[int, ...], int] = defaultdict(int)
        for at, blank, records in self.kept:
            if at in left:
                left[at] -= records
                if blank >= 0:
                    base[self._key(at, blank)] += records
        for at, records in left.items():
            base[self._key(at, 0)] += records
        return base

    def _options(self, base: dict[tuple[int, ...], int]) -> dict[int, list[int]]:
        """Blanks of each combination whose class could hold k."""
        reach: dict[tuple[int, ...], int] = defaultdict(int)
        blanks = range(1 << self.table.columns)
        keys = {
            (at, blank): self._key(at, blank)
            for at in self.free
            for blank in blanks
            if not int(self.table.missing[at]) & ~blank
        }
        for (at, _), key in keys.items():
            reach[key] += self.records[at]
        options: dict[int, list[int]] = {at: [] for at in self.free}
        for (at, blank), key in keys.items():
            if reach[key] + base.get(key, 0) >= self.table.k:
                options[at].append(blank)
        return options

    def _require_classes(self, base: dict[tuple[int, ...], int]) -> None:
        import pulp

        k = self.table.k
        classes: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
        for at, blank in self.moved:
            classes[self._key(at, blank)].append((at, blank))
        for number, (key, members) in enumerate(classes.items()):
            there = base.get(key, 0)
            if there >= k:
                continue
            records = pulp.lpSum(self.moved[member] for member in members) + there
            if there:
                self.program += records >= k
                continue
            used = new_variable(self.program, f"c_{number}", 1)
            self.program += records >= k * used
            for at, blank in members:
                self.program += self.moved[at, blank] <= self.records[at] * used


FREE_AT_A_TIME = {True: 10, False: 24}
"""Combinations of a part, under wildcards and without; there fractions cover cheaply, and parts must be small."""
LARGEST_PROGRAM = 2_500
"""Combinations times sets of columns of a stratum that is tried as a whole."""
SECONDS = 30.0
"""Limit of a program where the policy sets no time: far above what programs need."""


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
    # The number that may stay alone is one limit over all strata: parts solved separately prove nothing about it.
    closed = proved == len(strata) and (len(strata) == 1 or not table.limited)
    ended = "ended by the clock" if run.timed or run.clock.over() else "improved within the budget"
    return replace(run.found, bound=bound, optimal=closed, status="optimal" if closed else ended, solved=run.solved)


def _solved_whole(run: _Run, strata: Sequence[Ints]) -> tuple[int, float, list[Ints]]:
    """Strata that are proved, what all of them cost at least, and those too large to solve as a whole."""
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


def _solve_neighbourhoods(run: _Run, members: Ints, budget: CellBudget) -> None:
    for free in _neighbourhoods(run.table, members, run.found.blank_groups):
        if run.solved >= budget.neighbourhoods or run.clock.over():
            break
        run.solve(free)


class _Run:
    """The blanks so far, the programs solved, and whether the clock ended one of them."""

    def __init__(self, table: CellTable, found: BlanksFound, clock: _Clock) -> None:
        self.table, self.found, self.clock = table, found, clock
        self.solved, self.timed = 0, False
        self._solver = wildcard_part(table) if table.wildcard else strict_part(table)

    def cost_of(self, members: Ints) -> float:
        """What the blanks of some combinations cost."""
        inside = set(members.tolist())
        return self.table.cost([blank_group for blank_group in self.found.blank_groups if blank_group[0] in inside])

    def solve(self, free: Ints) -> bool:
        """Take the solution of a program over some combinations; whether it is proved."""
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


def _strata(table: CellTable) -> Iterator[Ints]:
    """Combinations that can meet at all: those equal in every column that must match and is never missing."""
    fixed = table.codes[:, table.columns :]
    fixed = fixed[:, (fixed >= 0).all(axis=0)] if len(fixed) else fixed
    if not fixed.shape[1]:
        yield np.arange(len(table))
        return
    _, owner = np.unique(fixed, axis=0, return_inverse=True)
    for stratum in range(int(owner.max(initial=-1)) + 1):
        yield np.flatnonzero(owner.ravel() == stratum)


def _neighbourhoods(table: CellTable, members: Ints, blank_groups: Sequence[BlankGroup]) -> Iterator[Ints]:
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
    """Blanks without regard to the needs of single combinations: the minimum of the objective.

    Several starts are dropped and exchanged: the blanks there are, and for each column as few records of each of its
    values as will do, in each stratum, blanked in all the others: they match anyone who has that value.
    """
    from privpipe.kernels.local_suppression.blanks import drop_blanks
    from privpipe.kernels.local_suppression.wildcard_matching import blank_costs, hidden_words, matches

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


def _nearly_blank(table: CellTable) -> Iterator[Ints]:
    """For each column the blanks that leave some records of each value only that value."""
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
