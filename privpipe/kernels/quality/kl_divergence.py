"""Divergence of the released distribution, spread evenly over what its labels cover, from the original one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.kernels.quality.aggregate import total
from privpipe.kernels.quality.by_column import Floats
from privpipe.kernels.quality.model import Forced
from privpipe.kernels.quality.whole import WholeModel

__all__ = ["KlDivergenceModel"]

ROUNDING = 1e-10
"""Bits by which sums in another order may differ."""


class KlDivergenceModel(WholeModel):
    """sum p log2(p / q) over distinct combinations, in bits; q = (n_c / N) / area_c of its class.

    area_c = prod_j share_j D_j; all suppressed records are one class over the whole domain. Under ``compat: arx`` one
    term a record instead of one a distinct combination. Records with an unknown value are one combination.

    Source: Kifer, Gehrke, SIGMOD 2006.
    """

    def figure(self, levels: Sequence[int], gone: NDArray[np.bool_]) -> float:
        n, lost = float(self.table.records), float(self.records_of(gone))
        numbers, sizes = self.class_sizes(levels, gone)
        area = np.zeros(len(self.table.codes))
        for at, level in enumerate(levels):
            area += self._logs[at][level][self.table.codes[:, at]]
        in_class = sizes[numbers].astype(np.float64)
        area[gone], in_class[gone] = self._whole, lost
        bits = (np.log(self._shares) - np.log(in_class / n) + area) / np.log(2.0)
        found = total(self._weights * bits)
        if self.table.unknown:
            p = self.table.unknown / n
            found += self._times(p) * float(np.log(p) - np.log(lost / n) + self._whole) / float(np.log(2.0))
        return found

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        return self._areas(nodes, np.zeros(len(self.table.codes), dtype=np.bool_))

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return self._areas(nodes, forced.gone)

    def upward_bound(self, levels: Sequence[int]) -> float | None:
        """The figure with nothing suppressed: to merge classes, or to suppress them, spreads no less evenly.

        None under ``compat: arx``, whose terms are no probabilities, and beside records with an unknown value, which
        cover the whole domain already.
        """
        if self.spec.compat or self.table.unknown:
            return None
        return self.figure(levels, np.zeros(len(self.table.codes), dtype=np.bool_)) - ROUNDING

    @cached_property
    def _logs(self) -> list[list[Floats]]:
        return self.logs()

    @cached_property
    def _whole(self) -> float:
        return float(np.log(self.domains).sum())

    @cached_property
    def _shares(self) -> Floats:
        """p of each row's combination: rows that differ in a sensitive value alone are one combination."""
        numbers, sizes = self.class_sizes([0] * len(self.table.columns))
        return np.asarray(sizes[numbers] / self.table.records, dtype=np.float64)

    @cached_property
    def _weights(self) -> Floats:
        """What the bits of each row count."""
        shares = np.asarray(self.table.rows.counts / self.table.records, dtype=np.float64)
        return shares * (self._shares * self.table.records if self.spec.compat else 1.0)

    def _times(self, p: float) -> float:
        return p * p * self.table.records if self.spec.compat else p

    def _areas(self, nodes: NDArray[np.int16], gone: NDArray[np.bool_]) -> Floats:
        """What is sure of the areas alone: no class holds more than all records, none covers more than the domain."""
        unknown = self._times(self.table.unknown / self.table.records)
        rows = np.flatnonzero(~gone)
        weights = self._weights[rows]
        fixed = total(self._weights * np.log(self._shares)) + self._whole * (total(self._weights[gone]) + unknown)
        if self.table.unknown:
            fixed += unknown * float(np.log(self.table.unknown / self.table.records))
        found = np.full(len(nodes), fixed)
        for at, levels in enumerate(self._logs):
            codes = self.table.codes[rows, at]
            found += np.array([total(weights * log[codes]) for log in levels])[nodes[:, at]]
        return np.asarray(found / np.log(2.0) - ROUNDING * (1.0 + self.table.records * bool(self.spec.compat)))
