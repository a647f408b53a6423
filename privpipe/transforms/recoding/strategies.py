"""How a stage's `search:` is carried out, and what the plan says of it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privpipe.errors import UnsupportedError
from privpipe.transforms.recoding.ahead import checking_ahead
from privpipe.transforms.recoding.boxes import BoxSearch
from privpipe.transforms.recoding.exchanges import exchange_on
from privpipe.transforms.recoding.explorer import Explorer, Limits, Spent, rises
from privpipe.transforms.recoding.found import Found, Solution, pareto_front
from privpipe.transforms.recoding.heuristics import STRATEGIES
from privpipe.transforms.recoding.lattice import LARGEST_HELD, LARGEST_SIFTED, Lattice
from privpipe.transforms.recoding.minimal import search_minimal
from privpipe.transforms.recoding.node import NodeCheck
from privpipe.transforms.recoding.optimal import ended_search
from privpipe.transforms.recoding.stage import MOST_NODES, GeneralizeStage

__all__ = ["Outcome", "searched"]

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
        Valid vectors above the one found, looked at for the front of loss and risk alone.
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
        """What the plan says of the search, as plain JSON."""
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
    """Search as a stage says, and look at what less risk would cost.

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
