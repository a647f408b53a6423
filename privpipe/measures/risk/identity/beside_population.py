"""Measures of released classes beside the same classes of the population."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import ClassBlock, Facts, Guarantee, Tally, Verdict
from privpipe.blocks.guarantee import short
from privpipe.blocks.tally import added
from privpipe.errors import UsageError
from privpipe.tolerance import at_most

__all__ = ["BesidePopulation", "Pairs"]

Pairs = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Sizes f in the release, sizes F in the population, and how many classes have both; f >= 1."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BesidePopulation(Guarantee):
    """A figure of the histogram {(f, F): classes} over the classes that hold a released record.

    Exact and order-free: whole numbers are counted, and one sum is rounded at the end.
    """

    threshold_field: ClassVar[str | None] = "at_most"
    protects_nobody_at: ClassVar[float | None] = 1
    needs_population: ClassVar[bool] = True

    at_most: Annotated[float | None, Ge(0), Le(1), Doc("largest figure that is tolerated")] = None

    def figure_of(self, pairs: Pairs) -> float:
        """What is compared with the threshold; NaN where undefined."""
        raise TypeError(f"{type(self).__name__} judges no pairs of sizes")

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if block.population is None and self.needs_population:
            raise UsageError(f"{self.name()} compares with a population, and none was counted")
        beside = block.sizes if block.population is None else block.population
        held = block.sizes > 0
        pairs, counts = np.unique(np.stack([block.sizes[held], beside[held]]), axis=1, return_counts=True)
        sums = {f"{f},{F}": n for f, F, n in zip(*pairs.tolist(), counts.tolist(), strict=True)} if held.any() else {}
        return Tally(classes=int(held.sum()), records=block.records, sums=sums)

    def merge(self, left: Tally, right: Tally) -> Tally:
        return Tally(
            classes=left.classes + right.classes,
            records=left.records + right.records,
            sums=added(left.sums, right.sums),
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        figure = self.figure_of(_pairs(observed.sums)) if observed.records else math.nan
        if math.isnan(figure):
            return Verdict(self, None, "error", self.demanded(), reason=self.undefined())
        passed = not self.is_gate() or bool(at_most(figure, self.at_most))  # type: ignore[arg-type]
        asked = f", asked at most {short(self.at_most)}" if self.is_gate() else ""
        over = f"over {observed.classes:,} classes of {observed.records:,} records"
        return Verdict(
            self,
            figure,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason=f"observed {short(figure)}{asked}; {over}.",
        )

    def undefined(self) -> str:
        """The reason where there is no figure."""
        return "no class to judge."


def _pairs(sums: Mapping[str, int]) -> Pairs:
    found = sorted((*map(int, pair.split(",")), count) for pair, count in sums.items())
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]
