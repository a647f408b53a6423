"""Re-identification by an intruder who knows that the person is in the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import SizeModel
from privpipe.blocks.marks import Stricter
from privpipe.tolerance import at_most

__all__ = ["Figure", "ProsecutorRisk"]

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

    Notes
    -----
    Source: El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010.

    Examples
    --------
    >>> from privpipe.blocks import ClassBlock, Facts
    >>> measure = ProsecutorRisk(figure="at_risk", threshold=0.4, at_most=0.1)
    >>> verdict = measure.judge(measure.measure(ClassBlock(np.array([2, 3])), Facts()), Facts())
    >>> verdict.outcome, verdict.observed
    ('fail', 0.4)
    """

    judges_matching: ClassVar[bool] = True
    threshold_field: ClassVar[str | None] = "at_most"
    protects_nobody_at: ClassVar[float | None] = 1
    observes: ClassVar[object] = float
    source: ClassVar[str] = "El Emam, Dankar, JAMIA 15(5), 2008; Dankar, El Emam, PAIS 2010"
    threat: ClassVar[str] = (
        "An intruder who knows that a person is in the table, and their quasi-identifiers, finds them."
    )
    formula: ClassVar[str] = "highest 1/min f; average J/n; at_risk: share of records with 1/f > threshold"
    choose: ClassVar[str] = "highest 0.2 or less (classes of five), 0.05 to 0.1 for public files; at_risk near 0."

    at_most: Annotated[float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest risk that is tolerated")] = None
    figure: Annotated[Figure, Stricter("equal"), Doc("which figure is compared: highest, average or at_risk")] = (
        "highest"
    )
    threshold: Annotated[
        float, Gt(0), Le(1), Stricter("equal"), Doc("risk of a record above which it counts as at risk")
    ] = 0.2

    def figure_of(self, sizes: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
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
