"""delta-disclosure privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Gt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Cells, ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.arrays import Floats
from privpipe.blocks.marks import BaseDistribution, OneSensitive, Stricter
from privpipe.blocks.oracle_classes import Classes, Expected, base_shares, by_class, finite_max, slack
from privpipe.models.attribute.base_distribution import Base, as_base

__all__ = ["DeltaDisclosure"]

Absent = Literal["present_only", "strict"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DeltaDisclosure(ClassModel):
    """No value's share in a class is far from its share in the whole table; observed = max abs(log2(q/p)).

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    delta : float, optional
        Above 0; the comparison is strict. Left out (under `measures:`), the largest logarithm is reported.
    absent : {"present_only", "strict"}
        Whether a value that a class lacks is passed over, or counts as infinitely far: then only classes that
        hold every value of the base pass, and observed is None where one does not.
    base : {"original", "released"} or {"file": path}
        The distribution that classes are compared with, as for `t_closeness`.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    `present_only` permits negative disclosure: a class may show that none of its members has some value. The
    reference tools read the model so. Figures in natural logarithms are divided by ln 2 to compare. Under
    `present_only` merging two passing classes may fail: a value that one of them lacks becomes rare in the whole.

    Where persons are counted, q is the share of the persons of a class who have the value, p that of all persons.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> from privpipe.blocks import Cells, ClassBlock, Facts, Histogram
    >>> facts = Facts(histograms={"illness": Histogram(pa.array(["asthma", "flu"]), np.array([1, 3]))})
    >>> block = ClassBlock(np.array([2]), {"illness": Cells(np.array([0, 2]), np.array([0, 1]), np.array([1, 1]))})
    >>> model = DeltaDisclosure(column="illness", delta=1.0)
    >>> verdict = model.judge(model.measure(block, facts), facts)
    >>> verdict.outcome, verdict.observed
    ('fail', 1.0)
    """

    threshold_field = "delta"
    direction = "below"
    needs_base = True
    observes = float | None
    source = "Brickell and Shmatikov, The cost of privacy, KDD 2008"
    threat = (
        "An intruder who finds a person's class finds a sensitive value many times more, or less, likely than before."
    )
    formula = "abs(log2(q/p)) < delta for each value of each class; strict: of the whole table"
    choose = (
        "1 lets a share double or halve, 2 quadruple; 1 to 2 is usual. present_only still shows that no member of "
        "a class has a value; strict is seldom met by more than a few classes."
    )

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    delta: Annotated[
        float | None,
        Gt(0),
        Stricter("smaller"),
        Doc("abs(log2) of a value's share in a class over that in the whole table stays below it"),
    ] = None
    absent: Annotated[
        Absent,
        Stricter("equal"),
        Doc("present_only (a value that a class lacks is passed over) or strict (it fails the class)"),
    ] = "present_only"
    base: Annotated[
        Base,
        BaseDistribution(),
        Stricter("equal"),
        Doc("what classes are compared with: original, released, or {file: path}"),
    ] = "original"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "base", as_base("DeltaDisclosure", self.base))
        # Shares of a merged class are between those of its parts: passing only holds where no part lacks a value.
        object.__setattr__(self, "convex", self.absent == "strict")

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        cells = block.cells[self.column]
        ratio = cells.once("log2 ratio", lambda them: self._ratio(them, block, facts))
        if self.absent == "present_only":
            return ratio
        return np.where(np.diff(cells.offsets) < len(facts.histograms[self.column]), np.inf, ratio)

    def seen(self, observed: Tally) -> str:
        if observed.observed == np.inf:
            return "infinite: a class lacks a value of the base"
        return super().seen(observed)

    def _ratio(self, cells: Cells, block: ClassBlock, facts: Facts) -> Floats:
        from privpipe.kernels.classes.information import log2_ratio_by_class

        p = facts.base(self.column)
        return log2_ratio_by_class(cells.offsets, cells.codes, cells.counts, block.sizes, p)

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The farthest logarithm of a class's share over the base's."""
        base = base_shares(model, classes)
        figures: list[float] = []
        for found in classes.shares(model.column):
            farthest = max(abs(math.log2(found[value] / base[value])) for value in found)
            lacks = model.absent == "strict" and len(found) < len(base)
            figures.append(math.inf if lacks else farthest)
        passes = (model.delta is None or figure < model.delta - slack(model.delta) for figure in figures)
        return by_class(classes, figures, passes, finite_max)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"delta": float(rng.uniform(0.05, 4))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", delta=0.5),
            cls(column="illness", delta=2.0),
            cls(column="illness", delta=2.0, absent="strict"),
            cls(column="income", delta=1.5, base="released"),
        ]
