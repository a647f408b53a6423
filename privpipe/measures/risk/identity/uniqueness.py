"""Uniqueness: of records in the release and in the population, and of the composition of households."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from typing_extensions import Doc

from privpipe.blocks import Facts, Tally, Verdict
from privpipe.blocks.marks import LargestShare, Stricter
from privpipe.blocks.size_model import HouseholdRule
from privpipe.measures.risk.identity.reidentification_risk import BesidePopulation, Pairs
from privpipe.tolerance import at_most

__all__ = ["FileUniqueness", "HouseholdUniqueness"]


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
