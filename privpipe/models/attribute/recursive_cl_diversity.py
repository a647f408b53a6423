"""Recursive (c, l)-diversity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.marks import OneSensitive, Stricter
from privpipe.tolerance import below

__all__ = ["RecursiveCLDiversity"]


@dataclass(frozen=True, kw_only=True, repr=False)
class RecursiveCLDiversity(ClassModel):
    """The most frequent value of a class is below `c` times its rare ones; observed = max r_1/(r_l + ... + r_m).

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    l : int
        At least 1. With r the counts of a class in descending order, the rare ones are r_l and on; a class with
        fewer than l values fails. l = 1 compares the most frequent value with the whole class.
    c : float, optional
        Above 0; the comparison is strict. Left out (under `measures:`), the infimum of c at that l is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Observed is itself not enough, for the rule is strict: equal counts have observed 1, and c = 1 fails. It is
    None where a class has fewer than l values: no c suffices.

    Where persons are counted, a person's value is the set of those she has in the class, and a class in which all have
    some value in common has that one value alone.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import Cells, ClassBlock, Facts
    >>> cells = Cells(np.array([0, 3]), np.array([0, 1, 2]), np.array([6, 3, 1]))
    >>> block = ClassBlock(np.array([10]), {"illness": cells})
    >>> for c in (6.0, 6.1):
    ...     model = RecursiveCLDiversity(column="illness", c=c, l=3)
    ...     verdict = model.judge(model.measure(block, Facts()), Facts())
    ...     print(verdict.outcome, verdict.observed)
    fail 6.0
    pass 6.0
    """

    threshold_field = "c"
    direction = "below"
    convex = True
    observes = float | None
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, l-Diversity, ACM TKDD 1(1), 2007"
    threat = "An intruder who can rule out l - 2 values for a person guesses the rest, because one value dominates."
    formula = "r_1 < c (r_l + ... + r_m) in each class, counts r in descending order"
    choose = (
        "l = 3 with c = 3 to 4 is usual; a larger c or a smaller l is laxer. Milder than entropy_l_diversity "
        "where one value is common in the whole table."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    l: Annotated[
        int,
        Ge(1),
        Stricter("larger"),
        Doc("from which value on, by descending count, values are rare; also the least number of values"),
    ]
    c: Annotated[
        float | None,
        Gt(0),
        Stricter("smaller"),
        Doc("the commonest value stays below c times the l-th and rarer ones together"),
    ] = None

    def least_values(self) -> int:
        return self.l

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        from privpipe.kernels.classes.counts import ratio_of_tails

        return ratio_of_tails(*self._tails(block))

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        largest, tail = self._tails(block)
        if self.c is None:
            return np.ones(len(block), dtype=np.bool_)
        return np.asarray(below(largest, self.c * tail.astype(np.float64)), dtype=np.bool_)

    def seen(self, observed: Tally) -> str:
        if observed.observed == np.inf:
            return f"no c meets it: a class has fewer than {self.l:,} values"
        return super().seen(observed)

    def _tails(self, block: ClassBlock) -> tuple[Ints, Ints]:
        return block.value_sets(self.column).once(f"tail {self.l}", self._count_tails)

    def _count_tails(self, cells: Cells) -> tuple[Ints, Ints]:
        from privpipe.kernels.classes.counts import recursive_tail_by_class

        # The kernel keeps l - 1 counts at hand; more than a class can hold would only cost memory.
        most = int(np.diff(cells.offsets).max(initial=0))
        return recursive_tail_by_class(cells.offsets, cells.counts, min(self.l, most + 1))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness", l=2),
            cls(column="illness", c=1.0, l=1),
            cls(column="illness", c=1.0, l=2),
            cls(column="illness", c=4.0, l=3),
        ]
