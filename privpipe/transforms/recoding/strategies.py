"""Strategies of `search:`: branch and bound over boxes, k-minimal generalizations, and how each strategy is carried
out.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import UnsupportedError
from privpipe.kernels.lattice.vectors import below, under_any
from privpipe.progress import within
from privpipe.transforms.recoding.explorer import (
    LARGEST_HELD,
    LARGEST_SIFTED,
    Explorer,
    Found,
    Lattice,
    Limits,
    Solution,
    Spent,
    above_and_not_below,
    pareto_front,
    rises,
    solution_of,
)
from privpipe.transforms.recoding.generalize_stage import MOST_NODES, GeneralizeStage
from privpipe.transforms.recoding.heuristics import STRATEGIES, climb, exchange_on, genetic, top_down
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck, checking_ahead
from privpipe.transforms.recoding.optimal_search import LatticeSearch, ended_search, finer_fails_too

__all__ = ["CRITERIA", "BoxSearch", "Outcome", "search_minimal", "searched"]


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
                genetic(explorer)  # so that the result in time is never worse
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


Figure = Callable[[NodeCheck, Solution], float]


def search_minimal(
    check: NodeCheck, lattice: Lattice, budget: int, limits: Limits, criteria: Sequence[str]
) -> tuple[Found | None, int, list[Solution], bool]:
    """All vectors within the budget that have none of their specializations within it, preferred ones first.

    A valid node settles all its generalizations, an infeasible one its specializations, from the middle of what is
    left by height; so every node is checked, or dominated by a checked one, or cannot be valid.

    Returns
    -------
    (Found or None, int, list of Solution, bool)
        The preferred one; nodes checked; the antichain in order of preference; whether nothing is left to check.
    """
    search = _MinimalSearch(check, budget, lattice.nodes(), limits.nodes, limits.seconds)
    search.run()
    minimal = _lowest([solution for _, solution in search.feasible])
    figures = [CRITERIA[name] for name in criteria]
    minimal.sort(key=lambda each: (*(round(figure(check, each), 9) for figure in figures), each.levels))
    if not minimal:
        return None, search.checked, [], not len(search.alive)
    node = check(minimal[0].levels)
    loss, columns = check.loss.exact(node.levels, node.rows)
    proved = not len(search.alive)
    found = Found(
        node,
        loss,
        columns,
        proved,
        0.0,
        search.checked,
        search.by_bound,
        search.by_mandatory,
        search.by_witness,
        tuple(sorted(solution for _, solution in search.feasible)),
    )
    return found, search.checked, minimal, proved


class _MinimalSearch(LatticeSearch):
    """Drops generalizations of valid nodes instead of poor ones."""

    def run(self) -> None:
        heights = np.round((self.nodes / np.maximum(self.nodes.max(axis=0, initial=0), 1)).sum(axis=1), 9)
        self.alive = np.lexsort((np.arange(len(self.nodes)), heights)).astype(np.int64)
        super().run()

    def _step(self) -> None:
        self._look(len(self.alive) // 2)

    def _look(self, place: int) -> None:
        at = self._taken(place)
        node = self.check(tuple(self.nodes[at].tolist()))
        self.checked += 1
        if 0 <= node.suppressed <= self.budget:
            self._keep(at, node)
        else:
            self._reject(at, node)
        within("nodes", len(self.nodes) - len(self.alive), len(self.nodes))
        self._current = -1

    def _keep(self, at: int, node: CheckedNode) -> None:
        loss, _ = self.check.loss.exact(node.levels, node.rows)
        self.feasible.append((at, solution_of(self.check, node, loss)))
        higher = _above(self.nodes, self.alive, self.nodes[at])
        self.by_bound += int(higher.sum())
        self.alive = self.alive[~higher]

    def _reject(self, at: int, node: CheckedNode) -> None:
        if node.must_go > self.budget or (self.all_or_nothing and node.suppressed != 0):
            hopeless = below(self.nodes, self.alive, self.nodes[at])
            self.by_mandatory += int(hopeless.sum())
            self.alive = self.alive[~hopeless]


def _above(nodes: NDArray[np.int16], chosen: Ints, bottom: NDArray[np.int16]) -> Bools:
    return below(-nodes, chosen, -bottom)


def _lowest(solutions: list[Solution]) -> list[Solution]:
    """Those without another one below them."""

    def beaten(each: Solution) -> bool:
        return any(
            other.levels != each.levels and all(a <= b for a, b in zip(other.levels, each.levels, strict=True))
            for other in solutions
        )

    return [each for each in solutions if not beaten(each)]


def _absolute_distance(check: NodeCheck, solution: Solution) -> float:
    return float(sum(solution.levels))


def _relative_distance(check: NodeCheck, solution: Solution) -> float:
    heights = [hierarchy.height for hierarchy in check.table.hierarchies]
    return sum(level / height for level, height in zip(solution.levels, heights, strict=True) if height)


def _distribution(check: NodeCheck, solution: Solution) -> float:
    """Minus the distinct released combinations of all quasi-identifiers."""
    table = check.table
    rows = check(solution.levels).rows
    numbers = check.packed.classes((*table.columns, *table.fixed), solution.levels).numbers
    return -float(len(np.unique(numbers[~rows])))


def _suppression(check: NodeCheck, solution: Solution) -> float:
    return float(solution.suppressed)


CRITERIA: dict[str, Figure] = {
    "minimum_absolute_distance": _absolute_distance,
    "minimum_relative_distance": _relative_distance,
    "maximum_distribution": _distribution,
    "minimum_suppression": _suppression,
}
"""The least is preferred; those of equal figure go by the next criterion, then by their levels."""


DEFAULT_CRITERIA = ("minimum_suppression", "minimum_absolute_distance")
RUNNERS_UP = 10
FRONT = 50
STEPS_UP = 40


@dataclass(frozen=True)
class Outcome:
    """What a search came to.

    Parameters
    ----------
    found : Found or None
    checked : int
        Nodes checked.
    exhausted : bool
        Whether nothing is left to check, so that a vector that was not found does not exist.
    lattice : Lattice
    allowed : int
        Nodes that might have been checked.
    minimal : list of Solution
        Of `search: minimal`: all of them.
    safer : list of Solution
        Valid vectors above the one found, examined only for the front of loss and risk.
    near : list of (levels, Solution or None)
        Vectors that differ from the one found by one level of one column; None: they do not meet everything.
    """

    found: Found | None
    checked: int
    exhausted: bool
    lattice: Lattice
    allowed: int
    minimal: list[Solution] = field(default_factory=list)
    safer: list[Solution] = field(default_factory=list)
    near: list[tuple[tuple[int, ...], Solution | None]] = field(default_factory=list)

    def describe(self, stage: GeneralizeStage, columns: Sequence[str]) -> dict[str, Any]:
        """What the plan states about the search, as plain JSON."""
        found = self.found
        if found is None:
            return {}
        others = [each for each in found.solutions if each.levels != found.node.levels]
        detail: dict[str, Any] = {
            "search": stage.search or "optimal",
            "approach": stage.approach or ("AG_TS" if stage.limit else "AG_"),
            "optimal": found.optimal,
            **_proved(found),
            "nodes": self.lattice.size,
            "nodes_checked": self.checked,
            "nodes_allowed": self.allowed,
            "pruned_by_bound": found.pruned_by_bound,
            "pruned_by_mandatory": found.pruned_by_mandatory,
            "pruned_by_witness": found.pruned_by_witness,
            "solutions_seen": len(found.solutions),
            "runners_up": [each.describe(columns) for each in others[:RUNNERS_UP]],
            "front": [each.describe(columns) for each in pareto_front([*found.solutions, *self.safer])[:FRONT]],
            "neighbours": [_neighbour(levels, each, columns) for levels, each in self.near],
            **found.notes,
        }
        if stage.budget.seconds is not None:
            detail["reproducible"] = False
        if stage.minimal == "all":
            detail["minimal"] = [each.describe(columns) for each in self.minimal]
        return detail


def _neighbour(levels: tuple[int, ...], found: Solution | None, columns: Sequence[str]) -> dict[str, Any]:
    if found is not None:
        return {**found.describe(columns), "meets": True}
    return {"levels": dict(zip(columns, levels, strict=True)), "meets": False}


def _proved(found: Found) -> dict[str, float | None]:
    """How far the loss is from the least there can be; None where no bound is known."""
    if not found.gap < float("inf"):
        return {"gap": None, "relative_gap": None, "lower_bound": None}
    loss = found.loss[0]
    relative = found.gap / abs(loss) if loss else None
    return {"gap": found.gap, "relative_gap": relative, "lower_bound": loss - found.gap}


def searched(stage: GeneralizeStage, check: NodeCheck, budget: int, place: str) -> Outcome:
    """Search as a stage states, and compute what less risk would cost.

    Raises
    ------
    UnsupportedError
        All minimal vectors of a lattice too large to hold.
    """
    outcome = _searched(stage, check, budget, place)
    if outcome.found is None:
        return outcome
    levels = outcome.found.node.levels
    return replace(
        outcome,
        safer=_safer(check, outcome.lattice, budget, levels),
        near=_near(check, outcome.lattice, budget, levels),
    )


def _near(
    check: NodeCheck, lattice: Lattice, budget: int, levels: tuple[int, ...]
) -> list[tuple[tuple[int, ...], Solution | None]]:
    """What each vector that is one step finer or coarser in one column would have come to."""
    explorer = Explorer(check, lattice, budget, Limits(STEPS_UP))
    found: list[tuple[tuple[int, ...], Solution | None]] = []
    with contextlib.suppress(Spent):
        for at, allowed in enumerate(lattice.allowed):
            place = list(allowed).index(levels[at])
            for other in (place - 1, place + 1):
                if 0 <= other < len(allowed):
                    node = (*levels[:at], int(allowed[other]), *levels[at + 1 :])
                    before = len(explorer.solutions)
                    explorer.visit(node)
                    found.append((node, explorer.solutions[-1] if len(explorer.solutions) > before else None))
    return found


def _safer(check: NodeCheck, lattice: Lattice, budget: int, levels: tuple[int, ...]) -> list[Solution]:
    """Valid vectors on a way up from one, by the least rise of the bound at each step."""
    explorer = Explorer(check, lattice, budget, Limits(STEPS_UP))
    higher = lattice.above(levels)
    with contextlib.suppress(Spent):
        while higher:
            bounds = [tuple(bound) for bound in explorer.bounds(higher).tolist()]
            node = higher[bounds.index(min(bounds))]
            explorer.visit(node)
            higher = lattice.above(node)
    return explorer.solutions


def _searched(stage: GeneralizeStage, check: NodeCheck, budget: int, place: str) -> Outcome:
    lattice = Lattice.of(check.table, roots_only=stage.roots_only or stage.approach == "_AS")
    limits = Limits.of(stage.budget, check.table)
    if stage.search in STRATEGIES:
        limits = Limits(stage.budget.nodes or MOST_NODES, stage.budget.seconds)  # its walk ends by itself
        with checking_ahead(check) as ahead:
            return _by_heuristic(stage.search, Explorer(check, lattice, budget, limits, ahead))
    if stage.search == "minimal":
        if lattice.size > LARGEST_HELD:
            raise UnsupportedError(
                f"{place}: minimal vectors are listed among at most {LARGEST_HELD:,}, and this lattice has "
                f"{lattice.size:,}; narrow it with min_level and max_level of the columns"
            )
        criteria = stage.criteria or DEFAULT_CRITERIA
        found, checked, minimal, exhausted = search_minimal(check, lattice, budget, limits, criteria)
        return Outcome(found, checked, exhausted, lattice, limits.nodes, minimal)
    explorer = Explorer(check, lattice, budget, limits)
    if lattice.size > LARGEST_HELD or (lattice.size > LARGEST_SIFTED and rises(explorer)):
        with checking_ahead(check) as ahead:
            explorer = Explorer(check, lattice, budget, limits, ahead)
            found = BoxSearch(explorer, place).run()
        return Outcome(found, explorer.checked, found.optimal if found else not explorer.spent, lattice, limits.nodes)
    search = ended_search(check, lattice, budget, limits)
    return Outcome(search.found(), search.checked, not len(search.alive), lattice, limits.nodes)


def _by_heuristic(name: str, explorer: Explorer) -> Outcome:
    interrupted = False
    try:
        STRATEGIES[name](explorer)
        if explorer.is_timed and name != "datafly":  # which is there to be compared with
            exchange_on(explorer)
    except Spent:
        pass  # the best so far is the answer
    except KeyboardInterrupt:
        if explorer.best is None:
            raise
        interrupted = True
    found = explorer.found({"interrupted": True} if interrupted else {})
    done = explorer.checked >= explorer.lattice.size
    return Outcome(found, explorer.checked, done, explorer.lattice, explorer.checked + explorer.left)
