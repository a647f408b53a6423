"""Original and released records side by side; exists inside a run only and is never published."""

from __future__ import annotations

from dataclasses import dataclass

from privpipe.blocks.row_block import RowBlock

__all__ = ["PairBlock"]


@dataclass(frozen=True)
class PairBlock:
    """Rows of the original and of the release, aligned: row i of both is the same record.

    Parameters
    ----------
    original, released : RowBlock
        Equally long.
    """

    original: RowBlock
    released: RowBlock

    def __post_init__(self) -> None:
        if len(self.original) != len(self.released):
            raise ValueError(f"{len(self.original)} original rows beside {len(self.released)} released ones")

    def __len__(self) -> int:
        return len(self.original)
