"""Which cells to blank: removal of needless blanks under wildcard matching, and cheapest blanks as values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from privpipe.blocks.arrays import Floats, Ints, Words
from privpipe.compiled import njit
from privpipe.kernels.local_suppression.wildcard_matching import (
    alike,
    differing_columns,
    hidden_words,
    is_empty,
    matches,
)

__all__ = [
    "BlankingTable",
    "cheapest_rescue",
    "cheapest_rescue_in_rings",
    "columns_to_meet",
    "drop_blanks",
    "members_of_ring",
]


TIE = 1e-9
MOST_STEPS = 4_000_000_000
"""Most comparisons of combinations in a round of exchange; a round that needs more is skipped."""


class BlankingTable(NamedTuple):
    """The table in which cells are blanked.

    Parameters
    ----------
    words, missing : ndarray of uint64, shape (t, words)
        Packed combinations, and the bits that are missing in the data.
    judged : ndarray of uint64, shape (words,)
        Bits of the judged columns: a record that is blank in all of them matches only others that are.
    fields : ndarray of uint64, shape (b, words)
        Bits of each column that may be blanked.
    counts : ndarray of int64, shape (t,)
        Records of each combination.
    weights : ndarray of float64, shape (b,)
        Cost of a blank of each column.
    cost : ndarray of float64, shape (2^b,)
        Cost of each set of columns.
    """

    words: Words
    missing: Words
    judged: Words
    fields: Words
    counts: Ints
    weights: Floats
    cost: Floats


class _State(NamedTuple):
    """For each combination: blanked columns as bits, hidden bits, and matching records."""

    blanks: Any
    hidden: Any
    sizes: Any


def drop_blanks(table: BlankingTable, blanks: Ints, k: int, *, passes: int = 0, most: Floats | None = None) -> Ints:
    """Restore the blanks that every record can spare, then exchange: blank one more cell if this restores several.

    Combinations are visited by descending count, then by place; for each the whole set of blanks is tried, then column
    after column by descending weight. A change is kept if every record still matches k.

    Parameters
    ----------
    blanks : ndarray of int64, shape (t,)
        Feasible blanks, columns as bits; not changed.
    k : int
    passes : int
        Rounds of exchange over all cells, at most; they end when nothing is gained.
    most : ndarray of float64, shape (t,), optional
        Cost of a combination's blanks that an exchange may not exceed. Without it all blanks may move to a few
        combinations that are blank in nearly every column.

    Returns
    -------
    ndarray of int64, shape (t,)
        Feasible blanks that cost no more.
    """
    hidden = hidden_words(blanks, table.fields, table.missing)
    state = _State(blanks.copy(), hidden, matches(table.words, hidden, table.judged, table.counts))
    visits = np.argsort(-table.counts, kind="stable")
    columns = np.argsort(-table.weights, kind="stable")
    limits = np.full(len(blanks), np.inf) if most is None else most
    _drop(table, state, visits, columns, k)
    steps = len(blanks) ** 2 * len(columns) * np.count_nonzero(state.blanks)
    for _ in range(passes if steps <= MOST_STEPS else 0):
        if not _exchange(table, state, visits, columns, limits, k):
            break
    return state.blanks  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _drop(table: Any, state: Any, visits: Any, columns: Any, k: int) -> float:
    """Restore the blanks that can be spared; the weight of the restored cells."""
    saved = 0.0
    for one in visits:
        before = state.blanks[one]
        if not before:
            continue
        if not _take_back(table, state, one, 0, k):
            for column in columns:
                if state.blanks[one] >> column & 1:
                    _take_back(table, state, one, state.blanks[one] & ~(1 << column), k)
        saved += table.counts[one] * (table.cost[before] - table.cost[state.blanks[one]])
    return saved


@njit(cache=True, nogil=True)
def _exchange(table: Any, state: Any, visits: Any, columns: Any, limits: Any, k: int) -> bool:
    """Blank a cell where this restores cells of more weight; whether any was blanked."""
    better = False
    for one in visits:
        for column in range(len(table.fields)):
            more = state.blanks[one] | (1 << column)
            if more == state.blanks[one] or table.cost[more] > limits[one] + TIE:
                continue
            blanks, hidden, sizes = state.blanks.copy(), state.hidden.copy(), state.sizes.copy()
            gained = 0 if is_empty(state.hidden, table.judged, one) else _blank(table, state, one, more)
            saved = _drop(table, state, visits, columns, k) if gained else 0.0
            if saved > table.counts[one] * table.weights[column] + TIE:
                better = True
            else:
                state.blanks[:], state.hidden[:], state.sizes[:] = blanks, hidden, sizes
    return better


@njit(cache=True, nogil=True)
def _take_back(table: Any, state: Any, one: int, blanks: int, k: int) -> bool:
    """Reduce a combination's blanks, if every record then still matches k."""
    words, hidden, sizes = table.words, state.hidden, state.sizes
    before, gone, found = hidden[one].copy(), 0, 0
    was_empty = is_empty(hidden, table.judged, one)
    _hide(table, hidden, one, blanks)
    if was_empty:
        return bool(_refill(table, state, one, blanks, before, k))
    lost = np.empty(len(words), np.int64)
    for other in range(len(words)):
        if is_empty(hidden, table.judged, other):
            continue
        if _seen_alike(words, hidden, before, one, other) and not alike(words, hidden, one, other):
            gone += table.counts[other]
            if sizes[other] - table.counts[one] < k or sizes[one] - gone < k:
                hidden[one] = before
                return False
            lost[found] = other
            found += 1
    for place in range(found):
        sizes[lost[place]] -= table.counts[one]
    sizes[one] -= gone
    state.blanks[one] = blanks
    return True


