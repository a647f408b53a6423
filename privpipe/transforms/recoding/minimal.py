"""k-minimal generalizations: valid vectors of levels with no valid one below, and preferred ones among them.

Source: Samarati, IEEE TKDE 13(6), 2001.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.lattice.vectors import below
from privpipe.progress import within
from privpipe.transforms.recoding.explorer import Limits
from privpipe.transforms.recoding.found import Found, Solution, solution_of
from privpipe.transforms.recoding.lattice import Lattice
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck
from privpipe.transforms.recoding.optimal import LatticeSearch

__all__ = ["CRITERIA", "search_minimal"]

Figure = Callable[[NodeCheck, Solution], float]


def search_minimal(
    check: NodeCheck, lattice: Lattice, budget: int, limits: Limits, criteria: Sequence[str]
) -> tuple[Found | None, int, list[Solution], bool]:
    """All vectors within the budget that have none of their specializations within it, preferred ones first.

    A valid node takes all its generalizations along, a hopeless one its specializations, from the middle of what is
    left by height; so every node is checked, or beaten by a checked one, or cannot be valid.

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


def _above(nodes: NDArray[np.int16], chosen: NDArray[np.int64], bottom: NDArray[np.int16]) -> NDArray[np.bool_]:
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
