"""A Gaussian copula learnt on an engine: orders of categories, marginals and score correlations of each stratum, as
plain JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.errors import DataError
from privpipe.roles import column_type_of
from privpipe.transforms.categories import Labels, in_value_order, labelled
from privpipe.transforms.numeric_columns import covariance_factor, require_summable
from privpipe.transforms.strata import PersonCounts, Strata
from privpipe.transforms.synthesis.ranked_values import ranks_of_column
from privpipe.transforms.synthesis.stratum_counts import holders_of_labels, holders_of_numbers

if TYPE_CHECKING:
    from privpipe.kernels.exact_sums import ExactSums
    from privpipe.kernels.synthesis.copula import ValueRanks
    from privpipe.kernels.synthesis.value_cells import ValuePersons

__all__ = [
    "FEWEST",
    "PRESENT",
    "Folding",
    "Scores",
    "Scoring",
    "is_category",
    "label_places",
    "learn_models",
    "put_in_order",
    "shares_of",
]


Scores = Literal["optimal", "frequency"]
Shares = dict[str, list[dict[str, Any]]]
Tables = dict[tuple[int, int], Ints]
GROUPS = 20
"""Groups of equal counts that numbers are counted in."""
MOST_CODES = 4000
"""Categories and groups of all columns that are counted next to each other; the rarest of a column share one."""
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
    """Places of the labels in the declared order; the label of folded ones is last unless it is declared too."""
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
        return {number: self._counted(rows, number) for number, rows in self.strata.parts(block)}

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
        from privpipe.kernels.columns.cell_words import scaled_numbers

        if name in self.shares:
            # Labels without an order are still by frequency: the rarest come last and share a code.
            return np.minimum(label_places(column, self.shares[name][number]["labels"]), self.most - 1)
        values, gaps, _ = scaled_numbers(column, name)
        nothing = np.isnan(values) if gaps is None else gaps | np.isnan(values)
        return np.where(nothing, -1, _groups(self.ranks[name][number], values))

    def orders(self, number: int, tables: Tables) -> dict[str, list[int]]:
        """Places of the labels of each column without an order, by optimal scores; ties by frequency."""
        from privpipe.kernels.synthesis.copula import category_scores, normal_quantiles, optimal_scores

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


CLIPPED_AT = 1e-9
FEWEST = 5
"""Records of a number at least that is released unchanged, whatever `min_count` says."""
MISSING, PRESENT = "missing", "present"


@dataclass(frozen=True)
class Folding:
    """What becomes of rare categories, and how fine a number's histogram is; `persons` are counted where there are."""

    bins: int
    max_categories: int
    min_count: int
    rare: str
    model_nulls: bool
    persons: PersonCounts


def is_category(found: Any) -> bool:
    """Whether a column of this Arrow type is modelled by shares."""
    return column_type_of(found) in ("text", "boolean")


def learn_models(
    engine: Primitives,
    table: Any,
    columns: Sequence[str],
    strata: Strata,
    folding: Folding,
    scoring: Scoring,
    place: str,
) -> list[dict[str, Any]]:
    """The model of each stratum: `columns` (marginals by name), `latent` (columns with scores) and `factor` (A)."""
    schema = table.schema
    ranks: dict[str, list[ValueRanks]] = {}
    holders: dict[str, list[ValuePersons | None]] = {}
    shares: dict[str, list[dict[str, Any]]] = {}
    for name in columns:
        if is_category(schema.field(name).type):
            shares[name] = shares_of(engine, table, name, strata, folding)
        else:
            ranks[name] = ranks_of_column(engine, table, name, strata, place)
            for each in ranks[name]:
                if len(each):
                    require_summable(name, float(each.values[0]), float(each.values[-1]), place)
            values = [each.values for each in ranks[name]]
            holders[name] = holders_of_numbers(engine, table, name, strata, values, folding.persons)
    put_in_order(engine, table, columns, strata, shares, ranks, scoring, place)
    models: list[dict[str, Any]] = []
    for number in range(len(strata)):
        marginals: dict[str, dict[str, Any]] = {}
        for name in columns:
            if name in shares:
                marginal = shares[name][number]
            else:
                marginal = _cells(ranks[name][number], holders[name][number], folding)
            n = strata.records[number]
            marginal["missing"] = (n - strata.known[name][number]) / n if n else 0.0
            marginals[name] = marginal
        models.append({"records": strata.records[number], "columns": marginals, "latent": _latent(marginals, folding)})
    scored = _ScoreSums(strata, tuple(columns), ranks, [model["columns"] for model in models], folding.model_nulls)
    sums = engine.reduce_rows(table, (*strata.by, *columns), scored, Facts()) or {}
    for number, model in enumerate(models):
        own = {name: each[number] for name, each in ranks.items()}
        terms = [_terms(name, what, model["columns"][name], own.get(name)) for name, what in model["latent"]]
        model["factor"] = _factor(sums.get(number, {}), terms).tolist()
    return models


