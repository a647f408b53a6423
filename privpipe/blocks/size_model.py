"""Models over the sizes of all classes together, and rules on households: compositions, what is left of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.blocks.class_block import ClassBlock, Tally
from privpipe.blocks.facts import Facts
from privpipe.blocks.guarantee import MEETS, Guarantee, short
from privpipe.blocks.verdict import Verdict
from privpipe.blocks.way import HOUSEHOLDS, KEPT_HOUSEHOLDS, CountedOver, Over

__all__ = ["HouseholdRule", "KeptHouseholds", "SizeModel", "histogram_sums", "matching_sums", "size_histogram"]


@dataclass(frozen=True, kw_only=True, repr=False)
class SizeModel(CountedOver, Guarantee):
    """A rule over the sizes of all classes together; one figure of the histogram {size: number of classes}.

    Subclasses give `figure_of`; with classes removed by ascending size it only falls (`prefix_monotone`), so
    that the shortest prefix to suppress can be bisected.
    """

    direction = "at_most"
    prefix_monotone: ClassVar[bool] = True

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        sums = histogram_sums(block.sizes) if block.matching is None else matching_sums(block.matching, block.sizes)
        return Tally(classes=len(block), records=block.records, sums=sums)

    def merge(self, left: Tally, right: Tally) -> Tally:
        return left.plus(right)

    def figure_of(self, sizes: Ints, counts: Ints) -> float:
        """What is compared with the threshold, of so many (`counts`) classes of each of these `sizes`."""
        raise TypeError(f"{type(self).__name__} judges no size histogram")

    def met_by(self, sizes: Ints, counts: Ints, facts: Facts) -> bool:
        """Whether a table with so many (`counts`) classes of each of these `sizes` meets the rule."""
        if not self.is_gate() or not counts.sum():
            return True
        return bool(MEETS[self.direction](self.figure_of(sizes, counts), self.demanded()))

    def judge(self, observed: Tally, facts: Facts) -> Verdict:
        sizes, counts = size_histogram(observed)
        figure = self.figure_of(sizes, counts) if observed.records else None
        passed = self.met_by(sizes, counts, facts)
        seen = "no class to judge" if figure is None else f"observed {short(figure)}"
        note = "" if passed else self.unattainable(observed.records, facts)
        over = f"over {observed.classes:,} classes of {observed.records:,} {facts.unit}"
        return Verdict(
            self,
            figure,
            outcome="pass" if passed else "fail",
            threshold=self.demanded(),
            reason="; ".join(part for part in (f"{seen}{self.asked}", over, note) if part) + ".",
        )

    def unattainable(self, records: int, facts: Facts) -> str:
        one_class_sizes = np.array([records], dtype=np.int64)
        if not records or self.met_by(one_class_sizes, np.array([1], dtype=np.int64), facts):
            return ""
        return f"cannot be met by this table: it has {records:,} {facts.unit}"


def histogram_sums(sizes: Ints) -> dict[str, int]:
    """How many classes have each size, with text keys, so that it survives JSON.

    Examples
    --------
    >>> histogram_sums(np.array([2, 1, 2]))
    {'1': 1, '2': 2}
    """
    if not len(sizes) or sizes.max() > 4 * len(sizes) + 1024:
        seen, counts = np.unique(sizes, return_counts=True)
    else:  # a count per possible size is far cheaper than a sort of all classes
        counts = np.bincount(sizes)
        seen = np.flatnonzero(counts)
        counts = counts[seen]
    return {str(size): count for size, count in zip(seen.tolist(), counts.tolist(), strict=True)}


def matching_sums(matching: Ints, records: Ints) -> dict[str, int]:
    """How many records are matched by so many, under keys that differ from those of a histogram of classes.

    Examples
    --------
    >>> matching_sums(np.array([6, 7, 6]), np.array([3, 2, 1]))
    {'~6': 4, '~7': 2}
    """
    seen, places = np.unique(matching, return_inverse=True)
    counts = np.bincount(places, weights=records, minlength=len(seen)).astype(np.int64)
    return {f"~{size}": count for size, count in zip(seen.tolist(), counts.tolist(), strict=True)}


def size_histogram(tally: Tally) -> tuple[Ints, NDArray[Any]]:
    """Sizes, ascending, and the number of classes of each, of a `SizeModel`'s tally.

    Under wildcard matching a record matched by w counts as a w-th of a class, which is what every figure of sizes
    means by it: their sum is the sum of 1/w over records.
    """
    if any(size.startswith("~") for size in tally.sums):
        matching = np.array(sorted(int(size[1:]) for size in tally.sums), dtype=np.int64)
        return matching, np.array([tally.sums[f"~{size}"] / size for size in matching.tolist()], dtype=np.float64)
    sizes = np.array(sorted(int(size) for size in tally.sums), dtype=np.int64)
    return sizes, np.array([tally.sums[str(size)] for size in sizes], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, repr=False)
class HouseholdRule(Guarantee):
    """Judges how many households have each composition; subclasses give `judge`.

    The composition of a household is the multiset of its members' quasi-identifiers as they are released. A member is
    a record, or with `person_id` the multiset of a person's records. A class of the block holds the households of one
    composition.
    """

    way = HOUSEHOLDS

    def counts_over(self) -> Over | None:
        return "households"

    def least_alike(self) -> int:
        """Households that must share each composition at least; 0: no least number decides."""
        return 0

    def measure(self, block: ClassBlock, facts: Facts) -> Tally:
        return Tally(classes=len(block), records=block.records, sums=histogram_sums(block.sizes))

    def merge(self, left: Tally, right: Tally) -> Tally:
        return left.plus(right)


@dataclass(frozen=True, kw_only=True, repr=False)
class KeptHouseholds(Guarantee):
    """Judges numbers of households; subclasses give `judge_kept`."""

    way = KEPT_HOUSEHOLDS

    def reads_households(self) -> bool:
        return True

    def judge_kept(self, whole: int, part: int, missing: int) -> Verdict:
        """The verdict where so many households are released whole, so many in part, which lack so many records."""
        raise TypeError(f"{type(self).__name__} judges no households")
