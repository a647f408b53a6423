"""Linear and whole-number programmes whose answers are proved in integers and rationals."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import Integers, Matrix, matrix_of
from privpipe.tables.shrinking import NO_BOUND, OpenSystem, tightened
from privpipe.tables.solver import Programme, solve

__all__ = [
    "DENOMINATORS",
    "Extreme",
    "Point",
    "bound_by",
    "exact_point",
    "extreme",
    "feasible_point",
    "is_short",
    "linear_extreme",
]

DENOMINATORS = (1, 2, 3, 4, 6, 12, 60, 2520)
FINE = (2**20, 2**40)
"""For multipliers: any will do where all variables have bounds."""
NEARLY = 1e-6
"""A solver's figure that is closer to a limit than this is taken to reach it, and no proof is tried."""
MOST_NODES = 20_000
MOST_RATIONAL = 3_000
"""Variables of a system that is solved in rationals."""


@dataclass(frozen=True)
class Point:
    """A point with exact coordinates: numerators over one denominator."""

    numerators: NDArray[np.int64] | NDArray[np.object_]
    denominator: int = 1

    def at(self, column: int) -> Fraction:
        return Fraction(int(self.numerators[column]), self.denominator)


@dataclass(frozen=True)
class Extreme:
    """The largest value of one variable (or of its negative) in a system.

    Parameters
    ----------
    value : Fraction or None
        The largest value of a point that was shown to be in the system.
    point : Point or None
    bound : Fraction or None
        What no point of the system exceeds, as far as that is proved.
    unbounded : bool
        Whether a ray from the point was shown to stay in the system.
    """

    value: Fraction | None
    point: Point | None
    bound: Fraction | None
    unbounded: bool = False

    @property
    def closed(self) -> bool:
        """Whether the largest value is known exactly."""
        return self.unbounded or (self.value is not None and self.value == self.bound)


def contains(system: OpenSystem, point: Point) -> bool:
    """Whether a point is in a system, in exact arithmetic."""
    numerators, denominator = point.numerators, point.denominator
    if system.whole and denominator != 1:
        return False
    low_open, high_open = system.low == -NO_BOUND, system.high == NO_BOUND
    low, high = _times(system.low, denominator), _times(system.high, denominator)
    if not (np.all((numerators >= low) | low_open) and np.all((numerators <= high) | high_open)):
        return False
    return bool(np.all(_matrix_times(system.matrix, numerators) == _times(system.right, denominator)))


def exact_point(system: OpenSystem, near: NDArray[np.float64]) -> Point | None:
    """A point of the system close to a floating-point one, if one is found."""
    low = np.where(system.low == -NO_BOUND, -np.inf, system.low)
    high = np.where(system.high == NO_BOUND, np.inf, system.high)
    for denominator in (1,) if system.whole else DENOMINATORS:
        scaled = np.clip(np.rint(near * denominator), low * denominator, high * denominator)
        if len(scaled) and np.abs(scaled).max() >= 2**53:
            break
        point = Point(scaled.astype(np.int64), denominator)
        if contains(system, point):
            return point
    return None if system.whole else _vertex(system, near, low, high)


def bound_by(
    system: OpenSystem, cost: Integers, multipliers: NDArray[np.float64], enough: Fraction | None = None
) -> Fraction | None:
    """A lower bound of cost x over the system, from multipliers of its relations rounded to rationals.

    Source: Neumaier, Shcherbina, Safe bounds in linear and mixed-integer programming, Math. Programming 99, 2004.
    For any multipliers y, cost x >= y right + sum over variables of the worse end times the reduced cost.
    """
    best: Fraction | None = None
    for denominator in (*DENOMINATORS, *FINE):
        scaled = np.rint(multipliers * denominator)
        if len(scaled) and np.abs(scaled).max() >= 2**62:
            break
        found = _bound(system, cost, scaled.astype(np.int64), denominator)
        if found is not None and (best is None or found > best):
            best = found
        if best is not None and enough is not None and best >= enough:
            break
    return best


