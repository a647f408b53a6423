"""The counted values of one sensitive column in each class: offsets, value codes, counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cells"]

T = TypeVar("T")


class Cells:
    """The cells (class, value, count) of one sensitive column, compressed by class.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n_classes + 1,)
        Cells of class c are ``offsets[c]:offsets[c + 1]``; no class is empty.
    codes : ndarray of int64, shape (n_cells,)
        Ascending and distinct within a class.
    counts : ndarray of int64, shape (n_cells,)
        At least 1.
    """

    __slots__ = ("_memory", "codes", "counts", "offsets")

    def __init__(self, offsets: NDArray[np.int64], codes: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        self.offsets = offsets
        self.codes = codes
        self.counts = counts
        self._memory: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def once(self, name: str, compute: Callable[[Cells], T]) -> T:
        """Compute a figure per class at most once a block, however many models ask for it."""
        if name not in self._memory:
            self._memory[name] = compute(self)
        return self._memory[name]  # type: ignore[return-value]

    def __getstate__(self) -> tuple[NDArray[np.int64], ...]:
        return self.offsets, self.codes, self.counts

    def __setstate__(self, state: tuple[NDArray[np.int64], ...]) -> None:
        self.offsets, self.codes, self.counts = state
        self._memory = {}

    def take(self, chosen: NDArray[np.bool_]) -> Cells:
        """The cells of the chosen classes (a mask over classes)."""
        lengths = np.diff(self.offsets)
        kept = np.repeat(chosen, lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.int64)
        return Cells(offsets, self.codes[kept], self.counts[kept])
