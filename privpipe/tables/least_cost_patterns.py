"""Patterns of hidden cells: the cheapest that keeps protection levels, and one by linear algebra."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats
from privpipe.tables.moves import Hiding, Requirement, cheapest_move, farthest
from privpipe.tables.solver import linear, whole

__all__ = ["Limits", "Pattern", "drawn_prime", "least_cost", "linear_pattern"]


GRAIN = 5040
"""Multipliers are rounded to this part of 1: any multipliers give a valid cut, and these give one without noise."""
MARGIN = 1e-6
LOOSE = 0.2
GAPS = (0.02, 0.0)
"""How far from the optimum a programme may end: first roughly, while cuts are still missing."""


@dataclass(frozen=True)
class Limits:
    """Most work of a search, in steps that do not depend on the machine.

    Parameters
    ----------
    nodes : int
        Of one integer programme.
    rounds : int
        Of cuts, in the linear and in the integer phase each.
    entries : int
        Of the matrices of all programmes of a search together.
    """

    nodes: int = 20_000
    rounds: int = 100
    entries: int = 10_000_000


@dataclass(frozen=True)
class Pattern:
    """Hidden cells, with what is known about the least cost.

    Parameters
    ----------
    hidden : ndarray of bool
    cost : int
        Of the cells that are not sensitive.
    bound : int
        No pattern costs less, by the solver.
    unattainable : tuple of int
        Sensitive variables that no pattern protects.
    """

    hidden: Bools
    cost: int
    bound: int
    unattainable: tuple[int, ...] = ()

    @property
    def proven(self) -> bool:
        return self.bound >= self.cost


def least_cost(hiding: Hiding, limits: Limits | None = None, covers: Sequence[NDArray[np.int64]] = ()) -> Pattern:
    """Choose cells to hide in addition to the sensitive ones, for the least sum of costs.

    Source: Fischetti, Salazar, JASA 95 (2000). A sensitive cell fails in a pattern if the farthest move is too short.
    The multipliers of that linear programme bound the farthest move of every pattern by a weighted sum of its hidden
    cells, so the sum of weights must be at least the level: a cut. Cuts are added until the cheapest pattern that
    meets all of them fails nowhere.

    Parameters
    ----------
    hiding : Hiding
        Best one component at a time.
    limits : Limits or None
    covers : sequence of ndarray of int64
        Cells of which at least one more must be hidden.

    Returns
    -------
    Pattern
    """
    return _Search(hiding, limits or Limits(), covers).run()


class _Search:
    """The state of one search: cuts, and moves that were found."""

    def __init__(self, hiding: Hiding, limits: Limits, covers: Sequence[NDArray[np.int64]]) -> None:
        self.hiding, self.required, self.limits = hiding, hiding.required, limits
        self.free = np.flatnonzero(hiding.open)
        self.entries = limits.entries
        self.rows: list[Floats] = []
        self.covers = [np.isin(self.free, cover).astype(np.float64) for cover in covers]
        self.supports: dict[Requirement, list[Bools]] = {}
        self.bound = 0
        self.needs: list[Requirement] = []
        self.within = self._bridges(covers)

    def run(self) -> Pattern:
        everything = self.required.copy()
        everything[self.free] = True
        lost = {need.variable for need in self._failing(everything, self.hiding.requirements)}
        needs = self.needs = [need for need in self.hiding.requirements if need.variable not in lost]
        if not len(self.free):
            return Pattern(self.required.copy(), 0, 0, tuple(sorted(lost)))
        self._cut(self.required.astype(np.float64), needs)
        self._linear_phase(needs)
        best = self._integer_phase(needs)
        cost = self.hiding.price(best)
        return Pattern(best, cost, min(self.bound, cost), tuple(sorted(lost)))

    def _bridges(self, covers: Sequence[NDArray[np.int64]]) -> scipy.sparse.csr_array:
        """A cell hidden without being sensitive has another hidden one in each relation, or it would be exact."""
        covered = np.zeros(len(self.hiding), dtype=np.bool_)
        covered[np.concatenate([np.empty(0, dtype=np.int64), *covers])] = True
        place = np.full(len(self.hiding), -1)
        place[self.free] = np.arange(len(self.free))
        relations = self.hiding.relations
        entries: list[tuple[int, int, float]] = []
        rows = 0
        for first, last in zip(relations.indptr[:-1], relations.indptr[1:], strict=True):
            cells = relations.indices[first:last]
            if self.required[cells].any() or covered[cells].any():
                continue
            free = place[cells][place[cells] >= 0].tolist()
            for cell in free:
                entries += [(rows, other, -1.0 if other == cell else 1.0) for other in free]
                rows += 1
        if not rows:
            return scipy.sparse.csr_array((0, len(self.free)))
        row, column, value = zip(*entries, strict=True)
        return scipy.sparse.csr_array((value, (row, column)), shape=(rows, len(self.free)))

    def _linear_phase(self, needs: Sequence[Requirement]) -> None:
        for _ in range(self.limits.rounds):
            none, all_of_it = np.zeros(len(self.free)), np.ones(len(self.free))
            solved = linear(self._prices(), none, all_of_it, above=self._matrix(), least=self._right_side())
            if solved is None:
                return
            share = self.required.astype(np.float64)
            share[self.free] = np.clip(solved.point, 0.0, 1.0)
            if not self._cut(share, needs):
                # What is far from tight at the end only slows down the integer programmes.
                tight = solved.slack[: len(self.rows)] < LOOSE
                self.rows = [row for row, keep in zip(self.rows, tight, strict=True) if keep]
                return

    def _integer_phase(self, needs: Sequence[Requirement]) -> Bools:
        """The best pattern found; `bound` is raised on the way."""
        best = self._repaired(self.required, needs)
        gap = 0
        for _ in range(self.limits.rounds):
            if self.hiding.price(best) <= self.bound or self.entries <= 0:
                break
            hidden, exact = self._cheapest(GAPS[gap])
            if hidden is None:
                break
            failing = self._failing(hidden, needs)
            safe = self._repaired(hidden, failing)
            if self.hiding.price(safe) < self.hiding.price(best):
                best = safe
            if failing and self._cut(hidden.astype(np.float64), failing, settled=True):
                continue
            if failing or exact or gap + 1 == len(GAPS):
                break
            gap += 1
        return best if self.hiding.price(best) <= self.bound else self._trimmed(best)

    def _cheapest(self, gap: float) -> tuple[Bools | None, bool]:
        """The cheapest pattern that meets the cuts, and whether it is known to be."""
        matrix = self._matrix()
        self.entries -= matrix.nnz
        none, all_of_it, right = np.zeros(len(self.free)), np.ones(len(self.free)), self._right_side()
        sides = right, np.full(len(right), np.inf)
        solved = whole(self._prices(), none, all_of_it, matrix, sides, nodes=self.limits.nodes, gap=gap)
        if solved is None:
            return None, False
        if solved.bound is not None:
            bound = solved.bound * self._scale()
            self.bound = max(self.bound, int(np.ceil(bound - MARGIN * max(1.0, abs(bound)))))
        hidden = self.required.copy()
        hidden[self.free] = solved.point > 0.5
        return hidden, bool(solved.optimal and self.hiding.price(hidden) <= self.bound)

    def _repaired(self, hidden: Bools, needs: Sequence[Requirement]) -> Bools:
        """A pattern with the cheapest moves of the cells that fail in it."""
        repaired = hidden.copy()
        for cover in self.covers:
            if not repaired[self.free[cover > 0]].any():
                among = self.free[cover > 0]
                repaired[among[np.argmin(self.hiding.cost[among])]] = True
        for need in needs:
            if self._failing(repaired, [need]):
                added = cheapest_move(self.hiding, repaired, need)
                if added is None:
                    repaired[self.free] = True
                    break
                repaired |= added
        return repaired

    def _trimmed(self, hidden: Bools) -> Bools:
        """The pattern without the cells that it does without, the most expensive ones first."""
        trimmed = hidden.copy()
        extra = np.flatnonzero(hidden & ~self.required)
        for cell in extra[np.argsort(-self.hiding.cost[extra], kind="stable")].tolist():
            trimmed[cell] = False
            if self._failing(trimmed, self.needs) or not self._covered(trimmed):
                trimmed[cell] = True
        return trimmed

    def _covered(self, hidden: Bools) -> bool:
        return all(hidden[self.free[cover > 0]].any() for cover in self.covers)

    def _failing(self, hidden: Bools, needs: Sequence[Requirement]) -> list[Requirement]:
        """Requirements that a pattern does not meet."""
        return [need for need in needs if not self._met(need, hidden)]

    def _met(self, need: Requirement, hidden: Bools) -> bool:
        known = self.supports.setdefault(need, [])
        if any(not (support & ~hidden).any() for support in known):
            return True
        up, down = (np.where(hidden, room, 0.0) for room in self.hiding.rooms(need))
        reached, support = 0.0, np.zeros(len(self.hiding), dtype=np.bool_)
        for sign in need.signs:
            found = farthest(self.hiding, *_towards(self.hiding, need, sign, up, down))
            if found is None:
                return False
            reached += sign * found[0][need.variable]
            support |= np.abs(found[0]) > MARGIN
        if reached < need.level * (1 - MARGIN):
            return False
        known.append(support & hidden)
        return True

    def _cut(self, share: Floats, needs: Sequence[Requirement], *, settled: bool = False) -> int:
        """Add the cuts that a fractional pattern violates; their number."""
        hiding, added = self.hiding, 0
        for need in needs:
            # A cell moves no further than the level in all but a few relations: tighter bounds give better cuts.
            rooms = hiding.rooms(need)
            row = self._violated(need, share, rooms, np.minimum(rooms, need.level))
            if row is None and settled:
                row = self._violated(need, share, rooms, np.array(rooms))
            if row is not None:
                self.rows.append(row)
                added += 1
        return added

    def _violated(
        self, need: Requirement, share: Floats, rooms: tuple[Floats, Floats], limits: Floats
    ) -> Floats | None:
        hiding = self.hiding
        some = share > 0
        up, down = (np.where(some, np.where(some, share, 1.0) * limit, 0.0) for limit in limits)
        weight = np.zeros(len(hiding))
        for sign in need.signs:
            objective, limit_up, limit_down = _towards(hiding, need, sign, up, down)
            found = farthest(hiding, objective, limit_up, limit_down)
            if found is None:
                return None
            reduced = GRAIN * objective + hiding.relations.T @ np.rint(GRAIN * found[1])
            weight += _product(np.maximum(reduced, 0.0), rooms[0])
            weight += _product(np.maximum(-reduced, 0.0), rooms[1])
        right = need.level * GRAIN - weight[self.required].sum()
        if not right > 0:
            return None
        row: Floats = np.minimum(weight[self.free] / right, 1.0)
        return row if row @ share[self.free] < 1.0 - 1e-4 else None

    def _scale(self) -> float:
        return float(self.hiding.cost[self.free].max(initial=1))

    def _prices(self) -> Floats:
        return np.asarray(self.hiding.cost[self.free] / self._scale(), dtype=np.float64)

    def _matrix(self) -> scipy.sparse.csr_array:
        cuts = np.array([*self.rows, *self.covers]).reshape(-1, len(self.free))
        return scipy.sparse.csr_array(scipy.sparse.vstack([scipy.sparse.csr_array(cuts), self.within]))

    def _right_side(self) -> Floats:
        return np.concatenate([np.ones(len(self.rows) + len(self.covers)), np.zeros(self.within.shape[0])])


def _towards(hiding: Hiding, need: Requirement, sign: int, up: Floats, down: Floats) -> tuple[Floats, Floats, Floats]:
    """The objective of a requirement, and bounds that end a move where it is long enough."""
    objective = np.zeros(len(hiding))
    objective[need.variable] = sign
    up, down = up.copy(), down.copy()
    side = up if sign > 0 else down
    side[need.variable] = min(side[need.variable], need.level)
    return objective, up, down


def _product(weight: Floats, room: Floats) -> Floats:
    """0 times no bound is 0."""
    return np.where(weight > 0, weight * np.where(weight > 0, room, 1.0), 0.0)


Row = dict[int, int]
WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)  # decide primality of every number below 3.3 * 10^24


def drawn_prime() -> int:
    """A random prime of 61 bits.

    Examples
    --------
    >>> drawn_prime().bit_length()
    61
    """
    while True:
        candidate = (1 << 60) | secrets.randbits(60) | 1
        if all(_passes(candidate, base) for base in WITNESSES):
            return candidate


def _passes(n: int, base: int) -> bool:
    """The test of Miller and Rabin."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    power = pow(base, odd, n)
    if power in (1, n - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % n
        if power == n - 1:
            return True
    return False


def linear_pattern(
    relations: scipy.sparse.csr_array,
    primary: NDArray[np.bool_],
    order: Sequence[int],
    given: Sequence[int] = (),
) -> NDArray[np.bool_]:
    """Publish cells in this order, each unless a primary cell then is in the span of the published ones.

    Source: Langsrud, GaussSuppression. There the cells are vectors over inner cells; here the relations between cells
    are eliminated, which gives the same pattern. With the columns of cells that are not primary in the order from the
    last to the first, a cell without a pivot depends on cells that are decided later and is published freely; the row
    of a pivot is the equation that publishing its cell adds to those known about primary cells.

    Parameters
    ----------
    relations : csr_array of int64, shape (relations, cells)
    primary : ndarray of bool, shape (cells,)
    order : sequence of int
        Cells that are not primary, the first to be published first; those that are left out are published anyway.
    given : sequence of int
        Cells that are neither published nor in need of protection.

    Returns
    -------
    ndarray of bool
        Hidden cells, including the primary ones. Those that follow from other published cells count as lost too.

    Examples
    --------
    >>> sum_of_two = scipy.sparse.csr_array([[1, -1, -1]])
    >>> linear_pattern(sum_of_two, np.array([False, True, False]), [0, 2]).tolist()
    [False, True, True]
    """
    modulus = drawn_prime()
    hidden = primary.copy()
    hidden[np.asarray(given, dtype=np.int64)] = True
    # Eliminated first and never published, they remove every equation from which they could be computed.
    rows, left = _eliminated(relations, primary, [*order, *given], modulus)
    known = _Equations(modulus)
    for row in left:
        known.add(row, anyway=True)
    kept: dict[int, Row] = {}
    for cell in order:
        if cell not in rows:
            continue
        row = rows.pop(cell)
        equation = {at: value for at, value in row.items() if primary[at]}
        for other in [at for at in row if at in kept]:
            _subtract(equation, kept[other], row[other], modulus)
        if not known.add(equation):
            kept[cell] = equation
            hidden[cell] = True
    return hidden


def _eliminated(
    relations: scipy.sparse.csr_array, primary: NDArray[np.bool_], order: Sequence[int], prime: int
) -> tuple[dict[int, Row], list[Row]]:
    """The row of each pivot, with 1 at its cell, and the rows between primary cells alone."""
    useful = primary.copy()
    useful[np.asarray(order, dtype=np.int64)] = True
    rows: list[Row] = []
    holders: dict[int, set[int]] = {}
    for first, last in zip(relations.indptr[:-1], relations.indptr[1:], strict=True):
        columns, values = relations.indices[first:last], relations.data[first:last]
        row = {int(c): int(v) % prime for c, v in zip(columns, values, strict=True) if useful[c]}
        for column in row:
            holders.setdefault(column, set()).add(len(rows))
        rows.append(row)
    pivots: dict[int, Row] = {}
    for cell in reversed(order):
        holding = holders.pop(cell, None)
        if not holding:
            continue
        best = min(holding, key=lambda at: (len(rows[at]), at))
        pivot = rows[best]
        rows[best] = {}
        holding.discard(best)
        for column in pivot:
            if column != cell:
                holders[column].discard(best)
        scale = pow(pivot[cell], -1, prime)
        if scale != 1:
            pivot = {column: value * scale % prime for column, value in pivot.items()}
        for at in holding:
            row = rows[at]
            factor = row.pop(cell)
            for column, value in pivot.items():
                if column == cell:
                    continue
                before = row.get(column)
                if before is None:
                    row[column] = -factor * value % prime
                    holders[column].add(at)
                else:
                    after = (before - factor * value) % prime
                    if after:
                        row[column] = after
                    else:
                        del row[column]
                        holders[column].discard(at)
        pivots[cell] = pivot
    return pivots, [row for row in rows if row]


def _subtract(row: Row, other: Row, factor: int, prime: int) -> None:
    for column, value in other.items():
        after = (row.get(column, 0) - factor * value) % prime
        if after:
            row[column] = after
        else:
            row.pop(column, None)


class _Equations:
    """Equations between primary cells, reduced so that each has a cell that no other has."""

    def __init__(self, prime: int) -> None:
        self.prime = prime
        self.rows: dict[int, Row] = {}
        self.holders: dict[int, set[int]] = {}

    def add(self, equation: Row, *, anyway: bool = False) -> bool:
        """Add one, unless one more cell then follows from the equations; whether it was added or followed already."""
        prime, row = self.prime, dict(equation)
        for column in [at for at in row if at in self.rows]:
            _subtract(row, self.rows[column], row[column], prime)
        if not row:
            return True
        if len(row) == 1 and not anyway:
            return False
        # The cell that is in fewest equations leaves fewest to be changed.
        pivot = min(row, key=lambda at: (len(self.holders.get(at, ())), at))
        scale = pow(row[pivot], -1, prime)
        row = {column: value * scale % prime for column, value in row.items()}
        changed: dict[int, Row] = {}
        for at in self.holders.get(pivot, ()):
            other = dict(self.rows[at])
            _subtract(other, row, other[pivot], prime)
            if len(other) == 1 and not anyway:
                return False
            changed[at] = other
        changed[pivot] = row
        for at, other in changed.items():
            for column in self.rows.get(at, ()):
                self.holders[column].discard(at)
            for column in other:
                self.holders.setdefault(column, set()).add(at)
            self.rows[at] = other
        return True
