"""What follows from hidden cells that a contributor knows because hardly anyone else is in them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from privpipe.blocks.arrays import Bools
from privpipe.kernels.integer_tableaus import nearby_columns
from privpipe.tables.audit_problem import AuditProblem, Integers, Levels, Matrix, matrix_of
from privpipe.tables.proofs import FAILS, UNPROVED, prove_knowing
from privpipe.tables.shrinking import Shrunk, components_of
from privpipe.tables.tableau_proofs import FEWEST, Known, counts_of, ranges_of, tableaus_of
from privpipe.tables.witnesses import Move, Requirements

__all__ = ["insider_failures"]

BATCH = 50_000
"""Columns of the systems of several insiders that are proved together."""
MOST_MARKS = 20_000_000
"""Entries of all moves that are examined, the shortest first; programmes replace moves beyond them."""
AT_A_TIME = 200
"""Pairs that get programmes before their moves are tried on the others."""
AT_ONCE = 1_000
"""Requirements whose moves are compared with what all insiders know at once."""
REGIONS = (150, 300, 600)
"""Columns of the surroundings of a requirement, one size after another: one tableau for each insider."""


@dataclass(frozen=True)
class _Pairs:
    """Requirements, each with an insider for whom it is not settled."""

    requirements: Integers
    insiders: Integers

    def __len__(self) -> int:
        return len(self.requirements)

    def among(self, chosen: Integers | Bools | slice) -> _Pairs:
        return _Pairs(self.requirements[chosen], self.insiders[chosen])

    def split(self, number: Integers) -> list[_Pairs]:
        """Pairs by a number of each."""
        order = np.argsort(number, kind="stable")
        cuts = np.flatnonzero(np.diff(number[order])) + 1
        return [self.among(own) for own in np.split(order, cuts)] if len(self) else []

    @classmethod
    def joined(cls, *parts: _Pairs) -> _Pairs:
        none = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(each.requirements for each in parts)]),
            np.concatenate([none, *(each.insiders for each in parts)]),
        )


@dataclass(frozen=True)
class _Pieces:
    """Moves no part of which is a move: the number, column and numerator of each entry, and the denominators."""

    number: Integers
    columns: Integers
    numerators: Integers
    denominators: Integers

    @classmethod
    def of(cls, shrunk: Shrunk, base: Integers, moves: Sequence[Move]) -> _Pieces:
        none = np.empty(0, dtype=np.int64)
        columns = np.concatenate([none, *(move.columns for move in moves)])
        numerators = np.concatenate([none, *(move.numerators.astype(np.int64) for move in moves)])
        move = np.repeat(np.arange(len(moves)), [len(each.columns) for each in moves])
        number = components_of(shrunk.system.copies(columns, move, base).matrix)
        sizes = np.bincount(number)
        rank = np.empty_like(sizes)
        rank[np.argsort(sizes, kind="stable")] = np.arange(len(sizes))
        few = int(np.searchsorted(np.cumsum(np.sort(sizes)), MOST_MARKS, side="right"))
        kept = np.flatnonzero(rank[number] < few)
        denominators = np.ones(few, dtype=np.int64)
        denominators[rank[number[kept]]] = np.array([each.denominator for each in moves], dtype=np.int64)[move[kept]]
        return cls(rank[number[kept]], columns[kept], numerators[kept], denominators)

    def meets(self, asked: Requirements) -> Matrix:
        """1 where a requirement (a row) is met by a piece (a column)."""
        counts = counts_of(asked.columns, self.columns)
        requirements = ranges_of(asked.columns, self.columns)
        at = np.repeat(np.arange(len(self.columns)), counts)
        met = asked.met(requirements, self.numerators[at], self.denominators[self.number[at]])
        ones = np.ones(int(met.sum()), dtype=np.int64)
        return matrix_of(ones, requirements[met], self.number[at[met]], (len(asked), len(self.denominators)))

    def touching(self, known: Matrix) -> Matrix:
        """1 where a piece (a row) changes something that an insider (a column) knows."""
        ones = np.ones(len(self.columns), dtype=np.int64)
        found = matrix_of(ones, self.number, self.columns, (len(self.denominators), known.shape[0])) @ known
        found.data[:] = 1
        return found


@dataclass(frozen=True)
class _Audience:
    """Insiders, and what each of them must find possible.

    Parameters
    ----------
    asked : Requirements
        Of the sensitive cells of all contributors, by ascending columns.
    known : csr_array of int64, shape (open columns, insiders)
        1 for what an insider knows.
    """

    problem: AuditProblem
    shrunk: Shrunk
    base: Integers
    asked: Requirements
    known: Matrix
    deadline: float

    @cached_property
    def by_insider(self) -> Matrix:
        return cast(Matrix, cast(Any, self.known).T.tocsr())

    @cached_property
    def places(self) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
        """Starts and places of the entries of the relations, by columns and by rows."""
        rows = self.shrunk.system.matrix
        by_column, by_row = (
            (each.indptr.astype(np.int64), each.indices.astype(np.int64)) for each in (cast(Any, rows).tocsc(), rows)
        )
        return by_column, by_row

    @cached_property
    def seen(self) -> Bools:
        """What `nearby_columns` marks."""
        return np.zeros(self.shrunk.system.size, dtype=np.bool_)

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def columns_of(self, insiders: Integers) -> Integers:
        """Open columns that some insiders know."""
        starts = self.by_insider.indptr
        parts = [self.by_insider.indices[starts[each] : starts[each + 1]] for each in insiders.tolist()]
        return np.unique(np.concatenate(parts)).astype(np.int64)

    def knows(self, insider: int, columns: Integers | None = None) -> Known:
        """What an insider knows of open columns, or of some of them."""
        own = self.problem.knowing[insider]
        place = self.shrunk.place[own.known]
        here = np.flatnonzero(place >= 0 if columns is None else np.isin(place, columns))
        known = place[here]
        low, high = (self.base[known] if side is None else side[here] for side in (own.low, own.high))
        return known, low, high

    @cached_property
    def _sensitive(self) -> tuple[list[Bools], Integers]:
        """Open columns that are sensitive to some insiders, and which of these sets is each insider's."""
        sets: list[Bools] = []
        number: dict[bytes, int] = {}
        place: dict[int, int] = {}
        for insider in self.problem.knowing:
            own = insider.sensitive
            if id(own) not in place:
                place[id(own)] = number.setdefault(own.tobytes(), len(sets))
                if place[id(own)] == len(sets):
                    sets.append(np.zeros(self.shrunk.system.size + 1, dtype=np.bool_))
                    sets[-1][self.shrunk.place[own]] = True  # constants fall to the place that no column has
        return sets, np.array([place[id(each.sensitive)] for each in self.problem.knowing])

    def asking(self, pairs: _Pairs) -> _Pairs:
        """Pairs of a requirement on a cell that is sensitive and the insider does not know."""
        sets, number = self._sensitive
        columns = self.asked.columns[pairs.requirements]
        own = np.zeros(len(pairs), dtype=np.bool_)
        for at, sensitive in enumerate(sets):
            own |= (number[pairs.insiders] == at) & sensitive[columns]
        count = self.known.shape[1]
        entries = self.known.tocoo()
        knows = np.isin(columns * count + pairs.insiders, entries.row.astype(np.int64) * count + entries.col)
        return pairs.among(own & ~knows)

    def unsettled(self, pieces: _Pieces) -> _Pairs:
        """All pairs in one component for which every move that meets the requirement changes what the insider knows."""
        meets, found = pieces.meets(self.asked), self._touched(pieces)
        never = np.flatnonzero(np.diff(meets.indptr) == 0)
        component = self.shrunk.component
        size = self.shrunk.system.size
        joined = matrix_of(np.ones(size, dtype=np.int64), component, np.arange(size), (self.shrunk.components, size))
        near = cast(Any, joined @ self.known)[component[self.asked.columns[never]]].tocoo()
        alone = _Pairs(never[near.row].astype(np.int64), near.col.astype(np.int64))
        return _Pairs.joined(found, self.asking(alone))

    def still(self, pairs: _Pairs, pieces: _Pieces) -> Bools:
        """Which pairs no move settles."""
        count = self.known.shape[1]
        touched = self._touched(pieces)
        unmet = np.diff(pieces.meets(self.asked).indptr) == 0
        keys = pairs.requirements * count + pairs.insiders
        return np.asarray(
            unmet[pairs.requirements] | np.isin(keys, touched.requirements * count + touched.insiders), dtype=np.bool_
        )

    def _touched(self, pieces: _Pieces) -> _Pairs:
        """Pairs for which some moves meet the requirement, and all of these change what the insider knows."""
        meets, touching = cast(Any, pieces.meets(self.asked)), pieces.touching(self.known)
        number = np.diff(meets.indptr)
        found = []
        for start in range(0, len(self.asked), AT_ONCE):
            counts = (meets[start : start + AT_ONCE] @ touching).tocoo()
            row = counts.row.astype(np.int64) + start
            every = counts.data == number[row]
            found.append(self.asking(_Pairs(row[every], counts.col[every].astype(np.int64))))
        return _Pairs.joined(*found)