def _cells(ranks: ValueRanks, persons: ValuePersons | None, folding: Folding) -> dict[str, Any]:
    """Cells of a number, which keep mean and variance of its tails, with the share of each."""
    from privpipe.kernels.synthesis.value_cells import ValueCells

    if not len(ranks):
        return {"shares": []}
    cells = ValueCells.of(ranks, folding.bins, max(folding.min_count, FEWEST), persons=persons)
    counts = np.bincount(cells.cells(ranks.values), weights=np.diff(ranks.offsets), minlength=len(cells))
    return {"cells": cells.to_dict(), "shares": (counts / len(ranks)).tolist()}


def shares_of(engine: Primitives, table: Any, name: str, strata: Strata, folding: Folding) -> list[dict[str, Any]]:
    """Labels of a column in each stratum with their shares, the most frequent first; rare ones folded or left out."""
    distinct = in_value_order(engine.distinct(table, (*strata.by, name)).combine_chunks(), (name,))
    counts = distinct["__count"].to_numpy().astype(np.int64)
    numbers = strata.of_distinct(distinct)
    words = labelled(distinct[name].combine_chunks())
    other = folding.rare if column_type_of(distinct[name].type) == "text" else "drop"
    texts = words.drop_null().unique()
    held = holders_of_labels(engine, table, name, strata, texts, folding.persons)
    places = dict(zip(texts.to_pylist(), range(len(texts)), strict=True))
    found = []
    for number in range(len(strata)):
        here = numbers == number
        labels, totals = Labels.counted(words.filter(here), counts[here])
        counted = list(zip(labels.texts, totals.tolist(), strict=True))
        found.append(_folded(counted, _Holding(dict(counted), held[number], places), folding, other))
    return found


@dataclass(frozen=True)
class _Holding:
    """The number of persons with these labels, or of records where no persons are distinguished."""

    counts: Mapping[str, int]
    persons: ValuePersons | None
    places: Mapping[str, int]

    def number(self, labels: Sequence[str]) -> int:
        if self.persons is None:
            return sum(self.counts[label] for label in labels)
        return self.persons.number(np.array([self.places[label] for label in labels], np.int64))


def _folded(counted: list[tuple[str, int]], holding: _Holding, folding: Folding, other: str) -> dict[str, Any]:
    ordered = sorted(counted, key=lambda each: -each[1])
    kept = [each for each in ordered[: folding.max_categories] if holding.number(each[:1]) >= folding.min_count]
    rest = sum(count for _, count in ordered) - sum(count for _, count in kept)
    labels, counts = [label for label, _ in kept], [count for _, count in kept]
    away = [label for label, _ in ordered if label not in set(labels)]
    if other == "other" and holding.number(away) >= folding.min_count:
        if "other" in labels:
            counts[labels.index("other")] += rest
        else:
            labels.append("other")
            counts.append(rest)
    total = sum(counts)
    return {"labels": labels, "shares": [count / total for count in counts]}


def _latent(marginals: Mapping[str, Mapping[str, Any]], folding: Folding) -> list[list[str]]:
    """Names of the scores: a column's values, and, if they are modelled, its gaps."""
    found = [[name, PRESENT] for name in marginals]
    if folding.model_nulls:
        found += [[name, MISSING] for name, marginal in marginals.items() if 0 < marginal["missing"] < 1]
    return found


def _terms(name: str, what: str, marginal: Mapping[str, Any], ranks: ValueRanks | None) -> Floats:
    """Series of the scores of a latent variable: of a gap, of a number's values, or of categories."""
    from privpipe.kernels.synthesis.copula import interval_terms

    if what == MISSING:
        return interval_terms([marginal["missing"], 1.0 - marginal["missing"]])
    if ranks is not None:
        return interval_terms(np.diff(ranks.offsets) / max(len(ranks), 1))
    return interval_terms(marginal["shares"])


