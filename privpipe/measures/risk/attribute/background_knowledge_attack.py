"""The background-knowledge attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Tally
from privpipe.blocks.marks import Stricter
from privpipe.errors import UsageError
from privpipe.measures.risk.attribute.inference import ClassInference, certain

__all__ = ["BackgroundKnowledgeAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class BackgroundKnowledgeAttack(ClassInference):
    """Share of records whose value follows from their class and the intruder's background knowledge.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    exclude_values : int, optional
        b: the intruder can rule out so many values for the person, at least 0.
    insiders : int, optional
        r: so many members of the class know themselves and each other, at least 0. One of the two is given.
    certainty : float
        Posterior from which a value counts as learnt, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Worst posterior of a class: max_v c_v / (f - E), E the sum of the b largest counts among the *other* values, or
    min(r, f - c_v). A record is never counted against itself: f - E >= c_v. Where persons are counted, f are those of
    the class and c_v those who have the value; ruling out values then gives an upper bound, for one person may have
    several of these.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007; Martin, Kifer, Machanavajjhala,
    Gehrke, Halpern, ICDE 2007.

    Examples
    --------
    >>> from privpipe.blocks import Cells, Facts
    >>> cells = Cells(np.array([0, 2]), np.array([0, 1]), np.array([1, 2]))
    >>> measure = BackgroundKnowledgeAttack(column="illness", insiders=1, at_most=0.0)
    >>> measure.judge(measure.measure(ClassBlock(np.array([3]), {"illness": cells}), Facts()), Facts()).observed
    1.0
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "Machanavajjhala et al., ACM TKDD 1(1), 2007; Martin et al., ICDE 2007"
    threat: ClassVar[str] = "An intruder rules out values for a person, or members of the class pool what they know."
    formula: ClassVar[str] = "share of records in classes with max_v c_v / (f - E) >= certainty"
    choose: ClassVar[str] = "b = 1 or r = 1 is the least to try; a class withstands b if it has b + 2 values."

    exclude_values: Annotated[
        int | None, Ge(0), Stricter("equal"), Doc("b: values the intruder can rule out for the person")
    ] = None
    insiders: Annotated[
        int | None, Ge(0), Stricter("equal"), Doc("r: members of the class who know themselves and each other")
    ] = None
    certainty: Annotated[
        float, Gt(0), Le(1), Stricter("equal"), Doc("posterior from which a value counts as learnt")
    ] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.exclude_values is None) == (self.insiders is None):
            raise UsageError("BackgroundKnowledgeAttack: give exclude_values or insiders, one of the two")

    def gained(self, block: ClassBlock) -> NDArray[np.int64]:
        from privpipe.kernels.classes.posterior import insider_posterior, ruled_out_posterior

        cells = block.cells[self.column]
        if self.insiders is not None:
            posterior = insider_posterior(cells.offsets, cells.counts, block.sizes, self.insiders)
        else:
            posterior = ruled_out_posterior(cells.offsets, cells.counts, block.sizes, self.exclude_values or 0)
        return np.where(certain(posterior, self.certainty), block.sizes, 0)

    def said(self, observed: Tally, unit: str) -> str:
        known = (
            f"{self.insiders:,} insiders" if self.insiders is not None else f"{self.exclude_values:,} values ruled out"
        )
        return f"at least {super().said(observed, unit)}, with {known}"

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness", insiders=1),
            cls(column="illness", exclude_values=1, at_most=0.5),
            cls(column="illness", exclude_values=2, certainty=0.6, at_most=1.0),
        ]