def insider_failures(
    problem: AuditProblem, shrunk: Shrunk, base: Integers, moves: list[Move], fixed: Bools, deadline: float
) -> tuple[dict[int, Integers], int, int]:
    """What insiders can infer.

    A move that leaves what an insider knows unchanged shows that others' cells which it changes stay hidden from that
    insider. Where all moves touch what it knows, others around the cell are sought, for many insiders at once and then
    for fewer; the rest gets programmes in which the known cells are constants, or closely bounded.

    Parameters
    ----------
    fixed : ndarray of bool
        Open columns that have one value for every reader.

    Returns
    -------
    tuple
        For each insider that fails, by position, the variables of others that have one value, or not as many as their
        levels require; how many others were not proved; how many programmes were solved.
    """
    failures: dict[int, Integers] = {}
    if not problem.knowing:
        return failures, 0, 0
    for position, insider in enumerate(problem.knowing):
        constant = insider.others[shrunk.place[insider.others] < 0]
        if len(constant):
            failures[position] = np.unique(constant)
    audience = _Audience(problem, shrunk, base, _requirements(problem, shrunk), _known(problem, shrunk), deadline)
    asked = audience.asked
    waiting = audience.unsettled(_Pieces.of(shrunk, base, moves))
    lost = fixed[asked.columns[waiting.requirements]]
    failing, waiting = waiting.among(lost), waiting.among(~lost)
    if len(waiting) >= FEWEST:
        groups = waiting.split(waiting.requirements)
        for size in REGIONS:
            waiting = _not_met_nearby(audience, groups, size)
            short = _short_nearby(audience, waiting, size)
            failing, waiting = _Pairs.joined(failing, waiting.among(short)), waiting.among(~short)
            groups = waiting.split(np.arange(len(waiting)))
    more, rest, programmes = _in_programmes(audience, waiting)
    failing = _Pairs.joined(failing, more)
    for own in failing.split(failing.insiders):
        position = int(own.insiders[0])
        variables = shrunk.variables[asked.columns[own.requirements]]
        failures[position] = np.union1d(failures.get(position, variables[:0]), variables)
    unproved = 0
    for own in rest.split(rest.insiders):
        variables = shrunk.variables[asked.columns[own.requirements]]
        unproved += len(np.setdiff1d(variables, failures.get(int(own.insiders[0]), variables[:0])))
    return failures, unproved, programmes


