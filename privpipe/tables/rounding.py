"""Rounding of tables to multiples of a base, cell by cell or with all relations kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy

from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.draws import Seed, Stream
from privpipe.errors import DataError, NoSolutionError, UsageError
from privpipe.tables.cells import Cells, LinkedCells
from privpipe.tables.hierarchical_patterns import Subtable, subtables
from privpipe.tables.solver import whole

__all__ = [
    "METHODS",
    "CellDraws",
    "ControlledRounding",
    "SmallCounts",
    "controlled",
    "reader_intervals",
    "rounded",
    "rounded_small_counts",
    "small_count_intervals",
]


METHODS = ("nearest", "midpoint", "random", "controlled", "small_counts")
PURPOSE = "privpipe/table-round/1"
LARGEST_INTEGER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, repr=False)
class CellDraws:
    """Draws that belong to the people of a cell: the same in every table and release, others for another base.

    Parameters
    ----------
    seed : Seed
    purpose : str
    keys : ndarray of int64, shape (cells,)
        Cell keys, as `privpipe.tables.contribution_rows.cell_key` gives them.
    contributors : ndarray of int64, shape (cells,)
    response : str
    """

    seed: Seed = field(repr=False)
    purpose: str
    keys: Ints = field(repr=False)
    contributors: Ints = field(repr=False)
    response: str = "count"

    def __repr__(self) -> str:
        return f"CellDraws(purpose={self.purpose!r}, response={self.response!r})"

    def below(self, base: int) -> Ints:
        """A number in 0 .. base - 1 for each cell."""
        stream = Stream(self.seed.bound(PURPOSE, base, self.purpose)[:16])
        word = int.from_bytes(hashlib.sha256(self.response.encode()).digest()[:8], "big")
        return stream.integers(np.column_stack([self.keys, self.contributors]), base, word)


def rounded(values: Ints, base: int, method: str, draws: CellDraws | None = None) -> Ints:
    """Each figure alone to a multiple of the base (to the middle of an interval between two for ``midpoint``).

    Parameters
    ----------
    values : ndarray of int64
        Counts, or sums in units.
    base : int
        At least 2, in units.
    method : str
        ``nearest``: halves up. ``midpoint``: 0 stays 0, all others to the middle of (k base, (k + 1) base].
        ``random``: up with a probability of the rest over the base, multiples stay.
    draws : CellDraws or None
        For ``random``.

    Raises
    ------
    UsageError
        If the base or method is none of these.
    DataError
        If a figure is too large, or negative for ``midpoint``.

    Examples
    --------
    >>> rounded(np.array([0, 2, 3, 7, 8]), 5, "nearest").tolist()
    [0, 0, 5, 5, 10]
    >>> rounded(np.array([0, 1, 5, 6]), 5, "midpoint").tolist()
    [0, 3, 3, 8]
    """
    _require_base(base)
    if int(np.abs(values).max(initial=0)) > LARGEST_INTEGER // 2 - base:
        raise DataError("round_table: figures are too large to round in 64 bits; publish them in larger units")
    down = values // base * base
    rest = values - down
    if method == "nearest":
        return np.asarray(down + np.where(2 * rest >= base, base, 0), dtype=np.int64)
    if method == "midpoint":
        negative = int((values < 0).sum())
        if negative:
            raise DataError(f"round_table: midpoint is for counts, and {negative} figures are negative")
        return np.asarray(np.where(values == 0, 0, -(-values // base) * base - base // 2), dtype=np.int64)
    if method == "random":
        if draws is None:
            raise UsageError("round_table: random rounding needs draws that belong to the contributors of each cell")
        return np.asarray(down + np.where(draws.below(base) < rest, base, 0), dtype=np.int64)
    raise UsageError(f"round_table: method {method!r} does not round each figure by itself")


def reader_intervals(published: Ints, base: int, method: str, *, counts: bool, steps: int = 0) -> tuple[Ints, Ints]:
    """The least and greatest figure in units that a reader who knows base and method holds for possible.

    Parameters
    ----------
    counts : bool
        Whether figures are never negative.
    steps : int
        Of controlled rounding: multiples that were allowed beyond the two neighbouring ones.

    Examples
    --------
    >>> [ends.tolist() for ends in reader_intervals(np.array([0, 5]), 5, "nearest", counts=True)]
    [[0, 3], [2, 7]]
    """
    _require_base(base)
    if method == "nearest":
        low, high = published - base // 2, published + -(-base // 2) - 1
    elif method == "midpoint":
        zero = published == 0
        low = np.where(zero, 0, published + base // 2 - base + 1)
        high = np.where(zero, 0, published + base // 2)
    elif method in ("random", "controlled"):
        away = (steps + 1) * base - 1
        low, high = published - away, published + away
    else:
        raise UsageError(f"round_table: {method!r} gives no interval for a single figure; its parts have them")
    if counts:
        low = np.maximum(low, 0)
    return np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)


@dataclass(frozen=True)
class SmallCounts:
    """Counts without small ones, which add up.

    Parameters
    ----------
    published : ndarray of int64, shape (cells,)
    rounded : ndarray of bool, shape (cells,)
        Inner cells that were rounded; all others are as they were, or sums.
    largest_difference : int
        Of a published count and the true one.
    """

    published: Ints
    rounded: Bools
    largest_difference: int


def rounded_small_counts(cells: Cells, counts: Ints, base: int, shown: Bools, ties: Ints) -> SmallCounts:
    """Round only cells behind a published count of 1 .. base - 1, and add up again.

    Inner cells below the base that are part of a small published cell become 0 or the base: first all 0, then one
    after the other the base, always the one after which the sum of squared differences over published cells is least,
    until none makes it less. Source: Langsrud, SmallCountRounding.

    Parameters
    ----------
    cells : Cells
        All inner cells that have records, and the totals to be published.
    counts : ndarray of int64
    base : int
    shown : ndarray of bool
        Cells that are published.
    ties : ndarray of int64
        A keyed number of each cell; the least is taken first among equals.

    Raises
    ------
    DataError
        If counts do not add up to their totals, or one is negative.
    """
    _require_base(base)
    inner = _inner(cells)
    parts = _parts(cells, inner)
    if int((counts < 0).sum()) or (parts @ counts[inner] != counts).any():
        raise DataError("round_table: small_counts needs counts that are not negative and add up from inner cells")
    true = counts[inner]
    visible = parts[np.flatnonzero(shown)]
    known = counts[shown]
    small = np.zeros(len(inner), dtype=np.bool_)
    figures = known
    while True:
        tiny = (figures > 0) & (figures < base)
        if not tiny.any():
            break
        touched = visible[np.flatnonzero(tiny)].sum(axis=0) > 0
        more = touched & (true > 0) & (true < base) & ~small
        if not more.any():
            raise DataError("round_table: small counts remain that are not sums of inner cells below the base")
        small |= more
        up = _raised(visible, true, small, base, ties[inner])
        kept = np.where(small, np.where(up, base, 0), true)
        figures = visible @ kept
    kept = true if not small.any() else kept
    published = np.asarray(parts @ kept, dtype=np.int64)
    changed = np.zeros(len(cells), dtype=np.bool_)
    changed[inner[small]] = True
    return SmallCounts(published, changed, int(np.abs(visible @ kept - known).max(initial=0)))


def small_count_intervals(cells: Cells, counts: Ints, rounded: Bools, base: int) -> tuple[Ints, Ints]:
    """Bounds on the counts for an attacker who knows which inner cells `rounded_small_counts` rounded.

    Examples
    --------
    >>> from privpipe.tables.cells import Dimension
    >>> cells = Cells.complete([Dimension.tree("a", {"x": "T", "y": "T"})])
    >>> ends = small_count_intervals(cells, np.array([22, 2, 20]), np.array([False, True, False]), 5)
    >>> [end.tolist() for end in ends]
    [[21, 1, 20], [24, 4, 20]]
    """
    inner = _inner(cells)
    parts, changed = _parts(cells, inner), rounded[inner]
    low = parts @ np.where(changed, 1, counts[inner])
    high = parts @ np.where(changed, base - 1, counts[inner])
    return np.asarray(low, dtype=np.int64), np.asarray(high, dtype=np.int64)


def _raised(visible: scipy.sparse.csr_array, true: Ints, small: Bools, base: int, ties: Ints) -> Bools:
    """Which of the small inner cells become the base, greedily."""
    at = np.flatnonzero(small)
    among = scipy.sparse.csr_array(visible[:, at])
    overlap = scipy.sparse.csr_array(among.T @ among)
    own = overlap.diagonal()
    # The gain of raising cell j is base^2 own_j + 2 base (among' difference)_j, less than 0 for the better.
    slope = -(among.T @ (among @ true[at]))
    up = np.zeros(len(at), dtype=np.bool_)
    order = np.lexsort((at, ties[at]))
    rank = np.empty(len(at), dtype=np.int64)
    rank[order] = np.arange(len(at))
    while True:
        gain = np.where(up, 1, base * own + 2 * slope)
        least = gain.min(initial=1)
        if least >= 0:
            break
        best = np.flatnonzero(gain == least)
        chosen = int(best[np.argmin(rank[best])])
        up[chosen] = True
        first, last = overlap.indptr[chosen], overlap.indptr[chosen + 1]
        slope[overlap.indices[first:last]] += base * overlap.data[first:last]
    raised = np.zeros(len(true), dtype=np.bool_)
    raised[at] = up
    return raised


def _inner(cells: Cells) -> Ints:
    leaf = np.ones(len(cells), dtype=np.bool_)
    for place, dimension in enumerate(cells.dimensions):
        leaf &= np.isin(cells.codes[:, place], dimension.leaves)
    return np.flatnonzero(leaf)


def _parts(cells: Cells, inner: Ints) -> scipy.sparse.csr_array:
    """Which inner cells add up to each cell, shape (cells, inner cells)."""
    size = len(inner)
    keys, at = cells.codes[inner].copy(), np.arange(size)
    found = [(keys.copy(), at)]
    for place, dimension in enumerate(cells.dimensions):
        parent = np.asarray(dimension.parent, dtype=np.int64)
        grown = []
        for codes, which in found:
            while len(codes):
                grown.append((codes, which))
                inside = codes[:, place] > 0
                codes, which = codes[inside].copy(), which[inside]
                codes[:, place] = parent[codes[:, place]]
        found = grown
    codes = np.concatenate([codes for codes, _ in found])
    which = np.concatenate([which for _, which in found])
    key = np.zeros(len(codes), dtype=np.int64)
    for place, length in enumerate(cells.shape):
        key = key * length + codes[:, place]
    order = np.argsort(cells.keys)
    row = np.minimum(np.searchsorted(cells.keys, key, sorter=order), len(order) - 1)
    row = order[row]
    held = cells.keys[row] == key
    shape = (len(cells), size)
    return scipy.sparse.csr_array((np.ones(int(held.sum()), dtype=np.int64), (row[held], which[held])), shape=shape)


def _require_base(base: int) -> None:
    if base < 2:
        raise UsageError(f"round_table: base must be at least 2, got {base}")


WHOLE_MODEL = 3_000
"""Cells up to which a table is rounded as one programme."""
NODES = 20_000


@dataclass(frozen=True)
class ControlledRounding:
    """A rounded table that adds up.

    Parameters
    ----------
    published : ndarray of int64
    distance : int
        Sum of the distances of all cells.
    proven : bool
        Whether the solver found no smaller distance possible.
    steps : int
        Multiples beyond the two neighbouring ones that had to be allowed.
    """

    published: Ints
    distance: int
    proven: bool
    steps: int


def controlled(linked: LinkedCells, values: Ints, base: int) -> ControlledRounding:
    """Round each cell up or down so that every relation holds, for the least sum of distances.

    Multiples of the base stay. Where that is impossible, which tables of three dimensions can be, each cell may go one
    more multiple each way. A table of more than 3,000 cells is rounded from the top: each subtable with its margins as
    they were left.

    Parameters
    ----------
    linked : LinkedCells
    values : ndarray of int64, shape (variables,)
        Counts or sums that are not negative, in units.
    base : int

    Raises
    ------
    DataError
        If values do not add up, or one is negative or too large.
    NoSolutionError
        If no rounding with one more multiple each way adds up, or the solver found none.
    """
    relations = linked.relations
    if (values < 0).any() or int(values.max(initial=0)) > LARGEST_INTEGER // 4 - base:
        raise DataError("round_table: controlled rounding needs figures that are not negative and fit 62 bits")
    wrong = int((relations @ values != 0).sum())
    if wrong:
        raise DataError(f"round_table: {wrong} totals do not equal the sum of their parts")
    for steps in (0, 1):
        if len(values) > WHOLE_MODEL:
            found = _from_the_top(linked, values, base, steps)
        else:
            found = _programme(relations, values, base, steps, None)
        if found is not None:
            published, bound = found
            away = np.abs(published - values)
            distance = int(away.sum())
            far = int((away >= base).any())
            return ControlledRounding(published, distance, bound is not None and distance <= bound, max(steps, far))
    raise NoSolutionError(
        f"round_table: no table of multiples of {base} was found that adds up with each cell within two multiples; "
        "use another base, fewer dimensions or method: random"
    )


def _from_the_top(linked: LinkedCells, values: Ints, base: int, steps: int) -> tuple[Ints, int | None] | None:
    published = np.full(len(values), -1)
    for part in subtables(linked):
        rounded = _part(part, values, base, steps, published)
        if rounded is None:
            return None
        published[part.cells] = rounded
    alone = published < 0
    published[alone] = values[alone] // base * base + np.where(2 * (values[alone] % base) >= base, base, 0)
    return (published, None) if _holds(linked.relations, published) else None


def _part(part: Subtable, values: Ints, base: int, steps: int, published: Ints) -> Ints | None:
    known = published[part.cells]
    for more in range(steps, 2):
        found = _programme(part.relations, values[part.cells], base, more, known)
        if found is not None:
            return found[0]
    return None


def _programme(
    relations: scipy.sparse.csr_array, values: Ints, base: int, steps: int, known: Ints | None
) -> tuple[Ints, int | None] | None:
    """The rounded values, checked in integers, and a bound on their distance; None if the solver found none."""
    floor = values // base
    rest = values - floor * base
    least = np.maximum(-steps, -floor)
    most = np.where(rest == 0, 0, 1) + steps
    if known is not None:
        fixed = known >= 0
        at = known[fixed] // base - floor[fixed]
        least[fixed], most[fixed] = at, at
    right = -(relations @ floor)
    count = len(values)
    # With one more multiple each way the distance is no longer linear: it is a second variable above both sides.
    if steps == 0:
        costs, matrix, ends = _linear(base, rest, relations, right)
    else:
        costs, matrix, ends = _with_distances(base, rest, relations, right)
    extra = len(costs) - count
    solved = whole(
        costs / base,
        np.concatenate([least, np.zeros(extra)]),
        np.concatenate([most, np.full(extra, np.inf)]),
        matrix,
        ends,
        nodes=NODES,
        whole=np.arange(len(costs)) < count,
    )
    if solved is None:
        return None
    chosen = np.rint(solved.point[:count]).astype(np.int64)
    published = (floor + chosen) * base
    if (chosen < least).any() or (chosen > most).any() or not _holds(relations, published):
        return None
    bound = None
    if solved.bound is not None:
        offset = int(rest.sum()) if steps == 0 else 0
        least_distance = solved.bound * base
        bound = offset + int(np.ceil(least_distance - 1e-6 * max(1.0, abs(least_distance))))
    return published, bound


Parts: TypeAlias = "tuple[Floats, scipy.sparse.csr_array, tuple[Floats, Floats]]"


def _linear(base: int, rest: Ints, relations: scipy.sparse.csr_array, right: Ints) -> Parts:
    costs = (base - 2 * rest).astype(np.float64)
    return costs, relations, (right.astype(np.float64), right.astype(np.float64))


def _with_distances(base: int, rest: Ints, relations: scipy.sparse.csr_array, right: Ints) -> Parts:
    count = len(rest)
    one = scipy.sparse.eye_array(count)
    step = base * one
    blocks: list[list[Any]] = [[relations, None], [-step, one], [step, one]]
    matrix = scipy.sparse.csr_array(scipy.sparse.block_array(blocks if relations.shape[0] else blocks[1:]))
    low = np.concatenate([right, -rest, rest]).astype(np.float64)
    high = np.concatenate([right.astype(np.float64), np.full(2 * count, np.inf)])
    return np.concatenate([np.zeros(count), np.ones(count)]), matrix, (low, high)


def _holds(relations: scipy.sparse.csr_array, published: Ints) -> bool:
    return not (relations @ published).any() and bool((published >= 0).all())