def extreme(system: OpenSystem, column: int, sign: int, deadline: float) -> Extreme:
    """The largest value of ``sign * x[column]`` in a connected system, with its proofs.

    Parameters
    ----------
    system : OpenSystem
    column, sign : int
        Sign 1 or -1.
    deadline : float
        In seconds of `time.monotonic`.
    """
    linear = OpenSystem(system.matrix, system.right, system.low, system.high, False)
    found, near = linear_extreme(linear, column, sign, deadline)
    if not system.whole:
        return found
    if found.unbounded:
        # A rational ray is a whole one a multiple of its length, from any whole point.
        start = feasible_point(system, deadline)
        return Extreme(None if start is None else sign * start.at(column), start, None, start is not None)
    bound = None if found.bound is None else Fraction(floor(found.bound))
    point = None if near is None else exact_point(system, near)
    value = None if point is None else sign * point.at(column)
    if value is None or value != bound:
        return _branch(system, column, sign, Extreme(value, point, bound), deadline)
    return Extreme(value, point, bound)


def feasible_point(system: OpenSystem, deadline: float) -> Point | None:
    """A point of the system, if one is found."""
    cost = np.zeros(system.size)
    programme = Programme(cost, system.matrix, system.right, system.low, system.high, system.whole)
    answer = solve(programme, deadline - time.monotonic())
    return None if answer.point is None else exact_point(system, answer.point)


def is_empty(system: OpenSystem, deadline: float) -> bool:
    """Whether a proof was found that the system has no rational point."""
    low, high = tightened(system)
    if (low > high).any():
        return True
    rows, size = system.matrix.shape
    every = np.arange(rows, dtype=np.int64)
    ones = np.ones(rows, dtype=np.int64)
    slack = matrix_of(
        np.concatenate([ones, -ones]), np.concatenate([every, every]), np.arange(2 * rows), (rows, 2 * rows)
    )
    wide = OpenSystem(
        _side_by_side(system.matrix, slack),
        system.right,
        np.concatenate([system.low, np.zeros(2 * rows, dtype=np.int64)]),
        np.concatenate([system.high, np.full(2 * rows, NO_BOUND)]),
        False,
    )
    cost = np.concatenate([np.zeros(size, dtype=np.int64), np.ones(2 * rows, dtype=np.int64)])
    programme = Programme(cost.astype(np.float64), wide.matrix, wide.right, wide.low, wide.high, multipliers=True)
    answer = solve(programme, deadline - time.monotonic())
    if answer.multipliers is None:
        return False
    bound = bound_by(wide, cost, answer.multipliers)
    return bound is not None and bound > 0


def linear_extreme(
    system: OpenSystem, column: int, sign: int, deadline: float, below: int | None = None
) -> tuple[Extreme, NDArray[np.float64] | None]:
    """As `extreme`, for numbers that need not be whole, with the solver's own point.

    Where the solver's point is not below `below`, no bound that is could be proved, and none is looked for.
    """
    cost = np.zeros(system.size, dtype=np.int64)
    cost[column] = -sign
    programme = Programme(
        cost.astype(np.float64), system.matrix, system.right, system.low, system.high, multipliers=True
    )
    answer = solve(programme, deadline - time.monotonic())
    point = bound = None
    if below is not None and answer.point is not None and sign * answer.point[column] > below - NEARLY:
        return Extreme(None, None, None), answer.point
    if answer.point is not None:
        point = exact_point(system, answer.point)
    value = None if point is None else sign * point.at(column)
    if answer.multipliers is not None and len(answer.multipliers) == system.matrix.shape[0]:
        least = bound_by(system, cost, answer.multipliers, None if value is None else -value)
        if (least is None or -least != value) and answer.point is not None:
            exact = _multipliers(system, cost, answer.point, answer.multipliers)
            better = None if exact is None else _bound(system, cost, exact.numerators, exact.denominator)
            least = better if least is None or (better is not None and better > least) else least
        bound = None if least is None else -least
    end = system.high[column] if sign > 0 else -system.low[column]
    if end != NO_BOUND:
        own = Fraction(int(end))
        bound = own if bound is None or own < bound else bound
    if bound is None and _has_ray(system, column, sign, deadline):
        start = point or feasible_point(system, deadline)
        if start is not None:
            return Extreme(sign * start.at(column), start, None, True), answer.point
    return Extreme(value, point, bound), answer.point


