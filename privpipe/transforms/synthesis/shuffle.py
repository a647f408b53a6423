"""Data shuffling: each column's values are reassigned in an order drawn from the rank correlations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from typing_extensions import Doc

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Floats, Ints
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.numeric_columns import (
    RANK_CUT,
    covariance_factor,
    refuse_nulls,
    require_finite,
    require_numeric,
)
from privpipe.transforms.strata import SmallStrata, Strata, checked_by
from privpipe.transforms.synthesis.ranked_values import (
    MidRankSums,
    RankSums,
    dealt_by_rank,
    few_values,
    mid_name,
    mid_ranks_of_groups,
    numbers_of,
    ranks_of_column,
    ranks_within,
    taken_at,
    with_mid_ranks,
)

if TYPE_CHECKING:
    from privpipe.draws import Draws
    from privpipe.kernels.exact_sums import ExactSums
    from privpipe.kernels.synthesis.copula import ValueRanks

__all__ = ["Shuffle", "regression"]

SCORE = "__privpipe_score_"


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle(Transformer):
    """Reassign each column's own values by the ranks of scores drawn given other columns.

    With normal scores s* of the `given` columns and R = 2 sin(pi/6 Spearman): y* = B s* + A z, B = R_XS R_SS^+,
    A A' = R_XX - B R_SX; the record of rank r in y* receives the r-th smallest original value. So the values of a
    record's masked columns are drawn, not its own: beyond the given columns no link is left. Every marginal is exact,
    rank correlations (among masked and with given columns) hold approximately.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates or timestamps.
    given : tuple of str
        Of the same types; without any, values are drawn only from the joint ranks. A record that misses one
        counts as being in its middle.
    nulls : {"keep", "refuse"}
        Missing values of `columns` stay where they are and take no rank.
    by : tuple of str
        Strata: values stay within one.
    small_strata : {"refuse", "suppress", "merge"}

    Examples
    --------
    >>> Shuffle(columns=["income", "savings"], given=["age"])
    Shuffle(columns=('income', 'savings'), given=('age',))
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "the multiset of each column's values; rank correlations approximately"
    reveals = "that each value belongs to someone; rank correlations with the given columns"
    draws_apart = "deals values out by rank, and members of a household would get several"
    source = "Muralidhar, Sarathy, Data shuffling, Management Science 52(5), 2006"

    columns: Annotated[tuple[str, ...], Columns(), Doc("ordered columns to shuffle")]
    given: Annotated[
        tuple[str, ...],
        ColumnNames(),
        Doc("ordered columns whose relation to the shuffled ones is kept; they stay unchanged"),
    ] = ()
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns within whose combinations values are shuffled")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata without records enough: refuse, suppress or merge")] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("Shuffle", self.columns))
        object.__setattr__(self, "given", checked_columns("Shuffle", self.given) if self.given else ())
        object.__setattr__(self, "by", checked_by("Shuffle", self.by, self.columns, self.small_strata))
        both = sorted(set(self.columns) & set(self.given))
        if both:
            raise UsageError(f"Shuffle: {', '.join(map(repr, both))} cannot be both shuffled and given")
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    @property
    def permutes(self) -> bool:
        return True

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        names = (*self.columns, *self.given)
        require_numeric(names, context)
        strata = Strata.learn(engine, table, self.by, self.columns, context, least=2, small=self.small_strata)
        nulls = {column: sum(strata.records) - sum(strata.known[column]) for column in self.columns}
        if self.nulls == "refuse":
            for column, count in nulls.items():
                refuse_nulls(column, count, context)
        sums, constant = self._sums(engine, table, strata, context)
        figures = []
        for number in range(len(strata)):
            state = sums.get(number)
            spearman = np.full((len(names),) * 2, np.nan) if state is None else state.correlation()
            slopes, factor = regression(spearman, len(self.columns))
            figures.append({"slopes": slopes.tolist(), "factor": factor.tolist()})
        detail: dict[str, Any] = {
            "strata": strata.to_dict(),
            "by_stratum": figures,
            "nulls": nulls,
            "warnings": [f"{', '.join(map(repr, constant))}: only one value, unchanged"] if constant else [],
            "confidential": True,
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def _sums(
        self, engine: Primitives, table: Any, strata: Strata, context: StageContext
    ) -> tuple[dict[int, ExactSums], list[str]]:
        """Sums of mid-ranks by stratum, and the columns with only one value."""
        names = (*self.columns, *self.given)
        if few_values(engine, table, names):
            ranks = {name: ranks_of_column(engine, table, name, strata, context.place) for name in names}
            learnt = RankSums(strata, names, ranks, filled=self.given)
            sums = engine.reduce_rows(table, (*strata.by, *names), learnt, Facts()) or {}
            return sums, [name for name in self.columns if all(len(each.values) < 2 for each in ranks[name])]
        require_finite(engine, table, names, context.place)
        if strata.by:
            known = Strata.learn(engine, table, self.by, names, context, least=2, small=self.small_strata).known
            ranked = mid_ranks_of_groups(engine, table, strata, names)
        else:
            known = Strata.learn(engine, table, (), names, context).known
            ranked = with_mid_ranks(engine, table, names)
            context.keep_made(table, ranked)
        middles = {name: [count - 1 for count in known[name]] for name in self.given}
        asked = [mid_name(at) for at in range(len(names))]
        apart = MidRankSums(strata, names, middles)
        sums = engine.reduce_rows(ranked, (*strata.by, *asked), apart, Facts()) or {}
        several = {name for each in sums.values() for at, name in enumerate(names) if each.minima[at] < each.maxima[at]}
        return sums, [name for name in self.columns if name not in several]

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
        figures = plan.detail["by_stratum"]
        if strata.by:
            return engine.map_groups(table, strata.of, _DealtByStratum(self, strata, figures, draws), table.schema)
        if not few_values(engine, table, (*self.columns, *self.given)):
            return self._run_apart(engine, table, strata, _Scored(self, strata, figures, None, draws), context)
        names = (*self.columns, *self.given)
        ranks = {name: ranks_of_column(engine, table, name, strata, context.place)[0] for name in names}
        self._require_known(strata, {name: len(each) for name, each in ranks.items()}, context.place)
        given = _ByValue({name: ranks[name] for name in self.given})
        made = self._scored(engine, table, _Scored(self, strata, figures, given, draws))
        for at, column in enumerate(self.columns):
            written_in_parts = _Reassigned(column, ranks[column])
            made = engine.map_ranked(made, f"{SCORE}{at}", draws.of(column), written_in_parts, made.schema)
        return engine.select(made, list(table.schema.names))

    def _run_apart(self, engine: Primitives, table: Any, strata: Strata, scored: _Scored, context: StageContext) -> Any:
        """Without the values of any column in one place."""
        names = (*self.columns, *self.given)
        ranked = context.made_of(table)
        known = {name: counts[0] for name, counts in Strata.learn(engine, table, (), names, context).known.items()}
        self._require_known(strata, known, context.place)
        if ranked is None:
            ranked = with_mid_ranks(engine, table, names)
        middles = {name: (mid_name(len(self.columns) + at), known[name]) for at, name in enumerate(self.given)}
        made = self._scored(engine, ranked, replace(scored, given=_ByPlace(middles)))
        for at, column in enumerate(self.columns):
            made = dealt_by_rank(engine, made, column, at, f"{SCORE}{at}", scored.draws.of(column))
        return engine.select(made, list(table.schema.names))

    def _scored(self, engine: Primitives, table: Any, scored: _Scored) -> Any:
        import pyarrow as pa

        more = [pa.field(f"{SCORE}{at}", pa.float64()) for at in range(len(self.columns))]
        return engine.map_rows(table, scored, pa.schema([*table.schema, *more]))

    def _require_known(self, strata: Strata, found: Mapping[str, int], place: str) -> None:
        for column in self.columns:
            if (found[column],) != strata.known[column]:
                raise another_table(column, place)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(columns=("income",)), cls(columns=("income", "age"), given=("weight",), by=("zip",))]


