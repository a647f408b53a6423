"""Guess the most frequent value of a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Tally, Verdict
from privpipe.blocks.arrays import Ints
from privpipe.blocks.guarantee import short
from privpipe.blocks.marks import Stricter
from privpipe.measures.risk.attribute.class_inference import ClassInference

__all__ = ["AttributeInference"]


@dataclass(frozen=True, kw_only=True, repr=False)
class AttributeInference(ClassInference):
    """Share of records whose sensitive value is the most frequent one of their class, and so guessed correctly.

    Parameters
    ----------
    column : str
        A sensitive column. A missing value counts as one more value.
    at_most : float, optional
        In [0, 1]. Left out (under `measures:`), the shares are reported.
    gain : bool
        Compare what the classes add over guessing the most frequent value of the whole table.
    quasi_identifiers : tuple of str, optional
        Default: all of the policy.

    Notes
    -----
    Observed: `share`, `baseline` (the most frequent value of all judged records) and `gain`, their difference.

    Examples
    --------
    >>> from privpipe.blocks import Cells
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, 2, 4]))
    >>> measure = AttributeInference(column="illness", at_most=0.5)
    >>> block = ClassBlock(np.array([3, 4]), {"illness": cells})
    >>> verdict = measure.judge(measure.measure(block, Facts()), Facts())
    >>> {name: round(figure, 3) for name, figure in verdict.observed.items()}
    {'share': 0.857, 'baseline': 0.857, 'gain': 0.0}
    """

    needs_base = True
    observes = dict[str, float]
    source = "Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam, ACM TKDD 1(1), 2007"
    threat = "An intruder finds a person's class and guesses its most frequent value."
    formula = "sum over classes of max_v c_v, divided by n; gain: less the table's own max share"
    choose = "The baseline is what anybody can guess: a gain of 0.1 or less discloses little about a person."

    gain: Annotated[
        bool, Stricter("equal"), Doc("true: compare the share less that of guessing the table's commonest value")
    ] = False

    def base_distribution(self) -> Any:
        """Codes must distinguish values across classes, so the judged table's own are counted."""
        return "released"

    def gained(self, block: ClassBlock) -> Ints:
        from privpipe.kernels.classes.counts import largest_by_class

        cells = block.cells[self.column]
        return largest_by_class(cells.offsets, cells.counts)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        found = super().measure(block, facts)
        cells = block.cells[self.column]
        totals = np.bincount(cells.codes, weights=cells.counts).astype(np.int64)
        sums = {str(code): int(totals[code]) for code in np.flatnonzero(totals).tolist()}
        return Tally(0, found.failing_classes, found.failing_records, found.classes, found.records, sums)

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        verdict = super().judge(observed, facts)
        if not observed.records:
            return verdict
        baseline = max(observed.sums.values()) / observed.records
        figures = {"share": verdict.observed, "baseline": baseline, "gain": verdict.observed - baseline}
        compared = figures["gain" if self.gain else "share"]
        return self.judged(
            compared,
            figures,
            reason=(
                f"observed {'gain ' if self.gain else ''}{short(compared)}{self.asked}; at least "
                f"{observed.failing_records:,} of {observed.records:,} {facts.unit} are guessed "
                f"right, {short(baseline)} without the classes."
            ),
        )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(column="illness"),
            cls(column="illness", at_most=0.6),
            cls(column="illness", gain=True, at_most=0.2),
        ]
