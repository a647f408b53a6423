"""No household is released in part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from annotated_types import Ge
from typing_extensions import Doc

from privpipe.blocks import Verdict
from privpipe.blocks.marks import KeyColumns, Stricter
from privpipe.blocks.size_model import KeptHouseholds

__all__ = ["WholeHouseholds"]


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
    released. A record without a household stands alone. Without an original the outcome is an error.

    Anyone who knows a family sees from a part of it that a member was rare: the record that went.

    Examples
    --------
    >>> verdict = WholeHouseholds().judge_kept(7, 2, 3)
    >>> verdict.outcome, verdict.observed
    ('fail', 2)
    """

    threshold_field = "at_most"
    observes = int
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012 (hierarchical files)"
    threat = "An intruder who knows a family sees who of it is missing, and that the missing one is rare."
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
