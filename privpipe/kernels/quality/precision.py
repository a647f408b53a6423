"""Sweeney's precision, and its part that suppression does not touch."""

from __future__ import annotations

import numpy as np

from privpipe.kernels.quality.by_column import ColumnModel, Floats, ForcedColumn

__all__ = ["MonotonicPrecisionModel", "PrecisionModel"]


class PrecisionModel(ColumnModel):
    """Height of a label in its hierarchy: u = ((N - O) g v / h + O s) / N; v / h is 0 for a hierarchy without levels.

    Source: Sweeney, IJUFKS 10(5), 2002.
    """

    def prepare(self) -> None:
        # Linear in the number of suppressed records: least where none goes, unless suppression is the cheaper way.
        self.closed_form = self.spec.s >= self.spec.g or self.budget <= self.table.unknown

    def figure(self, at: int, level: int, lost: Floats, suppressed: float) -> float:
        n = self.table.records
        return ((n - suppressed) * (self.spec.g * self._ratio(at, level)) + suppressed * self.spec.s) / n

    def least(self, at: int, level: int) -> float:
        return self._between(at, level, self.table.unknown)

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        return self._between(at, level, min(forced.records, float(self.table.records)))

    def _between(self, at: int, level: int, least: float) -> float:
        """The lesser of the figures with so many suppressed at the least, and with as many as may be."""
        none = np.zeros(0)
        if self.closed_form:
            return self.figure(at, level, none, least)
        most = max(least, float(min(self.budget, self.table.records)))
        return min(self.figure(at, level, none, least), self.figure(at, level, none, most))

    def _ratio(self, at: int, level: int) -> float:
        height = self.table.hierarchies[at].height
        return level / height if height else 0.0


class MonotonicPrecisionModel(PrecisionModel):
    """u = v / h, whatever is suppressed."""

    def prepare(self) -> None:
        self.closed_form = True

    def figure(self, at: int, level: int, lost: Floats, suppressed: float) -> float:
        return self._ratio(at, level)
