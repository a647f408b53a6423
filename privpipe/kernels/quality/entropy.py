"""Quality models of information theory: entropies, Kullback-Leibler divergence, the publisher's payout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.blocks.quality_spec import LossSpec
from privpipe.errors import UnsupportedError
from privpipe.kernels.quality.model import SLACK, ColumnModel, Floats, Forced, ForcedColumn, WholeModel, total
from privpipe.kernels.quality.table import CodedTable
from privpipe.tolerance import below

__all__ = [
    "EntropyBasedModel",
    "EntropyModel",
    "KlDivergenceModel",
    "MonotonicEntropyModel",
    "NormalizedEntropyModel",
    "PublisherPayoutModel",
    "bits_lost",
    "code_length",
]


def bits_lost(values: Floats, groups: Floats) -> float:
    """sum a log2(b / a): bits lost when each value, with a records, is replaced by its group of b records.

    Examples
    --------
    >>> bits_lost(np.array([2.0, 2.0, 0.0]), np.array([4.0, 4.0, 4.0]))
    4.0
    """
    seen = values > 0
    return total(values[seen] * np.log2(groups[seen] / values[seen]))


def code_length(counts: Floats) -> float:
    """Bits that identify the value of each record, given the records of each value; never falls when records are added.

    Examples
    --------
    >>> code_length(np.array([2.0, 2.0])), code_length(np.zeros(0))
    (4.0, 0.0)
    """
    return bits_lost(counts, np.full(len(counts), counts.sum()))


class EntropyModel(ColumnModel):
    """u = g sum a log2(b / a) + s sum c log2(O / c), in bits.

    a records have a value and b its label, suppressed ones included; of the O suppressed records c have a label.
    Records with an unknown value are suppressed ones with a separate label.

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
    """The part that suppression does not affect: u = g sum a log2(b / a)."""

    def figure(self, at: int, level: int, lost: Floats, suppressed: int) -> float:
        return self._bits[at][level]

    def least_below(self, at: int, level: int, forced: ForcedColumn) -> float:
        return self._bits[at][level]


class NormalizedEntropyModel(EntropyModel):
    """Entropy's u divided by its figure for a single label, g sum a log2(N / a); 0 for a constant column."""

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


class EntropyBasedModel(WholeModel):
    """sum over kept records g IL + s O, IL = clip(1 + log prod_j share_j / log prod_j D_j, 0, 1); 0 where every D is 1.

    Source: Wan et al., PLoS ONE 10(3), 2015.
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        whole = float(np.log(self.domains).sum())
        self._parts = [[log / whole if whole > 0 else log * 0.0 for log in levels] for levels in self.logs()]
        # A label of less than one value, or of more than there are, adds nothing.
        self._clips = any((log < -1e-12).any() for levels in self._parts for log in levels) or any(
            (share > 1.0 + 1e-12).any() for levels in self.shares for share in levels
        )
        self._sums = [
            np.array([total(self.marginals[at] * part) for part in levels]) for at, levels in enumerate(self._parts)
        ]
        # Without suppression the figure is a sum over columns; otherwise suppression may be cheaper.
        self._kept = spec.g if self.budget <= table.unknown else min(spec.g, spec.s)
        self.closed_form = not self._clips and self._kept == spec.g

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        return self._weighted_sum(self.spec.g, self.lost_by_kept(levels, gone), self.records_of(gone))

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        return self._bound(nodes, self._sums, self.table.unknown)

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        """A certainly suppressed record costs s, which is at least its part of the sum over columns."""
        gone = np.flatnonzero(forced.gone)
        left = []
        for at, levels in enumerate(self._parts):
            kept = self.marginals[at] - self.marginal(at, gone)
            left.append(np.array([total(kept * part) for part in levels]))
        return self._bound(nodes, left, self.records_of(forced.gone)) * SLACK

    def lost_by_kept(self, levels: Sequence[int], gone: Bools) -> float:
        """Sum of IL over kept records."""
        if self._clips:
            return total(np.where(gone, 0, self.table.rows.counts) * self.lost_by_each(levels))
        rows, found = np.flatnonzero(gone), 0.0
        for at, level in enumerate(levels):
            found += total((self.marginals[at] - self.marginal(at, rows)) * self._parts[at][level])
        return found

    def lost_by_each(self, levels: Sequence[int]) -> Floats:
        """IL of each combination."""
        each = np.zeros(len(self.table.codes))
        for at, level in enumerate(levels):
            each += self._parts[at][level][self.table.codes[:, at]]
        return np.clip(each, 0.0, 1.0)

    def _bound(self, nodes: NDArray[np.int16], sums: Sequence[Floats], suppressed: int) -> Floats:
        kept = np.zeros(len(nodes))
        if not self._clips:
            for at, figures in enumerate(sums):
                kept = kept + figures[nodes[:, at]]
        bound = np.asarray(self._weighted_sum(self._kept, kept, suppressed), dtype=np.float64)
        return bound if self.closed_form else bound * SLACK

    def _weighted_sum(self, factor: float, kept: Floats | float, suppressed: int) -> float:
        weighted: float = factor * kept + self.spec.s * suppressed  # type: ignore[assignment]
        return weighted


ROUNDING = 1e-10
"""Bits by which sums in another order may differ."""


class KlDivergenceModel(WholeModel):
    """sum p log2(p / q) over distinct combinations, in bits; q = (n_c / N) / area_c of its class.

    area_c = prod_j share_j D_j; all suppressed records are one class over the whole domain. Under ``compat: arx`` one
    term per record instead of one per distinct combination. Records with an unknown value are one combination.

    Source: Kifer, Gehrke, SIGMOD 2006.
    """

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
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
        """The figure with nothing suppressed: merging or suppressing classes never spreads records less evenly.

        None under ``compat: arx``, whose terms are not probabilities, and for records with an unknown value, which
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
        """p of each row's combination: rows that differ only in a sensitive value are one combination."""
        numbers, sizes = self.class_sizes([0] * len(self.table.columns))
        return np.asarray(sizes[numbers] / self.table.records, dtype=np.float64)

    @cached_property
    def _weights(self) -> Floats:
        """Weight of the bits of each row."""
        shares = np.asarray(self.table.rows.counts / self.table.records, dtype=np.float64)
        return shares * (self._shares * self.table.records if self.spec.compat else 1.0)

    def _times(self, p: float) -> float:
        return p * p * self.table.records if self.spec.compat else p

    def _areas(self, nodes: NDArray[np.int16], gone: Bools) -> Floats:
        """A bound from the areas only: no class has more than all records, none covers more than the domain."""
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