def regression(spearman: Floats, masked: int) -> tuple[Floats, Floats]:
    """B and A of y* = B s* + A z, from the rank correlations of the masked columns followed by the given ones.

    Parameters
    ----------
    spearman : ndarray of float64, shape (s, s)
        NaN for a constant column.
    masked : int
        Columns that are drawn.

    Returns
    -------
    B : ndarray of float64, shape (masked, s - masked)
    A : ndarray of float64, shape (masked, masked)

    Examples
    --------
    >>> B, A = regression(np.array([[1.0, 0.5], [0.5, 1.0]]), 1)
    >>> B.round(4).tolist(), (A @ A.T + B @ B.T).round(12).tolist()
    ([[0.5176]], [[1.0]])
    """
    from privpipe.kernels.synthesis.copula import pearson_of_spearman, proper_correlation

    r = proper_correlation(pearson_of_spearman(spearman))
    across, among = r[:masked, masked:], r[masked:, masked:]
    # Collinear columns: a zero eigenvalue that rounding made nonzero must not be inverted.
    slopes = across @ np.linalg.pinv(among, rcond=RANK_CUT, hermitian=True)
    rest = r[:masked, :masked] - slopes @ across.T
    rest = (rest + rest.T) / 2.0
    np.fill_diagonal(rest, np.maximum(np.diag(rest), 0.0))
    return slopes, covariance_factor(rest)