def is_short(system: OpenSystem, column: int, sign: int, short: Callable[[Fraction], bool], deadline: float) -> bool:
    """Whether a bound is proved on ``sign * x[column]`` that is short; no point is looked for.

    Parameters
    ----------
    short : callable
        Of a bound; if one is short, so is every lower one.
    """
    cost = np.zeros(system.size, dtype=np.int64)
    cost[column] = -sign
    programme = Programme(
        cost.astype(np.float64), system.matrix, system.right, system.low, system.high, multipliers=True
    )
    answer = solve(programme, deadline - time.monotonic())
    if answer.point is None or answer.multipliers is None or len(answer.multipliers) != system.matrix.shape[0]:
        return False
    if not short(Fraction(sign * float(answer.point[column]) - NEARLY)):
        return False  # no bound that is could be proved
    least = bound_by(system, cost, answer.multipliers)
    if least is None or not short(-least):
        exact = _multipliers(system, cost, answer.point, answer.multipliers)
        least = None if exact is None else _bound(system, cost, exact.numerators, exact.denominator)
    return least is not None and short(-least)


def _has_ray(system: OpenSystem, column: int, sign: int, deadline: float) -> bool:
    """Whether a direction was found along which the variable grows for ever inside the system."""
    low = np.where(system.low == -NO_BOUND, -1, 0)
    high = np.where(system.high == NO_BOUND, 1, 0)
    cone = OpenSystem(system.matrix, np.zeros_like(system.right), low, high, False)
    cost = np.zeros(system.size)
    cost[column] = -sign
    answer = solve(Programme(cost, cone.matrix, cone.right, low, high), deadline - time.monotonic())
    ray = None if answer.point is None else exact_point(cone, answer.point)
    return ray is not None and sign * ray.at(column) > 0


def _branch(system: OpenSystem, column: int, sign: int, start: Extreme, deadline: float) -> Extreme:
    """Branch and bound with exact bounds; nodes that are not settled in time remain in the bound."""
    cost = np.zeros(system.size, dtype=np.int64)
    cost[column] = -sign
    best, point = start.value, start.point
    programme = Programme(cost.astype(np.float64), system.matrix, system.right, system.low, system.high, True)
    answer = solve(programme, deadline - time.monotonic())
    if answer.point is not None:
        found = exact_point(system, answer.point)
        if found is not None and (best is None or sign * found.at(column) > best):
            best, point = sign * found.at(column), found
    if best is not None and best == start.bound:
        return Extreme(best, point, start.bound)
    waiting = [(system.low, system.high)]
    nodes, unsettled = 0, False
    while waiting:
        low, high = waiting.pop()
        nodes += 1
        if nodes > MOST_NODES or time.monotonic() > deadline:
            unsettled = True
            break
        tight = tightened(OpenSystem(system.matrix, system.right, low, high, True))
        if (tight[0] > tight[1]).any():
            continue
        node = OpenSystem(system.matrix, system.right, *tight, True)
        linear = OpenSystem(system.matrix, system.right, *tight, False)
        found_linear, near = linear_extreme(linear, column, sign, deadline)
        if best is not None and found_linear.bound is not None and floor(found_linear.bound) <= best:
            continue
        if near is None:
            if is_empty(linear, deadline):
                continue
            unsettled = True
            break
        rounded = exact_point(node, near)
        if rounded is not None and (best is None or sign * rounded.at(column) > best):
            best, point = sign * rounded.at(column), rounded
            if found_linear.bound is not None and floor(found_linear.bound) <= best:
                continue
        halves = _split(tight[0], tight[1], near)
        if halves is None:
            unsettled = True
            break
        waiting.extend(halves)
    bound = start.bound if unsettled else best
    return Extreme(best, point, bound)


