"""delta-presence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts
from privpipe.blocks.guarantee import Direction
from privpipe.blocks.marks import LargestShare, Stricter
from privpipe.blocks.oracle_classes import Classes, Expected, slack
from privpipe.errors import UsageError
from privpipe.models.several_figures import SeveralFigures

__all__ = ["DeltaPresence"]


@dataclass(frozen=True, kw_only=True, repr=False)
class DeltaPresence(SeveralFigures):
    """The chance that a person of the population is in the table is in [min, max], whatever their class.

    Observed = the least and the greatest share of released records in a class of the population.

    Parameters
    ----------
    min : float
        In [0, max].
    max : float, optional
        In [min, 1]. Left out (under `measures:`), the shares are reported.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Needs the policy's `population:`, generalized as the release is. Every class of the population is judged, those
    without a released record too: their share is 0, so that `min` above 0 fails for them and no suppression helps.
    Suppressed records are not in the table: anyone who knows the rule learns that their class has a share of 0.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))
    >>> model = DeltaPresence(min=0.0, max=0.4)
    >>> verdict = model.judge(model.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed, verdict.failing_records
    ('fail', {'min': 0.0, 'max': 0.5}, 2)
    """

    threshold_field = "max"
    convex = True
    needs_population = True
    observes = dict[str, float]
    source = "Nergiz, Atzori, Clifton, Hiding the presence of individuals, SIGMOD 2007"
    threat = (
        "An intruder who knows a person's quasi-identifiers infers whether the person is in the table: being in a "
        "table of patients is itself a secret."
    )
    formula = "min <= f_c / F_c <= max for every class of the population"
    choose = (
        "max is the highest certainty that a person is in the table: 0.5 or less. min above 0 also bounds the "
        "certainty that a person is not; few tables can meet it."
    )

    min: Annotated[
        float, Ge(0), Le(1), Stricter("larger"), Doc("least share of a population class that is in the table")
    ] = 0.0
    max: Annotated[LargestShare, Doc("greatest share of a population class that is in the table")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max is not None and self.max < self.min:
            raise UsageError(f"DeltaPresence: min {self.min!r} is above max {self.max!r}")

    def rules(self) -> Mapping[str, tuple[Direction, Any]]:
        return {"min": ("at_least", self.min), "max": ("at_most", self.max)}

    def figures(self, block: ClassBlock, facts: Facts) -> Mapping[str, NDArray[Any]]:
        if block.population is None:
            raise UsageError("delta_presence compares with a population, and none was counted")
        share = block.sizes / np.maximum(block.population, 1)
        return {"min": share, "max": share}

    def unattainable(self, records: int, facts: Facts) -> str:
        return ""  # the sample does not show how large the population is

    def needs_suppression(self, records: int, facts: Facts) -> str:
        return ""

    @staticmethod
    def oracle(model: Any, classes: Classes) -> Expected:
        """The share of each class of the population that is in the table, classes without a record too."""
        sizes = classes.sizes
        released = [Fraction(size, of) for size, of in zip(sizes, classes.population, strict=True)]
        shares = [*released, *(Fraction(0) for _ in classes.foreign)]

        def fails(share: Fraction) -> bool:
            if model.max is None:
                return False
            return bool(float(share) < model.min - slack(model.min) or float(share) > model.max + slack(model.max))

        observed = {"min": min(shares), "max": max(shares)} if shares else None
        records = sum(size for size, share in zip(sizes, released, strict=True) if fails(share))
        failing = sum(map(fails, shares))
        return Expected("fail" if failing else "pass", observed, failing, records)

    @staticmethod
    def thresholds(rng: Any) -> dict[str, Any]:
        """Parameters of a random gate."""
        return {"min": float(rng.uniform(0, 0.3)), "max": float(rng.uniform(0.3, 1))}

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(max=1.0), cls(max=0.5), cls(min=0.25, max=0.75)]
