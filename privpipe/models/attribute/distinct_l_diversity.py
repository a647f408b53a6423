"""Distinct l-diversity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts
from privpipe.blocks.marks import LeastNumber, OneSensitive

__all__ = ["DistinctLDiversity"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DistinctLDiversity(ClassModel):
    """Each class holds at least `l` distinct values of `column`; observed = least number of them.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    l : int, optional
        At least 1. Left out (under `measures:`), the least number of values is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Weak: a class with counts 98, 1, 1 has three values, and one of them is all but certain.

    Where persons are counted, a person's value is the set of those she has in the class: two persons with the same set
    have the same value. A class in which all have some value in common counts as one of a single value: three persons
    who all have one illness, each with one more, have l = 1. A class that merges with another may then have fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import Cells, ClassBlock, Facts
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> model = DistinctLDiversity(column="illness", l=2)
    >>> block = ClassBlock(np.array([3, 4]), {"illness": cells})
    >>> model.judge(model.measure(block, Facts()), Facts()).reason
    'observed 1, required at least 2; 1 of 2 classes, 4 of 7 records fail.'
    """

    threshold_field = "l"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    decided_by_minima = True
    observes = int
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, l-Diversity, ACM TKDD 1(1), 2007"
    threat = "An intruder who finds a person's class learns the sensitive value, because all records there share it."
    formula = "min over classes of the number of distinct values >= l"
    choose = (
        "l = 2 rules out certainty, 3 to 5 is usual. It ignores how often a value occurs: prefer "
        "entropy_l_diversity or t_closeness where a frequent value is itself a disclosure."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    l: Annotated[LeastNumber, Doc("least number of distinct values in each class")] = None

    def least_values(self) -> int:
        return self.l or 1

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        from privpipe.kernels.classes.counts import distinct_by_class

        return distinct_by_class(block.value_sets(self.column).offsets)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="illness"), cls(column="illness", l=1), cls(column="illness", l=3)]
