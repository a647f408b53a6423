"""Households: k-anonymity of whole ones, and none released in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Facts, Tally, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import KeyColumns, LeastNumber, Stricter
from privpipe.blocks.size_model import HouseholdRule, KeptHouseholds

__all__ = ["HouseholdKAnonymity", "WholeHouseholds"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HouseholdKAnonymity(HouseholdRule):
    """Each household has the composition of at least k - 1 others; observed = least number that share one.

    An attacker who knows the whole family, and which released rows are one family's, searches for all its members
    together. The policy's `household_id` distinguishes households.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least number is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy. With an empty list only the size of the household counts.

    Notes
    -----
    The composition is the multiset of the members' quasi-identifiers; with `person_id` a member is the multiset of a
    person's records. Suppressed records are members no more. A record without a household is an error.
    `suppress_records` removes the households that fail. k-anonymity over households follows from none of this, nor
    this from it: a class of five households shows nothing about who else lives in them.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = HouseholdKAnonymity(k=3)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 2, 2)
    """

    threshold_field = "k"
    protects_nobody_at = 1
    observes = int
    source = "Samarati, IEEE TKDE 13(6), 2001, with a household instead of a record"
    threat = "An intruder who knows every member of a family finds the only family like it."
    formula = "min over compositions of the number of households that have it >= k"
    choose = (
        "k = 2 or 3 where a release shows which rows live together (a household pseudonym); families differ much more "
        "than persons, so generalize first. Without such a key k_anonymity over households comes first."
    )

    k: Annotated[LeastNumber, Doc("least number of households that share every composition")] = None

    def least_alike(self) -> int:
        return self.k or 0

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes = {int(size): count for size, count in observed.sums.items()}
        least = min(sizes, default=None)
        failing = {size: count for size, count in sizes.items() if self.k is not None and size < self.k}
        lost = sum(size * count for size, count in failing.items())
        asked = "" if self.k is None else f", required at least {short(self.k)}"
        fails = f"; {lost:,} of {observed.records:,} households fail" if failing else ""
        return Verdict(
            self,
            least,
            outcome="fail" if failing else "pass",
            threshold=self.demanded(),
            failing_classes=sum(failing.values()),
            failing_records=lost,
            failing_share=lost / observed.records if observed.records else None,
            reason=f"observed {'nothing' if least is None else short(least)}{asked}, over {observed.classes:,} "
            f"compositions of {observed.records:,} households{fails}.",
        )

    @staticmethod
    def oracle(members: Sequence[tuple[Any, Any]]) -> int:
        """The figure from pairs (household, quasi-identifiers of a member), by the definition.

        Examples
        --------
        >>> HouseholdKAnonymity.oracle([("a", "x"), ("a", "y"), ("b", "y"), ("b", "x"), ("c", "x")])
        1
        """
        homes: dict[Any, Counter[Any]] = {}
        for household, values in members:
            homes.setdefault(household, Counter())[values] += 1
        return min(Counter(frozenset(home.items()) for home in homes.values()).values())

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=1), cls(k=2), cls(k=2, quasi_identifiers=())]


@dataclass(frozen=True, kw_only=True, repr=False)
class WholeHouseholds(KeptHouseholds):
    """Every household of the original is in the release with all its records or with none; observed = those in part.

    Parameters
    ----------
    at_most : int
        Households that may be in part.
    quasi_identifiers : tuple of str, optional
        Not used: records are counted, whatever they hold.

    Notes
    -----
    Records are paired with the original by their ids. A suppressed record that stays as a row of marks is not
    released. A record without a household is one by itself. Without an original the outcome is an error.

    Anyone who knows a family sees from an incomplete one that the missing member was rare.

    Examples
    --------
    >>> verdict = WholeHouseholds().judge_kept(7, 2, 3)
    >>> verdict.outcome, verdict.observed
    ('fail', 2)
    """

    threshold_field = "at_most"
    observes = int
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012 (hierarchical files)"
    threat = "An intruder who knows a family sees which member is missing, and that this member is rare."
    formula = "number of households with 0 < released records < original records <= at_most"
    choose = (
        "Wherever a policy suppresses or samples records of households: `suppress_records: {whole: households}` and "
        "`sample: {same_within: household_id}` meet it."
    )

    at_most: Annotated[int, Ge(0), Stricter("smaller"), Doc("households that may be released in part")] = 0
    quasi_identifiers: Annotated[KeyColumns, Doc("not used: records are counted, no classes")] = None

    def judge_kept(self, whole: int, part: int, missing: int) -> Verdict:
        released = whole + part
        if not part:
            reason = f"all {released:,} released households are whole."
        else:
            reason = (
                f"{part:,} of {released:,} released households lack {missing:,} of their records; suppress with "
                "`whole: households`, or sample with `same_within: household_id`."
            )
        return Verdict(self, part, "fail" if part > self.at_most else "pass", self.at_most, reason=reason)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(at_most=3)]
