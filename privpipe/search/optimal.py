"""The optimal vector of levels, with its proof: every node is checked, dominated or bounded away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.search.node import CheckedNode, NodeCheck

__all__ = ["Found", "search_optimal"]

TIE = 1e-9


@dataclass(frozen=True)
class Found:
    """A search's outcome.

    `loss` is a list under the aggregate `rank`; `gap` is 0 when the optimum is proved.
    """

    node: CheckedNode
    loss: float | list[float]
    column_losses: list[float]
    optimal: bool
    gap: float
    checked: int
    pruned_by_bound: int
    pruned_as_infeasible: int


def search_optimal(check: NodeCheck, budget: int, node_limit: int) -> tuple[Found | None, int]:
    """The feasible node of least loss; None when there is none (or none was found within `node_limit` checks).

    Works from the middle of what is alive: a node that fails hopelessly takes all its specializations along,
    a feasible one takes every node whose bound is no better. At budget 0 and under models that are hereditary
    or convex, any infeasible node is hopeless: its finer classes cannot all pass.

    Parameters
    ----------
    budget : int
        Records that may be suppressed.
    node_limit : int
        Checks allowed.

    Returns
    -------
    (Found or None, int)
        The outcome and the number of nodes checked.
    """
    nodes = check.table.nodes()
    bounds = check.loss.bounds(nodes)
    alive = np.lexsort((np.arange(len(nodes)), bounds))
    total_infeasible = budget == 0 and _monotone(check)
    best: tuple[tuple[float, ...], tuple[int, ...]] | None = None
    kept: tuple[CheckedNode, float | list[float], list[float]] | None = None
    checked = by_bound = infeasible = 0
    while len(alive) and checked < node_limit:
        at = alive[len(alive) // 2]
        alive = alive[alive != at]
        node = check(tuple(int(level) for level in nodes[at]))
        checked += 1
        if 0 <= node.suppressed <= budget:
            loss, columns = check.loss.exact(node.levels, node.rows)
            rank = (tuple(loss) if isinstance(loss, list) else (loss,), node.levels)
            if best is None or _better(rank, best):
                best, kept = rank, (node, loss, columns)
            before = len(alive)
            alive = alive[bounds[alive] <= best[0][0] + TIE]
            by_bound += before - len(alive)
        elif node.must_go > budget or (total_infeasible and node.suppressed != 0):
            before = len(alive)
            alive = alive[~_specializations(nodes, alive, nodes[at])]
            infeasible += before - len(alive)
    if kept is None or best is None:
        return None, checked
    node, loss, columns = kept
    gap = max(0.0, best[0][0] - float(bounds[alive].min())) if len(alive) else 0.0
    found = Found(node, loss, columns, not len(alive), gap, checked, by_bound, infeasible)
    return found, checked


def _better(one: tuple[tuple[float, ...], tuple[int, ...]], other: tuple[tuple[float, ...], tuple[int, ...]]) -> bool:
    """Less loss, entry by entry beyond rounding; among equals the smaller vector of levels."""
    for left, right in zip(one[0], other[0], strict=True):
        if abs(left - right) > TIE:
            return left < right
    return one[1] < other[1]


def _specializations(nodes: NDArray[np.int8], alive: NDArray[np.intp], node: NDArray[np.int8]) -> NDArray[np.bool_]:
    return np.asarray((nodes[alive] <= node).all(axis=1))


def _monotone(check: NodeCheck) -> bool:
    models = [model for group, _ in check.sets.values() for model in group]
    sample_based = any(group for _, group in check.sets.values())
    return not sample_based and all(model.hereditary or model.convex for model in models)
