"""Class tables as rows that can be compared, whatever the order and the codes of an engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from privpipe.blocks import ClassBlock

__all__ = ["classes"]


def classes(blocks: Iterator[ClassBlock]) -> list[Any]:
    found = []
    for block in blocks:
        for c, size in enumerate(block.sizes.tolist()):
            cells = tuple(
                tuple(sorted(own.counts[own.offsets[c] : own.offsets[c + 1]].tolist())) for own in block.cells.values()
            )
            found.append((size, bool(block.marked is not None and block.marked[c]), cells))
    return sorted(found)
