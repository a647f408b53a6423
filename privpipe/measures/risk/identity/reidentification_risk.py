"""Re-identification risk of released classes: prosecutor, journalist and marketer, compared with the population;
uniqueness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, SizeModel, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, PositiveShare, Stricter
from privpipe.blocks.size_model import HouseholdRule
from privpipe.errors import UsageError
from privpipe.tolerance import at_most

__all__ = [
    "BesidePopulation",
    "Figure",
    "FileUniqueness",
    "HouseholdUniqueness",
    "JournalistRisk",
    "MarketerRisk",
    "Pairs",
    "ProsecutorRisk",
]


Pairs = tuple[Ints, Ints, Ints]
"""Sizes f in the release, sizes F in the population, and how many classes have both; f >= 1."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BesidePopulation(Guarantee):
    """A figure of the histogram {(f, F): classes} over the classes that hold a released record.

    Exact and order-free: whole numbers are counted, and one sum is rounded at the end.
    """

    threshold_field = "at_most"
    protects_nobody_at = 1
    needs_population = True

    at_most: Annotated[float | None, Ge(0), Le(1), Doc("largest figure that is tolerated")] = None

    def figure_of(self, pairs: Pairs) -> float:
        """What is compared with the threshold; NaN where undefined."""
        raise TypeError(f"{type(self).__name__} judges no pairs of sizes")

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if block.population is None and self.needs_population:
            raise UsageError(f"{self.name()} compares with a population, and none was counted")
        beside = block.sizes if block.population is None else block.population
        held = block.sizes > 0
        pairs, counts = np.unique(np.stack([block.sizes[held], beside[held]]), axis=1, return_counts=True)
        sums = {f"{f},{F}": n for f, F, n in zip(*pairs.tolist(), counts.tolist(), strict=True)} if held.any() else {}
        return Tally(classes=int(held.sum()), records=block.records, sums=sums)

    def merge(self, left: Tally, right: Tally) -> Tally:
        return left.plus(right)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        figure = self.figure_of(_pairs(observed.sums)) if observed.records else math.nan
        if math.isnan(figure):
            return Verdict(self, None, "error", self.demanded(), reason=self.undefined())
        over = f"over {observed.classes:,} classes of {observed.records:,} records"
        return self.judged(
            figure,
            figure,
            reason=f"observed {short(figure)}{self.asked}; {over}.",
        )

    def undefined(self) -> str:
        """The reason where there is no figure."""
        return "no class to judge."


def _pairs(sums: Mapping[str, int]) -> Pairs:
    found = sorted((*map(int, pair.split(",")), count) for pair, count in sums.items())
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


Figure = Literal["highest", "average", "at_risk"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ProsecutorRisk(SizeModel):
    """Risk that a prosecutor, who knows the person is in the table, picks the right record: 1/f of its class.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figure is reported.
    figure : {"highest", "average", "at_risk"}
        1 / min f; classes / records; share of records whose 1/f exceeds `threshold`.
    threshold : float
        Risk above which a record is at risk, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = ProsecutorRisk(figure="at_risk", threshold=0.4, at_most=0.1)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([2, 3])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.4)
    """

    judges_matching = True
    threshold_field = "at_most"
    protects_nobody_at = 1
    observes = float
    source = "El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010"
    threat = "An intruder who knows that a person is in the table, and their quasi-identifiers, finds them."
    formula = "highest 1/min f; average J/n; at_risk: share of records with 1/f > threshold"
    choose = "highest 0.2 or less (classes of five), 0.05 to 0.1 for public files; at_risk near 0."

    at_most: Annotated[LargestShare, Doc("largest risk that is tolerated")] = None
    figure: Annotated[Figure, Stricter("equal"), Doc("which figure is compared: highest, average or at_risk")] = (
        "highest"
    )
    threshold: Annotated[PositiveShare, Doc("risk of a record above which it counts as at risk")] = 0.2

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        if self.figure == "highest":
            return 1.0 / int(sizes[counts > 0].min())
        records = float(sizes @ counts)
        if self.figure == "average":
            return float(counts.sum()) / records
        at_risk = ~np.asarray(at_most(1.0 / sizes, self.threshold))
        return float(sizes[at_risk] @ counts[at_risk]) / records

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(at_most=0.5),
            cls(at_most=1.0, figure="average"),
            cls(at_most=0.3, figure="at_risk", threshold=0.5),
            cls(figure="at_risk", threshold=1.0),
        ]


@dataclass(frozen=True, kw_only=True, repr=False)
class JournalistRisk(BesidePopulation):
    """Risk that a journalist, who has a register of the population, picks the right person: 1/F of the class.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the figure is reported.
    figure : {"highest", "average", "at_risk"}
        1 / min F; max(J / sum F, mean over records of 1/F); share of records whose 1/F exceeds `threshold`. All over
        the classes that hold a released record.
    threshold : float
        Risk above which a record is at risk, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Needs the policy's `population:`. A class with more released records than persons in the population is a DataError.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))
    >>> measure = JournalistRisk(at_most=0.2)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.25)
    """

    observes = float
    source = "El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010"
    threat = "An intruder with a public register links a record to one of its persons."
    formula = "highest 1/min F; average max(J/sum F, mean f/F); at_risk: share of records with 1/F > threshold"
    choose = "As prosecutor_risk; it is never larger, and no guard where membership in the table is known."

    figure: Annotated[Figure, Stricter("equal"), Doc("which figure is compared: highest, average or at_risk")] = (
        "highest"
    )
    threshold: Annotated[PositiveShare, Doc("risk of a record above which it counts as at risk")] = 0.2

    at_most: Annotated[LargestShare, Doc("largest risk that is tolerated")] = None

    def figure_of(self, pairs: Pairs) -> float:
        released, population, classes = pairs
        if self.figure == "highest":
            return 1.0 / int(population.min())
        records = int(released @ classes)
        if self.figure == "average":
            by_record = math.fsum((released * classes / population).tolist()) / records
            return max(int(classes.sum()) / int(population @ classes), by_record)
        at_risk = ~np.asarray(at_most(1.0 / population, self.threshold))
        return int(released[at_risk] @ classes[at_risk]) / records

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.5), cls(at_most=0.4, figure="average"), cls(figure="at_risk", threshold=0.3)]