def _known(problem: AuditProblem, shrunk: Shrunk) -> Matrix:
    columns = [shrunk.place[insider.known] for insider in problem.knowing]
    number = np.repeat(np.arange(len(columns)), [len(each) for each in columns])
    every = np.concatenate(columns)
    is_open = every >= 0
    ones = np.ones(int(is_open.sum()), dtype=np.int64)
    return matrix_of(ones, every[is_open], number[is_open], (shrunk.system.size, len(columns)))


def _requirements(problem: AuditProblem, shrunk: Shrunk) -> Requirements:
    """What insiders must find possible of each open sensitive column: another value, or the levels of it."""
    sensitive = {id(insider.sensitive): insider.sensitive for insider in problem.knowing}
    columns = shrunk.place[np.unique(np.concatenate(list(sensitive.values())))]
    columns = columns[columns >= 0]
    none = np.empty(0, dtype=np.int64)
    levels = problem.levels if problem.insider_levels else None
    levels = Levels(none, none, none, none) if levels is None else levels
    place = shrunk.place[levels.variables]
    up, down = (np.zeros(shrunk.system.size, dtype=np.int64) for _ in range(2))
    up[place[place >= 0]], down[place[place >= 0]] = levels.upper[place >= 0], levels.lower[place >= 0]
    above, below = columns[up[columns] > 0], columns[down[columns] > 0]
    either = columns[(up[columns] <= 0) & (down[columns] <= 0)]
    found = np.concatenate([above, below, either])
    signs = np.ones(len(found), dtype=np.int64)
    signs[len(above) : len(above) + len(below)] = -1
    needs = np.concatenate([up[above], down[below], np.zeros(len(either), dtype=np.int64)])
    order = np.argsort(found, kind="stable")
    return Requirements(found[order], signs[order], needs[order], levels.denominator)


