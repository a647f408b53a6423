"""Households: which lost some of their members, their compositions, and pairs that exchange their areas.

Areas are exchanged from the coarsest to the finest, the riskiest households first. The rules are those of targeted
record swapping as census offices of the European Statistical System use it. Source: Shlomo, Tudor, Groom, Data swapping
for protecting census tables, Privacy in Statistical Databases, 2010; rules and counts as in the documentation of
sdcMicro's `recordSwap` (Gussenbauer, Targeted record swapping, 2023).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.draws import Seed
from privpipe.kernels.ids.record_ids import content_hash

__all__ = [
    "COMPOSITION",
    "Bucketed",
    "Composed",
    "HouseholdSwaps",
    "Swapping",
    "composition_schema",
    "parts_of",
    "swap_quotas",
    "swapped_households",
]


def parts_of(before: pa.Table, after: pa.Table, household: str) -> pa.Table:
    """Households that lost some of their records and not all, with the number of those in `missing`.

    Parameters
    ----------
    before, after : pyarrow.Table
        One row per household, with its number of records in `__count`. Missing keys form no household.

    Examples
    --------
    >>> before = pa.table({"home": ["a", "b", "c", None], "__count": [2, 3, 1, 4]})
    >>> after = pa.table({"home": ["a", "b", None], "__count": [2, 1, 1]})
    >>> parts_of(before, after, "home").to_pydict()
    {'home': ['b'], 'missing': [2]}
    """
    known = after.filter(pc.is_valid(after[household]))
    places = pc.index_in(known[household], value_set=before[household].combine_chunks())
    missing = pc.subtract(before["__count"].take(places), known["__count"])
    found = pa.table({household: known[household], "missing": missing})
    return found.filter(pc.greater(found["missing"], 0))


COMPOSITION = ("__privpipe_composition_hi", "__privpipe_composition_lo", "__privpipe_members")
"""The columns that identify a composition: two words of a hash, and the number of members."""
BUCKETS = 4096
Words = NDArray[np.uint64]


def composition_schema(household: pa.Field) -> pa.Schema:
    """Schema of a table of one row per household."""
    return pa.schema([household, *(pa.field(name, pa.int64()) for name in COMPOSITION)])


@dataclass(frozen=True)
class Bucketed:
    """A bucket number for each row, the same for all rows of a household; many households share a bucket."""

    household: str

    def __call__(self, rows: RowBlock) -> Ints:
        return _words(rows, (self.household,), "household")[:, 0].astype(np.int64) % BUCKETS


@dataclass(frozen=True)
class Composed:
    """One row per household, from all rows of some households.

    A composition is the multiset of the members' values in `keys`; a member is a row, or the multiset of a person's
    rows. It is identified by the sum of the 128-bit hashes of its members, which is independent of their order, and by
    their number.

    Parameters
    ----------
    keys : tuple of str
    household : str
        Without missing values; the caller must ensure this.
    person : str, optional

    Examples
    --------
    >>> rows = RowBlock(pa.record_batch({"home": ["a", "b", "a", "b"], "age": [1, 2, 2, 1]}))
    >>> made = Composed(("age",), "home")(rows, 0)
    >>> made.column(COMPOSITION[2]).to_pylist(), len(set(made.column(COMPOSITION[0]).to_pylist()))
    ([2, 2], 1)
    """

    keys: tuple[str, ...]
    household: str
    person: str | None = None

    def __call__(self, rows: RowBlock, number: int) -> RowBlock:
        homes = _words(rows, (self.household,), "household")
        members = _words(rows, self.keys, "member") if self.keys else np.ones((len(rows), 2), np.uint64)
        firsts = np.arange(len(rows))
        if self.person is not None:
            people = _words(rows, (self.person,), "person")
            places, firsts = _groups(np.hstack([homes, people]))
            members = _hashed(_sums(members, places, len(firsts)), "rows of a person")
            homes = homes[firsts]
        places, chosen = _groups(homes)
        sums = _sums(members, places, len(chosen)).astype(np.int64)
        counts = np.bincount(places, minlength=len(chosen)).astype(np.int64)
        kept = rows.take(firsts[chosen])
        columns = [kept.column(self.household), *(pa.array(each) for each in (sums[:, 0], sums[:, 1], counts))]
        return kept.with_batch(pa.record_batch(columns, names=[self.household, *COMPOSITION]))


def _words(rows: RowBlock, columns: tuple[str, ...], purpose: str) -> Words:
    # In the order of `keys`, whatever their names: the hash goes through columns by name.
    chosen = pa.record_batch([rows.column(name) for name in columns], names=[f"{at:05}" for at in range(len(columns))])
    return content_hash(chosen, Seed.public(f"privpipe/compositions/{purpose}")).astype(np.uint64)


def _hashed(words: Words, purpose: str) -> Words:
    batch = pa.record_batch([pa.array(words[:, at].astype(np.int64)) for at in (0, 1)], names=["a", "b"])
    return content_hash(batch, Seed.public(f"privpipe/compositions/{purpose}")).astype(np.uint64)


def _groups(words: Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The group of each row, and the first row of each group."""
    _, firsts, places = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return places.reshape(-1), firsts


