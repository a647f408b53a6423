"""Non-uniform entropy: bits needed to identify a record's value among those of its label."""

from __future__ import annotations

import numpy as np

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import ColumnModel, Floats, ForcedColumn

__all__ = ["EntropyModel", "MonotonicEntropyModel", "NormalizedEntropyModel", "bits_lost", "code_length"]


def bits_lost(values: Floats, groups: Floats) -> float:
    """sum a log2(b / a): bits lost when a value of a records is replaced by its group of b records.

    Examples
    --------
    >>> bits_lost(np.array([2.0, 2.0, 0.0]), np.array([4.0, 4.0, 4.0]))
    4.0
    """
    seen = values > 0
    return total(values[seen] * np.log2(groups[seen] / values[seen]))


def code_length(counts: Floats) -> float:
    """Bits that identify the value of each record, of so many of each value; never falls when records join.

    Examples
    --------
    >>> code_length(np.array([2.0, 2.0])), code_length(np.zeros(0))
    (4.0, 0.0)
    """
    return bits_lost(counts, np.full(len(counts), counts.sum()))


class EntropyModel(ColumnModel):
    """u = g sum a log2(b / a) + s sum c log2(O / c), in bits.

    a records have a value and b its label, suppressed ones included; of the O suppressed records c have a label.
    Records with an unknown value are suppressed ones with a label of their own.

    Source: De Waal, Willenborg, Netherlands Official Statistics 14, 1999.
    """

    def prepare(self) -> None:
        self._bits = [
            [self._kept(at, level) for level in range(hierarchy.height + 1)]
            for at, hierarchy in enumerate(self.table.hierarchies)
        ]

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self._bits[at][level] + self.spec.s * self._among(at, level, lost)

    def least(self, at: int, level: int) -> float:
        return self._bits[at][level]

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        # Rounding must not lift a bound over the figure it bounds.
        return self._bits[at][level] + (1.0 - 1e-13) * self.spec.s * self._among(at, level, forced.lost)

    def _kept(self, at: int, level: int) -> float:
        values, labels = self.marginals[at], self.table.hierarchies[at].codes(level)
        return self.spec.g * bits_lost(values, np.bincount(labels, weights=values)[labels].astype(np.float64))

    def _among(self, at: int, level: int, lost: Floats) -> float:
        by_label = np.bincount(self.table.hierarchies[at].codes(level), weights=lost)
        return code_length(np.append(by_label, float(self.table.unknown)))


class MonotonicEntropyModel(EntropyModel):
    """The part that suppression does not touch: u = g sum a log2(b / a)."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self._bits[at][level]

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        return self._bits[at][level]


class NormalizedEntropyModel(EntropyModel):
    """Entropy's u by its figure at a single label for all: g sum a log2(N / a); 0 for a constant column."""

    def prepare(self) -> None:
        super().prepare()
        n = self.table.records
        self._most = [self.spec.g * bits_lost(values, np.full(len(values), float(n))) for values in self._values()]

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self._part(at, super().figure(at, level, lost, suppressed))

    def least(self, at: int, level: int) -> float:
        return self._part(at, super().least(at, level))

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        return self._part(at, super().least_below(at, level, forced))

    def _values(self) -> list[Floats]:
        return [np.append(values, float(self.table.unknown)) for values in self.marginals]

    def _part(self, at: int, bits: float) -> float:
        return bits / self._most[at] if self._most[at] > 0 else 0.0
