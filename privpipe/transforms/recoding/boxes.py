"""The optimum of a lattice too large to hold: branch and bound over boxes of vectors."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UnsupportedError
from privpipe.transforms.recoding.comparison import above_and_not_below
from privpipe.transforms.recoding.exchanges import exchange_on
from privpipe.transforms.recoding.explorer import Explorer, Spent, rises
from privpipe.transforms.recoding.found import Found
from privpipe.transforms.recoding.heuristics import climb, genetic, top_down
from privpipe.transforms.recoding.optimal import finer_fails_too

__all__ = ["BoxSearch"]

Levels = tuple[int, ...]
Box = tuple[Levels, Levels]
IMPROVING = 0.5
"""Share of the time, where it is limited, for better vectors; the rest is for the proof."""


class BoxSearch:
    """Branch and bound over boxes, that is all vectors between two, by places within each column's levels.

    A box is bounded by its finest vector and dies when its coarsest one fails for all its specializations. The box
    of least bound is split first, in the column whose levels raise the bound most.

    Raises
    ------
    UnsupportedError
        A quality model whose bound falls with a level, so that no vector bounds a box.
    """

    def __init__(self, explorer: Explorer, place: str) -> None:
        if not rises(explorer):
            raise UnsupportedError(
                f"{place}: the lattice has {explorer.lattice.size:,} vectors of levels, and this quality model has no "
                "bound over many of them; narrow it with min_level and max_level of the columns"
            )
        self._explorer = explorer
        self._all_or_nothing = explorer.budget == 0 and finer_fails_too(explorer.check)
        self._hopeless: NDArray[np.int16] = np.zeros((0, len(explorer.lattice.allowed)), dtype=np.int16)
        self._open: list[tuple[tuple[float, ...], Levels, Levels]] = []
        self.killed = self.beaten = 0

    def run(self) -> Found | None:
        """Start from greedy solutions, better them by exchanges of levels, then prove or run out of checks."""
        explorer = self._explorer
        self._push([(explorer.lattice.bottom, explorer.lattice.top)])
        interrupted = False
        try:
            if explorer.is_timed:
                genetic(explorer)  # so that what is found in time is never worse
            top_down(explorer)
            climb(explorer)
            exchange_on(explorer, IMPROVING)
            self._prove()
        except Spent:
            pass  # the best so far, with its gap, is the answer
        except KeyboardInterrupt:
            if explorer.best is None:
                raise
            interrupted = True
        best = explorer.best
        if best is None or best.loss is None:
            return None
        least = min((bound[0] for bound, _, _ in self._open), default=np.inf)
        gap = max(0.0, best.loss[0] - least)
        notes: dict[str, object] = {"boxes_pruned_by_bound": self.beaten, "boxes_pruned_by_mandatory": self.killed}
        if interrupted:
            notes["interrupted"] = True
        return explorer.found(notes, optimal=not self._open, gap=gap)

    def _prove(self) -> None:
        while self._open:
            bound, low, high = self._open[0]
            if self._is_beaten(bound, low):
                heapq.heappop(self._open)
                self.beaten += 1
                continue
            if (self._hopeless >= np.array(high, dtype=np.int16)).all(axis=1).any() or self._fails(high):
                heapq.heappop(self._open)
                self.killed += 1
                continue
            heapq.heappop(self._open)
            if low != high:
                self._push(self._split(low, high), bound, high)

    def _fails(self, high: Levels) -> bool:
        """Check a box's coarsest vector; whether no specialization can be valid."""
        visit, explorer = self._explorer.visit(high), self._explorer
        dead = visit.must_go > explorer.budget or (self._all_or_nothing and visit.suppressed != 0)
        if dead:
            kept = self._hopeless[~(self._hopeless <= np.array(high)).all(axis=1)]
            self._hopeless = np.concatenate([kept, np.array([high], dtype=np.int16)])
        return dead

    def _is_beaten(self, bound: tuple[float, ...], low: Levels) -> bool:
        best = self._explorer.best
        if best is None or best.loss is None:
            return False
        above, not_below = above_and_not_below(np.array([bound]), best.loss)
        return bool(above[0] or (not_below[0] and low > best.levels))

    def _push(self, boxes: list[Box], least: tuple[float, ...] = (), top: Levels = ()) -> None:
        """Open boxes, parts of one with this bound and coarsest vector."""
        bounds = self._explorer.sharper_bounds([low for low, _ in boxes], top)
        for (low, high), bound in zip(boxes, bounds.tolist(), strict=True):
            heapq.heappush(self._open, (max(tuple(bound), least), low, high))

    def _split(self, low: Levels, high: Levels) -> list[Box]:
        allowed = self._explorer.lattice.allowed
        free = [at for at, (a, b) in enumerate(zip(low, high, strict=True)) if a < b]
        raised = self._explorer.bounds([(*low[:at], high[at], *low[at + 1 :]) for at in free])[:, 0]
        at = free[int(np.argmax(raised))]
        levels = allowed[at]
        first, last = levels.index(low[at]), levels.index(high[at])
        middle = (first + last) // 2
        lower = (*high[:at], levels[middle], *high[at + 1 :])
        upper = (*low[:at], levels[middle + 1], *low[at + 1 :])
        return [(low, lower), (upper, high)]