def _sums(words: Words, places: NDArray[np.intp], groups: int) -> Words:
    sums = np.zeros((groups, 2), np.uint64)
    np.add.at(sums, places, words)
    return sums


@dataclass(frozen=True)
class Swapping:
    """The properties of the households, and their draws.

    Parameters
    ----------
    areas : ndarray of int64, shape (n, levels)
        Number of each household's area, from the coarsest level to the finest; each area is part of one coarser area.
    kinds : sequence of ndarray of int64, shape (n,)
        One array per profile, in the order they are tried: households with the same number may exchange their areas.
    risk : ndarray of float64, shape (n, levels)
        At least 0. A household is drawn in proportion to it, also as a donor; 0: never.
    high : ndarray of bool, shape (n, levels)
        Whether a household must be swapped across the areas of a level.
    quotas : ndarray of int64, shape (finest areas,)
        Swaps that begin in each area of the finest level, including the required ones.
    chosen, offered : ndarray of float64, shape (n,) and (n, levels)
        Standard exponential draws: the order in which households are swapped, and are donors at each level.
    """

    areas: Ints
    kinds: Sequence[Ints]
    risk: Floats
    high: Bools
    quotas: Ints
    chosen: Floats = field(repr=False)
    offered: Floats = field(repr=False)


@dataclass(frozen=True)
class HouseholdSwaps:
    """Which households exchange areas.

    Parameters
    ----------
    partner : ndarray of int64, shape (n,)
        -1 for a household that is not swapped.
    required, without_donor : tuple of int
        For each level: households that had to be swapped and were not yet; those of them that found no donor.
    swaps : tuple of int
        Required swaps at each level, and last the swaps drawn to reach the rate.
    missing : int
        Swaps missing from the quotas for lack of donors.
    """

    partner: Ints
    required: tuple[int, ...]
    without_donor: tuple[int, ...]
    swaps: tuple[int, ...]
    missing: int


class _Donors:
    """The households of one kind and level that are still available, the first draw of each area on top."""

    def __init__(self, kinds: Ints, areas: Ints, clock: Floats, free: Bools) -> None:
        able = np.flatnonzero(free & np.isfinite(clock))
        order = able[np.lexsort((clock[able], areas[able], kinds[able]))]
        own, place = kinds[order], areas[order]
        new_kind = np.diff(own, prepend=-1) != 0
        heads = np.flatnonzero(new_kind | (np.diff(place, prepend=-1) != 0))
        self.order: list[int] = order.tolist()
        self.clock: list[float] = clock[order].tolist()
        self.area: list[int] = place.tolist()
        self.ends: dict[int, int] = dict(zip(heads.tolist(), [*heads[1:].tolist(), len(order)], strict=True))
        first = np.flatnonzero(new_kind[heads])
        spans = zip(own[heads[first]].tolist(), first.tolist(), [*first[1:].tolist(), len(heads)], strict=True)
        self.spans: dict[int, list[int]] = {kind: heads[low:high].tolist() for kind, low, high in spans}
        self.heaps: dict[int, list[tuple[float, int, int]]] = {}

    def take(self, kind: int, area: int, free: Bools) -> int:
        """The donor with the first draw among those of a kind in other areas; -1 where there is none."""
        heap = self._heap(kind)
        aside: tuple[float, int, int] | None = None
        found = -1
        while heap:
            _, at, end = heap[0]
            if not free[self.order[at]]:
                later = at + 1
                if later < end:
                    heapq.heapreplace(heap, (self.clock[later], later, end))
                else:
                    heapq.heappop(heap)
            elif self.area[at] == area:
                aside = heapq.heappop(heap)
            else:
                found = self.order[at]
                break
        if aside is not None:
            heapq.heappush(heap, aside)
        return found

    def _heap(self, kind: int) -> list[tuple[float, int, int]]:
        if kind not in self.heaps:
            self.heaps[kind] = [(self.clock[at], at, self.ends[at]) for at in self.spans.get(kind, [])]
            heapq.heapify(self.heaps[kind])
        return self.heaps[kind]


