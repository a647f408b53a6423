"""Inference from classes: homogeneity and background-knowledge attacks, and the best guess of a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import added
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, OneSensitive, PositiveShare, Stricter
from privpipe.blocks.oracle_classes import Case, Classes, Expected, around_figure, slack
from privpipe.errors import UsageError
from privpipe.tolerance import at_least

__all__ = ["AttributeInference", "BackgroundKnowledgeAttack", "ClassInference", "HomogeneityAttack", "certain"]


def certain(posterior: Floats, certainty: float) -> Bools:
    """Which classes give a value away with at least this certainty."""
    return np.asarray(at_least(posterior, certainty), dtype=np.bool_)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassInference(Guarantee):
    """A share of records, added up over classes in whole numbers.

    Subclasses give `gained`: of each class, the records that count.
    """

    threshold_field = "at_most"
    protects_nobody_at = 1

    column: Annotated[OneSensitive, Doc("the sensitive column")]
    at_most: Annotated[LargestShare, Doc("largest share of records that is tolerated")] = None

    def gained(self, block: ClassBlock) -> Ints:
        """Records of each class that count, shape (n_classes,)."""
        raise TypeError(f"{type(self).__name__} reads no classes")

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        gained = self.gained(block)
        return Tally(
            failing_classes=int((gained > 0).sum()),
            failing_records=int(gained.sum()),
            classes=len(block),
            records=block.records,
        )

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(
            failing_classes=left.failing_classes + right.failing_classes,
            failing_records=left.failing_records + right.failing_records,
            classes=left.classes + right.classes,
            records=left.records + right.records,
            sums=added(left.sums, right.sums),
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        if not observed.records:
            return self.not_judged("no class to judge")
        figure = observed.failing_records / observed.records
        return self.judged(
            figure,
            figure,
            failing_classes=observed.failing_classes,
            failing_records=observed.failing_records,
            failing_share=figure,
            reason=f"observed {short(figure)}{self.asked}; {self.said(observed, facts.unit)}.",
        )

    def said(self, observed: Tally, unit: str) -> str:
        """What the share is of."""
        return (
            f"{observed.failing_records:,} of {observed.records:,} {unit}, in {observed.failing_classes:,} of "
            f"{observed.classes:,} classes"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class HomogeneityAttack(ClassInference):
    """Share of records whose class discloses the sensitive value: all (or nearly all) of the class share it.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    certainty : float
        Share of the most frequent value from which a class discloses it, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Where persons are counted, a class of f persons discloses a value that all of them (or the share `certainty`) have,
    whatever else each of them has.

    Examples
    --------
    >>> from privpipe.blocks import Cells, Facts
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> measure = HomogeneityAttack(column="illness", at_most=0.5)
    >>> block = ClassBlock(np.array([3, 4]), {"illness": cells})
    >>> measure.judge(measure.measure(block, Facts()), Facts()).failing_records
    4
    """

    observes = float
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007; Sweeney, IJUFKS 10(5), 2002"
    threat = "An intruder finds a person's class, not the record, and learns the value: all there share it."
    formula = "share of records in classes with max_v c_v / f >= certainty"
    choose = "0 with certainty 1 is the least to ask; certainty 0.8 also counts near-certain classes."

    certainty: Annotated[PositiveShare, Doc("share of the commonest value from which a class gives it away")] = 1.0

    def gained(self, block: ClassBlock) -> Ints:
        from privpipe.kernels.classes.cells import largest_by_class

        cells = block.cells[self.column]
        top = largest_by_class(cells.offsets, cells.counts)
        return np.where(certain(top / block.sizes, self.certainty), block.sizes, 0)

    def said(self, observed: Tally, unit: str) -> str:
        return f"at least {super().said(observed, unit)}, by homogeneity"

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="illness"), cls(column="illness", at_most=0.2), cls(column="illness", certainty=0.5)]


@dataclass(frozen=True, kw_only=True, repr=False)
class BackgroundKnowledgeAttack(ClassInference):
    """Share of records whose value follows from their class and the intruder's background knowledge.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    exclude_values : int, optional
        b: the number of values that the intruder can rule out for the person, at least 0.
    insiders : int, optional
        r: the number of members of the class who know themselves and each other, at least 0. One of the two is given.
    certainty : float
        Posterior from which a value counts as learnt, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Worst posterior of a class: max_v c_v / (f - E), E the sum of the b largest counts among the *other* values, or
    min(r, f - c_v). A record is never counted against itself: f - E >= c_v. Where persons are counted, f are those of
    the class and c_v those who have the value; ruling out values then gives an upper bound, for one person may have
    several of these.

    Examples
    --------
    >>> from privpipe.blocks import Cells, Facts
    >>> cells = Cells(np.array([0, 2]), np.array([0, 1]), np.array([1, 2]))
    >>> measure = BackgroundKnowledgeAttack(column="illness", insiders=1, at_most=0.0)
    >>> measure.judge(measure.measure(ClassBlock(np.array([3]), {"illness": cells}), Facts()), Facts()).observed
    1.0
    """

    observes = float
    source = (
        "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007; Martin, Kifer, "
        "Machanavajjhala, Gehrke, Halpern, ICDE 2007"
    )
    threat = "An intruder rules out values for a person, or members of the class pool what they know."
    formula = "share of records in classes with max_v c_v / (f - E) >= certainty"
    choose = "b = 1 or r = 1 is the least to try; a class withstands b if it has b + 2 values."

    exclude_values: Annotated[
        int | None, Ge(0), Stricter("equal"), Doc("b: values the intruder can rule out for the person")
    ] = None
    insiders: Annotated[
        int | None, Ge(0), Stricter("equal"), Doc("r: members of the class who know themselves and each other")
    ] = None
    certainty: Annotated[PositiveShare, Doc("posterior from which a value counts as learnt")] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.exclude_values is None) == (self.insiders is None):
            raise UsageError("BackgroundKnowledgeAttack: give exclude_values or insiders, one of the two")

    def gained(self, block: ClassBlock) -> Ints:
        from privpipe.kernels.classes.posterior import insider_posterior, ruled_out_posterior

        cells = block.cells[self.column]
        if self.insiders is not None:
            posterior = insider_posterior(cells.offsets, cells.counts, block.sizes, self.insiders)
        else:
            posterior = ruled_out_posterior(cells.offsets, cells.counts, block.sizes, self.exclude_values or 0)
        return np.where(certain(posterior, self.certainty), block.sizes, 0)

    def said(self, observed: Tally, unit: str) -> str:
        known = (
            f"{self.insiders:,} insiders" if self.insiders is not None else f"{self.exclude_values:,} values ruled out"
        )
        return f"at least {super().said(observed, unit)}, with {known}"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness", insiders=1),
            cls(column="illness", exclude_values=1, at_most=0.5),
            cls(column="illness", exclude_values=2, certainty=0.6, at_most=1.0),
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class AttributeInference(ClassInference):
    """Share of records whose sensitive value is the most frequent one of their class, and so guessed correctly.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.
    gain : bool
        Compare the gain over guessing the most frequent value of the whole table.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Observed: `share`, `baseline` (the most frequent value of all judged records) and `gain`, their difference.

    Examples
    --------
    >>> from privpipe.blocks import Cells
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> measure = AttributeInference(column="illness", at_most=0.5)
    >>> block = ClassBlock(np.array([3, 4]), {"illness": cells})
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> {name: round(figure, 3) for name, figure in verdict.observed.items()}
    {'share': 0.857, 'baseline': 0.857, 'gain': 0.0}
    """

    needs_base = True
    observes = dict[str, float]
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007"
    threat = "An intruder finds a person's class and guesses its most frequent value."
    formula = "sum over classes of max_v c_v, divided by n; gain: less the table's own max share"
    choose = "The baseline is what anyone can guess: a gain of 0.1 or less discloses little about a person."

    gain: Annotated[
        bool, Stricter("equal"), Doc("true: compare the share less that of guessing the table's commonest value")
    ] = False

    def base_distribution(self) -> Any:
        """Codes must distinguish values across classes, so the judged table's own are counted."""
        return "released"

    def gained(self, block: ClassBlock) -> Ints:
        from privpipe.kernels.classes.cells import largest_by_class

        cells = block.cells[self.column]
        return largest_by_class(cells.offsets, cells.counts)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        found = super().measure(block, facts)
        cells = block.cells[self.column]
        totals = np.bincount(cells.codes, weights=cells.counts).astype(np.int64)
        sums = {str(code): int(totals[code]) for code in np.flatnonzero(totals).tolist()}
        return Tally(0, found.failing_classes, found.failing_records, found.classes, found.records, sums)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if not observed.records:
            return verdict
        baseline = max(observed.sums.values()) / observed.records
        figures = {"share": verdict.observed, "baseline": baseline, "gain": verdict.observed - baseline}
        compared = figures["gain" if self.gain else "share"]
        return self.judged(
            compared,
            figures,
            reason=(
                f"observed {'gain ' if self.gain else ''}{short(compared)}{self.asked}; at least "
                f"{observed.failing_records:,} of {observed.records:,} {facts.unit} are guessed "
                f"right, {short(baseline)} without the classes."
            ),
        )

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Records guessed correctly by the most frequent value of each class, and by that of the whole table."""
        counted = classes.counts(model.column)
        records = sum(classes.sizes)
        if not records:
            return Expected("error", None)
        right = [max(counts.values()) for counts in counted]
        share = Fraction(sum(right), records)
        baseline = Fraction(max(sum(counted, Counter()).values()), records)
        figures = {"share": share, "baseline": baseline, "gain": share - baseline}
        compared = float(figures["gain" if model.gain else "share"])
        met = model.at_most is None or compared <= model.at_most + slack(model.at_most)
        return Expected("pass" if met else "fail", {name: float(figure) for name, figure in figures.items()})

    @staticmethod
    def around(model: Any, observed: Any, facts: Any) -> Iterator[Case]:
        """At the figure that is compared: the gain where `gain` is set."""
        for what, figure, passes in around_figure(observed["gain" if model.gain else "share"], "at_most"):
            yield what, {"at_most": figure}, passes

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", at_most=0.6),
            cls(column="illness", gain=True, at_most=0.2),
        ]
