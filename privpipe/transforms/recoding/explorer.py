"""Exploration of a lattice: nodes visited once each, within limits, and the best solution found by comparison of
losses.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Floats
from privpipe.kernels.quality import Forced
from privpipe.progress import within
from privpipe.transforms.recoding.encoded_table import EncodedTable
from privpipe.transforms.recoding.generalize_stage import MOST_NODES, SearchBudget
from privpipe.transforms.recoding.node import Ahead, CheckedNode, NodeCheck

__all__ = [
    "LARGEST_HELD",
    "LARGEST_SIFTED",
    "TIE",
    "Explorer",
    "Found",
    "Lattice",
    "Limits",
    "Loss",
    "Solution",
    "Spent",
    "Visit",
    "above_and_not_below",
    "is_below",
    "pareto_front",
    "rises",
    "solution_of",
    "tie",
    "tied",
]


LARGEST_HELD = 1 << 24
"""Vectors a search can hold one by one."""
LARGEST_SIFTED = 1 << 20
"""Going through all that are left at every step pays up to here; boxes serve more, where bounds allow."""

Levels = tuple[int, ...]


@dataclass(frozen=True)
class Lattice:
    """Levels allowed for each column.

    Parameters
    ----------
    allowed : tuple of tuple of int
        For each column, ascending and not empty.

    Examples
    --------
    >>> lattice = Lattice(((0, 1), (0, 2)))
    >>> lattice.size, lattice.bottom, lattice.top, lattice.nodes().tolist()
    (4, (0, 0), (1, 2), [[0, 0], [0, 2], [1, 0], [1, 2]])
    """

    allowed: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, table: EncodedTable, *, roots_only: bool = False) -> Lattice:
        """Levels within each column's limits; `roots_only`: raw or wholly suppressed, as far as the limits allow."""
        allowed = []
        for hierarchy in table.hierarchies:
            levels = tuple(range(hierarchy.min_level, hierarchy.max_level + 1))
            allowed.append(tuple(dict.fromkeys((levels[0], levels[-1]))) if roots_only else levels)
        return cls(tuple(allowed))

    @property
    def size(self) -> int:
        """How many vectors."""
        return math.prod(len(levels) for levels in self.allowed)

    @property
    def bottom(self) -> Levels:
        """The finest."""
        return tuple(levels[0] for levels in self.allowed)

    @property
    def top(self) -> Levels:
        """The coarsest."""
        return tuple(levels[-1] for levels in self.allowed)

    def nodes(self) -> NDArray[np.int16]:
        """Every vector, in lexicographic order, shape (size, m)."""
        grids: Any = np.meshgrid(*[np.array(levels, dtype=np.int16) for levels in self.allowed], indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def above(self, node: Levels) -> list[Levels]:
        """Vectors one step up in one column, in order of the columns."""
        return self._steps(node, 1)

    def below(self, node: Levels) -> list[Levels]:
        """Vectors one step down in one column, in order of the columns."""
        return self._steps(node, -1)

    def around(self, node: Levels, free: tuple[int, ...]) -> Lattice:
        """The part in which some columns are free and the others as in a vector."""
        return Lattice(
            tuple(levels if at in free else (node[at],) for at, levels in enumerate(self.allowed)),
        )

    def _steps(self, node: Levels, step: int) -> list[Levels]:
        found = []
        for at, levels in enumerate(self.allowed):
            place = levels.index(node[at]) + step
            if 0 <= place < len(levels):
                found.append((*node[:at], levels[place], *node[at + 1 :]))
        return found


TIE = 1e-9
"""Losses this close are equal: the smaller vector of levels wins."""
ROUNDING = 1e-12

Loss = tuple[float, ...]


def is_below(one: Loss, other: Loss) -> bool:
    """Whether a loss is less, by the first entry in which the two differ beyond a tie, else by rounding.

    Examples
    --------
    >>> is_below((0.5, 0.2), (0.5 - 1e-15, 0.3)), is_below((0.5,), (0.5 + 1e-15,))
    (True, True)
    """
    differing = next((a < b for a, b in zip(one, other, strict=True) if _apart(a, b)), None)
    return one < other if differing is None else differing


def tied(one: Loss, other: Loss) -> bool:
    """Whether two losses are equal within a tie."""
    return not any(_apart(a, b) for a, b in zip(one, other, strict=True))


def above_and_not_below(bounds: Floats, loss: Loss) -> tuple[Bools, Bools]:
    """Which bounds exceed a loss beyond a tie, and which are not below it at all, entry by entry.

    Examples
    --------
    >>> above, rest = above_and_not_below(np.array([[0.5, 0.2], [0.5, 0.3], [0.5, 0.4], [0.4, 0.9]]), (0.5, 0.3))
    >>> above.tolist(), rest.tolist()
    ([False, False, True, False], [False, True, True, False])
    """
    if len(loss) == 1:
        column = bounds[:, 0]
        return column > loss[0] + tie(loss[0]), column >= loss[0]
    above, more = np.zeros((2, len(bounds)), dtype=np.bool_)
    same, equal = np.ones((2, len(bounds)), dtype=np.bool_)
    for column, figure in zip(bounds.T, loss, strict=True):
        above |= same & (column > figure + tie(figure))
        same &= np.abs(column - figure) <= tie(figure)
        more |= equal & (column > figure)
        equal &= column == figure
    return above, more | equal


def _apart(a: float, b: float) -> bool:
    return abs(a - b) > tie(b) if a != b else False


def tie(figure: float) -> float:
    """How close to a loss others are equal: absolute, except for figures so large that it is below their rounding.

    Examples
    --------
    >>> tie(0.25), tie(1e12)
    (1e-09, 1.0)
    """
    return max(TIE, ROUNDING * min(abs(figure), 1e300))


@dataclass(frozen=True, order=True)
class Solution:
    """A vector of levels that meets everything within the budget.

    Parameters
    ----------
    loss : tuple of float
    levels : tuple of int
    suppressed, classes : int
        Records that go, and classes that stay.
    smallest : int
        Records of the smallest class that stays.
    records : int
        Records that stay.
    """

    loss: Loss
    levels: tuple[int, ...]
    suppressed: int
    classes: int
    smallest: int
    records: int

    @property
    def average_risk(self) -> float:
        """Chance of a correct match of a record at random: classes over records."""
        return self.classes / self.records

    def describe(self, columns: Sequence[str]) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "levels": dict(zip(columns, self.levels, strict=True)),
            "loss": self.loss[0] if len(self.loss) == 1 else list(self.loss),
            "suppressed_records": self.suppressed,
            "classes": self.classes,
            "average_risk": self.average_risk,
            "highest_risk": 1 / self.smallest,
        }


