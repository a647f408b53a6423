"""Distinct, entropy and recursive (c, l)-diversity: how many values, and how evenly, each class has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.marks import LeastNumber, OneSensitive, Stricter
from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, by_class, slack
from privpipe.tolerance import below, integer_at_least

__all__ = ["DistinctLDiversity", "EntropyLDiversity", "RecursiveCLDiversity"]


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
        from privpipe.kernels.classes.cells import distinct_by_class

        return distinct_by_class(block.value_sets(self.column).offsets)

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has l values."""
        numbers = [len(counts) for counts in classes.value_sets(model.column)]
        return by_class(classes, numbers, (model.l is None or number >= model.l for number in numbers), min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"l": int(rng.integers(1, 6))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="illness"), cls(column="illness", l=1), cls(column="illness", l=3)]


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
        Doc("least exp(entropy) of the values in each class: that many equally frequent values"),
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

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """exp of each class's entropy, and as many values as a real l asks for."""
        estimate = _shannon if model.estimator == "shannon" else _grassberger
        counted = classes.value_sets(model.column)
        figures = [math.exp(estimate(list(counts.values()))) for counts in counted]
        needed = 1 if model.l is None else math.ceil(model.l - 1e-9)
        passes = [
            len(counts) >= needed and (model.l is None or figure >= model.l - slack(model.l))
            for counts, figure in zip(counted, figures, strict=True)
        ]
        if model.estimator == "grassberger":
            enough = [figure for figure, counts in zip(figures, counted, strict=True) if len(counts) >= needed]
            figures = enough + [1.0 for counts in counted if len(counts) == 1]
        return by_class(classes, figures, passes, min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"l": float(rng.uniform(1, 4))}

    @staticmethod
    def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
        """At the figure; Grassberger's is of classes with enough values for l, so moving l moves it."""
        if model.estimator == "shannon":
            for what, figure, passes in around_figure(observed, "at_least"):
                yield what, {"l": figure}, passes

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", l=1.0),
            cls(column="illness", l=3.0),
            cls(column="illness", l=2.5, estimator="grassberger"),
        ]


def _shannon(counts: list[int]) -> float:
    return -math.fsum(count / sum(counts) * math.log(count / sum(counts)) for count in counts)


def _grassberger(counts: list[int]) -> float:
    def g(count: int) -> float:
        odd = math.fsum(2 / (2 * i - 1) for i in range(1, count // 2 + 1))
        return -np.euler_gamma - math.log(2) + odd

    return g(sum(counts)) - math.fsum(count * g(count) for count in counts) / sum(counts)


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
        from privpipe.kernels.classes.cells import ratio_of_tails

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
        from privpipe.kernels.classes.cells import recursive_tail_by_class

        # The kernel keeps l - 1 counts at hand; more than a class can hold would only cost memory.
        most = int(np.diff(cells.offsets).max(initial=0))
        return recursive_tail_by_class(cells.offsets, cells.counts, min(self.l, most + 1))

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The most frequent value below c times the rest after the first l - 1."""
        infima: list[Fraction | None] = []
        passes = []
        for counts in classes.value_sets(model.column):
            descending = sorted(counts.values(), reverse=True)
            tail = sum(descending[model.l - 1 :])
            infima.append(Fraction(descending[0], tail) if tail else None)
            limit = None if model.c is None else float(Fraction(model.c) * tail)
            passes.append(limit is None or descending[0] < limit - slack(limit))
        return by_class(classes, infima, passes, lambda figures: None if None in figures else max(figures))

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"c": float(rng.uniform(0.3, 6))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness", l=2),
            cls(column="illness", c=1.0, l=1),
            cls(column="illness", c=1.0, l=2),
            cls(column="illness", c=4.0, l=3),
        ]
