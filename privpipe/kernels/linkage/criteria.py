"""Attacks on the three criteria of anonymisation: predicates that single out, rows that link, guesses of a secret."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats, Ints, read_only
from privpipe.compiled import njit
from privpipe.kernels.linkage.nearest_rows import NearRows, SearchedRows
from privpipe.tolerance import slack

__all__ = [
    "CodedColumn",
    "Parts",
    "Secrets",
    "isolated_once_of",
    "linked_by_chance",
    "linked_shares",
    "matches",
    "nearest_guesses",
    "right_numbers",
]


Places = Ints


def linked_by_chance(rows: int, k: int) -> float:
    """The chance that k rows drawn at random on one side and k on the other have one in common.

    Examples
    --------
    >>> linked_by_chance(300, 1), round(linked_by_chance(300, 2), 9)
    (0.0033333333333333335, 0.013311037)
    """
    k = min(k, rows)
    apart = 1.0
    for i in range(k):
        apart *= max(rows - k - i, 0) / (rows - i)
    return 1.0 / rows if k == 1 else 1.0 - apart


def linked_shares(sides: tuple[SearchedRows, SearchedRows], near: tuple[NearRows, NearRows], k: int) -> Floats:
    """For each record the chance that its k nearest rows on one side and those on the other have one in common.

    Source: Giomi, Boenisch, Wehmeyer, Tasnadi, PoPETs 2023(2), with ties in closed form.

    Parameters
    ----------
    sides : two SearchedRows
        The same rows by two sets of columns.
    near : two NearRows
        The nearest rows of the same records, searched with this `k`.
    k : int
        At most the number of rows.

    Returns
    -------
    ndarray of float64, shape (m,)

    Examples
    --------
    >>> from privpipe.kernels.linkage.distance import LinkedFile
    >>> def one(values):
    ...     return LinkedFile(np.array(values)[:, None] / 9, np.zeros((len(values), 0), dtype=np.int64))
    >>> sides = SearchedRows(one([0.0, 1, 4, 9])), SearchedRows(one([0.0, 1, 4, 9]))
    >>> near = sides[0].nearest(one([0.0, 0, 4, 0])), sides[1].nearest(one([0.0, 1, 9, 4]))
    >>> linked_shares(sides, near, 1).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    first, second = sides
    pairs, counts = np.unique(np.column_stack([first.place, second.place]), axis=0, return_counts=True)
    ways = []
    for column, side in enumerate(sides):
        order = np.argsort(pairs[:, column], kind="stable")
        starts = np.searchsorted(pairs[order, column], np.arange(len(side.counts) + 1))
        ways.append(
            tuple(read_only(each, np.int64) for each in (starts, pairs[order, 1 - column], counts[order], side.counts))
        )
    found = [
        (read_only(each.offsets, np.int64), read_only(each.members, np.int64), read_only(each.nearer, np.bool_))
        for each in near
    ]
    return np.asarray(_linked(ways[0], ways[1], found[0], found[1], k))


@njit(nogil=True, cache=True)
def _apart(k: tuple[int, int], tied: tuple[int, int], shared: tuple[int, int, int]) -> float:
    """The chance that no row is drawn on both sides: `k` rows of `tied` each, `shared` with S, with S, and both."""
    (r_a, r_b), (t_a, t_b), (s_a, s_b, both) = k, tied, shared
    rest = t_a - s_a - both
    total = 0.0
    for j in range(min(r_a, both) + 1):
        if r_a - j > rest or r_b > t_b - s_b - j:
            continue
        chance = 1.0
        # C(both, j) C(rest, r_a - j) / C(t_a, r_a), a factor at a time.
        for i in range(j):
            chance *= (both - i) / (i + 1)
        for i in range(r_a - j):
            chance *= (rest - i) / (i + 1)
        for i in range(r_a):
            chance *= (i + 1) / (t_a - i)
        for i in range(r_b):
            chance *= (t_b - s_b - j - i) / (t_b - i)
        total += chance
    return total


@njit(nogil=True, cache=True)
def _linked(
    way_a: tuple[Places, Places, Places, Places],
    way_b: tuple[Places, Places, Places, Places],
    near_a: tuple[Places, Places, Bools],
    near_b: tuple[Places, Places, Bools],
    k: int,
) -> Floats:
    m = len(near_a[0]) - 1
    out = np.empty(m)
    marks_a, marks_b = np.zeros(len(way_a[3]), np.int64), np.zeros(len(way_b[3]), np.int64)
    for r in range(m):
        size_a, tied_a, cells_a = _marked(way_a, near_a, r, marks_a)
        size_b, tied_b, cells_b = _marked(way_b, near_b, r, marks_b)
        if cells_a <= cells_b:
            meet = _met(way_a, near_a, r, marks_b)
        else:
            turned = _met(way_b, near_b, r, marks_a)
            meet = (turned[0], turned[2], turned[1], turned[3])
        if meet[0] > 0:
            out[r] = 1.0
        elif k == 1:
            out[r] = meet[3] / (float(tied_a) * float(tied_b))
        else:
            out[r] = 1.0 - _apart((k - size_a, k - size_b), (tied_a, tied_b), (meet[1], meet[2], meet[3]))
        for at in range(near_a[0][r], near_a[0][r + 1]):
            marks_a[near_a[1][at]] = 0
        for at in range(near_b[0][r], near_b[0][r + 1]):
            marks_b[near_b[1][at]] = 0
    return out


