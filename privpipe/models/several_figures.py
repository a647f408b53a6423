"""Class-based models that ask for several things at once and report a figure for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassModel, Facts, Tally
from privpipe.blocks.arrays import Bools
from privpipe.blocks.guarantee import MEETS, Direction, short

__all__ = ["SeveralFigures"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SeveralFigures(ClassModel):
    """A class passes when it meets every rule; observed and threshold are mappings.

    Subclasses give `rules` (by name: how a figure must lie to which bound) and `figures` (by the same names, one
    array per class).
    """

    def rules(self) -> Mapping[str, tuple[Direction, Any]]:
        """Direction and bound of each figure; a bound is None where the entry only reports."""
        raise TypeError(f"{type(self).__name__} has no rules")

    def figures(self, block: ClassBlock, facts: Facts) -> Mapping[str, NDArray[Any]]:
        """Each figure of every class, shape (n_classes,)."""
        raise TypeError(f"{type(self).__name__} has no figures")

    def demanded(self) -> Any:
        return {name: bound for name, (_, bound) in self.rules().items()} if self.is_gate() else None

    def passing(self, block: ClassBlock, facts: Facts) -> Bools:
        return self._meeting(len(block), self.figures(block, facts))

    def _meeting(self, classes: int, figures: Mapping[str, NDArray[Any]]) -> Bools:
        passing = np.ones(classes, dtype=np.bool_)
        if self.is_gate():
            for name, (direction, bound) in self.rules().items():
                passing &= MEETS[direction](figures[name], bound)
        return passing

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if not len(block):
            return Tally()
        figures = self.figures(block, facts)
        passing = self._meeting(len(block), figures)
        worst = {
            name: (figures[name].min() if direction == "at_least" else figures[name].max()).item()
            for name, (direction, _) in self.rules().items()
        }
        return self.tallied(block, worst, passing)

    def merge(self, left: Tally, right: Tally) -> Tally:
        if left.observed is None or right.observed is None:
            observed = right.observed if left.observed is None else left.observed
        else:
            observed = {
                name: (min if direction == "at_least" else max)(left.observed[name], right.observed[name])
                for name, (direction, _) in self.rules().items()
            }
        counted = super().merge(replace(left, observed=None), replace(right, observed=None))
        return replace(counted, observed=observed)

    def shown_of(self, whole: ClassBlock, facts: Facts) -> str:
        return ", ".join(f"{name} = {short(figure[0].item())}" for name, figure in self.figures(whole, facts).items())

    def reason(self, observed: Tally, facts: Facts) -> str:
        fails = (
            f"all {observed.classes:,} classes meet it"
            if not observed.failing_classes
            else f"{observed.failing_classes:,} of {observed.classes:,} classes, "
            f"{observed.failing_records:,} of {observed.records:,} {facts.unit} fail"
        )
        note = ""
        if observed.failing_classes:
            note = self.unattainable(observed.records, facts) or self.needs_suppression(observed.records, facts)
        return "; ".join(part for part in (self.seen_by_figure(observed), fails, note) if part) + "."

    def seen_by_figure(self, observed: Tally) -> str:
        """Every figure in words, with what was required."""
        if not observed.classes:
            return "no class to judge"
        parts = []
        for name, (direction, bound) in self.rules().items():
            asked = f" (required {direction.replace('_', ' ')} {short(bound)})" if self.is_gate() else ""
            parts.append(f"{name} = {short(observed.observed[name])}{asked}")
        return "observed " + ", ".join(parts)
