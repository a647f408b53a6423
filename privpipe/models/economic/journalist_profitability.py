"""Profitability of a release against a journalist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, Facts, Tally
from privpipe.errors import UsageError
from privpipe.models.economic.prosecutor_profitability import ProsecutorProfitability

__all__ = ["JournalistProfitability"]


@dataclass(frozen=True, kw_only=True, repr=False)
class JournalistProfitability(ProsecutorProfitability):
    """As `prosecutor_profitability`, for an intruder who does not know who is in the table; observed = least payout.

    Parameters
    ----------
    publisher_benefit, publisher_loss, adversary_gain, adversary_cost : float
        As there.
    no_attack : bool
        Ask instead that no attack pays at all: observed = least population class.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    An attack succeeds with 1/F_c, F_c the size of the class in the policy's `population:`, generalized as the
    release is. Classes without a released record do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> model = JournalistProfitability(no_attack=True, adversary_gain=300.0, adversary_cost=4.0)
    >>> block = ClassBlock(np.array([2, 1]), population=np.array([76, 75]))
    >>> verdict = model.judge(model.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', 75, 1)
    """

    needs_population = True
    threat = (
        "An intruder who does not know who is in the table links records to a public register where the gain "
        "exceeds the cost."
    )
    formula = "benefit (1 - IL) - (loss / F_c if gain / F_c > cost) > 0; no_attack: F_c > gain / cost"

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return super().measure(block.take(block.sizes > 0), facts)

    def crowd(self, block: ClassBlock) -> NDArray[Any]:
        if block.population is None:
            raise UsageError("journalist_profitability compares with a population, and none was counted")
        return block.population

    def least_size(self) -> int:
        return 1  # the crowd is of the population, however few of it are records

    def unattainable(self, records: int, facts: Facts) -> str:
        return ""  # the sample does not show how large the population is

    def needs_suppression(self, records: int, facts: Facts) -> str:
        return ""