@njit(nogil=True, cache=True)
def _marked(
    way: tuple[Places, Places, Places, Places],
    near: tuple[Places, Places, Bools],
    r: int,
    marks: Ints,
) -> tuple[int, int, int]:
    """Rows strictly nearer, rows that tie, and cells to visit; marks the distinct rows as nearer (1) or tied (2)."""
    nearer, tied, cells = 0, 0, 0
    for at in range(near[0][r], near[0][r + 1]):
        member = near[1][at]
        marks[member] = 1 if near[2][at] else 2
        cells += way[0][member + 1] - way[0][member]
        if near[2][at]:
            nearer += way[3][member]
        else:
            tied += way[3][member]
    return nearer, tied, cells


@njit(nogil=True, cache=True)
def _met(
    way: tuple[Places, Places, Places, Places],
    near: tuple[Places, Places, Bools],
    r: int,
    marks: Ints,
) -> tuple[int, int, int, int]:
    """Rows that are nearer on both sides, tied here and nearer there, the reverse, and tied on both."""
    both, tied_here, tied_there, tied = 0, 0, 0, 0
    for at in range(near[0][r], near[0][r + 1]):
        member = near[1][at]
        for cell in range(way[0][member], way[0][member + 1]):
            mark, count = marks[way[1][cell]], way[2][cell]
            if mark == 0:
                continue
            if near[2][at] and mark == 1:
                both += count
            elif mark == 1:
                tied_here += count
            elif near[2][at]:
                tied_there += count
            else:
                tied += count
    return both, tied_here, tied_there, tied


Numbers = Floats


@dataclass(frozen=True)
class Secrets:
    """Secrets of records together with the released values that may be guessed.

    Parameters
    ----------
    own : ndarray of int64, shape (n,)
        Number of the distinct secret of each record.
    shown : ndarray of int64, shape (n',)
        Number of the distinct released value of each row.
    low, high : ndarray of int64, shape (secrets,)
        The released values from low to before high are right for a secret.
    covers : ndarray of bool, shape (secrets, released values), optional
        Which values are right where no range applies: for labels.
    values : int
        Distinct released values.
    """

    own: Places = field(repr=False)
    shown: Places = field(repr=False)
    values: int
    low: Places = field(repr=False)
    high: Places = field(repr=False)
    covers: Bools | None = field(default=None, repr=False)

    def right(self, own: Places, guesses: Places) -> Bools:
        """Whether guesses of released values are right for secrets, pair by pair."""
        if self.covers is not None:
            return np.asarray(self.covers[own, guesses])
        return np.asarray((self.low[own] <= guesses) & (guesses < self.high[own]))

    def shares(self, own: Places) -> Numbers:
        """For each released value the share of the records with these secrets for which it is right."""
        counts = np.bincount(own, minlength=len(self.low)).astype(np.float64)
        if self.covers is not None:
            return np.asarray(counts @ self.covers) / max(len(own), 1)
        steps = np.zeros(self.values + 1)
        held = self.low < self.high
        np.add.at(steps, self.low[held], counts[held])
        np.add.at(steps, self.high[held], -counts[held])
        return np.cumsum(steps)[:-1] / max(len(own), 1)

    def random_share(self, own: Places) -> float:
        """How often the value of a row drawn at random is right for these secrets."""
        counts = np.bincount(self.shown, minlength=self.values)
        return float(self.shares(own) @ counts) / len(self.shown)


