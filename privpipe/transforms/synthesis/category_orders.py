"""The order in which a copula scores the categories of a column: declared, optimal, or by frequency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.errors import DataError
from privpipe.transforms.categories import labelled
from privpipe.transforms.strata import Strata

if TYPE_CHECKING:
    from privpipe.kernels.synthesis.normal_scores import ValueRanks

__all__ = ["Scores", "Scoring", "label_places", "put_in_order"]

Ints = NDArray[np.int64]
Scores = Literal["optimal", "frequency"]
Shares = dict[str, list[dict[str, Any]]]
Tables = dict[tuple[int, int], Ints]
GROUPS = 20
"""Groups of equal counts that numbers are counted in."""
MOST_CODES = 4000
"""Categories and groups of all columns that are counted beside each other; the rarest of a column share one."""
LEAST_CODES = 10


@dataclass(frozen=True)
class Scoring:
    """Orders that the policy declares, and how other columns find theirs."""

    scores: Scores = "optimal"
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def label_places(column: Any, labels: Sequence[str]) -> Ints:
    """Place of each value's label; that of `other` for one folded away, -1 for a missing value or no such label."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = labelled(column)
    found = pc.fill_null(pc.index_in(words, value_set=pa.array(labels, pa.string())), -1)
    places = np.asarray(found.to_numpy(zero_copy_only=False), np.int64)
    if "other" not in labels:
        return places
    folded = (places < 0) & words.is_valid().to_numpy(zero_copy_only=False)
    return np.where(folded, list(labels).index("other"), places)


def put_in_order(
    engine: Primitives,
    table: Any,
    columns: Sequence[str],
    strata: Strata,
    shares: Shares,
    ranks: Mapping[str, list[ValueRanks]],
    scoring: Scoring,
    place: str,
) -> None:
    """Put labels and shares of each stratum in the order of their scores.

    Raises
    ------
    DataError
        Categories that the declared levels lack.
    """
    for name in shares:
        for each in shares[name] if name in scoring.levels else ():
            _reorder(each, _declared(each["labels"], name, scoring.levels[name], place))
    free = [name for name in shares if name not in scoring.levels]
    if scoring.scores == "frequency" or not free or len(columns) < 2:
        return
    coding = _Coding(strata, tuple(columns), shares, ranks, tuple(name in free for name in columns))
    tables = engine.reduce_rows(table, tuple(dict.fromkeys((*strata.by, *columns))), coding, Facts()) or {}
    for number in range(len(strata)):
        for name, order in coding.orders(number, tables.get(number, {})).items():
            _reorder(shares[name][number], order)


def _declared(labels: Sequence[str], name: str, levels: Sequence[str], place: str) -> list[int]:
    """Places of the labels in the order declared; what folding made stands last unless it is declared too."""
    lacking = [label for label in labels if label not in levels and label != "other"]
    if lacking:
        raise DataError(
            f"{place}: levels: {len(lacking)} categories of column {name!r} are not among the {len(levels)} levels "
            "declared for it; name every category in its order"
        )
    known = {label: at for at, label in enumerate(levels)}
    return sorted(range(len(labels)), key=lambda at: known.get(labels[at], len(levels)))


def _reorder(marginal: dict[str, Any], order: Sequence[int]) -> None:
    for key in ("labels", "shares"):
        marginal[key] = [marginal[key][at] for at in order]


@dataclass(frozen=True)
class _Coding:
    """Records of each stratum counted by the codes of pairs of columns, one of which has no order yet."""

    strata: Strata
    columns: tuple[str, ...]
    shares: Shares = field(repr=False)
    ranks: Mapping[str, list[ValueRanks]] = field(repr=False)
    free: tuple[bool, ...]

    @property
    def most(self) -> int:
        """Codes of a column."""
        return max(MOST_CODES // len(self.columns), LEAST_CODES)

    def size(self, name: str, number: int) -> int:
        return min(len(self.shares[name][number]["labels"]), self.most) if name in self.shares else GROUPS

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, Tables]:
        numbers = self.strata.of(block)
        found = {}
        for number in np.unique(numbers[numbers >= 0]).tolist():
            rows = block if not self.strata.by else block.take(np.flatnonzero(numbers == number))
            found[number] = self._counted(rows, number)
        return found

    def merge(self, left: dict[int, Tables], right: dict[int, Tables]) -> dict[int, Tables]:
        merged = dict(left)
        for number, tables in right.items():
            mine = merged.get(number)
            merged[number] = tables if mine is None else {key: mine[key] + each for key, each in tables.items()}
        return merged

    def _counted(self, rows: RowBlock, number: int) -> Tables:
        codes = [self._codes(rows.column(name), name, number) for name in self.columns]
        sizes = [self.size(name, number) for name in self.columns]
        found = {}
        for a in range(len(codes)):
            for b in range(a + 1, len(codes)):
                if self.free[a] or self.free[b]:
                    known = (codes[a] >= 0) & (codes[b] >= 0)
                    cells = (codes[a] * sizes[b] + codes[b])[known]
                    counts = np.bincount(cells, minlength=sizes[a] * sizes[b]).astype(np.int64)
                    found[a, b] = counts.reshape(sizes[a], sizes[b])
        return found

    def _codes(self, column: Any, name: str, number: int) -> Ints:
        from privpipe.kernels.columns.scaled_numbers import scaled_numbers

        if name in self.shares:
            # Labels still stand by frequency where they have no order: the rarest come last and share a code.
            return np.minimum(label_places(column, self.shares[name][number]["labels"]), self.most - 1)
        values, gaps, _ = scaled_numbers(column, name)
        nothing = np.isnan(values) if gaps is None else gaps | np.isnan(values)
        return np.where(nothing, -1, _groups(self.ranks[name][number], values))

    def orders(self, number: int, tables: Tables) -> dict[str, list[int]]:
        """Places of the labels of each column without an order, by optimal scores; ties by frequency."""
        from privpipe.kernels.synthesis.copula import category_scores
        from privpipe.kernels.synthesis.normal_scores import normal_quantiles
        from privpipe.kernels.synthesis.optimal_scores import optimal_scores

        counts, fixed = [], {}
        for at, name in enumerate(self.columns):
            counts.append(self._totals(at, number, tables))
            if name not in self.shares:
                fixed[at] = normal_quantiles((np.arange(GROUPS) + 0.5) / GROUPS)
            elif not self.free[at]:
                fixed[at] = category_scores(self.shares[name][number]["shares"])[: len(counts[at])]
        scores = optimal_scores(tables, counts, fixed)
        found = {}
        for at, name in enumerate(self.columns):
            if self.free[at]:
                places = np.minimum(np.arange(len(self.shares[name][number]["labels"])), max(len(scores[at]) - 1, 0))
                found[name] = np.argsort(scores[at][places], kind="stable").tolist() if len(places) else []
        return found

    def _totals(self, at: int, number: int, tables: Tables) -> Ints:
        """Records of each code in the pair that has most of them."""
        sums = [table.sum(axis=int(at == i)) for (i, j), table in tables.items() if at in (i, j)]
        empty = np.zeros(self.size(self.columns[at], number), np.int64)
        return max(sums, key=lambda each: int(each.sum()), default=empty)


def _groups(ranks: ValueRanks, values: NDArray[Any]) -> Ints:
    """Which of twenty groups of equal counts a value's mid-rank falls into."""
    return (ranks.doubled(values) + 1) * GROUPS // (2 * max(len(ranks), 1))
