"""Many guarantees as one reduction: twenty cost one count."""

from __future__ import annotations

from dataclasses import dataclass

from privpipe.blocks import ClassBlock, Facts, Guarantee, Tally
from privpipe.progress import within

__all__ = ["Composite", "Judged"]


@dataclass(frozen=True)
class Judged:
    """What all entries of a composite saw of some classes.

    `released` and `marked` count records, `classes` the released classes; `alone`, under wildcard matching, the records
    that are complete and equal no other complete record.
    """

    tallies: tuple[Tally, ...]
    released: int
    marked: int
    classes: int
    alone: int | None = None


@dataclass(frozen=True)
class Composite:
    """The entries that are judged over one set of quasi-identifiers.

    Every entry sees every class: an early exit on the first failure would leave the others unjudged.
    """

    entries: tuple[Guarantee, ...]

    def measure(self, block: ClassBlock, facts: Facts) -> Judged:
        """Measure a block with every entry; suppressed records are no class."""
        released = block.released()
        return Judged(
            tallies=tuple(entry.measure(released, facts) for entry in self.entries),
            released=released.records,
            marked=block.records - released.records,
            classes=len(released),
        )

    def merge(self, left: Judged, right: Judged) -> Judged:
        """Merge entry by entry."""
        within("classes", left.classes + right.classes)
        return Judged(
            tallies=tuple(
                entry.merge(*pair)
                for entry, pair in zip(self.entries, zip(left.tallies, right.tallies, strict=True), strict=True)
            ),
            released=left.released + right.released,
            marked=left.marked + right.marked,
            classes=left.classes + right.classes,
        )
