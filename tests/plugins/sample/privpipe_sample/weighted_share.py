"""A bound on the share of the commonest value of each class, times a weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts
from privpipe.blocks.guarantee import Direction
from privpipe.blocks.marks import SensitiveColumn

__all__ = ["WeightedShare"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WeightedShare(ClassModel):
    """In each class, `weight` times the share of the commonest value of a column is at most `at_most`.

    Parameters
    ----------
    column_of_interest : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        Above 0. Left out (under `measures:`), the largest product is reported.
    weight : float
        Above 0: how much the column matters. No column of sampling weights.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Examples
    --------
    >>> WeightedShare(column_of_interest="illness", at_most=0.5).weight
    1.0
    """

    threshold_field: ClassVar[str | None] = "at_most"
    direction: ClassVar[Direction] = "at_most"
    source: ClassVar[str] = "the tests of privpipe"
    threat: ClassVar[str] = "Someone who finds a person's class guesses the value that most records there share."
    formula: ClassVar[str] = "weight * max share <= at_most in each class"
    choose: ClassVar[str] = "Above the share of the commonest value of the whole table, times the weight."

    column_of_interest: Annotated[str, SensitiveColumn(), Doc("the sensitive column")]
    at_most: Annotated[float | None, Gt(0), Doc("largest product in a class")] = None
    weight: Annotated[float, Gt(0), Doc("how much the column matters")] = 1.0

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        from privpipe.kernels.classes.cells import top_share_by_class

        cells = block.cells[self.column_of_interest]
        return self.weight * top_share_by_class(cells.offsets, cells.counts, block.sizes)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column_of_interest="illness"),
            cls(column_of_interest="illness", at_most=1.0),
            cls(column_of_interest="illness", at_most=0.5, weight=0.75),
        ]
