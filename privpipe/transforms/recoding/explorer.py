"""Visits nodes for heuristics and for lattices too large to hold: each once, within limits, keeping the best."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.progress import within
from privpipe.transforms.recoding.ahead import Ahead
from privpipe.transforms.recoding.comparison import Loss, is_below, tied
from privpipe.transforms.recoding.encoded import EncodedTable
from privpipe.transforms.recoding.found import Found, Solution, solution_of
from privpipe.transforms.recoding.lattice import Lattice
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.quality import Forced
from privpipe.transforms.recoding.stage import MOST_NODES, SearchBudget

__all__ = ["Explorer", "Limits", "Spent", "Visit", "rises"]

LOOKED_UP = 25_000_000_000
"""Codes a search looks up where its policy sets no budget: a minute or two of one core."""

Levels = tuple[int, ...]
REMEMBERED = 1000
EXPECTED = 4
"""Nodes that are looked at ahead, at the most."""


class Spent(Exception):
    """A search's limit of nodes or of time is reached; caught by whoever explores."""


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
        """What a policy allows; where it says nothing, by the size of the table, which is the same on every machine.

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
        """Whether it pays to say what is expected."""
        return self._ahead.is_on

    def bounds(self, nodes: Sequence[Levels]) -> NDArray[np.float64]:
        """Lower bounds of some nodes."""
        return self.check.loss.bounds(np.array(nodes, dtype=np.int16))

    def sharper_bounds(self, nodes: Sequence[Levels], top: Levels) -> NDArray[np.float64]:
        """Lower bounds of all vectors between each node and a top, by what must go at the top where that is known."""
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
