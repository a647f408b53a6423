"""Re-identification by an intruder who does not know who is in the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.identity.beside_population import BesidePopulation, Pairs
from privpipe.measures.risk.identity.prosecutor_risk import Figure
from privpipe.tolerance import at_most

__all__ = ["JournalistRisk"]


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
    Source: El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> block = ClassBlock(np.array([1, 2, 0]), population=np.array([8, 4, 1]))
    >>> measure = JournalistRisk(at_most=0.2)
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.25)
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010"
    threat: ClassVar[str] = "An intruder with a public register links a record to one of its persons."
    formula: ClassVar[str] = (
        "highest 1/min F; average max(J/sum F, mean f/F); at_risk: share of records with 1/F > threshold"
    )
    choose: ClassVar[str] = (
        "As prosecutor_risk; it is never larger, and no guard where membership in the table is known."
    )

    figure: Annotated[Figure, Stricter("equal"), Doc("which figure is compared: highest, average or at_risk")] = (
        "highest"
    )
    threshold: Annotated[
        float, Gt(0), Le(1), Stricter("equal"), Doc("risk of a record above which it counts as at risk")
    ] = 0.2

    at_most: Annotated[float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest risk that is tolerated")] = None

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