@njit(cache=True, nogil=True)
def _refill(table: Any, state: Any, one: int, blanks: int, before: Any, k: int) -> bool:
    """As `_take_back`, for a combination blank in every judged column: it then matches other records instead."""
    words, hidden, sizes = table.words, state.hidden, state.sizes
    if is_empty(hidden, table.judged, one):
        hidden[one] = before  # the combination is blank in the data already
        return False
    size = table.counts[one]
    for other in range(len(words)):
        if other == one:
            continue
        if not is_empty(hidden, table.judged, other):
            size += table.counts[other] if alike(words, hidden, one, other) else 0
        elif _seen_alike(words, hidden, before, one, other) and sizes[other] - table.counts[one] < k:
            hidden[one] = before
            return False
    if size < k:
        hidden[one] = before
        return False
    for other in range(len(words)):
        if other == one:
            continue
        if is_empty(hidden, table.judged, other):
            sizes[other] -= table.counts[one] if _seen_alike(words, hidden, before, one, other) else 0
        else:
            sizes[other] += table.counts[one] if alike(words, hidden, one, other) else 0
    sizes[one] = size
    state.blanks[one] = blanks
    return True


@njit(cache=True, nogil=True)
def _blank(table: Any, state: Any, one: int, blanks: int) -> int:
    """Give a combination more blanks, not in every judged column; how many records match it more than before."""
    words, hidden = table.words, state.hidden
    before, gained = hidden[one].copy(), 0
    _hide(table, hidden, one, blanks)
    if is_empty(hidden, table.judged, one):
        hidden[one] = before
        return 0
    for other in range(len(words)):
        if is_empty(hidden, table.judged, other):
            continue
        if alike(words, hidden, one, other) and not _seen_alike(words, hidden, before, one, other):
            gained += table.counts[other]
            state.sizes[other] += table.counts[one]
    state.sizes[one] += gained
    state.blanks[one] = blanks
    return gained


@njit(cache=True, nogil=True)
def _hide(table: Any, hidden: Any, one: int, blanks: int) -> None:
    for word in range(hidden.shape[1]):
        bits = table.missing[one, word]
        for column in range(len(table.fields)):
            if (blanks >> column) & 1:
                bits |= table.fields[column, word]
        hidden[one, word] = bits


@njit(cache=True, nogil=True)
def _seen_alike(words: Any, hidden: Any, bits: Any, one: int, other: int) -> bool:
    """Whether two combinations match when the first hides these bits instead of its own."""
    for word in range(words.shape[1]):
        if (words[one, word] ^ words[other, word]) & ~(bits[word] | hidden[other, word]):
            return False
    return True


SMALLEST_GAIN = 1e-12
FAR = 1 << 62


@njit(cache=True, nogil=True)
def columns_to_meet(
    words: Words,
    hidden: Words,
    fields: Words,
    blanks: Ints,
    sizes: Ints,
    one: int,
) -> Ints:
    """The least columns that a class must blank to become equal to another class, as bits.

    Parameters
    ----------
    words, hidden : ndarray of uint64, shape (c, words)
        A packed member of each class, and its blanked bits.
    fields : ndarray of uint64, shape (b, words)
        Bits of each column that may be blanked.
    blanks : ndarray of int64, shape (c,)
        Columns blanked in each class, as bits.
    sizes : ndarray of int64, shape (c,)
        Records of each; a size of 0 marks no class.
    one : int
        The other class.

    Returns
    -------
    ndarray of int64, shape (c,)
        -1 where they differ in a column that cannot be blanked, and where there is no class.
    """
    found = np.empty(len(words), np.int64)
    for other in range(len(words)):
        differing = differing_columns(words, hidden, fields, one, other) if sizes[other] else -1
        found[other] = -1 if differing < 0 else differing | blanks[other]
    return found


