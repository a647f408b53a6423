"""The best chance to name the record of a person whose quasi-identifiers are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts
from privpipe.blocks.guarantee import Direction
from privpipe.blocks.oracle_classes import Classes, Expected, by_class, slack

__all__ = ["WorstGuess"]


@dataclass(frozen=True, kw_only=True, repr=False)
class WorstGuess(ClassModel):
    """One over the size of the smallest class.

    Parameters
    ----------
    at_most : float, optional
        In (0, 1]. Left out (under `measures:`), the chance is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Examples
    --------
    >>> WorstGuess(at_most=0.2).is_gate()
    True
    """

    threshold_field: ClassVar[str | None] = "at_most"
    direction: ClassVar[Direction] = "at_most"
    source: ClassVar[str] = "the tests of privpipe"

    at_most: Annotated[float | None, Gt(0), Le(1), Doc("largest chance of a right guess")] = None

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return 1 / block.sizes

    @classmethod
    def counts_records(cls) -> bool:
        return True

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """One over the size of each class."""
        chances = [1 / size for size in classes.sizes]
        fine = [model.at_most is None or chance <= model.at_most + slack(model.at_most) for chance in chances]
        return by_class(classes, chances, fine, max)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=1.0), cls(at_most=0.2)]
