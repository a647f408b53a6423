"""The homogeneity attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np
from annotated_types import Gt, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Tally
from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.attribute.inference import ClassInference, certain

__all__ = ["HomogeneityAttack"]


@dataclass(frozen=True, kw_only=True, repr=False)
class HomogeneityAttack(ClassInference):
    """Share of records whose class discloses the sensitive value: all (or nearly all) of the class share it.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the share is reported.
    certainty : float
        Share of the most frequent value from which a class discloses it, in (0, 1].
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Where persons are counted, a class of f persons discloses a value that all of them (or the share `certainty`) have,
    whatever else each of them has.

    Source: Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007; Sweeney, IJUFKS 10(5), 2002.

    Examples
    --------
    >>> from privpipe.blocks import Cells, Facts
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> measure = HomogeneityAttack(column="illness", at_most=0.5)
    >>> block = ClassBlock(np.array([3, 4]), {"illness": cells})
    >>> measure.judge(measure.measure(block, Facts()), Facts()).failing_records
    4
    """

    observes: ClassVar[object] = float
    source: ClassVar[str] = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007"
    threat: ClassVar[str] = (
        "An intruder finds a person's class, not the record, and learns the value: all there share it."
    )
    formula: ClassVar[str] = "share of records in classes with max_v c_v / f >= certainty"
    choose: ClassVar[str] = "0 with certainty 1 is the least to ask; certainty 0.8 also counts near-certain classes."

    certainty: Annotated[
        float, Gt(0), Le(1), Stricter("equal"), Doc("share of the commonest value from which a class gives it away")
    ] = 1.0

    def gained(self, block: ClassBlock) -> NDArray[np.int64]:
        from privpipe.kernels.classes.counts import largest_by_class

        cells = block.cells[self.column]
        top = largest_by_class(cells.offsets, cells.counts)
        return np.where(certain(top / block.sizes, self.certainty), block.sizes, 0)

    def said(self, observed: Tally, unit: str) -> str:
        return f"at least {super().said(observed, unit)}, by homogeneity"

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(column="illness"), cls(column="illness", at_most=0.2), cls(column="illness", certainty=0.5)]
