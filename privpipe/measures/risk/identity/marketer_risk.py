"""Re-identification of as many records as possible."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.identity.beside_population import BesidePopulation, Pairs

__all__ = ["MarketerRisk"]


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
    Observed = (1/n) sum f/F; without a population classes / records. Source: Dankar, El Emam, PAIS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = MarketerRisk(at_most=0.3)
    >>> measure.judge(measure.measure(ClassBlock(np.array([1, 4])), Facts()), Facts()).observed
    0.4
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "Dankar, El Emam, PAIS 2010"
    threat: ClassVar[str] = "An intruder links all records to a register and profits by every correct link."
    formula: ClassVar[str] = "(1/n) sum f/F; with no population J/n"
    choose: ClassVar[str] = "The expected share of wrong links must be so large that linking does not pay: 0.05 to 0.1."

    population: Annotated[
        bool,
        Stricter("equal"),
        Doc("true: link to the policy's population; false: to a register of the table's own persons"),
    ] = False

    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of right links that is tolerated")
    ] = None

    @property
    def needs_population(self) -> bool:  # type: ignore[override]
        """Whether a population is counted beside the release."""
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
