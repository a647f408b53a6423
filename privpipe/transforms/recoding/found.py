"""What a search found, and what it did to find it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from privpipe.transforms.recoding.comparison import Loss
from privpipe.transforms.recoding.node import CheckedNode, NodeCheck

__all__ = ["Found", "Solution", "pareto_front", "solution_of"]


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
        One figure, under the aggregate `rank` one a column.
    column_losses : list of float
    optimal : bool
        Whether no node is left that could be better.
    gap : float
        Loss (its first figure) above the least bound of the nodes left; 0 when optimal.
    checked, pruned_by_bound, pruned_by_mandatory, pruned_by_witness : int
        Nodes by what became of them.
    solutions : tuple of Solution
        Every feasible node that was checked, best first.
    notes : mapping
        What else the plan says of how the search went.
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
