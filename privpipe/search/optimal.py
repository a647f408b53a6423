"""The optimal vector of levels, with its proof: every node is checked, dominated or bounded away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpipe.search.node import CheckedNode, NodeCheck

__all__ = ["Found", "search_optimal"]

TIE = 1e-9
"""Losses this close are equal: the smaller vector of levels wins."""

Loss = tuple[float, ...]


@dataclass(frozen=True)
class Found:
    """A search's outcome.

    Parameters
    ----------
    node : CheckedNode
    loss : tuple of float
        One figure, under the aggregate `rank` one a column.
    column_losses : list of float
    optimal : bool
        Whether no node is left that could be better.
    gap : float
        Loss (its first figure) above the least bound of the nodes left; 0 when optimal.
    checked, pruned_by_bound, pruned_as_infeasible : int
        Nodes by what became of them.
    """

    node: CheckedNode
    loss: Loss
    column_losses: list[float]
    optimal: bool
    gap: float
    checked: int
    pruned_by_bound: int
    pruned_as_infeasible: int


def search_optimal(check: NodeCheck, budget: int, node_limit: int) -> tuple[Found | None, int]:
    """The feasible node of least loss; None when there is none (or none was found within `node_limit` checks).

    Works from the middle of what is alive, nodes sorted by bound: a node that fails hopelessly takes all its
    specializations along, a feasible one takes every node whose bound is worse (or no better,
    if its levels come after those of the best so far). At budget 0 and under models
    that are hereditary or convex, any infeasible node is hopeless: its finer classes cannot all pass. Among nodes
    of equal loss the smallest vector of levels wins.

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
    alive = np.lexsort((np.arange(len(nodes)), *bounds.T[::-1]))  # places of nodes, which are in order of levels
    all_or_nothing = budget == 0 and _finer_fails_too(check)
    quantile = 0.7 if 100 * budget < check.table.records or _any_convex(check) else 0.5
    feasible: list[tuple[Loss, int]] = []
    least: Loss = ()
    winner = -1
    checked = by_bound = infeasible = 0
    while len(alive) and checked < node_limit:
        place = min(int(quantile * len(alive)), len(alive) - 1)
        at = alive[place]
        alive = np.delete(alive, place)
        node = check(tuple(nodes[at].tolist()))
        checked += 1
        before = len(alive)
        if 0 <= node.suppressed <= budget:
            loss, _ = check.loss.exact(node.levels, node.rows)
            least = loss if not feasible or _below(loss, least) else least
            feasible.append((loss, int(at)))
            winner = min(place for loss, place in feasible if _tied(loss, least))
            above, not_below = _compared(bounds[alive], least)
            alive = alive[~(above | (not_below & (alive > winner)))]
            by_bound += before - len(alive)
        elif node.must_go > budget or (all_or_nothing and node.suppressed != 0):
            alive = alive[~(nodes[alive] <= nodes[at]).all(axis=1)]
            infeasible += before - len(alive)
    if not feasible:
        return None, checked
    best = check(tuple(nodes[winner].tolist()))
    loss, columns = check.loss.exact(best.levels, best.rows)
    gap = max(0.0, loss[0] - float(bounds[alive, 0].min())) if len(alive) else 0.0
    return Found(best, loss, columns, not len(alive), gap, checked, by_bound, infeasible), checked


def _below(one: Loss, other: Loss) -> bool:
    """Whether a loss is less, by the first entry in which the two differ beyond a tie, else by rounding.

    Examples
    --------
    >>> _below((0.5, 0.2), (0.5 - 1e-15, 0.3)), _below((0.5,), (0.5 + 1e-15,))
    (True, True)
    """
    differing = next((a < b for a, b in zip(one, other, strict=True) if abs(a - b) > TIE), None)
    return one < other if differing is None else differing


def _tied(one: Loss, other: Loss) -> bool:
    return all(abs(a - b) <= TIE for a, b in zip(one, other, strict=True))


def _compared(bounds: NDArray[np.float64], loss: Loss) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which bounds exceed a loss beyond a tie, and which are not below it at all, entry by entry.

    Examples
    --------
    >>> above, not_below = _compared(np.array([[0.5, 0.2], [0.5, 0.3], [0.5, 0.4], [0.4, 0.9]]), (0.5, 0.3))
    >>> above.tolist(), not_below.tolist()
    ([False, False, True, False], [False, True, True, False])
    """
    above, more = np.zeros((2, len(bounds)), dtype=np.bool_)
    tied, equal = np.ones((2, len(bounds)), dtype=np.bool_)
    for column, figure in zip(bounds.T, loss, strict=True):
        above |= tied & (column > figure + TIE)
        tied &= np.abs(column - figure) <= TIE
        more |= equal & (column > figure)
        equal &= column == figure
    return above, more | equal


def _finer_fails_too(check: NodeCheck) -> bool:
    """Whether a table that fails without suppression fails at every finer vector of levels too."""
    models = [model for group in check.sets.class_models.values() for model in group]
    return not check.sets.size_models and all(model.hereditary or model.convex for model in models)


def _any_convex(check: NodeCheck) -> bool:
    models = [model for group in check.sets.class_models.values() for model in group]
    return any(model.convex and not model.hereditary for model in models)