def right_numbers(own: Numbers, shown: Numbers, relative: float | None, absolute: float | None) -> Secrets:
    """Secrets that are numbers: a guess is right within a share of the secret, or within a distance of it.

    A missing secret is guessed only by a missing value.

    Examples
    --------
    >>> found = right_numbers(np.array([1000.0, 0.0, np.nan]), np.array([-5.0, 960.0, 0.0, np.nan]), 0.05, None)
    >>> [found.right(np.full(4, found.own[at]), found.shown).tolist() for at in range(3)]
    [[False, True, False, False], [False, False, True, False], [False, False, False, True]]
    """
    secrets, places = np.unique(own, return_inverse=True)
    values, guesses = np.unique(shown, return_inverse=True)
    numbers = values[~np.isnan(values)]
    reach = np.abs(secrets) * relative if relative is not None else np.full(len(secrets), float(absolute or 0.0))
    reach = np.where(np.isnan(secrets), 0.0, reach)
    reach = reach + slack(reach)
    low = np.searchsorted(numbers, secrets - reach, side="left")
    high = np.searchsorted(numbers, secrets + reach, side="right")
    missing = np.isnan(secrets)
    low, high = np.where(missing, len(numbers), low), np.where(missing, len(values), high)
    return Secrets(
        places.reshape(-1).astype(np.int64),
        guesses.reshape(-1).astype(np.int64),
        len(values),
        low.astype(np.int64),
        high.astype(np.int64),
    )