@njit(cache=True, nogil=True)
def cheapest_rescue(
    needs: Ints,
    blanks: Ints,
    sizes: Ints,
    order: Ints,
    cost: Floats,
    own: int,
    k: int,
) -> int:
    """The blanks under which a class and others that become equal to it reach k, at least cost per rescued record.

    All classes of fewer than k that become equal are rescued together. Where they do not reach k, records of larger
    classes join: their surplus above k, otherwise the smallest of these classes as a whole.

    Parameters
    ----------
    needs : ndarray of int64, shape (c,)
        `columns_to_meet` of the class.
    blanks, sizes : ndarray of int64, shape (c,)
        For each class; a size of 0 marks no class.
    order : ndarray of int64, shape (2^b,)
        Sets of columns, cheapest first.
    cost : ndarray of float64, shape (2^b,)
    own : int
        Columns that are already blank in the class.
    k : int

    Returns
    -------
    int
        Columns as bits; -1 where there are none.
    """
    small, spare = np.zeros(len(cost), np.int64), np.zeros(len(cost), np.int64)
    paid = np.zeros(len(cost), np.float64)
    least = np.full(len(cost), FAR, np.int64)
    there = np.zeros(len(cost), np.bool_)
    for other in range(len(needs)):
        need, size = needs[other], sizes[other]
        if need < 0 or size == 0:
            continue
        if size < k:
            small[need] += size
            paid[need] += size * cost[blanks[other]]
        else:
            spare[need] += size - k
            least[need] = min(least[need], size)
            there[need] |= need == blanks[other]
    _over_subsets(small, spare, paid, least)
    best, found = np.inf, -1
    for blank in order:
        if blank & own != own:
            continue
        records = small[blank]
        price = _price(records, paid[blank], spare[blank], least[blank], there[blank], cost[blank], k)
        if price < (best - SMALLEST_GAIN) * records:
            best, found = price / records, blank
    return found


@njit(cache=True, nogil=True)
def cheapest_rescue_in_rings(
    rings: Ints,
    blanks: Ints,
    sizes: Ints,
    order: Ints,
    cost: Floats,
    one: int,
    k: int,
    spared: float,
) -> tuple[int, bool]:
    """As `cheapest_rescue`, from the classes that become equal under one set of columns after another.

    Every small class pays for all columns of a set except those it already has blank, so the cheapest sets decide: a
    set whose cost minus `spared` exceeds the least price found so far cannot be better.

    Parameters
    ----------
    rings : ndarray of int32, shape (sets, c)
        For the first sets of `order`, the next of the classes that are equal outside the set's columns and have no
        other blanks; the last one leads to the first.
    blanks, sizes, order, cost, k
        As of `cheapest_rescue`.
    one : int
        The class.
    spared : float
        The largest cost of the existing blanks of a class of fewer than k.

    Returns
    -------
    (int, bool)
        Columns as bits, -1 where there are none; whether no other set can be better.
    """
    own = blanks[one]
    best, found = np.inf, -1
    for place in range(len(rings)):
        blank = order[place]
        if blank & own != own:
            continue
        if cost[blank] - spared >= best:
            return found, True
        records, spare, paid, least, there = 0, 0, 0.0, FAR, False
        other = np.int64(one)
        while True:
            size = sizes[other]
            if size >= k:
                spare += size - k
                least = min(least, size)
                there |= blanks[other] == blank
            elif size:
                records += size
                paid += size * cost[blanks[other]]
            other = np.int64(rings[place, other])
            if other == one:
                break
        price = _price(records, paid, spare, least, there, cost[blank], k)
        if price < (best - SMALLEST_GAIN) * records:
            best, found = price / records, blank
    return found, len(rings) == len(order)


@njit(cache=True, nogil=True)
def members_of_ring(ring: Ints, one: int) -> Ints:
    """The classes of a ring of `cheapest_rescue_in_rings`, ascending."""
    count, other = 1, np.int64(ring[one])
    while other != one:
        count, other = count + 1, np.int64(ring[other])
    found = np.empty(count, np.int64)
    for at in range(count):
        found[at] = other
        other = np.int64(ring[other])
    found.sort()
    return found


@njit(cache=True, nogil=True)
def _price(records: int, paid: float, spare: int, least: int, there: bool, cost: float, k: int) -> float:
    """Cost of the blanks that bring small classes of `records` records to k; infinite where that is impossible."""
    price = records * cost - paid
    if there or records >= k:
        return price
    if spare >= k - records:
        return price + (k - records) * cost
    return price + least * cost if least < FAR else np.inf


@njit(cache=True, nogil=True)
def _over_subsets(small: Any, spare: Any, paid: Any, least: Any) -> None:
    bit = 1
    while bit < len(small):
        for at in range(len(small)):
            if at & bit:
                small[at] += small[at ^ bit]
                spare[at] += spare[at ^ bit]
                paid[at] += paid[at ^ bit]
                least[at] = min(least[at], least[at ^ bit])
        bit <<= 1
