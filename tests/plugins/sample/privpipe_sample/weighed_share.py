"""A bound on the share of the commonest value of each class, times a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassModel, Facts
from privpipe.blocks.entry import require_number
from privpipe.blocks.guarantee import Direction

__all__ = ["WeighedShare"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WeighedShare(ClassModel):
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
    >>> WeighedShare(column_of_interest="illness", at_most=0.5).weight
    1.0
    """

    threshold_field: ClassVar[str | None] = "at_most"
    direction: ClassVar[Direction] = "at_most"
    about: ClassVar[Mapping[str, str]] = {
        "column_of_interest": "the sensitive column",
        "at_most": "largest product in a class",
        "weight": "how much the column matters",
    }
    source: ClassVar[str] = "the tests of privpipe"
    threat: ClassVar[str] = "Somebody who finds a person's class guesses the value that most records there share."
    formula: ClassVar[str] = "weight * max share <= at_most in each class"
    choose: ClassVar[str] = "Above the share of the commonest value of the whole table, times the weight."

    column_of_interest: str
    at_most: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("WeighedShare", "weight", self.weight, above=0)
        if self.at_most is not None:
            require_number("WeighedShare", "at_most", self.at_most, above=0)

    def sensitive_columns(self) -> tuple[str, ...]:
        return (self.column_of_interest,)

    def weight_column(self) -> str | None:
        return None

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        from privpipe.kernels.classes.counts import top_share_by_class

        cells = block.cells[self.column_of_interest]
        return self.weight * top_share_by_class(cells.offsets, cells.counts)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column_of_interest="illness"),
            cls(column_of_interest="illness", at_most=1.0),
            cls(column_of_interest="illness", at_most=0.5, weight=0.75),
        ]