class _Level:
    """Swaps across the areas of one level."""

    def __init__(self, given: Swapping, level: int, partner: Ints, free: Bools) -> None:
        risk = given.risk[:, level]
        self.given, self.partner, self.free = given, partner, free
        self.areas = given.areas[:, level]
        self.first = _clock(given.chosen, risk)
        self.offered = _clock(given.offered[:, level], risk)
        self.donors: dict[int, _Donors] = {}

    def swap(self, household: int) -> bool:
        """Swap a household; whether a donor was found, trying the profiles in order."""
        for at, kinds in enumerate(self.given.kinds):
            if at not in self.donors:
                self.donors[at] = _Donors(kinds, self.areas, self.offered, self.free)
            donor = self.donors[at].take(int(kinds[household]), int(self.areas[household]), self.free)
            if donor >= 0:
                self.partner[household], self.partner[donor] = donor, household
                self.free[household] = self.free[donor] = False
                return True
        return False


def swapped_households(given: Swapping) -> HouseholdSwaps:
    """Swap the households that must be swapped, level by level, then as many drawn ones as the quotas require.

    A household that must be swapped across the areas of a level and finds no donor there is tried at the next one,
    whose areas are smaller. Every household is swapped at most once.

    Examples
    --------
    >>> areas, one = np.array([[0], [0], [1], [1]]), np.ones((4, 1))
    >>> quotas, offered = np.array([1, 0]), one * [[1], [1], [2], [1]]
    >>> given = Swapping(areas, [np.zeros(4, np.int64)], one, one > 1, quotas, one[:, 0], offered)
    >>> swapped_households(given).partner.tolist()
    [3, -1, -1, 0]
    """
    n, levels = given.areas.shape
    partner, free = np.full(n, -1, np.int64), np.ones(n, np.bool_)
    begun = np.zeros(len(given.quotas), np.int64)
    required, without, swaps = [], [], []
    for number in range(levels):
        level = _Level(given, number, partner, free)
        must = np.flatnonzero(given.high[:, number] & free)
        must = must[np.argsort(level.first[must], kind="stable")]
        required.append(len(must))
        lone = made = 0
        for household in must.tolist():
            if not free[household]:
                continue  # it was the donor of another that had to be swapped
            if level.swap(household):
                made += 1
                begun[given.areas[household, -1]] += 1
            else:
                lone += 1
        without.append(lone)
        swaps.append(made)
    left = np.maximum(given.quotas - begun, 0)
    swaps.append(_drawn(given, level, left) if levels else 0)
    return HouseholdSwaps(partner, tuple(required), tuple(without), tuple(swaps), int(left.sum()))


def swap_quotas(households: Ints, swaps: int, order: Ints, start: float) -> Ints:
    """Swaps of each area, in proportion to its households and rounded at random, so that they sum to `swaps`.

    Systematic sampling: an area gets the whole part of its share, or one more with the probability of the rest.

    Parameters
    ----------
    households : ndarray of int64, shape (areas,)
    swaps : int
    order : ndarray of int64, shape (areas,)
        The areas in a random order.
    start : float
        Uniform in (0, 1).

    Examples
    --------
    >>> swap_quotas(np.array([50, 30, 20]), 5, np.array([2, 0, 1]), 0.25).tolist()
    [2, 2, 1]
    """
    quotas = np.zeros(len(households), np.int64)
    if households.sum():
        shares = np.cumsum(households[order]) * swaps / households.sum()
        quotas[order] = np.diff(np.minimum(np.floor(shares + start).astype(np.int64), swaps), prepend=0)
    return quotas


def _drawn(given: Swapping, level: _Level, left: Ints) -> int:
    """Swap drawn households until each area has its quota; `left`, the remaining quotas, is reduced in place."""
    able = np.flatnonzero(level.free & np.isfinite(level.first) & (left[given.areas[:, -1]] > 0))
    made, wanted = 0, int(left.sum())
    for household in able[np.argsort(level.first[able], kind="stable")].tolist():
        if made == wanted:
            break
        area = given.areas[household, -1]
        if left[area] and level.free[household] and level.swap(household):
            left[area] -= 1
            made += 1
    return made


def _clock(draws: Floats, risk: Floats) -> Floats:
    """Exponential draws with these rates: their order is a draw without replacement in proportion to the risk."""
    return np.asarray(np.divide(draws, risk, out=np.full(len(draws), np.inf), where=risk > 0))
