"""Classes of combinations at one vector of levels, and those known already from which coarser ones are formed.

The classes of a node are a valid input for every node above it: counts and histograms add, and one combination
shows all labels of its class. Most nodes of a search lie above one that was checked and has a few per cent of the
combinations, so that their classes cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.columns.arrays import read_only
from privpipe.kernels.lattice.cells import earliest, placed, tallied, tallies_merged
from privpipe.kernels.lattice.vectors import smallest_below

__all__ = ["FormedClasses", "KnownClasses"]

ROOM = 1 << 26
"""Bytes of classes remembered, or as many as half the table's codes take; beyond, all are forgotten, since classes
hold on to the finer ones they were formed of."""
MOST = 1024


class FormedClasses:
    """Classes over some keys at a vector of levels.

    Parameters
    ----------
    own : ndarray of int32, shape (n,)
        Class of each finer class, or of each combination.
    sizes : ndarray of int64, shape (classes,)
        Records.
    members : ndarray of int32, shape (classes,)
        A finer class (combination) of each.
    codes : sequence of ndarray, each of shape (n,)
        Packed codes of the finer classes (combinations) in each group of columns.
    finer : FormedClasses, optional
        Default: they are of combinations.
    """

    def __init__(
        self,
        own: NDArray[np.int32],
        sizes: NDArray[np.int64],
        members: NDArray[np.int32],
        codes: Sequence[NDArray[Any]],
        finer: FormedClasses | None = None,
    ) -> None:
        self.own = own
        self.sizes = sizes
        self._members = members
        self._finer_codes = codes
        self._finer = finer
        self._tallies: dict[str, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def codes(self) -> list[NDArray[Any]]:
        """Packed codes of a combination of each class."""
        return [read_only(placed(codes, self._members), codes.dtype) for codes in self._finer_codes]

    @property
    def numbers(self) -> NDArray[np.int32]:
        """Class of each combination, shape (t,); not kept, for it would outweigh the rest."""
        found, finer = self.own, self._finer
        while finer is not None:
            found, finer = placed(found, finer.own), finer._finer
        return found

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The first combination of each class."""
        return self._members if self._finer is None else earliest(self.own, len(self), self._finer.rows)

    def spread(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which combinations are in the chosen classes, shape (t,)."""
        finer = placed(chosen, self.own)
        return finer if self._finer is None else self._finer.spread(finer)

    def tallies(
        self, column: str, codes: NDArray[np.int32], counts: NDArray[np.int64], values: int
    ) -> NDArray[np.int64]:
        """Records of each value of a column in each class, shape (classes, values)."""
        if column not in self._tallies:
            known = None if self._finer is None else self._finer._tallies.get(column)
            self._tallies[column] = (
                tallied(self.numbers, len(self), codes, counts, values)
                if known is None
                else tallies_merged(self.own, len(self), known)
            )
        return self._tallies[column]


class KnownClasses:
    """Classes formed so far over one set of keys; several threads may ask and add.

    Parameters
    ----------
    columns : int
    width : int
        Bytes of what is remembered of a class.
    codes : int
        Bytes of the table's codes.
    """

    def __init__(self, columns: int, width: int, codes: int) -> None:
        self._width = width
        self._room = max(ROOM, codes // 2)
        self._levels = np.empty((MOST, columns), dtype=np.int16)
        self._counts = np.empty(MOST, dtype=np.int64)
        self._formed: list[FormedClasses] = []
        self._bytes = 0
        self._lock = Lock()

    def below(self, levels: NDArray[np.int16]) -> FormedClasses | None:
        """The fewest classes known at levels of which none is above these."""
        with self._lock:
            at = smallest_below(self._levels, self._counts, len(self._formed), levels)
            return None if at < 0 else self._formed[at]

    def remember(self, levels: NDArray[np.int16], formed: FormedClasses) -> None:
        """Keep classes for coarser ones."""
        added = formed.own.nbytes + len(formed) * self._width
        with self._lock:
            if self._bytes + added > self._room or len(self._formed) == MOST:
                self._formed, self._bytes = [], 0
            at = len(self._formed)
            self._levels[at], self._counts[at] = levels, len(formed)
            self._formed.append(formed)
            self._bytes += added