def _split(low: Integers, high: Integers, near: NDArray[np.float64]) -> list[tuple[Integers, Integers]] | None:
    """Two parts of a node: on both sides of its least whole coordinate, or of a range."""
    distance = np.abs(near - np.rint(near))
    at = int(distance.argmax())
    if distance[at] < 1e-6:
        wide = np.flatnonzero(high > low)
        if not len(wide):
            return None
        at = int(wide[0])
    cut = floor(near[at])
    if not low[at] <= cut < high[at]:
        cut = int(low[at]) if low[at] != -NO_BOUND else int(high[at]) - 1
    below, above = high.copy(), low.copy()
    below[at], above[at] = cut, cut + 1
    return [(low, below), (above, high)]


def _bound(
    system: OpenSystem, cost: Integers, multipliers: NDArray[np.int64] | NDArray[np.object_], denominator: int
) -> Fraction | None:
    reduced = _times(cost, denominator) - _matrix_times(system.matrix, multipliers, transposed=True)
    rising, falling = reduced > 0, reduced < 0
    if np.any(system.low[rising] == -NO_BOUND) or np.any(system.high[falling] == NO_BOUND):
        return None
    total = (
        _dot(multipliers, system.right)
        + _dot(reduced[rising], system.low[rising])
        + _dot(reduced[falling], system.high[falling])
    )
    return Fraction(total, denominator)