def _not_met_nearby(audience: _Audience, groups: list[_Pairs], size: int) -> _Pairs:
    """Pairs for which tableaus find no move around the requirement that leaves what the insider knows unchanged.

    A move is sought for all insiders of a group, of one requirement, then for each half of those whom it does not suit.
    """
    left: list[_Pairs] = []
    while groups and not audience.late:
        each = max(BATCH // size, 1)
        moves = [
            move
            for start in range(0, len(groups), each)
            for move in _moves_nearby(audience, groups[start : start + each], size)
        ]
        rest = _Pairs.joined(*groups)
        number = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        still = audience.still(rest, _Pieces.of(audience.shrunk, audience.base, moves))
        groups = []
        for group in rest.among(still).split(number[still]):
            if len(group) == 1:
                left.append(group)
            else:
                groups += group.split(np.arange(len(group)) * 2 // len(group))
    return _Pairs.joined(*left, *groups)


def _moves_nearby(audience: _Audience, groups: list[_Pairs], size: int) -> Iterator[Move]:
    """Moves around the requirement of each group that leave unchanged what all insiders of the group know."""
    asked = audience.asked.of(np.array([group.requirements[0] for group in groups]))
    regions = []
    for group, column in zip(groups, asked.columns, strict=True):
        known = audience.columns_of(group.insiders)
        audience.seen[known] = True  # as if seen already, these are left out
        regions.append(np.sort(nearby_columns(*audience.places, column, size, audience.seen)))
        audience.seen[known] = False
    proofs, columns = tableaus_of(audience.shrunk.system, audience.base, regions, asked)
    for move in proofs.moves:
        yield Move(columns[move.columns], move.numerators, move.denominator)


def _short_nearby(audience: _Audience, pairs: _Pairs, size: int) -> Bools:
    """Pairs for which the relations around a requirement alone prove that it is not met."""
    short = np.zeros(len(pairs), dtype=np.bool_)
    each = max(BATCH // size, 1)
    for start in range(0, len(pairs), each):
        if audience.late:
            break
        batch = pairs.among(np.arange(start, min(start + each, len(pairs))))
        asked = audience.asked.of(batch.requirements)
        regions = [np.sort(nearby_columns(*audience.places, at, size, audience.seen)) for at in asked.columns]
        known = [
            audience.knows(insider, region) for insider, region in zip(batch.insiders.tolist(), regions, strict=True)
        ]
        proofs, _ = tableaus_of(audience.shrunk.system, audience.base, regions, asked, known, inside=True)
        short[start : start + each] = proofs.failed
    return short


def _in_programmes(audience: _Audience, pairs: _Pairs) -> tuple[_Pairs, _Pairs, int]:
    """Pairs that programmes prove to fail, those that are not proved, and the number of programmes."""
    shrunk, asked = audience.shrunk, audience.asked
    failing, unproved, programmes = _Pairs.joined(), _Pairs.joined(), 0
    while len(pairs) and not audience.late:
        batch, pairs = pairs.among(slice(AT_A_TIME)), pairs.among(slice(AT_A_TIME, None))
        known = (
            (request, audience.knows(insider))
            for request, insider in zip(batch.requirements.tolist(), batch.insiders.tolist(), strict=True)
        )
        outcome, moves, more = prove_knowing(shrunk.system, audience.base, asked, known, audience.deadline)
        programmes += more
        failing = _Pairs.joined(failing, batch.among(outcome == FAILS))
        unproved = _Pairs.joined(unproved, batch.among(outcome == UNPROVED))
        pairs = pairs.among(audience.still(pairs, _Pieces.of(shrunk, audience.base, moves)))
    return failing, _Pairs.joined(unproved, pairs), programmes
