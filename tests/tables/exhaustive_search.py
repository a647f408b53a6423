"""What a reader can say of hidden cells, by going through all tables: a second program, of no part of the product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.cells import Cells, Dimension

MOST_TABLES = 30_000
MOST_FREE = 3
FREQUENCY = 4


@dataclass(frozen=True)
class Small:
    """A made table of counts with some cells hidden."""

    cells: Cells
    counts: list[int]
    hidden: list[bool]
    primary: list[bool]

    @property
    def problem(self) -> AuditProblem:
        counts, hidden = np.array(self.counts), np.array(self.hidden)
        sensitive = np.flatnonzero(self.primary)
        n = counts[sensitive]
        levels = Levels(sensitive, np.maximum(n - 1, 0), np.maximum(FREQUENCY - 1 - n, 0), np.zeros_like(n))
        low, high = np.where(hidden, 0, counts), np.where(hidden, UNBOUNDED, counts)
        return AuditProblem(self.cells.relations, low, high, True, counts, levels)


def small_table(seed: int) -> Small:
    """One of many tables of at most 60 cells: one to three dimensions, flat or trees."""
    draw = np.random.default_rng(seed)
    while True:
        dimensions = [_dimension(name, draw) for name in "abc"[: draw.integers(1, 4)]]
        cells = Cells.complete(dimensions)
        if len(cells) <= 60:
            break
    leaves = [[code for code, below in enumerate(d.children) if not below] for d in dimensions]
    below = [[_leaves_below(d, code) for code in range(len(d.labels))] for d in dimensions]
    inner = {
        tuple(key): int(draw.poisson(draw.choice([0.5, 2, 6])))
        for key in np.stack(np.meshgrid(*leaves, indexing="ij"), axis=-1).reshape(-1, len(dimensions)).tolist()
    }
    counts = [
        sum(count for key, count in inner.items() if all(key[at] in below[at][code] for at, code in enumerate(codes)))
        for codes in cells.codes.tolist()
    ]
    primary = [0 < count < FREQUENCY for count in counts]
    more = draw.random(len(counts)) < draw.choice([0.0, 0.1, 0.3])
    hidden = [a or bool(b) for a, b in zip(primary, more, strict=True)]
    hidden[0] = primary[0] = False
    return Small(cells, counts, hidden, primary)


def _dimension(name: str, draw: np.random.Generator) -> Dimension:
    parents = {f"{name}{at}": "Total" for at in range(draw.integers(2, 5))}
    if draw.random() < 0.4:
        parents |= {f"{name}0.{at}": f"{name}0" for at in range(draw.integers(1, 4))}
    return Dimension.tree(name, parents)


def _leaves_below(dimension: Dimension, code: int) -> set[int]:
    below = dimension.children[code]
    return {code} if not below else set().union(*(_leaves_below(dimension, child) for child in below))


Equation = tuple[dict[int, int], int]


def equations_of(problem: AuditProblem) -> list[Equation]:
    """Each relation as hidden variables with their signs, and the sum that they have."""
    dense = problem.relations.toarray().tolist()
    published = problem.published.tolist()
    found = []
    for row in dense:
        known = -sum(sign * int(problem.low[at]) for at, sign in enumerate(row) if sign and published[at])
        found.append(({at: sign for at, sign in enumerate(row) if sign and not published[at]}, known))
    return found


def all_tables(problem: AuditProblem) -> list[dict[int, int]] | None:
    """All whole-number values of hidden variables that agree with everything published; None if there are too many."""
    hidden = np.flatnonzero(~problem.published).tolist()
    equations = equations_of(problem)
    total = int(problem.low[problem.published].max(initial=0))
    of: dict[int, list[Equation]] = {at: [e for e in equations if at in e[0]] for at in hidden}
    # Each value is at most the largest published figure: some published cell contains it.
    order = sorted(hidden, key=lambda at: -len(of[at]))
    found: list[dict[int, int]] = []
    visits = 0

    def extend(values: dict[int, int]) -> bool:
        nonlocal visits
        visits += 1
        if visits > 20 * MOST_TABLES:
            return False
        # A relation with one open variable gives its value: follow these first.
        forced: dict[int, int] = {}
        for signs, right in equations:
            waiting = [at for at in signs if at not in values]
            rest = right - sum(signs[at] * values[at] for at in signs if at in values)
            if not waiting:
                if rest:
                    return True
            elif len(waiting) == 1:
                value = rest * signs[waiting[0]]
                if not _allowed(problem, waiting[0], value) or forced.get(waiting[0], value) != value:
                    return True
                forced[waiting[0]] = value
            elif len({signs[at] for at in waiting}) == 1 and rest * signs[waiting[0]] < 0:
                return True  # variables that are not negative have a negative sum
        if forced:
            return extend(values | forced)
        at = next((at for at in order if at not in values), None)
        if at is None:
            found.append(values)
            return len(found) <= MOST_TABLES
        most = total
        for signs, right in of[at]:
            same = all(sign == signs[at] for sign in signs.values())
            rest = right - sum(signs[o] * values[o] for o in signs if o in values)
            if same:
                most = min(most, rest * signs[at])
        return all(extend(values | {at: value}) for value in range(most + 1) if _allowed(problem, at, value))

    return found if extend({}) else None


def _allowed(problem: AuditProblem, at: int, value: int) -> bool:
    low, high = int(problem.low[at]), int(problem.high[at])
    return (low == UNBOUNDED or value >= low) and (high == UNBOUNDED or value <= high)


def solution_space(problem: AuditProblem) -> tuple[list[int], list[list[Fraction]]]:
    """Hidden variables, and a basis of the moves between tables, one vector each."""
    hidden = np.flatnonzero(~problem.published).tolist()
    place = {at: column for column, at in enumerate(hidden)}
    rows = [[Fraction(0)] * len(hidden) for _ in range(problem.relations.shape[0])]
    for row, (signs, _) in zip(rows, equations_of(problem), strict=True):
        for at, sign in signs.items():
            row[place[at]] = Fraction(sign)
    pivots: list[int] = []
    rank = 0
    for column in range(len(hidden)):
        chosen = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if chosen is None:
            continue
        rows[rank], rows[chosen] = rows[chosen], rows[rank]
        rows[rank] = [entry / rows[rank][column] for entry in rows[rank]]
        for r in range(len(rows)):
            if r != rank and rows[r][column]:
                factor = rows[r][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[rank], strict=True)]
        pivots.append(column)
        rank += 1
    basis = []
    for free in (column for column in range(len(hidden)) if column not in pivots):
        vector = [Fraction(0)] * len(hidden)
        vector[free] = Fraction(1)
        for r, column in enumerate(pivots):
            vector[column] = -rows[r][free]
        basis.append(vector)
    return hidden, basis


def linear_ends(problem: AuditProblem) -> dict[int, tuple[Fraction, Fraction]] | None:
    """The ends of each hidden variable, from all vertices; None if there are too many dimensions.

    Bounds of hidden variables are 0 below and nothing above, and the set has no ray.
    """
    hidden, basis = solution_space(problem)
    if not hidden:
        return {}
    if len(basis) > MOST_FREE:
        return None
    assert problem.true is not None
    true = [Fraction(int(problem.true[at])) for at in hidden]
    points = [true] if not basis else []
    directions = {tuple(vector[column] for vector in basis) for column in range(len(hidden))}
    columns = {d: [c for c in range(len(hidden)) if tuple(v[c] for v in basis) == d] for d in directions}
    # Of parallel bounds only the nearest can be met.
    tight = [min(same, key=lambda c: true[c]) for d, same in columns.items() if any(d)]
    for chosen in combinations(tight, len(basis)):
        step = _solved([[vector[c] for vector in basis] for c in chosen], [-true[c] for c in chosen])
        if step is not None:
            point = [t + sum(s * vector[c] for s, vector in zip(step, basis, strict=True)) for c, t in enumerate(true)]
            if min(point) >= 0:
                points.append(point)
    return {at: (min(p[c] for p in points), max(p[c] for p in points)) for c, at in enumerate(hidden)}


def _solved(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction] | None:
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        chosen = next((r for r in range(at, size) if rows[r][at]), None)
        if chosen is None:
            return None
        rows[at], rows[chosen] = rows[chosen], rows[at]
        rows[at] = [entry / rows[at][at] for entry in rows[at]]
        for r in range(size):
            if r != at and rows[r][at]:
                factor = rows[r][at]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[at], strict=True)]
    return [row[-1] for row in rows]