def _vertex(
    system: OpenSystem, near: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> Point | None:
    """The point whose coordinates at a bound are that bound, and whose others solve the relations exactly."""
    if system.size > MOST_RATIONAL:
        return None
    at_low, at_high = near - low < 1e-6, high - near < 1e-6
    values: list[Fraction | None] = [None] * system.size
    for column in np.flatnonzero(at_low | at_high):
        values[column] = Fraction(int(system.low[column] if at_low[column] else system.high[column]))
    rows = list(_rows(system.matrix))
    equations = []
    for row, right in zip(rows, system.right.tolist(), strict=True):
        known = sum((entry * v for column, entry in row if (v := values[column]) is not None), Fraction(0))
        equations.append(({c: Fraction(e) for c, e in row if values[c] is None}, Fraction(right) - known))
    solved = rational_solution(equations, near)
    if solved is None:
        return None
    point = _over_one_denominator(
        [solved.get(c, v if v is not None else _close(near[c])) for c, v in enumerate(values)]
    )
    return point if contains(system, point) else None


def _multipliers(
    system: OpenSystem, cost: Integers, near: NDArray[np.float64], multipliers: NDArray[np.float64]
) -> Point | None:
    """Multipliers under which variables between their bounds have a reduced cost of exactly 0."""
    if system.size > MOST_RATIONAL:
        return None
    low = np.where(system.low == -NO_BOUND, -np.inf, system.low)
    high = np.where(system.high == NO_BOUND, np.inf, system.high)
    between = (near - low > 1e-6) & (high - near > 1e-6)
    columns = [dict[int, Fraction]() for _ in range(system.size)]
    for row, entries in enumerate(_rows(system.matrix)):
        for column, entry in entries:
            columns[column][row] = Fraction(entry)
    equations = [(columns[column], Fraction(int(cost[column]))) for column in np.flatnonzero(between)]
    solved = rational_solution(equations, multipliers)
    if solved is None:
        return None
    return _over_one_denominator([solved.get(row, _close(value)) for row, value in enumerate(multipliers)])


def rational_solution(
    equations: Sequence[tuple[dict[int, Fraction], Fraction]], near: NDArray[np.float64]
) -> dict[int, Fraction] | None:
    """Exact values that solve linear equations, free ones close to `near`; None if there are none."""
    pivots: list[tuple[int, dict[int, Fraction], Fraction]] = []
    place: dict[int, int] = {}
    for left, right in sorted(equations, key=lambda equation: len(equation[0])):
        row, value = dict(left), right
        while replaced := [column for column in row if column in place]:
            column = min(replaced, key=place.__getitem__)
            _, other, other_value = pivots[place[column]]
            factor = row.pop(column)
            for at, entry in other.items():
                new = row.get(at, Fraction(0)) - factor * entry
                if new:
                    row[at] = new
                else:
                    row.pop(at, None)
            value -= factor * other_value
        if not row:
            if value:
                return None
            continue
        pivot = next((column for column, entry in row.items() if abs(entry) == 1), next(iter(row)))
        factor = row.pop(pivot)
        place[pivot] = len(pivots)
        pivots.append((pivot, {at: entry / factor for at, entry in row.items()}, value / factor))
    solution: dict[int, Fraction] = {}
    for pivot, row, value in reversed(pivots):
        for at, entry in row.items():
            if at not in solution:
                solution[at] = _close(near[at])
            value -= entry * solution[at]
        solution[pivot] = value
    return solution


def _close(value: float) -> Fraction:
    return Fraction(float(value)).limit_denominator(60)


def _over_one_denominator(values: Sequence[Fraction]) -> Point:
    denominator = lcm(*(value.denominator for value in values))
    numerators = [value.numerator * (denominator // value.denominator) for value in values]
    small = max(map(abs, numerators), default=0) < 2**62
    return Point(np.array(numerators, dtype=np.int64 if small else object), denominator)


def _rows(matrix: Matrix) -> Iterator[list[tuple[int, int]]]:
    indices, data = matrix.indices.tolist(), matrix.data.tolist()
    ends = matrix.indptr.tolist()
    for start, end in itertools.pairwise(ends):
        yield list(zip(indices[start:end], data[start:end], strict=True))


def _side_by_side(left: Matrix, right: Matrix) -> Matrix:
    a, b = left.tocoo(), right.tocoo()
    return matrix_of(
        np.concatenate([a.data, b.data]),
        np.concatenate([a.row, b.row]).astype(np.int64),
        np.concatenate([a.col, b.col + left.shape[1]]).astype(np.int64),
        (left.shape[0], left.shape[1] + right.shape[1]),
    )


def _largest(values: NDArray[np.int64] | NDArray[np.object_]) -> int:
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def _times(values: Integers, factor: int) -> NDArray[np.int64] | NDArray[np.object_]:
    if factor == 1:
        return values
    finite = np.where(np.abs(values) == NO_BOUND, 0, values)
    if _largest(finite) * factor < 2**62:
        return finite * factor
    return finite.astype(object) * factor


def _matrix_times(
    matrix: Matrix, values: NDArray[np.int64] | NDArray[np.object_], *, transposed: bool = False
) -> NDArray[np.int64] | NDArray[np.object_]:
    """The exact product, in Python's integers where 64 bits might not do."""
    if matrix.nnz == 0:
        return np.zeros(matrix.shape[1 if transposed else 0], dtype=np.int64)
    # No sum has more terms than the matrix has entries in a row or column.
    longest = np.bincount(matrix.indices).max() if transposed else np.diff(matrix.indptr).max()
    if values.dtype != object and _largest(values) * int(np.abs(matrix.data).max()) * int(longest) < 2**62:
        return np.asarray((matrix.T if transposed else matrix) @ values)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    into, out_of = (matrix.indices, rows) if transposed else (rows, matrix.indices)
    sums = np.zeros(matrix.shape[1 if transposed else 0], dtype=object)
    np.add.at(sums, into, matrix.data.astype(object) * values[out_of].astype(object))
    return sums


def _dot(left: NDArray[np.int64] | NDArray[np.object_], right: NDArray[np.int64] | NDArray[np.object_]) -> int:
    if not len(left):
        return 0
    if left.dtype != object and right.dtype != object and _largest(left) * _largest(right) * len(left) < 2**62:
        return int(left @ right)
    return int((left.astype(object) * right.astype(object)).sum())
