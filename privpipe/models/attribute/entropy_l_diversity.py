"""Entropy l-diversity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.arrays import Bools, Floats
from privpipe.blocks.marks import OneSensitive, Stricter
from privpipe.tolerance import integer_at_least

__all__ = ["EntropyLDiversity"]

Estimator = Literal["shannon", "grassberger"]


@dataclass(frozen=True, kw_only=True, repr=False)
class EntropyLDiversity(ClassModel):
    """Each class spreads `column` over at least `l` values' worth of entropy; observed = min exp(H).

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    l : float, optional
        At least 1. A class also needs ceil(l) distinct values. Left out (under `measures:`), min exp(H) is
        reported.
    estimator : {"shannon", "grassberger"}
        Grassberger corrects the downward bias of small classes; it can exceed the number of values, so its
        observed figure is the least over classes with enough of them, and 1 where a class has a single value.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Two values of equal count have exp(H) = 2 by Shannon, a real number that is never cut to an integer. Shannon's
    entropy is concave, so passing classes merge to a passing class; Grassberger's estimate is not (counts 1, 1
    have 7.39, two such classes merged have 1.95), so a search may not conclude from one level to the next.

    Where persons are counted, a person's value is the set of those she has in the class, and a class in which all have
    some value in common has exp(H) = 1; passing classes may then merge to a failing one.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import Cells, ClassBlock, Facts
    >>> cells = Cells(np.array([0, 3]), np.array([0, 1, 2]), np.array([5, 5, 5]))
    >>> model = EntropyLDiversity(column="illness", l=3)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([15]), {"illness": cells}), Facts()), Facts())
    >>> verdict.outcome, round(verdict.observed, 9)
    ('pass', 3.0)
    """

    threshold_field = "l"
    protects_nobody_at = 1
    convex = True
    observes = float
    source = (
        "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, l-Diversity, ACM TKDD 1(1), 2007; Grassberger, "
        "Entropy estimates from insufficient samplings, arXiv physics/0307138, 2003"
    )
    threat = (
        "An intruder who finds a person's class guesses the sensitive value, because one value is far more frequent."
    )
    formula = "exp(-sum of q ln q over the values of a class) >= l, and at least ceil(l) values"
    choose = (
        "At most exp(entropy) of the whole column, which a failing verdict reports; 2 to 4 is usual. "
        "Where one value is common everywhere, use recursive_cl_diversity or t_closeness."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    l: Annotated[
        float | None,
        Ge(1),
        Stricter("larger"),
        Doc("least exp(entropy) of the values in each class: so many equally frequent values"),
    ] = None
    estimator: Annotated[
        Estimator, Stricter("equal"), Doc("shannon, or grassberger, which corrects the bias of small classes")
    ] = "shannon"

    def __post_init__(self) -> None:
        super().__post_init__()
        # Passing parts may merge to a failing whole under Grassberger's estimate: no conclusion for a search.
        object.__setattr__(self, "convex", self.estimator == "shannon")

    def least_values(self) -> int:
        return 1 if self.l is None else integer_at_least(self.l)

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return block.value_sets(self.column).once(f"exp {self.estimator}", self._exp_entropy)

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        return super().passing(block, facts) & self._enough_values(block)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        tally = super().measure(block, facts)
        if self.estimator == "shannon" or not len(block):
            return tally
        values = np.diff(block.value_sets(self.column).offsets)
        eligible = self.scores(block, facts)[self._enough_values(block)]
        least = min(eligible.min(initial=math.inf), 1.0 if (values == 1).any() else math.inf)
        return Tally(
            observed=float(least),
            failing_classes=tally.failing_classes,
            failing_records=tally.failing_records,
            classes=tally.classes,
            records=tally.records,
            sums={"too_few_values": int((~self._enough_values(block)).sum())},
        )

    def seen(self, observed: Tally) -> str:
        few = observed.sums.get("too_few_values", 0)
        note = f" over classes with enough values ({few:,} have fewer than {self.least_values():,})" if few else ""
        return super().seen(observed) + note

    def _enough_values(self, block: ClassBlock) -> Bools:
        enough: Bools = np.diff(block.value_sets(self.column).offsets) >= self.least_values()
        return enough

    def _exp_entropy(self, cells: Cells) -> Floats:
        from privpipe.kernels.classes.information import entropy_by_class, grassberger_by_class

        entropy = entropy_by_class if self.estimator == "shannon" else grassberger_by_class
        return np.exp(entropy(cells.offsets, cells.counts))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", l=1.0),
            cls(column="illness", l=3.0),
            cls(column="illness", l=2.5, estimator="grassberger"),
        ]
