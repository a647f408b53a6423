"""Attacks that infer a sensitive value from a class, without finding the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import SensitiveColumn, Stricter
from privpipe.blocks.tally import added
from privpipe.tolerance import at_least, at_most

__all__ = ["ClassInference", "certain"]


def certain(posterior: NDArray[np.float64], certainty: float) -> NDArray[np.bool_]:
    """Which classes give a value away with at least this certainty."""
    return np.asarray(at_least(posterior, certainty), dtype=np.bool_)


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassInference(Guarantee):
    """A share of records, added up over classes in whole numbers.

    Subclasses give `gained`: of each class, the records that count.
    """

    threshold_field: ClassVar[str | None] = "at_most"
    protects_nobody_at: ClassVar[float | None] = 1

    column: Annotated[str, SensitiveColumn(), Stricter("equal"), Doc("the sensitive column")]
    at_most: Annotated[
        float | None, Ge(0), Le(1), Stricter("smaller"), Doc("largest share of records that is tolerated")
    ] = None

    def gained(self, block: ClassBlock) -> NDArray[np.int64]:
        """Records of each class that count, shape (n_classes,)."""
        raise TypeError(f"{type(self).__name__} reads no classes")

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        gained = self.gained(block)
        return Tally(
            failing_classes=int((gained > 0).sum()),
            failing_records=int(gained.sum()),
            classes=len(block),
            records=block.records,
        )

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(
            failing_classes=left.failing_classes + right.failing_classes,
            failing_records=left.failing_records + right.failing_records,
            classes=left.classes + right.classes,
            records=left.records + right.records,
            sums=added(left.sums, right.sums),
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        if not observed.records:
            return Verdict(self, None, "error", self.demanded(), reason="no class to judge.")
        figure = observed.failing_records / observed.records
        passed = not self.is_gate() or bool(at_most(figure, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        return Verdict(
            self,
            figure,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            failing_classes=observed.failing_classes,
            failing_records=observed.failing_records,
            failing_share=figure,
            reason=f"observed {short(figure)}{asked}; {self.said(observed, facts.unit)}.",
        )

    def said(self, observed: Tally, unit: str) -> str:
        """What the share is of."""
        return (
            f"{observed.failing_records:,} of {observed.records:,} {unit}, in {observed.failing_classes:,} of "
            f"{observed.classes:,} classes"
        )
