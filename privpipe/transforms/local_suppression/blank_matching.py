"""Matching of blanked combinations: a blank matches any value (wildcard), or is a separate value (strict)."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.kernels.local_suppression.blanks import (
    BlankingTable,
    cheapest_rescue,
    cheapest_rescue_in_rings,
    columns_to_meet,
    drop_blanks,
    members_of_ring,
)
from privpipe.kernels.local_suppression.wildcard_matching import (
    blank_costs,
    cheapest_covers,
    hidden_words,
    is_empty,
    matches,
)
from privpipe.transforms.local_suppression.cell_table import CellTable
from privpipe.transforms.local_suppression.suppress_cells_stage import BlankGroup

__all__ = ["StrictClasses", "blanking_of", "informative_blanks", "strict_blank_groups", "with_few_alone"]


STRICT_PASSES = 5
RING_BYTES = 2**28
"""For classes that fall together under the cheapest sets of columns; beyond them, all classes are compared."""


def strict_blank_groups(table: CellTable) -> list[BlankGroup]:
    """Blanks under which every class holds k records; where none help, records to suppress.

    Classes of fewer than k are taken in ascending size; each goes where it costs least a rescued record, together
    with those like it and, if need be, with records of larger classes. Then records return to a class with fewer
    blanks where their own can spare them.
    """
    classes = StrictClasses(table)
    sizes = classes.sizes[: len(table)]
    failing = np.flatnonzero(sizes < table.k)
    for one in failing[np.argsort(sizes[failing], kind="stable")].tolist():
        if 0 < classes.sizes[one] < table.k:  # it may have been emptied, or filled, by another
            classes.rescue(one)
    for _ in range(STRICT_PASSES):
        if not classes.settle():
            break
    return classes.blank_groups()


class StrictClasses:
    """The classes of a table while its cells are being blanked."""

    def __init__(self, table: CellTable) -> None:
        self.table = table
        self.order, self.cost = table.sets
        self.words, self.hidden, self.fields = (part.copy() for part in table.packed)
        self.blanks = table.missing.copy()
        self.sizes = table.counts.copy()
        self.members: list[dict[int, int]] = [{at: int(count)} for at, count in enumerate(table.counts)]
        self.suppressed: dict[int, int] = defaultdict(int)
        every = np.arange(len(self.cost), dtype=np.int64)
        self.patterns = hidden_words(every, self.fields, np.zeros((len(every), self.words.shape[1]), np.uint64))
        self._known = {self._key(at): at for at in range(len(table))}
        self._used = len(table)
        self._rings = np.empty((0, len(self.sizes)), np.int32)
        self._spared = float(self.cost[self.blanks[self.sizes < table.k]].max(initial=0))

    def rescue(self, one: int) -> None:
        """Move a class of fewer than k, with others like it, to where they number k; else suppress it."""
        k = self.table.k
        to, near = self._cheapest_rescue(one)
        if to < 0:
            for origin, records in self.members[one].items():
                self.suppressed[origin] += records
            self.members[one], self.sizes[one] = {}, 0
            return
        near = near[self.sizes[near] > 0]
        small = near[self.sizes[near] < k]
        target = self._class_of(one, to)
        for other in small.tolist():
            self._move(other, target, int(self.sizes[other]))
        self._fill(target, near[self.sizes[near] >= k], to)

    def settle(self) -> bool:
        """Let records return to a class with fewer blanks; whether any did."""
        moved = False
        by_cost = self.order.tolist()
        for one in range(self._used):
            for origin in sorted(self.members[one]):
                blanks, least = int(self.blanks[one]), int(self.table.missing[origin])
                if blanks == least or origin not in self.members[one]:
                    continue
                spare = self._spare(one, origin)
                if not spare:
                    continue
                for fewer in by_cost:
                    if self.cost[fewer] >= self.cost[blanks]:
                        break
                    if fewer & ~blanks or least & ~fewer:
                        continue
                    if self._return(one, origin, fewer, spare):
                        moved = True
                        break
        return moved

    def blank_groups(self) -> list[BlankGroup]:
        """Which records of which combination have which columns blanked, suppressed ones last."""
        found = [
            (origin, int(self.blanks[at]), records)
            for at, members in enumerate(self.members)
            for origin, records in members.items()
            if self.blanks[at] != self.table.missing[origin]
        ]
        return sorted(found) + [(origin, -1, records) for origin, records in sorted(self.suppressed.items())]

    def _cheapest_rescue(self, one: int) -> tuple[int, Ints]:
        """Columns to blank as bits, -1 where none help, and the classes that can fall together there."""
        k, known = self.table.k, (self.blanks, self.sizes, self.order, self.cost)
        while True:
            to, settled = cheapest_rescue_in_rings(self._rings, *known, one, k, self._spared)
            if settled:
                ring = self._rings[np.flatnonzero(self.order == to)[0]] if to >= 0 else None
                return int(to), np.zeros(0, np.int64) if ring is None else members_of_ring(ring, one)
            if self._rings.nbytes + self._rings.itemsize * len(self.sizes) > RING_BYTES:
                break
            self._rings = np.concatenate([self._rings, self._ring(int(self.order[len(self._rings)]))[None]])
        used = slice(self._used)
        blanks, sizes = self.blanks[used], self.sizes[used]
        needs = columns_to_meet(self.words[used], self.hidden[used], self.fields, blanks, sizes, one)
        to = int(cheapest_rescue(needs, blanks, sizes, self.order, self.cost, int(self.blanks[one]), k))
        return to, np.flatnonzero((needs >= 0) & (needs & ~to == 0))

    def _ring(self, blank: int) -> NDArray[np.int32]:
        """For each class with only these columns blank, the next that is equal in all others."""
        ring = np.full(len(self.sizes), -1, np.int32)
        members = np.flatnonzero(self.blanks[: self._used] & ~blank == 0)
        shown = self.words[members] & ~self.patterns[blank]
        alike = np.lexsort(shown.T)
        members, shown = members[alike], shown[alike]
        if len(members):
            first = np.r_[True, (shown[1:] != shown[:-1]).any(axis=1)]
            ring[members] = np.roll(members, -1)
            ring[members[np.roll(first, -1)]] = members[first]
        return ring

    def _fill(self, target: int, larger: Ints, to: int) -> None:
        """Take records missing to k from larger classes, where it costs least."""
        k = self.table.k
        lacking = k - int(self.sizes[target])
        larger = larger[larger != target]
        if lacking <= 0:
            return
        if int((self.sizes[larger] - k).sum()) < lacking:
            whole = int(larger[np.argmin(self.sizes[larger])])
            self._move(whole, target, int(self.sizes[whole]))
            return
        extra = self.cost[to] - self.cost[self.blanks[larger]]
        for other in larger[np.argsort(extra, kind="stable")].tolist():
            taken = min(lacking, int(self.sizes[other]) - k)
            if taken:
                self._move(other, target, taken)
                lacking -= taken
            if not lacking:
                return

    def _spare(self, one: int, origin: int) -> int:
        """Records of an origin that a class can do without."""
        records, size = self.members[one][origin], int(self.sizes[one])
        return records if size == records or size - records >= self.table.k else max(0, size - self.table.k)

    def _return(self, one: int, origin: int, blanks: int, spare: int) -> bool:
        target = self._known.get(self._key_of(origin, blanks))
        if (0 if target is None else int(self.sizes[target])) + spare < self.table.k:
            return False
        self._move_origin(one, self._class_of(origin, blanks), origin, spare)
        return True

    def _move(self, source: int, target: int, records: int) -> None:
        for origin in sorted(self.members[source]) if source != target else ():
            taken = min(records, self.members[source][origin])
            self._move_origin(source, target, origin, taken)
            records -= taken
            if not records:
                return

    def _move_origin(self, source: int, target: int, origin: int, records: int) -> None:
        left = self.members[source][origin] - records
        if left:
            self.members[source][origin] = left
        else:
            del self.members[source][origin]
        self.members[target][origin] = self.members[target].get(origin, 0) + records
        self.sizes[source] -= records
        self.sizes[target] += records

    def _key(self, at: int) -> tuple[bytes, bytes]:
        return (self.words[at] & ~self.hidden[at]).tobytes(), self.hidden[at].tobytes()

    def _key_of(self, at: int, blanks: int) -> tuple[bytes, bytes]:
        hidden = self.patterns[blanks]
        return (self.words[at] & ~hidden).tobytes(), hidden.tobytes()

    def _class_of(self, at: int, blanks: int) -> int:
        """The class of a class's or combination's values with these columns blanked, made where there is none."""
        key = self._key_of(at, blanks)
        if key not in self._known:
            if self._used == len(self.sizes):
                self._grow()
            place = self._used
            self._used += 1
            self._known[key] = place
            self.words[place] = self.words[at]
            self.hidden[place] = np.frombuffer(key[1], dtype=np.uint64)
            self.blanks[place] = blanks
            self.members.append({})
            around = np.flatnonzero(self.order[: len(self._rings)] & blanks == blanks)
            self._rings[around, place] = self._rings[around, at]
            self._rings[around, at] = place
        return self._known[key]

    def _grow(self) -> None:
        for name in ("words", "hidden", "blanks", "sizes"):
            part = getattr(self, name)
            setattr(self, name, np.concatenate([part, np.zeros_like(part)]))
        self._rings = np.concatenate([self._rings, np.full_like(self._rings, -1)], axis=1)


WILDCARD_PASSES = 4


def blanking_of(table: CellTable, missing: NDArray[np.uint64] | None = None) -> BlankingTable:
    """Input of the kernels that drop blanks; other cells count as missing in the data, if given."""
    words, own, fields = table.packed
    hidden = own if missing is None else missing
    return BlankingTable(words, hidden, table.judged_bits, fields, table.counts, table.weights, table.sets[1])


def informative_blanks(table: CellTable) -> tuple[Ints, int]:
    """Columns to blank as bits, a combination each, and how many records no blanks help.

    Independent covers, and what became unnecessary dropped; then the lightest cell of records that would stay alone
    and complete beyond what is allowed.
    """
    alone = np.zeros(len(table), dtype=np.bool_)
    if table.columns == 1 and _blankable(table).any():
        # The only cell of such a record is all of it.
        spare = np.flatnonzero(table.exposed & _blankable(table))
        alone[spare[: table.alone_too_many(np.zeros(len(table), dtype=np.int64))]] = True
    covers, lost = _covers(table, alone)
    if lost:
        return covers, lost
    kept = table.packed[1].copy()
    kept[alone] |= table.packed[2][0]
    loose = np.where(alone, 0, covers)
    blanks = drop_blanks(blanking_of(table, kept), loose, table.k, passes=WILDCARD_PASSES, most=table.sets[1][loose])
    blanks = with_few_alone(table, np.where(alone, covers, blanks))
    return blanks, table.alone_too_many(blanks)


def with_few_alone(table: CellTable, blanks: Ints) -> Ints:
    """Blank the lightest cell of as many records as must not stay alone and complete; then drop superfluous blanks.

    A cell more adds matches, as long as its record does not become blank in every judged column.
    """
    excess = table.alone_too_many(blanks)
    if not excess:
        return blanks
    lightest = int(table.completing[np.argmin(table.weights[table.completing])])
    cell = np.int64(1) << lightest
    chosen = np.flatnonzero(table.left_alone(blanks))
    if table.columns == 1:
        chosen = chosen[~_blankable(table)[chosen]]
    chosen = chosen[:excess]
    found = blanks.copy()
    found[chosen] |= cell
    kept = table.packed[1].copy()
    kept[chosen] |= table.packed[2][lightest]
    dropped = drop_blanks(blanking_of(table, kept), np.where(found == blanks, blanks, 0), table.k)
    dropped[chosen] |= found[chosen]
    cost = table.sets[1]
    cheaper = blank_costs(dropped, table.counts, cost) < blank_costs(found, table.counts, cost)
    return dropped if cheaper and not table.alone_too_many(dropped) else found


def _blankable(table: CellTable) -> Bools:
    """Combinations that can become blank in every judged column: the cells that must match are missing."""
    own = [at for at in table.judged if at >= table.columns]
    return np.asarray((table.codes[:, own] < 0).all(axis=1) & bool(table.judged), dtype=np.bool_)


def _covers(table: CellTable, alone: Bools) -> tuple[Ints, int]:
    """Feasible blanks of every combination, each by itself, and how many records have none.

    Parameters
    ----------
    alone : ndarray of bool, shape (t,)
        Combinations that are to be blank in every judged column.
    """
    words, missing, fields = table.packed
    order = table.sets[0]
    born = np.array([is_empty(missing, table.judged_bits, at) for at in range(len(table))], dtype=np.bool_)
    empty, may_be = born | alone, _blankable(table)
    covers = np.zeros(len(table), dtype=np.int64)
    while True:
        rest = np.flatnonzero(~empty)
        part = words[rest], missing[rest], table.judged_bits
        sizes = matches(*part, table.counts[rest])
        covers[rest] = cheapest_covers(*part, fields, table.counts[rest], sizes, order, table.k)
        uncovered = ~empty & (covers < 0)
        if (uncovered & ~may_be).any():
            return covers, int(table.counts[uncovered & ~may_be].sum())
        more = uncovered | _to_fill(table, empty | uncovered, may_be)
        if not more.any():
            break
        empty |= more
    short = _short(table, empty)
    if short.any():
        return covers, int(table.counts[short].sum())
    covers[empty] = (np.int64(1) << table.columns) - 1 & ~table.missing[empty]
    return covers, 0


def _strata(table: CellTable) -> NDArray[np.intp]:
    """Number of the stratum of each combination: records blank in every judged column match only others in it."""
    others = [at for at in range(table.codes.shape[1]) if at not in table.judged]
    if not others or not len(table):
        return np.zeros(len(table), dtype=np.intp)
    return np.unique(table.codes[:, others], axis=0, return_inverse=True)[1].ravel()


def _short(table: CellTable, empty: Bools) -> Bools:
    """Combinations blank in every judged column that have fewer than k records."""
    strata = _strata(table)
    sizes = np.bincount(strata, weights=np.where(empty, table.counts, 0))
    return np.asarray(empty & (sizes[strata] < table.k), dtype=np.bool_)


def _to_fill(table: CellTable, empty: Bools, may_be: Bools) -> Bools:
    """The rarest other combinations that bring those which are too few to k."""
    strata, found = _strata(table), np.zeros(len(table), dtype=np.bool_)
    for stratum in np.unique(strata[_short(table, empty)]).tolist():
        there = int(table.counts[empty & (strata == stratum)].sum())
        others = np.flatnonzero(may_be & ~empty & (strata == stratum))
        others = others[np.argsort(table.counts[others], kind="stable")]
        needed = int(np.searchsorted(there + np.cumsum(table.counts[others]), table.k)) + 1
        found[others[:needed]] = True
    return found
