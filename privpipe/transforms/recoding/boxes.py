"""The optimum of a lattice too large to hold: branch and bound over boxes of vectors."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import UnsupportedError
from privpipe.kernels.lattice.vectors import under_any
from privpipe.transforms.recoding.comparison import above_and_not_below
from privpipe.transforms.recoding.exchanges import exchange_on
from privpipe.transforms.recoding.explorer import Explorer, Spent, rises
from privpipe.transforms.recoding.found import Found
from privpipe.transforms.recoding.heuristics import climb, genetic, top_down
from privpipe.transforms.recoding.optimal import finer_fails_too

__all__ = ["BoxSearch"]

Levels = tuple[int, ...]
Box = tuple[Levels, Levels]
Bounded = tuple[tuple[float, ...], Levels, Levels]
IMPROVING = 0.5
"""Share of the checks, and of the time where it is limited, for better vectors; the rest is for the proof."""

AT_ONCE = 4
"""Boxes that are looked at together: nearly all below the optimum must be, in whatever order."""


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
        self._open: list[Bounded] = []
        self.killed = self.beaten = 0

    def run(self) -> Found | None:
        """Start from greedy solutions, better them by exchanges of levels, then prove or run out of checks."""
        explorer = self._explorer
        self._push([(explorer.lattice.bottom, explorer.lattice.top)])
        interrupted = False
        try:
            self._improve()
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

    def _improve(self) -> None:
        explorer = self._explorer
        explorer.kept_back = int((1.0 - IMPROVING) * explorer.left)
        try:
            if explorer.is_timed:
                genetic(explorer)  # so that what is found in time is never worse
            top_down(explorer)
            climb(explorer)
            exchange_on(explorer, IMPROVING)
        except Spent:
            explorer.spent = False  # the proof has its share yet
        explorer.kept_back = 0

    def _prove(self) -> None:
        """Some boxes at a time, so that several cores have work; as many on a single one, which finds the same."""
        while self._open:
            boxes = self._least_boxes()
            try:
                while boxes:
                    bound, low, high = boxes[0]
                    if under_any(self._hopeless, high) or self._fails(high, [top for _, _, top in boxes[1:]]):
                        self.killed += 1
                    elif low != high:
                        self._push(self._split(low, high), bound, high)
                    del boxes[0]
            finally:  # those not looked at stay open
                for box in boxes:
                    heapq.heappush(self._open, box)

    def _least_boxes(self) -> list[Bounded]:
        """The open boxes of least bound that neither the best vector nor a failing one rules out, taken out."""
        found: list[Bounded] = []
        while self._open and len(found) < AT_ONCE:
            bound, low, high = heapq.heappop(self._open)
            if self._is_beaten(bound, low):
                self.beaten += 1
            elif under_any(self._hopeless, high):
                self.killed += 1
            else:
                found.append((bound, low, high))
        return found

    def _fails(self, high: Levels, likely: list[Levels]) -> bool:
        """Check a box's coarsest vector; whether no specialization can be valid."""
        visit, explorer = self._explorer.visit(high, likely), self._explorer
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