class PublisherPayoutModel(EntropyBasedModel):
    """sum over kept classes g n_c (B - pay_c) + s O B, pay_c = B (1 - IL_c) - [gain p_c - cost > 0] loss p_c.

    p_c = 1 / n_c for a prosecutor; for a journalist 1 / records of the class in the population, which the table must
    provide (`population_counts`: for each combination, at given levels).

    Source: Wan et al., PLoS ONE 10(3), 2015.
    """

    def __init__(self, table: CodedTable, spec: LossSpec, budget: int | None = None, least_class: int = 1) -> None:
        super().__init__(table, spec, budget, least_class)
        self.closed_form = False
        self._benefit, self._loss = spec.publisher_benefit or 0.0, spec.publisher_loss or 0.0
        self._gain, self._cost = spec.adversary_gain or 0.0, spec.adversary_cost or 0.0
        self._crowds: Callable[[Sequence[int]], Ints] | None = None
        if spec.attacker == "journalist":
            self._crowds = getattr(table, "population_counts", None)
            if self._crowds is None:
                raise UnsupportedError(
                    "loss.attacker: a journalist needs a population, and none is counted here; use prosecutor"
                )

    def figure(self, levels: Sequence[int], gone: Bools) -> float:
        lost = self._benefit * self.lost_by_kept(levels, gone) + self._attacks(levels, gone)
        return self.spec.g * lost + self.spec.s * self._benefit * self.records_of(gone)

    def payout(self, levels: Sequence[int], gone: Bools) -> float:
        """sum over kept classes n_c pay_c."""
        kept = self.table.records - self.records_of(gone)
        return self._benefit * (kept - self.lost_by_kept(levels, gone)) - self._attacks(levels, gone)

    def least(self, nodes: NDArray[np.int16]) -> Floats:
        """The bound without any attack."""
        return super().least(nodes) * self._benefit

    def least_below(self, nodes: NDArray[np.int16], forced: Forced) -> Floats:
        return super().least_below(nodes, forced) * self._benefit

    def _attacks(self, levels: Sequence[int], gone: Bools) -> float:
        """Cost of attacks on kept classes."""
        numbers, sizes = self.class_sizes(levels, gone)
        crowd = sizes.astype(np.float64)
        if self._crowds is not None:
            crowd[numbers] = self._crowds(levels)
        kept = sizes > 0
        sizes, crowd = sizes[kept], np.maximum(crowd[kept], 1.0)
        attacked = below(self._cost, self._gain / crowd)
        return float(np.cumsum(np.append(0.0, np.where(attacked, self._loss * sizes / crowd, 0.0)))[-1])
