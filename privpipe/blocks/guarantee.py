"""What judges: the common shape of privacy models and of measures with a threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.class_block import ClassBlock
from privpipe.blocks.entry import Entry
from privpipe.blocks.facts import Facts
from privpipe.blocks.verdict import Verdict
from privpipe.tolerance import at_least, at_most, below

__all__ = ["ClassModel", "Guarantee", "SizeModel", "Tally"]

Direction = Literal["at_least", "at_most", "below"]
MEETS = {"at_least": at_least, "at_most": at_most, "below": below}


@dataclass(frozen=True)
class Tally:
    """Figure of a set of classes: the worst score, what fails, and how much was judged.

    `observed` is None before any class was seen. `sums` holds counters particular to a model.
    """

    observed: Any = None
    failing_classes: int = 0
    failing_records: int = 0
    classes: int = 0
    records: int = 0
    sums: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, repr=False)
class Guarantee(Entry):
    """Something a policy can demand of a table.

    Subclasses say what they read (`reads`), which field is the threshold that makes them a gate
    (`threshold_field`; None when they have no form without one), and implement measure, merge and judge.
    """

    reads: ClassVar[Literal["classes", "pairs", "process"]] = "classes"
    threshold_field: ClassVar[str | None] = None
    needs_base: ClassVar[bool] = False
    needs_population: ClassVar[bool] = False

    quasi_identifiers: tuple[str, ...] | None = None

    def sensitive_columns(self) -> tuple[str, ...]:
        """Sensitive columns whose values the guarantee counts."""
        column = getattr(self, "column", None)
        return () if column is None else (column,)

    def is_gate(self) -> bool:
        """Whether a threshold is given, so that the entry judges rather than reports."""
        return self.threshold_field is None or getattr(self, self.threshold_field) is not None

    def threshold(self) -> Any:
        """What `observed` is compared with."""
        return None if self.threshold_field is None else getattr(self, self.threshold_field)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        """The figure of some whole classes."""
        raise TypeError(f"{type(self).__name__} does not read classes")

    def merge(self, left: Tally, right: Tally) -> Tally:
        """The figure of two sets of classes."""
        raise TypeError(f"{type(self).__name__} does not read classes")

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        """The verdict over the whole table."""
        raise TypeError(f"{type(self).__name__} does not judge")


@dataclass(frozen=True, kw_only=True, repr=False)
class ClassModel(Guarantee):
    """A rule every class must meet by itself.

    Subclasses give `scores` (one figure a class), `direction` (how it must lie to `bound`) and, for a search,
    what follows for finer tables: `hereditary` (a failing class has only failing parts), `convex` (passing
    parts merge to a passing whole).
    """

    direction: ClassVar[Direction] = "at_least"
    hereditary: ClassVar[bool] = False
    convex: ClassVar[bool] = False

    def bound(self) -> float:
        """The number a class's score is compared with."""
        threshold = self.threshold()
        return threshold if isinstance(threshold, int) else float(threshold)

    def scores(self, block: ClassBlock, facts: Facts) -> NDArray[Any]:
        """One figure a class, shape (n_classes,); integers stay integers."""
        raise TypeError(f"{type(self).__name__} scores no classes")

    def passing(self, block: ClassBlock, facts: Facts) -> NDArray[np.bool_]:
        """Which classes meet the rule, shape (n_classes,)."""
        if not self.is_gate():
            return np.ones(len(block), dtype=np.bool_)
        meets = MEETS[self.direction](self.scores(block, facts), self.bound())
        return np.asarray(meets, dtype=np.bool_)

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        if not len(block):
            return Tally()
        scores = self.scores(block, facts)
        failing = ~self.passing(block, facts)
        worst = scores.min() if self.direction == "at_least" else scores.max()
        return Tally(
            observed=worst.item(),
            failing_classes=int(failing.sum()),
            failing_records=int(block.sizes[failing].sum()),
            classes=len(block),
            records=block.records,
        )

    def merge(self, left: Tally, right: Tally) -> Tally:
        worst = min if self.direction == "at_least" else max
        seen = [tally.observed for tally in (left, right) if tally.observed is not None]
        return Tally(
            observed=worst(seen) if seen else None,
            failing_classes=left.failing_classes + right.failing_classes,
            failing_records=left.failing_records + right.failing_records,
            classes=left.classes + right.classes,
            records=left.records + right.records,
        )

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        finite = observed.observed is None or np.isfinite(observed.observed)
        return Verdict(
            self,
            observed.observed if finite else None,
            outcome="pass" if observed.failing_classes == 0 else "fail",
            threshold=self.threshold(),
            failing_classes=observed.failing_classes,
            failing_records=observed.failing_records,
            failing_share=observed.failing_records / observed.records if observed.records else None,
            reason=self.reason(observed, facts),
        )

    def reason(self, observed: Tally, facts: Facts) -> str:
        """One sentence on the figure, for a person."""
        figure = observed.observed
        seen = "no class to judge" if figure is None else f"observed {_short(figure)}"
        asked = "" if not self.is_gate() else f", asked {self.direction.replace('_', ' ')} {_short(self.bound())}"
        if not observed.failing_classes:
            return f"{seen}{asked}; all {observed.classes:,} classes meet it."
        return (
            f"{seen}{asked}; {observed.failing_classes:,} of {observed.classes:,} classes, "
            f"{observed.failing_records:,} of {observed.records:,} records fail."
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class SizeModel(Guarantee):
    """A rule over the sizes of all classes together; one figure of the histogram {size: number of classes}."""

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        sizes, counts = np.unique(block.sizes, return_counts=True)
        histogram = {int(size): int(count) for size, count in zip(sizes, counts, strict=True)}
        return Tally(classes=len(block), records=block.records, sums=histogram_sums(histogram))

    def merge(self, left: Tally, right: Tally) -> Tally:
        sums = dict(left.sums)
        for size, count in right.sums.items():
            sums[size] = sums.get(size, 0) + count
        return Tally(classes=left.classes + right.classes, records=left.records + right.records, sums=sums)

    def met_by(self, sizes: NDArray[np.int64], counts: NDArray[np.int64], facts: Facts) -> bool:
        """Whether a table with so many (`counts`) classes of each of these `sizes` meets the rule."""
        raise TypeError(f"{type(self).__name__} judges no size histogram")


def histogram_sums(histogram: Mapping[int, int]) -> dict[str, int]:
    """A size histogram with text keys, so that it survives JSON."""
    return {str(size): count for size, count in sorted(histogram.items())}


def size_histogram(tally: Tally) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes, ascending, and the number of classes of each, of a `SizeModel`'s tally."""
    sizes = np.array(sorted(int(size) for size in tally.sums), dtype=np.int64)
    return sizes, np.array([tally.sums[str(size)] for size in sizes], dtype=np.int64)


def _short(figure: Any) -> str:
    return f"{figure:,}" if isinstance(figure, int) else f"{figure:.6g}"