def another_table(column: str, place: str) -> DataError:
    """What is wrong where a column has not the values that were planned for."""
    return DataError(f"{place}: the plan was made for another table: column {column!r} differs")


@dataclass(frozen=True)
class _ByValue:
    """Normal scores of given columns by their values; 0 for a missing one."""

    ranks: Mapping[str, ValueRanks] = field(repr=False)

    def __call__(self, rows: RowBlock, name: str) -> Floats:
        values, nothing = numbers_of(rows, name)
        return np.where(nothing, 0.0, self.ranks[name].scores(values))


@dataclass(frozen=True)
class _ByPlace:
    """Normal scores of given columns by the mid-ranks that are with the records: (hidden column, values) by name."""

    middles: Mapping[str, tuple[str, int]]

    def __call__(self, rows: RowBlock, name: str) -> Floats:
        from privpipe.kernels.synthesis.copula import normal_quantiles

        column, known = self.middles[name]
        nothing = rows.column(column).is_null().to_numpy(zero_copy_only=False)
        places = rows.column(column).fill_null(known - 1).to_numpy(zero_copy_only=False)
        if not known:
            return np.zeros(len(rows))
        return np.where(nothing, 0.0, normal_quantiles(np.asarray((places + 1) / (2 * known), np.float64)))


@dataclass(frozen=True)
class _Scored:
    """Records with a drawn score for each shuffled column; null where the column has no value."""

    stage: Shuffle
    strata: Strata
    figures: Sequence[Mapping[str, Any]]
    given: _ByValue | _ByPlace | None
    draws: Draws = field(repr=False)

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        batch = rows.batch
        for at, scores in enumerate(self.scores(rows, 0)):
            missing = np.isnan(rows[self.stage.columns[at]])
            batch = batch.append_column(f"{SCORE}{at}", pa.array(scores, pa.float64(), mask=missing))
        return RowBlock(batch, rows.record_ids)

    def scores(self, rows: RowBlock, number: int) -> list[Floats]:
        """y* of each shuffled column; drawn for every record, so that a missing value shows nowhere else."""
        normals = [self.draws.of(column).normal(rows.record_ids) for column in self.stage.columns]
        given = [self.given(rows, name) for name in self.stage.given] if self.given else []
        made = []
        for slopes, factors in zip(self.figures[number]["slopes"], self.figures[number]["factor"], strict=True):
            # Added up term by term: a matrix product may round differently from block to block.
            found = np.zeros(len(rows))
            for weight, s in zip(slopes, given, strict=True):
                found += weight * s
            for weight, z in zip(factors, normals, strict=True):
                found += weight * z
            made.append(found)
        return made


@dataclass(frozen=True)
class _Reassigned:
    """Records, ranked by their score, with the value of that rank."""

    column: str
    ranks: ValueRanks = field(repr=False)

    def __call__(self, rows: RowBlock, places: Ints) -> RowBlock:
        found = rows.column(self.column).type
        return rows.replace(self.column, taken_at(self.ranks, places, found))


@dataclass(frozen=True)
class _DealtByStratum:
    """A function of all records of one stratum, whose values and ranks lie before it."""

    stage: Shuffle
    strata: Strata
    figures: Sequence[Mapping[str, Any]]
    draws: Draws = field(repr=False)

    def __call__(self, rows: RowBlock, key: int) -> RowBlock:
        if key < 0:
            return rows.take(np.empty(0, np.int64))
        columns, given = self.stage.columns, self.stage.given
        ranks = dict(zip((*columns, *given), ranks_within(rows, (*columns, *given)), strict=True))
        scored = _Scored(self.stage, self.strata, self.figures, _ByValue(ranks), self.draws)
        made = rows
        for column, score in zip(columns, scored.scores(rows, key), strict=True):
            if len(ranks[column]) != self.strata.known[column][key]:
                raise another_table(column, self.stage.name())
            known = np.flatnonzero(~np.isnan(rows[column]))
            ids = rows.record_ids[known]
            order = known[np.lexsort((ids[:, 1], ids[:, 0], self.draws.of(column).order(ids), score[known]))]
            places = np.full(len(rows), -1, np.int64)
            places[order] = np.arange(len(order))
            made = _Reassigned(column, ranks[column])(made, places)
        return made
