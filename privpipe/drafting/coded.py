"""The columns of a table as codes in memory: what depends on what, and what makes records unique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CodedTable", "coded_table", "whole_groups"]

FIRST = 2_000
"""Records that most pairs of columns are told apart by, before all of them are looked at."""
SAMPLE_KEY = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class CodedTable:
    """Columns of one table as codes from 0; a missing value is one more.

    Parameters
    ----------
    codes : mapping of column to ndarray of int32, shape (records,)
    sizes : mapping of column to int
        Distinct values, a missing one too.

    Examples
    --------
    >>> codes = {"town": np.array([0, 1, 2, 2]), "region": np.array([0, 0, 1, 1])}
    >>> table = CodedTable(codes, {"town": 3, "region": 2})
    >>> table.follows("region", "town"), table.follows("town", "region"), table.unique(["town"])
    (True, False, 0.5)
    """

    codes: Mapping[str, NDArray[Any]]
    sizes: Mapping[str, int]
    _joint: dict[tuple[str, ...], NDArray[np.int64]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def records(self) -> int:
        """How many there are."""
        return len(next(iter(self.codes.values()))) if self.codes else 0

    def follows(self, coarse: str, fine: str) -> bool:
        """Whether the one column is a function of the other."""
        head = slice(0, FIRST)
        if not self._functional(self.codes[fine][head], self.codes[coarse][head], coarse):
            return False
        return self._functional(self.codes[fine], self.codes[coarse], coarse)

    def _functional(self, fine: NDArray[Any], coarse: NDArray[Any], name: str) -> bool:
        pairs = np.unique(fine.astype(np.int64) * self.sizes[name] + coarse)
        return len(pairs) == len(np.unique(fine))

    def bound(self, coarse: str, fine: str) -> float:
        """Pairs of records equal in the finer column that a chance would have made differ in the coarser one."""
        counts = np.bincount(self.codes[coarse])
        total = int(counts.sum())
        alike = float((counts / total) @ (counts / total)) if total else 1.0
        groups = np.bincount(self.codes[fine])
        return float((groups[groups > 0] - 1).sum()) * (1 - alike)

    def unique(self, columns: Sequence[str]) -> float:
        """Share of records that are alone with their values."""
        if not columns or not self.records:
            return 0.0
        counts = np.bincount(self._together(tuple(sorted(columns))))
        return float((counts == 1).sum() / self.records)

    def risk(self, columns: Sequence[str]) -> float:
        """Mean over the records of one over the number of those with the same values."""
        if not columns or not self.records:
            return 0.0
        return int(np.count_nonzero(np.bincount(self._together(tuple(sorted(columns)))))) / self.records

    def _together(self, columns: tuple[str, ...]) -> NDArray[np.int64]:
        found = self._joint.get(columns)
        if found is None:
            last = self.codes[columns[-1]].astype(np.int64)
            if len(columns) == 1:
                return last
            both = self._together(columns[:-1]) * self.sizes[columns[-1]] + last
            found = np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64)
            self._joint[columns] = found
        return found


def coded_table(table: Any, names: Sequence[str]) -> CodedTable:
    """Columns of an Arrow table as codes."""
    codes, sizes = {}, {}
    for name in names:
        found = table.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes[name] = found.indices.to_numpy(zero_copy_only=False).astype(np.int32)
        sizes[name] = max(len(found.dictionary), 1)
    return CodedTable(codes, sizes)


def whole_groups(key: NDArray[Any], share: float) -> NDArray[np.bool_]:
    """Which records are in a sample of about that share of all groups: each group whole, or not at all.

    Parameters
    ----------
    key : ndarray of int, shape (records,)
        The group of each.

    Examples
    --------
    >>> kept = whole_groups(np.repeat(np.arange(1000), 3), 0.5)
    >>> groups = kept.reshape(-1, 3)
    >>> bool((groups.min(axis=1) == groups.max(axis=1)).all()), bool(1200 < kept.sum() < 1800)
    (True, True)
    """
    mixed = key.astype(np.uint64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(SAMPLE_KEY)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(mixed < np.uint64(min(int(share * 2**64), 2**64 - 1)))
