"""Rounding that keeps all relations of a table, each cell to one of the two multiples next to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy

from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import DataError, NoSolutionError
from privpipe.tables.cells import LinkedCells
from privpipe.tables.search_programmes import whole
from privpipe.tables.subtables import Subtable, subtables

__all__ = ["ControlledRounding", "controlled"]

WHOLE_MODEL = 3_000
"""Cells up to which a table is rounded as one programme."""
NODES = 20_000
LARGEST_INTEGER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class ControlledRounding:
    """A rounded table that adds up.

    Parameters
    ----------
    published : ndarray of int64
    distance : int
        Sum of cost times distance over all cells.
    proven : bool
        Whether the solver found no smaller distance possible.
    steps : int
        Multiples beyond the two neighbouring ones that had to be allowed.
    """

    published: Ints
    distance: int
    proven: bool
    steps: int


def controlled(linked: LinkedCells, values: Ints, base: int, cost: Ints | None = None) -> ControlledRounding:
    """Round each cell up or down so that every relation holds, for the least sum of cost times distance.

    Multiples of the base stay. Where that is impossible, which tables of three dimensions can be, each cell may go one
    more multiple each way. A table of more than 3,000 cells is rounded from the top: each subtable with its margins as
    they were left.

    Parameters
    ----------
    linked : LinkedCells
    values : ndarray of int64, shape (variables,)
        Counts or sums that are not negative, in units.
    base : int
    cost : ndarray of int64 or None
        1 for each cell unless given.

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
    price = np.ones(len(values), dtype=np.int64) if cost is None else cost
    for steps in (0, 1):
        if len(values) > WHOLE_MODEL:
            found = _from_the_top(linked, values, base, price, steps)
        else:
            found = _programme(relations, values, base, price, steps, None)
        if found is not None:
            published, bound = found
            away = np.abs(published - values)
            distance = int((price * away).sum())
            far = int((away >= base).any())
            return ControlledRounding(published, distance, bound is not None and distance <= bound, max(steps, far))
    raise NoSolutionError(
        f"round_table: no table of multiples of {base} was found that adds up with each cell within two multiples; "
        "use another base, fewer dimensions or method: random"
    )


def _from_the_top(
    linked: LinkedCells, values: Ints, base: int, price: Ints, steps: int
) -> tuple[Ints, int | None] | None:
    published = np.full(len(values), -1)
    for part in subtables(linked):
        rounded = _part(part, values, base, price, steps, published)
        if rounded is None:
            return None
        published[part.cells] = rounded
    alone = published < 0
    published[alone] = values[alone] // base * base + np.where(2 * (values[alone] % base) >= base, base, 0)
    return (published, None) if _holds(linked.relations, published) else None


def _part(part: Subtable, values: Ints, base: int, price: Ints, steps: int, published: Ints) -> Ints | None:
    known = published[part.cells]
    for more in range(steps, 2):
        found = _programme(part.relations, values[part.cells], base, price[part.cells], more, known)
        if found is not None:
            return found[0]
    return None


def _programme(
    relations: scipy.sparse.csr_array, values: Ints, base: int, price: Ints, steps: int, known: Ints | None
) -> tuple[Ints, int | None] | None:
    """The rounded values, checked in integers, and a bound on their distance; None if the solver found none."""
    floor = values // base
    rest = values - floor * base
    least = np.where(rest == 0, 0, 0) - steps
    most = np.where(rest == 0, 0, 1) + steps
    least = np.maximum(least, -floor)
    if known is not None:
        fixed = known >= 0
        at = known[fixed] // base - floor[fixed]
        least[fixed], most[fixed] = at, at
    right = -(relations @ floor)
    count = len(values)
    # With one more multiple each way the distance is no longer linear: it is a second variable above both sides.
    scale = float(max(int(price.max(initial=1)), 1)) * base
    if steps == 0:
        costs, matrix, ends = _linear(price, base, rest, relations, right)
    else:
        costs, matrix, ends = _with_distances(price, base, rest, relations, right)
    extra = len(costs) - count
    solved = whole(
        costs / scale,
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
        offset = int((price * rest).sum()) if steps == 0 else 0
        least_distance = solved.bound * scale
        bound = offset + int(np.ceil(least_distance - 1e-6 * max(1.0, abs(least_distance))))
    return published, bound


Parts: TypeAlias = "tuple[Floats, scipy.sparse.csr_array, tuple[Floats, Floats]]"


def _linear(price: Ints, base: int, rest: Ints, relations: scipy.sparse.csr_array, right: Ints) -> Parts:
    costs = (price * (base - 2 * rest)).astype(np.float64)
    return costs, relations, (right.astype(np.float64), right.astype(np.float64))


def _with_distances(price: Ints, base: int, rest: Ints, relations: scipy.sparse.csr_array, right: Ints) -> Parts:
    count = len(price)
    one = scipy.sparse.eye_array(count)
    step = base * one
    blocks: list[list[Any]] = [[relations, None], [-step, one], [step, one]]
    matrix = scipy.sparse.csr_array(scipy.sparse.block_array(blocks if relations.shape[0] else blocks[1:]))
    low = np.concatenate([right, -rest, rest]).astype(np.float64)
    high = np.concatenate([right.astype(np.float64), np.full(2 * count, np.inf)])
    return np.concatenate([np.zeros(count), price.astype(np.float64)]), matrix, (low, high)


def _holds(relations: scipy.sparse.csr_array, published: Ints) -> bool:
    return not (relations @ published).any() and bool((published >= 0).all())