@dataclass(frozen=True, kw_only=True, repr=False)
class MarketerRisk(BesidePopulation):
    """Share of records that a marketer, who links all of them to a register, is expected to link correctly.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    population : bool
        Whether the register is the policy's `population:`, as it is wherever one is given; without it the register is
        the table itself, which is never the smaller figure.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Observed = (1/n) sum f/F; without a population classes / records.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = MarketerRisk(at_most=0.3)
    >>> measure.judge(measure.measure(ClassBlock(np.array([1, 4])), Facts()), Facts()).observed
    0.4
    """

    observes = float
    source = "Dankar, El Emam, PAIS 2010"
    threat = "An intruder links all records to a register and profits by every correct link."
    formula = "(1/n) sum f/F; with no population J/n"
    choose = "The expected share of wrong links must be so large that linking does not pay: 0.05 to 0.1."

    population: Annotated[
        bool,
        Stricter("equal"),
        Doc("true: link to the policy's population; false: to a register of the table's own persons"),
    ] = False

    at_most: Annotated[LargestShare, Doc("largest share of right links that is tolerated")] = None

    @property
    def needs_population(self) -> bool:  # type: ignore[override]
        """Whether a population is counted in addition to the release."""
        return self.population

    def beside(self, population: bool) -> Self:
        return replace(self, population=self.population or population)

    def figure_of(self, pairs: Pairs) -> float:
        released, population, classes = pairs
        if not self.population:
            return int(classes.sum()) / int(released @ classes)
        return math.fsum((released * classes / population).tolist()) / int(released @ classes)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.5), cls(at_most=1.0, population=True), cls(population=True)]


@dataclass(frozen=True, kw_only=True, repr=False)
class FileUniqueness(BesidePopulation):
    """P(PU | SU): share of the sample uniques that are population uniques.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    if_no_uniques : {"error", "pass"}
        The outcome where no record is alone in its class, and the share undefined.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Needs the policy's `population:`.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 1, 3]), population=np.array([1, 5, 9]))
    >>> measure = FileUniqueness(at_most=0.5)
    >>> measure.judge(measure.measure(block, Facts()), Facts()).observed
    0.5
    """

    trusts_values = True
    observes = float
    source = "Skinner, Elliot, JRSS B 64, 2002"
    threat = "An intruder finds the only record that fits a person, and no one else in the population fits it."
    formula = "sum [F = 1, f = 1] / sum [f = 1]"
    choose = "0.1 or less; `if_no_uniques: pass` where the release is expected to hold no unique record."

    if_no_uniques: Annotated[
        Literal["error", "pass"],
        Stricter("equal"),
        Doc("the outcome where nothing is unique in the release: error or pass"),
    ] = "error"

    at_most: Annotated[LargestShare, Doc("largest share of sample uniques that are unique in the population")] = None

    def figure_of(self, pairs: Pairs) -> float:
        released, population, classes = pairs
        alone = released == 1
        if not alone.any():
            return float("nan")
        return int(classes[alone & (population == 1)].sum()) / int(classes[alone].sum())

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if verdict.outcome == "error" and observed.records and self.if_no_uniques == "pass":
            return Verdict(self, None, "pass", self.demanded(), reason=self.undefined())
        return verdict

    def undefined(self) -> str:
        return "no record is alone in its class: the share is undefined."

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.5, if_no_uniques="pass"), cls(at_most=0.2)]


@dataclass(frozen=True, kw_only=True, repr=False)
class HouseholdUniqueness(HouseholdRule):
    """At most the share `at_most` of households has a unique composition; observed = such households / households.

    Parameters
    ----------
    at_most : float, optional
        In [0, 1]; 0 is household 2-anonymity. Left out (under `measures:`), the share is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Compositions are those of `household_k_anonymity`.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = HouseholdUniqueness(at_most=0.1)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([3, 1])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.25)
    """

    threshold_field = "at_most"
    protects_nobody_at = 1
    trusts_values = True
    observes = float
    source = "Dankar, El Emam, Neisa, Roffey, BMC Med. Inform. Decis. Mak. 12:66, 2012, over households"
    threat = "An intruder who knows every member of a family finds the only family like it."
    formula = "households of a composition no other has / households <= at_most"
    choose = "0 is household 2-anonymity; report it wherever household_id is declared."

    at_most: Annotated[LargestShare, Doc("highest share of households with a composition of their own")] = None

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        alone = observed.sums.get("1", 0)
        share = alone / observed.records if observed.records else None
        passed = share is None or self.at_most is None or at_most(share, self.at_most)
        return Verdict(
            self,
            share,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=f"{alone:,} of {observed.records:,} households have a composition of their own{self.asked}.",
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=0.0), cls(at_most=0.5)]