def _factor(sums: Mapping[tuple[int, ...], ExactSums], terms: Sequence[Floats]) -> Floats:
    """A of the correlations under which scores correlate as they do in the table."""
    from privpipe.kernels.synthesis.copula import latent_correlation, proper_correlation

    s = len(terms)
    correlation = np.eye(s)
    for places, state in sums.items():
        found = np.nan_to_num(state.correlation(), nan=0.0)
        for i, a in enumerate(places):
            for j, b in enumerate(places):
                if a != b:
                    correlation[a, b] = found[i, j]
    for a in range(s - 1):
        others = np.stack(terms[a + 1 :])
        latent = latent_correlation(correlation[a, a + 1 :], np.broadcast_to(terms[a], others.shape), others)
        correlation[a, a + 1 :] = correlation[a + 1 :, a] = latent
    return covariance_factor(proper_correlation(correlation, CLIPPED_AT))


@dataclass(frozen=True)
class _ScoreSums:
    """Exact sums and products of scores by stratum: jointly over the columns without gaps, else pair by pair."""

    strata: Strata
    columns: tuple[str, ...]
    ranks: Mapping[str, list[ValueRanks]] = field(repr=False)
    marginals: list[Mapping[str, Any]] = field(repr=False)
    model_nulls: bool

    def measure(self, block: RowBlock, facts: Facts) -> dict[int, dict[tuple[int, ...], ExactSums]]:
        return {number: self._sums(rows, number) for number, rows in self.strata.parts(block)}

    def merge(
        self,
        left: dict[int, dict[tuple[int, ...], ExactSums]],
        right: dict[int, dict[tuple[int, ...], ExactSums]],
    ) -> dict[int, dict[tuple[int, ...], ExactSums]]:
        merged = {number: dict(states) for number, states in left.items()}
        for number, states in right.items():
            mine = merged.setdefault(number, {})
            for key, state in states.items():
                mine[key] = mine[key].merge(state) if key in mine else state
        return merged

    def _sums(self, rows: RowBlock, number: int) -> dict[tuple[int, ...], ExactSums]:
        from privpipe.kernels.exact_sums import measure_sums

        marginals = self.marginals[number]
        scores = [self._scores(rows, name, number) for name in self.columns]
        # Which pairs are summed must not depend on the block: a folded category is a gap too.
        whole = [at for at, name in enumerate(self.columns) if self._is_whole(marginals[name])]
        if self.model_nulls:
            for name in self.columns:
                if 0 < marginals[name]["missing"] < 1:
                    whole.append(len(scores))
                    scores.append(_gap_scores(rows, name, marginals[name]["missing"]))
        found = {tuple(whole): measure_sums([scores[at] for at in whole])} if len(whole) > 1 else {}
        for a in range(len(scores)):
            for b in range(a + 1, len(scores)):
                if a not in whole or b not in whole:
                    found[a, b] = measure_sums([scores[a], scores[b]])
        return found

    def _is_whole(self, marginal: Mapping[str, Any]) -> bool:
        return not marginal["missing"] and "labels" not in marginal

    def _scores(self, rows: RowBlock, name: str, number: int) -> Floats:
        """Score of each value; NaN where there is none."""
        from privpipe.kernels.columns.cell_words import scaled_numbers
        from privpipe.kernels.synthesis.copula import category_scores

        column = rows.column(name)
        if name in self.ranks:
            values, gaps, _ = scaled_numbers(column, name)
            nothing = np.isnan(values) if gaps is None else gaps | np.isnan(values)
            return np.where(nothing, np.nan, self.ranks[name][number].scores(values))
        labels = self.marginals[number][name]["labels"]
        if not labels:
            return np.full(len(rows), np.nan)
        places = label_places(column, labels)
        scores = category_scores(self.marginals[number][name]["shares"])
        return np.where(places < 0, np.nan, scores[places])


def _gap_scores(rows: RowBlock, name: str, share: float) -> Floats:
    import pyarrow.compute as pc

    from privpipe.kernels.synthesis.copula import category_scores

    missing = pc.is_null(rows.column(name), nan_is_null=True).to_numpy(zero_copy_only=False)
    return np.asarray(category_scores([share, 1.0 - share])[np.where(missing, 0, 1)])
