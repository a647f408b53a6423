"""How many classes have each size: all that a count which asks for nothing else can tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery
from privpipe.engines.base.assembly import may_be_marked

__all__ = ["KnownSizes"]

BLOCK_CLASSES = 131072


@dataclass(frozen=True)
class KnownSizes:
    """How many classes have each size.

    Parameters
    ----------
    mark : str or None
        By which the class of the mark was told from the others; None: by none.
    classes : mapping of (marked, size) to int

    Examples
    --------
    >>> known = KnownSizes("*", {(False, 2): 3, (True, 5): 1})
    >>> [(block.sizes.tolist(), block.marked) for block in known.blocks(ClassQuery(keys=("zip",)))]
    [([2, 2, 2, 5], None)]
    >>> [block.marked.tolist() for block in known.blocks(ClassQuery(keys=("zip",), mark="*"))]
    [[False, False, False, True]]
    """

    mark: str | None
    classes: dict[tuple[bool, int], int] = field(repr=False)

    @classmethod
    def of(cls, block: ClassBlock, mark: str | None) -> Self:
        """Those of a block of classes."""
        flags = np.zeros(len(block), np.bool_) if block.marked is None else block.marked
        found: dict[tuple[bool, int], int] = {}
        for flag in (False, True):
            sizes, counts = _numbers(block.sizes[flags == flag])
            found |= {(flag, size): count for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)}
        return cls(mark, found)

    def merged(self, other: Self) -> Self:
        """Those of both."""
        found = dict(self.classes)
        for key, count in other.classes.items():
            found[key] = found.get(key, 0) + count
        return replace(self, classes=found)

    def answers(self, query: ClassQuery) -> bool:
        """Whether a query over the same keys asks for no more than this."""
        told = not may_be_marked(query) or query.mark == self.mark
        return told and not query.columns and query.person is None and query.weight is None

    def blocks(self, query: ClassQuery) -> Iterator[ClassBlock]:
        """The classes in order of their sizes, the class of the mark last."""
        listed = sorted(self.classes.items())
        counts = np.array([number for _, number in listed], dtype=np.int64)
        ends = np.cumsum(counts)
        sizes = np.array([size for (_, size), _ in listed], dtype=np.int64)
        marked = np.array([flag for (flag, _), _ in listed], dtype=np.bool_)
        for start in range(0, int(ends[-1]) if len(ends) else 0, BLOCK_CLASSES):
            first, last = np.searchsorted(ends, [start, min(start + BLOCK_CLASSES, int(ends[-1])) - 1], side="right")
            here = slice(int(first), int(last) + 1)
            # How many classes of each size lie before the end of the block, less those before it begins.
            own = np.diff(np.minimum(ends[here], start + BLOCK_CLASSES), prepend=start)
            flags = np.repeat(marked[here], own) if may_be_marked(query) else None
            yield ClassBlock(np.repeat(sizes[here], own), marked=flags)


def _numbers(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each size, ascending, and how often it occurs."""
    if len(sizes) and int(sizes.max()) <= len(sizes):
        counts = np.bincount(sizes)
        found = np.flatnonzero(counts)
        return found, counts[found]
    return np.unique(sizes, return_counts=True)