def nearest_guesses(rows: SearchedRows, near: NearRows, secrets: Secrets, own: Places) -> Numbers:
    """For each record the share of its nearest rows whose value is right.

    Parameters
    ----------
    rows : SearchedRows
        The release by the columns that the attacker knows.
    near : NearRows
        The nearest row of each record and all ties.
    secrets : Secrets
    own : ndarray of int64, shape (m,)
        The secret of each record.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    cells, counts = np.unique(np.column_stack([rows.place, secrets.shown]), axis=0, return_counts=True)
    starts = np.searchsorted(cells[:, 0], np.arange(len(rows.counts) + 1))
    table = np.zeros((1, 1), np.bool_) if secrets.covers is None else secrets.covers
    return np.asarray(
        _right_shares(
            (read_only(near.offsets, np.int64), read_only(near.members, np.int64)),
            (
                read_only(starts, np.int64),
                read_only(cells[:, 1], np.int64),
                read_only(np.concatenate([[0], np.cumsum(counts)]), np.int64),
            ),
            (read_only(secrets.low[own], np.int64), read_only(secrets.high[own], np.int64)),
            read_only(own, np.int64),
            read_only(table, np.bool_),
            secrets.covers is not None,
        )
    )


@njit(nogil=True, cache=True)
def _right_shares(
    near: tuple[Places, Places],
    cells: tuple[Places, Places, Places],
    ends: tuple[Places, Places],
    own: Places,
    table: Bools,
    covers: bool,
) -> Numbers:
    starts, values, before = cells
    out = np.empty(len(own))
    for r in range(len(own)):
        right, rows = 0, 0
        for at in range(near[0][r], near[0][r + 1]):
            start, end = starts[near[1][at]], starts[near[1][at] + 1]
            rows += before[end] - before[start]
            if covers:
                for cell in range(start, end):
                    if table[own[r], values[cell]]:
                        right += before[cell + 1] - before[cell]
            else:
                low = start + np.searchsorted(values[start:end], ends[0][r])
                high = start + np.searchsorted(values[start:end], ends[1][r])
                if high > low:
                    right += before[high] - before[low]
        out[r] = right / rows
    return out


ROWS = 262_144
"""Rows whose bitmaps are in memory at one time."""
BITMAPS = 2_000


@dataclass(frozen=True)
class CodedColumn:
    """A column of a table as codes.

    Parameters
    ----------
    codes : ndarray of int64, shape (n,)
        Numbers by rank, texts by their number; -1: missing.
    covered : ndarray of bool, shape (values, labels), optional
        Which labels cover a value, where parts name labels.
    """

    codes: Places = field(repr=False)
    covered: Bools | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Parts:
    """Distinct parts of predicates: a column whose codes are between two ends, or under the label `low`.

    `negated` negates a part.
    """

    column: Places = field(repr=False)
    low: Places = field(repr=False)
    high: Places = field(repr=False)
    negated: Bools | None = field(default=None, repr=False)


def matches(predicates: Places, parts: Parts, columns: list[CodedColumn]) -> tuple[Places, Places]:
    """How many rows meet each predicate, and the last of them.

    Parameters
    ----------
    predicates : ndarray of int64, shape (m, size)
        Numbers of parts; all must be met.
    parts : Parts
    columns : list of CodedColumn
        The columns of one table.

    Returns
    -------
    counts : ndarray of int64, shape (m,)
    last : ndarray of int64, shape (m,)
        -1 where no row meets it; the only row where one does.

    Examples
    --------
    >>> column = CodedColumn(np.array([0, 1, 2, -1]))
    >>> parts = Parts(np.array([0, 0]), np.array([1, 0]), np.array([2, 1]))
    >>> [found.tolist() for found in matches(np.array([[0, 0], [0, 1]]), parts, [column])]
    [[2, 1], [2, 1]]
    """
    n, m = len(columns[0].codes), len(predicates)
    counts, last = np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int64)
    for start in range(0, n, ROWS):
        rows = slice(start, min(start + ROWS, n))
        orders = [np.argsort(column.codes[rows], kind="stable") for column in columns]
        for first in range(0, m, BITMAPS):
            some = slice(first, first + BITMAPS)
            used, places = np.unique(predicates[some], return_inverse=True)
            places = places.reshape(predicates[some].shape)
            bitmaps = _bitmaps(parts, used, columns, rows, orders)
            _count(read_only(places, np.int64), read_only(bitmaps, np.uint64), start, counts[some], last[some])
    return counts, last


def _bitmaps(
    parts: Parts, used: Places, columns: list[CodedColumn], rows: slice, orders: list[Places]
) -> NDArray[np.uint64]:
    """A bit for each row that meets a part, shape (parts, words)."""
    found = np.zeros((len(used), -(-(rows.stop - rows.start) // 64)), dtype=np.uint64)
    for at, (column, order) in enumerate(zip(columns, orders, strict=True)):
        own = np.flatnonzero(parts.column[used] == at)
        if column.covered is None:
            low, high = parts.low[used[own]], parts.high[used[own]]
            codes = column.codes[rows][order]
            by_end = [read_only(np.argsort(ends, kind="stable"), np.int64) for ends in (high, low)]
            given = (read_only(each, np.int64) for each in (own, low, high, *by_end, order, codes))
            _mark_ranges(found, *given)
        else:
            for place, label in zip(own.tolist(), parts.low[used[own]].tolist(), strict=True):
                bits = np.packbits(column.covered[column.codes[rows], label], bitorder="little")
                found[place].view(np.uint8)[: len(bits)] = bits
    if parts.negated is not None:
        every = np.packbits(np.ones(rows.stop - rows.start, np.bool_), bitorder="little")
        mask = np.zeros(found.shape[1], np.uint64)
        mask.view(np.uint8)[: len(every)] = every
        turned = parts.negated[used]
        found[turned] = ~found[turned] & mask
    return found


def isolated_once_of(counts: Places, total: int, drawn: int) -> Floats:
    """The chance that exactly one of some matching rows is among `drawn` of `total` rows drawn at random.

    Parameters
    ----------
    counts : ndarray of int64, shape (m,)
        Matching rows.
    total, drawn : int
        At least one, and no more drawn than there are.

    Examples
    --------
    >>> isolated_once_of(np.array([0, 1, 2, 4]), 4, 2).round(4).tolist()
    [0.0, 0.5, 0.6667, 0.0]
    >>> isolated_once_of(np.array([0, 1, 2]), 4, 4).tolist()
    [0.0, 1.0, 0.0]
    """
    most = int(counts.max(initial=0))
    chances = np.zeros(most + 1)
    # d C(h-d, n-1) / C(h, n) = d n/h times the factors (h-n-i)/(h-1-i), i < d - 1.
    product = drawn / total
    for d in range(1, most + 1):
        chances[d] = d * product
        product *= max(total - drawn - (d - 1), 0) / max(total - d, 1)
    return np.asarray(chances[counts])


@njit(nogil=True, cache=True)
def _ones(word: np.uint64) -> int:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(nogil=True, cache=True)
def _mark_ranges(
    bitmaps: NDArray[np.uint64],
    places: Ints,
    low: Ints,
    high: Ints,
    by_high: Ints,
    by_low: Ints,
    order: Ints,
    codes: Ints,
) -> None:
    """Mark the rows whose code is between two ends: those up to the upper one except those below the lower one.

    Rows come in the order of their codes, and ranges in the order of an end, so that each row is marked only twice.
    """
    for upper in (True, False):
        marked, filled = np.zeros(bitmaps.shape[1], np.uint64), 0
        for at in by_high if upper else by_low:
            end = high[at] if upper else low[at] - 1
            while filled < len(order) and codes[filled] <= end:
                marked[order[filled] >> 6] |= np.uint64(1) << np.uint64(order[filled] & 63)
                filled += 1
            for word in range(len(marked)):
                if upper:
                    bitmaps[places[at], word] = marked[word]
                else:
                    bitmaps[places[at], word] &= ~marked[word]


@njit(nogil=True, cache=True)
def _count(
    predicates: Ints,
    bitmaps: NDArray[np.uint64],
    start: int,
    counts: Ints,
    last: Ints,
) -> None:
    size = predicates.shape[1]
    for r in range(len(predicates)):
        for word in range(bitmaps.shape[1]):
            bits = bitmaps[predicates[r, 0], word]
            for j in range(1, size):
                bits &= bitmaps[predicates[r, j], word]
            if bits:
                counts[r] += _ones(bits)
                at = 63
                while not (bits >> np.uint64(at)) & np.uint64(1):
                    at -= 1
                last[r] = start + 64 * word + at