@dataclass(frozen=True)
class Found:
    """A search's outcome.

    Parameters
    ----------
    node : CheckedNode
    loss : tuple of float
        One figure, under the aggregate `rank` one per column.
    column_losses : list of float
    optimal : bool
        Whether no node is left that could be better.
    gap : float
        Loss (its first figure) above the least bound of the nodes left; 0 when optimal.
    checked, pruned_by_bound, pruned_by_mandatory, pruned_by_witness : int
        Nodes by their outcome.
    solutions : tuple of Solution
        Every feasible node that was checked, best first.
    notes : mapping
        What else the plan states about how the search went.
    """

    node: CheckedNode
    loss: Loss
    column_losses: list[float]
    optimal: bool
    gap: float
    checked: int
    pruned_by_bound: int = 0
    pruned_by_mandatory: int = 0
    pruned_by_witness: int = 0
    solutions: tuple[Solution, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def lower_bound(self) -> float:
        """No feasible node has a smaller loss (its first figure)."""
        return self.loss[0] - self.gap


def solution_of(check: NodeCheck, node: CheckedNode, loss: Loss) -> Solution:
    """The solution that a feasible node is."""
    if node.by_class:
        (one,) = node.rounds.values()
        kept = one.sizes[~one.failing]
    else:
        kept = check.kept_sizes(node)
    return Solution(loss, node.levels, node.suppressed, len(kept), int(kept.min()), int(kept.sum()))


def pareto_front(solutions: Iterable[Solution]) -> list[Solution]:
    """Solutions that no other beats in loss and in average risk alike, by ascending loss.

    Examples
    --------
    >>> cheap, safe = Solution((0.1,), (0,), 0, 5, 2, 10), Solution((0.4,), (2,), 0, 1, 10, 10)
    >>> poor = Solution((0.5,), (1,), 0, 4, 2, 10)
    >>> [each.levels for each in pareto_front([poor, safe, cheap])]
    [(0,), (2,)]
    """
    front: list[Solution] = []
    for each in sorted(solutions):
        if not front or each.average_risk < front[-1].average_risk:
            front.append(each)
    return front


LOOKED_UP = 25_000_000_000
"""Codes a search looks up where its policy sets no budget: a minute or two of one core."""

REMEMBERED = 1000
EXPECTED = 4
"""Nodes that are looked at ahead, at most."""


class Spent(Exception):
    """A search's limit of nodes or of time is reached; caught by the caller that explores."""


@dataclass(frozen=True)
class Limits:
    """How long a search may go on.

    Parameters
    ----------
    nodes : int
        Checks.
    seconds : float, optional
        Time; the outcome then depends on the machine.
    """

    nodes: int
    seconds: float | None = None

    @classmethod
    def of(cls, budget: SearchBudget, table: EncodedTable, passes: int = 1) -> Limits:
        """What a policy allows; where it declares nothing, by the size of the table, so alike on every machine.

        Parameters
        ----------
        passes : int
            How often a check looks up each packed code of each combination, or takes as long as if it did.
        """
        if budget.nodes is not None:
            return cls(budget.nodes, budget.seconds)
        if budget.seconds is not None:
            return cls(MOST_NODES, budget.seconds)
        codes = max(1, passes * len(table) * len(table.packed.codes))
        return cls(max(1, min(MOST_NODES, LOOKED_UP // codes)), None)


@dataclass(frozen=True)
class Visit:
    """What a check said: `suppressed` -1 where no amount suffices; `loss` None where it exceeds the budget."""

    levels: Levels
    suppressed: int
    must_go: int
    loss: Loss | None


class Explorer:
    """Checks nodes of one lattice under one budget of suppressed records.

    Attributes
    ----------
    kept_back : int
        Checks that are for later.
    """

    def __init__(
        self, check: NodeCheck, lattice: Lattice, budget: int, limits: Limits, ahead: Ahead | None = None
    ) -> None:
        self.check = check
        self._ahead = ahead or Ahead(check, 0)
        self.lattice = lattice
        self.budget = budget
        self._limits = limits
        self._end = None if limits.seconds is None else time.monotonic() + limits.seconds
        self._seen: dict[Levels, Visit] = {}
        self.spent = False
        self.kept_back = 0
        self.solutions: list[Solution] = []
        self.best: Visit | None = None
        self._forced: dict[Levels, Forced] = {}

    @property
    def checked(self) -> int:
        """Nodes checked."""
        return len(self._seen)

    @property
    def left(self) -> int:
        """Checks that are still allowed."""
        return max(0, self._limits.nodes - self.checked)

    @property
    def is_timed(self) -> bool:
        """Whether time is limited."""
        return self._end is not None

    def spent_time(self) -> float:
        """Share of the time that is over; 1 where none is given."""
        if self._end is None or not self._limits.seconds:
            return 1.0
        return 1.0 - (self._end - time.monotonic()) / self._limits.seconds

    def visit(self, levels: Levels, likely: Iterable[Levels] = ()) -> Visit:
        """Check a node, unless it was; on other cores those that are likely to be checked next.

        Raises
        ------
        Spent
            Another check would exceed the limits.
        """
        if levels in self._seen:
            return self._seen[levels]
        if self.left <= self.kept_back or (self._end is not None and time.monotonic() > self._end):
            self.spent = True
            raise Spent
        node = self._ahead.take(levels, (each for each in likely if each not in self._seen) if self.left > 1 else ())
        loss = None
        if 0 <= node.suppressed <= self.budget:
            loss, _ = self.check.loss.exact(node.levels, node.rows)
            self.solutions.append(solution_of(self.check, node, loss))
        if getattr(self.check.loss, "forced_rises", False) and 0 < node.must_go <= self.budget:
            forced = node.forced(self.check.table.columns)
            if forced is not None:
                self._forced[levels] = forced
            if len(self._forced) > REMEMBERED:
                self._forced.pop(next(iter(self._forced)))
        visit = Visit(levels, node.suppressed, node.must_go, loss)
        self._seen[levels] = visit
        within("nodes", self.checked, min(self.lattice.size, self._limits.nodes))
        if loss is not None and self._is_better(visit):
            self.best = visit
        return visit

    def visits(self, nodes: Iterable[Levels]) -> Iterator[Visit]:
        """Check nodes one after another, the next ones ahead."""
        each = list(nodes)
        for at, levels in enumerate(each):
            yield self.visit(levels, each[at + 1 : at + 1 + EXPECTED])

    @property
    def is_ahead(self) -> bool:
        """Whether it pays to announce the next nodes."""
        return self._ahead.is_on

    def bounds(self, nodes: Sequence[Levels]) -> Floats:
        """Lower bounds of some nodes."""
        return self.check.loss.bounds(np.array(nodes, dtype=np.int16))

    def sharper_bounds(self, nodes: Sequence[Levels], top: Levels) -> Floats:
        """Lower bounds of all vectors between each node and a top, by the records to be removed at the top if known."""
        if top not in self._forced:
            return self.bounds(nodes)
        return self.check.loss.forced_bounds(np.array(nodes, dtype=np.int16), self._forced[top])

    def least(self) -> float:
        """A lower bound (its first figure) of every node of the lattice, or minus infinity where none is known."""
        if rises(self):
            return float(self.bounds([self.lattice.bottom])[0, 0])
        return (
            float(self.check.loss.bounds(self.lattice.nodes())[:, 0].min()) if self.lattice.size < 1 << 20 else -np.inf
        )

    def found(self, notes: Mapping[str, object], *, optimal: bool = False, gap: float | None = None) -> Found | None:
        """The best node so far as an outcome; its gap by the bound of the whole lattice unless it is given."""
        if self.best is None or self.best.loss is None:
            return None
        node = self.check(self.best.levels)
        loss, columns = self.check.loss.exact(node.levels, node.rows)
        if gap is None:
            gap = 0.0 if optimal else max(0.0, loss[0] - self.least())
        solutions = tuple(sorted(self.solutions))
        return Found(node, loss, columns, optimal, gap, self.checked, solutions=solutions, notes=dict(notes))

    def _is_better(self, visit: Visit) -> bool:
        if self.best is None or self.best.loss is None or visit.loss is None:
            return True
        if tied(visit.loss, self.best.loss):
            return visit.levels < self.best.levels
        return is_below(visit.loss, self.best.loss)


def rises(explorer: Explorer) -> bool:
    """Whether no column's bound falls with its level, so that the finest vector of a box bounds all of it."""
    lattice = explorer.lattice
    for at, levels in enumerate(lattice.allowed):
        bottom = lattice.bottom
        figures = explorer.bounds([(*bottom[:at], level, *bottom[at + 1 :]) for level in levels])
        if (np.diff(figures, axis=0) < 0).any():
            return False
    return True
