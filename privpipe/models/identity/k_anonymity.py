"""k-anonymity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import LargestShare, LeastNumber
from privpipe.blocks.oracle_classes import Classes, Expected, by_class
from privpipe.tolerance import at_most

__all__ = ["KAnonymity"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KAnonymity(ClassModel):
    """Each record is equal on the quasi-identifiers to at least k - 1 others; observed = least class size.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least class size is reported.
    alone_at_most : float, optional
        Under `nulls: wildcard` only: largest share of the judged records, in [0, 1], that may be complete (without a
        blank in the quasi-identifiers) and equal no other complete record. Left out, their number is noted.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    It bounds only identity disclosure: a class with one sensitive value discloses it for everyone in the class.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = KAnonymity(k=3)
    >>> verdict = model.judge(model.measure(ClassBlock(np.array([3, 2])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 2, 2)
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    decided_by_minima = True
    judges_matching = True
    observes = int
    source = "Samarati, IEEE TKDE 13(6), 2001; Sweeney, IJUFKS 10(5), 2002"
    threat = (
        "An intruder who knows a person's quasi-identifiers, and that the person is in the table, finds the record."
    )
    formula = "min over classes of n_c >= k"
    choose = (
        "k = 5 for data shared under a contract, 10 to 20 for public files; the chance of a correct match is "
        "at most 1/k. It bounds only identity disclosure: pair it with a model on each sensitive column."
    )

    k: Annotated[LeastNumber, Doc("least number of records that share every quasi-identifier combination")] = None
    alone_at_most: Annotated[
        LargestShare,
        Doc("under `nulls: wildcard`, share of the records that may be complete and equal no other complete one"),
    ] = None

    def needs_matching(self) -> str:
        return "" if self.alone_at_most is None else "alone_at_most"

    def least_size(self) -> int:
        return self.k or 1

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        return block.alike

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        tally = super().measure(block, facts)
        if block.matching is None or not len(block):
            return tally
        only = (block.matching >= self.least_size()) & (block.sizes < self.least_size())
        # Patterns come in one block: these are never added up.
        sums = {"own": int(block.sizes.min()), "only": int(block.sizes[only].sum())}
        return replace(tally, sums=sums if block.alone is None else {**sums, "alone": block.alone})

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if self.alone_at_most is None or "alone" not in observed.sums:
            return verdict
        alone = observed.sums["alone"]
        share = alone / observed.records
        met = at_most(share, self.alone_at_most)
        told = (
            f"{alone:,} of {observed.records:,} records ({short(share)}) are complete and equal no other complete "
            f"record, required at most {short(self.alone_at_most)}."
        )
        return replace(verdict, outcome=verdict.outcome if met else "fail", reason=f"{verdict.reason} {told}")

    def seen(self, observed: Tally) -> str:
        own = observed.sums.get("own")
        if own is None:
            return super().seen(observed)
        only = f", and {observed.sums['only']:,} records reach k by these alone" if self.is_gate() else ""
        return f"{super().seen(observed)} by matches with blanks ({own:,} where a blank is a value of its own{only})"

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """Every class has k records."""
        sizes = classes.sizes
        return by_class(classes, sizes, (model.k is None or size >= model.k for size in sizes), min)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"k": int(rng.integers(1, 9))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(k=1), cls(k=2), cls(k=5)]
