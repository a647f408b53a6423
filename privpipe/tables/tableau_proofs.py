"""Proofs by tableaus of integers: whole components where they are small, else the surroundings of a sensitive cell.

What the tableaus find is checked here by products of sparse matrices in integers; nothing of it is believed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools
from privpipe.kernels.integer_tableaus import moves_of_groups, nearby_columns
from privpipe.tables.audit_problem import Integers, matrix_of
from privpipe.tables.shrinking import NO_BOUND, OpenSystem
from privpipe.tables.witnesses import Move, Requirements

__all__ = ["FEWEST", "Known", "TableauProofs", "counts_of", "ranges_of", "tableaus_of"]

Known: TypeAlias = tuple[Integers, Integers, Integers]
FEWEST = 60
"""Requirements for which a compiler is worth its start."""
LARGEST_COMPONENT = 400
"""Columns of a component whose tableau is made whole at once."""
REGIONS = (300, 400, 500, 600)
"""Columns of the surroundings of a requirement in a larger component, one size after another."""
LARGEST_AFTER_REGIONS = 1_200
"""Columns of a component whose full tableau is made for requirements that its regions left."""
LITTLE = 0.95
"""Share of requirements left by one size from which a larger one, which takes longer, is not worth its time."""
BATCH = 2_000_000
"""Squares of the columns of components, which grow as their time does, that are looked at before the time is."""
SEEDS = 8
"""Regions of a batch: the findings of one save others."""


@dataclass(repr=False, eq=False)
class TableauProofs:
    """Requirements that tableaus prove to be met or to fail.

    Parameters
    ----------
    system : OpenSystem
    component : ndarray of int64
        Component of each column.
    base : ndarray of int64
        A point of the system.
    asked : Requirements
    """

    system: OpenSystem
    component: Integers
    base: Integers
    asked: Requirements
    moves: list[Move] = field(default_factory=list)

    def __post_init__(self) -> None:
        system = self.system
        self.witness = np.full(len(self.asked), -1, dtype=np.int64)
        self.moved = np.zeros(system.size, dtype=np.bool_)
        self.up = np.where(system.high == NO_BOUND, NO_BOUND, system.high - self.base)
        self.down = np.where(system.low == -NO_BOUND, NO_BOUND, self.base - system.low)
        up, down = self.up[self.asked.columns], self.down[self.asked.columns]
        room = np.where(self.asked.signs > 0, up, down)
        # What is needed is at least 1 / denominator; a room of NO_BOUND is more than any need.
        unit, needs = self.asked.denominator, self.asked.needs
        short = np.minimum(room, NO_BOUND // unit - 1) * unit < needs
        self.failed = np.where(needs > 0, short & (room != NO_BOUND), (up == 0) & (down == 0))
        columns = cast(Any, system.matrix).tocsc()
        self._by_column = (columns.indptr.astype(np.int64), columns.indices.astype(np.int64))
        self._by_row = (system.matrix.indptr.astype(np.int64), system.matrix.indices.astype(np.int64))
        self._entries = columns.data.astype(np.int64)
        self._order = np.argsort(self.asked.columns, kind="stable")
        self._sorted = self.asked.columns[self._order]

    @property
    def waiting(self) -> Bools:
        return np.asarray((self.witness < 0) & ~self.failed)

    def run(self, deadline: float) -> None:
        """Prove what can be proved before a deadline."""
        if not len(self.asked):
            return
        sizes = np.bincount(self.component)
        own = sizes[self.component[self.asked.columns]]
        small = own <= LARGEST_COMPONENT
        self._whole(small, deadline)
        for size in REGIONS:
            requests = np.flatnonzero(self.waiting & ~small)
            self._regions(requests, size, deadline)
            if np.count_nonzero(self.waiting[requests]) > LITTLE * len(requests):
                break
        self._whole(own <= LARGEST_AFTER_REGIONS, deadline)

    def _whole(self, chosen: Bools, deadline: float) -> None:
        """Settle the open part of some requirements by tableaus of their whole components."""
        for groups in self._components(np.flatnonzero(self.waiting & chosen)):
            if time.monotonic() > deadline:
                return
            self.search(groups, certify=True)

    def _components(self, requests: Integers) -> Iterator[list[tuple[Integers, Integers]]]:
        """Columns and requirements of each component, in batches."""
        used = np.zeros(int(self.component.max(initial=-1)) + 1, dtype=np.bool_)
        used[self.component[self.asked.columns[requests]]] = True
        chosen = np.flatnonzero(used[self.component])
        chosen = chosen[np.argsort(self.component[chosen], kind="stable")]
        columns = np.split(chosen, np.flatnonzero(np.diff(self.component[chosen])) + 1)
        requests = requests[np.argsort(self.component[self.asked.columns[requests]], kind="stable")]
        number = self.component[self.asked.columns[requests]]
        asked = np.split(requests, np.flatnonzero(np.diff(number)) + 1)
        batch: list[tuple[Integers, Integers]] = []
        size = 0
        for group in zip(columns, asked, strict=True) if len(requests) else ():
            batch.append(group)
            size += len(group[0]) ** 2
            if size > BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _regions(self, requests: Integers, size: int, deadline: float) -> None:
        """Look for moves near requirements of large components, one after another."""
        seen = np.zeros(self.system.size, dtype=np.bool_)
        tried = np.zeros(len(self.asked), dtype=np.bool_)
        batch: list[tuple[Integers, Integers]] = []
        for request in requests.tolist():
            if tried[request] or not self.waiting[request]:
                continue
            columns = nearby_columns(self._by_column, self._by_row, self.asked.columns[request], size, seen)
            inside = self._order[ranges_of(self._sorted, np.sort(columns[: size // 3]))]
            inside = inside[self.waiting[inside] & ~tried[inside]]
            tried[inside] = True
            batch.append((np.sort(columns), inside))
            if len(batch) == SEEDS:
                if time.monotonic() > deadline:
                    return
                self.search(batch, certify=False)
                batch = []
        if batch:
            self.search(batch, certify=False)

    def search(self, groups: list[tuple[Integers, Integers]], *, certify: bool) -> None:
        """Look for moves of the columns of each group that meet its requirements, and whether none does.

        Groups in which failures are looked for must be whole components.
        """
        asked, system = self.asked, self.system
        starts = np.cumsum([0, *(len(columns) for columns, _ in groups)])
        asked_starts = np.cumsum([0, *(len(requests) for _, requests in groups)])
        requests = np.concatenate([requests for _, requests in groups])
        places = np.concatenate([np.searchsorted(columns, asked.columns[own]) for columns, own in groups])
        found = moves_of_groups(
            (*self._by_column, self._entries, np.full(system.matrix.shape[0], -1, dtype=np.int64)),
            (self.up, self.down),
            (starts, np.concatenate([columns for columns, _ in groups])),
            (asked_starts, places.astype(np.int64), asked.signs[requests], asked.needs[requests]),
            asked.denominator,
            (system.whole, certify),
        )
        self._keep(*found[:4])
        if certify:
            self._keep_failures(found[4:8], requests[found[8]], found[9])

    def _keep(self, starts: Integers, columns: Integers, numerators: Integers, denominators: Integers) -> None:
        """Keep moves that are in the system and meet requirements, or move columns that nothing moved."""
        number = np.repeat(np.arange(len(denominators)), np.diff(starts))
        fine = self._in_system(number, columns, numerators, denominators)
        inside = fine[number]
        number, columns, numerators = number[inside], columns[inside], numerators[inside]
        counts = counts_of(self._sorted, columns)
        requests = self._order[ranges_of(self._sorted, columns)]
        at = np.repeat(np.arange(len(columns)), counts)
        met = self.asked.met(requests, numerators[at], denominators[number[at]]) & self.waiting[requests]
        first = np.full(len(self.asked), len(denominators), dtype=np.int64)
        np.minimum.at(first, requests[met], number[at][met])
        useful = np.zeros(len(denominators) + 1, dtype=np.bool_)
        useful[first] = True
        new, opening = np.unique(columns, return_index=True)
        useful[number[opening[~self.moved[new]]]] = True
        useful[-1] = False
        self.moved[columns] = True
        kept = np.flatnonzero(useful)
        place = np.full(len(useful), -1)
        place[kept] = np.arange(len(kept)) + len(self.moves)
        shown = first < len(denominators)
        self.witness[shown] = place[first[shown]]
        ends = np.searchsorted(number, np.arange(len(denominators) + 1))
        for each in kept.tolist():
            here = slice(ends[each], ends[each + 1])
            self.moves.append(Move(columns[here], numerators[here], int(denominators[each])))

    def _in_system(self, number: Integers, columns: Integers, numerators: Integers, denominators: Integers) -> Bools:
        """Which moves add up to 0 in every relation and stay within bounds, from the base."""
        matrix = self.system.matrix
        size = len(denominators)
        fine = np.ones(size, dtype=np.bool_)
        if self.system.whole:
            fine &= denominators == 1
        fine &= denominators > 0
        part = np.maximum(denominators, 1)[number]
        beyond = (-(-numerators // part) > self.up[columns]) | (numerators // part < -self.down[columns])
        fine[number[beyond]] = False
        longest = int(np.diff(matrix.indptr).max(initial=1))
        limit = 2**62 // (int(np.abs(matrix.data).max(initial=1)) * longest)
        fine[number[np.abs(numerators) >= limit]] = False
        inside = fine[number]
        moves = matrix_of(numerators[inside], number[inside], columns[inside], (size, self.system.size))
        sums = (moves @ matrix.T).tocoo()
        fine[sums.row[sums.data != 0]] = False
        return fine

    def _keep_failures(self, proofs: tuple[Integers, ...], requests: Integers, signs: Integers) -> None:
        """Keep requirements as failed for which multipliers give a bound that is too low, on every side."""
        starts, rows, multipliers, denominators = proofs
        system = self.system
        count = len(denominators)
        columns, base = self.asked.columns[requests], self.base[self.asked.columns[requests]]
        if not count:
            return
        number = np.repeat(np.arange(count), np.diff(starts))
        # sign x[column] <= the sum over columns of the larger end of (sign x[column] + multipliers relations x), less
        # the multipliers times the right side: Neumaier, Shcherbina 2004.
        matrix = cast(Any, system.matrix)
        limit = 2**62 // (
            int(np.abs(matrix.data).max(initial=1)) * (int(np.diff(self._by_column[0]).max(initial=1)) + 1)
        )
        known = np.ones(count, dtype=np.bool_)
        known[number[np.abs(multipliers) >= limit]] = False
        known &= (denominators > 0) & (denominators < limit)
        scaled = matrix_of(multipliers * -signs[number], number, rows, (count, matrix.shape[0]))
        own = matrix_of(signs * denominators, np.arange(count), columns, (count, system.size))
        reduced, used = (own + scaled @ matrix).tocoo(), scaled.tocoo()
        end = np.where(reduced.data > 0, system.high[reduced.col], system.low[reduced.col])
        bounded = np.abs(end) != NO_BOUND
        known[reduced.row[(reduced.data != 0) & ~bounded]] = False
        totals = _sums(count, reduced.row.astype(np.int64), reduced.data, np.where(bounded, end, 0))
        totals -= _sums(count, used.row.astype(np.int64), used.data, system.right[used.col])
        for at in np.flatnonzero(known).tolist():
            total, part = int(totals[at]), int(denominators[at])
            request = int(requests[at])
            start, need, unit = int(signs[at]) * int(base[at]), int(self.asked.needs[request]), self.asked.denominator
            if system.whole:
                total, part = total // part, 1
            distance = total - start * part
            known[at] = distance <= 0 if need == 0 else distance * unit < need * part
        shown = np.zeros((len(self.asked), 2), dtype=np.bool_)
        shown[requests[known], (signs[known] > 0).astype(np.int64)] = True
        either = self.asked.needs == 0
        own_side = shown[np.arange(len(self.asked)), (self.asked.signs > 0).astype(np.int64)]
        self.failed |= np.where(either, shown.all(axis=1), own_side) & (self.witness < 0)


def tableaus_of(
    system: OpenSystem,
    base: Integers,
    regions: list[Integers],
    asked: Requirements,
    known: Sequence[Known] = (),
    *,
    inside: bool = False,
) -> tuple[TableauProofs, Integers]:
    """Proofs of one requirement each in regions that know nothing of each other, and the column that each of theirs is.

    Parameters
    ----------
    regions : list of ndarray of int64
        Columns, in ascending order. All others are constants: moves are moves of the system.
    known : sequence of three ndarrays of int64
        For each region, if anything, columns in it and between which values they are.
    inside : bool
        Leave out relations with other columns instead: failures are failures in the system.
    """
    sizes = [len(region) for region in regions]
    starts = np.cumsum([0, *sizes])
    copy, columns = np.repeat(np.arange(len(regions)), sizes), np.concatenate(regions)
    local = system.copies(columns, copy, base, inside=inside)
    for start, region, (own, low, high) in zip(starts, regions, known, strict=False):
        at = start + np.searchsorted(region, own)
        local.low[at], local.high[at] = np.maximum(local.low[at], low), np.minimum(local.high[at], high)
    place = [np.searchsorted(region, column) for region, column in zip(regions, asked.columns, strict=True)]
    proofs = TableauProofs(local, copy, base[columns], replace(asked, columns=starts[:-1] + place))
    ends = itertools.pairwise(starts)
    proofs.search([(np.arange(*each), np.array([at])) for at, each in enumerate(ends)], certify=inside)
    return proofs, columns


def _sums(size: int, number: Integers, left: Integers, right: Integers) -> NDArray[np.object_]:
    """Exact sums of products by number."""
    sums = np.zeros(size, dtype=object)
    if not len(left):
        return sums
    most = int(np.bincount(number).max()) * int(np.abs(left).max()) * int(np.abs(right).max())
    if most < 2**62:
        plain = np.zeros(size, dtype=np.int64)
        np.add.at(plain, number, left * right)
        return plain.astype(object)
    np.add.at(sums, number, left.astype(object) * right.astype(object))
    return sums


def counts_of(sorted_values: Integers, wanted: Integers) -> Integers:
    """How often each wanted value is among `sorted_values`."""
    return np.searchsorted(sorted_values, wanted, side="right") - np.searchsorted(sorted_values, wanted)


def ranges_of(sorted_values: Integers, wanted: Integers) -> Integers:
    """Places in `sorted_values` of all values that are wanted, in their order."""
    first = np.searchsorted(sorted_values, wanted)
    count = np.searchsorted(sorted_values, wanted, side="right") - first
    starts = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count)
    return np.asarray(starts + np.arange(int(count.sum())), dtype=np.int64)
