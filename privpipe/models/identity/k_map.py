"""k-map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.marks import LeastNumber
from privpipe.errors import UsageError

__all__ = ["KMap"]


@dataclass(frozen=True, kw_only=True, repr=False)
class KMap(ClassModel):
    """Each released record matches at least k persons of the population; observed = least population class.

    Parameters
    ----------
    k : int, optional
        At least 1. Left out (under `measures:`), the least population class is reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Needs the policy's `population:`, generalized as the release is. Classes without a released record do not count.
    A class with more released records than persons in the population is a DataError.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))
    >>> verdict = KMap(k=5).judge(KMap(k=5).measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 4, 2)
    """

    threshold_field = "k"
    protects_nobody_at = 1
    hereditary = True
    convex = True
    needs_population = True
    observes = int
    source = "Sweeney, IJUFKS 10(5), 2002; El Emam and Dankar, JAMIA 15(5), 2008"
    threat = "A journalist, who does not know who is in the table, links a record to a person of a public register."
    formula = "min over classes with a released record of F_c >= k, F_c counted in the population"
    choose = (
        "k as for k_anonymity: 5 under a contract, 10 to 20 for public files. It does not guard against an "
        "intruder who knows that a person is in the table: k_anonymity does, and implies k-map."
    )

    k: Annotated[
        LeastNumber, Doc("least number of persons of the population that share a released quasi-identifier combination")
    ] = None

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        if block.population is None:
            raise UsageError("k_map compares with a population, and none was counted")
        return block.population

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return super().measure(block.take(block.sizes > 0), facts)

    def unattainable(self, records: int, facts: Facts) -> str:
        return ""  # the sample does not show how large the population is

    def needs_suppression(self, records: int, facts: Facts) -> str:
        return ""

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(k=1), cls(k=2), cls(k=5)]
