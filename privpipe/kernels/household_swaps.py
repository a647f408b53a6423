"""Pairs of households that exchange their areas: from the coarsest areas to the finest, the riskiest first.

The rules are those of targeted record swapping as census offices of the European Statistical System use it. Source:
Shlomo, Tudor, Groom, Data swapping for protecting census tables, Privacy in Statistical Databases, 2010; rules and
counts as in the documentation of sdcMicro's `recordSwap` (Gussenbauer, Targeted record swapping, 2023).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privpipe.blocks.arrays import Bools, Floats, Ints

__all__ = ["HouseholdSwaps", "Swapping", "swap_quotas", "swapped_households"]


@dataclass(frozen=True)
class Swapping:
    """What is known of the households, and their draws.

    Parameters
    ----------
    areas : ndarray of int64, shape (n, levels)
        Number of each household's area, from the coarsest level to the finest; a finer area lies in one coarser one.
    kinds : sequence of ndarray of int64, shape (n,)
        A profile each, in the order they are tried: households of one number may exchange their areas.
    risk : ndarray of float64, shape (n, levels)
        At least 0. A household is drawn, as donor too, in proportion to it; 0: never.
    high : ndarray of bool, shape (n, levels)
        Whether it must be swapped across the areas of a level.
    quotas : ndarray of int64, shape (finest areas,)
        Swaps that begin in each area of the finest level; those that must be count among them.
    chosen, offered : ndarray of float64, shape (n,) and (n, levels)
        Standard exponential draws: who is swapped first, and who is a donor first at each level.
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
        -1 for a household that stays.
    required, without_donor : tuple of int
        Of each level: households that had to be swapped and were not yet; those of them that found no donor.
    swaps : tuple of int
        Swaps made because they had to be, a level each, and last those drawn to reach the rate.
    missing : int
        Swaps short of the quotas, for want of donors.
    """

    partner: Ints
    required: tuple[int, ...]
    without_donor: tuple[int, ...]
    swaps: tuple[int, ...]
    missing: int


class _Donors:
    """The households of one kind and level that can still be had, the first draw of each area on top."""

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
        """Whether a donor was found, the profiles tried in order."""
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
    """Swap the households that must be, level by level, then as many drawn ones as the quotas ask for.

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
    """Swap drawn households until each area has its quota; what is left of it is taken off `left` in place."""
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
    """Exponential draws of these rates: in their order households are drawn without replacement in proportion."""
    return np.asarray(np.divide(draws, risk, out=np.full(len(draws), np.inf), where=risk > 0))
