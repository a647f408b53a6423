"""Rank swapping: values of a column are exchanged within a window of ranks, or at random over all ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from annotated_types import Ge, Gt, Le, Lt
from numpy.typing import NDArray
from typing_extensions import Doc

from privpipe.blocks import Facts, FactsRequest, Primitives, RankExchange
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.roles import column_type_of
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.numeric_columns import masked_schema, refuse_nulls, require_numeric
from privpipe.transforms.strata import SmallStrata, Strata, checked_by
from privpipe.transforms.swapping.segment_swap import (
    SegmentPermutation,
    SortedValues,
    Swapped,
    SwappedStrata,
    WholePermutation,
    is_beyond_driver,
    tails,
)
from privpipe.transforms.swapping.swap_window import (
    TAIL,
    Averaged,
    ChosenWindow,
    TailBorders,
    TailsRemoved,
    chosen_windows,
    refuse_dates,
    require_one_window,
    tail_borders,
    tail_means,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws, Stream

__all__ = ["RankSwap"]

MOST_RANKS = 500_000_000
"""Ranks of one segment that the driver computes a permutation for: 2 GB of it."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RankSwap(Transformer):
    """Exchange values between records whose ranks are at most floor(p n) apart, or a chosen window, column by column.

    The multiset of values of each column is unchanged (except tails, replaced by their mean), so means,
    variances and all marginals are exact; correlations fall with p. Nulls stay where they are and take no rank.

    Parameters
    ----------
    columns : tuple of str
        Numbers, decimals, dates or timestamps.
    p : float
        Window as a FRACTION of the records with a value, in (0, 1]; at least one rank wide. `buckets` needs none.
    keep_correlation : float, optional
        Instead, of kind window: the widest window with which a column and its swapped self are expected to have this
        correlation, in (0, 1); with tails, that of the values between them. Measured on 32,768 records at most.
    keep_mean : float, optional
        Instead, of kind window: the widest window with which the mean of N random records changes by at most
        2 keep_mean / sqrt(N) of itself, in 95 of 100 cases; 0.05 is 5 %. Of numbers only.
    partner : {"unswapped", "content", "skip"}
        What happens when the drawn partner has been swapped before: it is not drawn; its content is exchanged
        again; the record keeps its value.
    kind : {"window", "buckets", "distribution"}
        window: partners at most floor(p n) ranks apart. buckets: the partner's bucket of ranks is drawn, the same or
        the next with 1/2, 1/4, ...; distribution: the displacement is normal with mean and deviation p n / 2. With
        these two every rank can be reached, so no window discloses a record; one segment always.
    buckets : int
        Of kind buckets, 2 to 1000.
    top, bottom : float
        Fraction in [0, 0.5) of the largest and smallest values, replaced by their mean instead (ties at the
        border join them).
    segment : int or "auto", optional
        Ranks of a segment, across whose border no records are paired; None: one segment.
    nulls : {"keep", "refuse"}
    by : tuple of str
        Strata: values change places within one only, and p is of its records.
    small_strata : {"refuse", "suppress", "merge"}
        A stratum whose window would be empty (or that has one value) is an error, goes, or joins other small ones.

    Notes
    -----
    Anyone who knows the window can narrow a record down to the window (Nin, Herranz, Torra, DKE 64, 2008).

    Examples
    --------
    >>> RankSwap(columns=("income",), p=0.05)
    RankSwap(columns=('income',), p=0.05)
    """

    taxon = "perturbative"
    needs_draws = True
    preserves = "the multiset of each column's values; displacement of at most the window of ranks"
    reveals = "for a known value, the window of ranks its record must be in"
    draws_apart = "exchanges values of single records by rank, and members of a household would take those of several"
    source = (
        "Moore, Controlled data-swapping techniques for masking public use microdata sets, US Census Bureau, "
        "1996; Nin, Herranz, Torra, DKE 64(1), 2008"
    )

    columns: Annotated[tuple[str, ...], Columns(), Doc("ordered columns, each swapped by itself")]
    p: Annotated[float | None, Gt(0), Le(1), Doc("window as a fraction of the records (0.05 is 5 %)")] = None
    keep_correlation: Annotated[
        float | None, Gt(0), Lt(1), Doc("instead of p: the correlation of a column and its swapped self to keep")
    ] = None
    keep_mean: Annotated[
        float | None, Gt(0), Doc("instead of p: the change of a mean of N records to stay within, times sqrt(N) / 2")
    ] = None
    partner: Annotated[
        Literal["unswapped", "content", "skip"],
        Doc("what to do when a partner was swapped before: unswapped, content or skip"),
    ] = "unswapped"
    kind: Annotated[
        Literal["window", "buckets", "distribution"],
        Doc("window (at most floor(p n) ranks away), buckets or distribution (any rank, near ones likelier)"),
    ] = "window"
    buckets: Annotated[int, Ge(2), Le(1000), Doc("number of buckets of kind buckets, 2 to 1000")] = 10
    top: Annotated[float, Ge(0), Lt(0.5), Doc("fraction of the largest values to replace by their mean")] = 0.0
    bottom: Annotated[float, Ge(0), Lt(0.5), Doc("fraction of the smallest values to replace by their mean")] = 0.0
    segment: Annotated[
        Annotated[int, Ge(2)] | Literal["auto"] | None,
        Doc("ranks of a segment: auto, a number, or null for one segment"),
    ] = "auto"
    nulls: Annotated[Literal["keep", "refuse"], Doc("keep leaves missing values; refuse makes them an error")] = "keep"
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns within whose combinations values are swapped")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata without records enough: refuse, suppress or merge")] = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.p, int | float) and self.p > 1:
            raise UsageError(f"RankSwap: p is a fraction of the records in (0, 1], got {self.p!r}; 5 % is p: 0.05")
        super().__post_init__()
        object.__setattr__(self, "columns", checked_columns("RankSwap", self.columns))
        object.__setattr__(self, "by", checked_by("RankSwap", self.by, self.columns, self.small_strata))
        require_one_window(self)
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def uncounted_persons(self) -> str:
        if not (self.top or self.bottom):
            return ""
        return "top and bottom replace shares of the records, not of the persons; use top_code or bottom_code instead"

    @property
    def permutes(self) -> bool:
        return not (self.top or self.bottom)

    @property
    def keeps(self) -> bool:
        """Whether the window follows from a statistic to be kept."""
        return self.keep_correlation is not None or self.keep_mean is not None

    @property
    def least(self) -> int:
        """Values that a column of a stratum needs: two, or a window of one rank."""
        if self.kind == "buckets" or self.p is None:
            return 2
        few = max(int(1 / self.p) - 2, 2)
        return next(n for n in range(few, few + 6) if floor_share(self.p, n) >= 1)

    def request(self, context: StageContext) -> FactsRequest:
        require_numeric(self.columns, context)
        if self.keep_mean is not None:
            refuse_dates(self.columns, context)
        # Tails want the values themselves; swapping wants their number, and that none is infinite.
        floats = {name for name in self.columns if column_type_of(context.schema.field(name).type) == "number"}
        return FactsRequest(
            histograms=self.columns if self.top or self.bottom else (),
            moments=tuple(name for name in self.columns if name in floats),
            nulls=tuple(name for name in self.columns if name not in floats),
        )

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        if not self.by:
            looks = self.keeps or self.top or self.bottom
            return (self._learn_looking if looks else super().learn)(engine, table, context)
        require_numeric(self.columns, context)
        facts = engine.facts(table, self.request(context))
        if self.nulls == "refuse":
            for column in self.columns:
                refuse_nulls(column, _missing(facts, column), context)
        strata = Strata.learn(engine, table, self.by, self.columns, context, least=self.least, small=self.small_strata)
        for column in self.columns:
            largest = max(strata.known[column], default=0)
            self._require_served(column, largest, largest, self.window(largest), context.place)
        columns = {
            column: {
                "records": sum(strata.known[column]),
                "nulls": _missing(facts, column),
                "window": [self.window(n) for n in strata.known[column]],
                **self._displaced(max(strata.known[column], default=0)),
            }
            for column in self.columns
        }
        detail = {"columns": columns, "strata": strata.to_dict()}
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def plan(self, facts: Facts, context: StageContext) -> StagePlan:
        return self._plan(facts, context, {}, {})

    def _plan(
        self,
        facts: Facts,
        context: StageContext,
        known: Mapping[str, tuple[int, int]],
        chosen: Mapping[str, ChosenWindow],
    ) -> StagePlan:
        detail = {
            column: self._column_plan(column, facts, context, known.get(column), chosen.get(column))
            for column in self.columns
        }
        return StagePlan(name=self.name(), parameters=self.parameters(), detail={"columns": detail})

    def _learn_looking(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        """A plan for tails, which of a near-unique column are found without a histogram, and for chosen windows."""
        request = self.request(context)
        facts = engine.facts(table, replace(request, histograms=()))
        chosen = chosen_windows(engine, table, self) if self.keeps else {}
        known = {}
        for column in self.columns if self.top or self.bottom else ():
            n = facts.records - _missing(facts, column)
            window = chosen[column].among(n) if chosen else self.window(n)
            if self._goes_by_rank(engine, table, column, n, window):
                borders = self._borders(engine, table, column, n)
                known[column] = borders.bottom, borders.top
        rest = tuple(column for column in request.histograms if column not in known)
        if rest:
            histograms = engine.facts(table, FactsRequest(histograms=rest)).histograms
            facts = replace(facts, histograms=histograms)
        return self._plan(facts, context, known, chosen)

    def _borders(self, engine: Primitives, table: Any, column: str, n: int) -> TailBorders:
        return tail_borders(engine, table, column, n, floor_share(self.bottom, n), floor_share(self.top, n))

    def window(self, n: int) -> int:
        """floor(p n), 0 for buckets."""
        return 0 if self.p is None or self.kind == "buckets" else floor_share(self.p, n)

    def _displaced(self, n: int) -> dict[str, Any]:
        """What a kind without a window says instead of it."""
        if self.kind == "window":
            return {}
        from privpipe.kernels.rank_swapping import expected_displacement

        return {"expected_displacement": expected_displacement(n, self.kind, self.p, self.buckets)}

    def _column_plan(
        self,
        column: str,
        facts: Facts,
        context: StageContext,
        known: tuple[int, int] | None,
        chosen: ChosenWindow | None,
    ) -> dict[str, Any]:
        missing = _missing(facts, column)
        n = facts.records - missing
        if self.nulls == "refuse":
            refuse_nulls(column, missing, context)
        low, high = known or (0, 0)
        if known is None and (self.top or self.bottom):
            low, high = tails(facts.histograms[column], floor_share(self.bottom, n), floor_share(self.top, n))
        window = chosen.among(n) if chosen else self.window(n)
        if n and window < 1 and chosen:
            raise chosen.too_narrow(n, column, self, context.place)
        if n and window < 1 and self.kind != "buckets":
            raise DataError(
                f"{context.place}: p = {self.p} of {n:,} records with a value in {column!r} is a window of 0 ranks; "
                f"it takes p >= {np.ceil(1e6 / n) / 1e6:g}"
            )
        self._require_served(column, n, n - low - high, window, context.place)
        shown: dict[str, Any] = {"records": n, "nulls": missing, "window": window, "bottom": low, "top": high}
        if chosen:
            shown |= chosen.expected()
        return shown | self._displaced(n - low - high)

    def _require_served(self, column: str, n: int, inner: int, window: int, place: str) -> None:
        """Refuse a segment that is too long, with parameters that are served.

        Parameters
        ----------
        n : int
            Values of the column, or of its largest stratum.
        inner : int
            Those between the tails.
        window : int
        """
        if self._segment(inner, window) <= MOST_RANKS:
            return
        from privpipe.kernels.rank_swapping import SEGMENT_WINDOWS

        widest = _rounded_down(Fraction(MOST_RANKS // SEGMENT_WINDOWS, n))
        if self.kind != "window":
            remedy = f"take kind: window with p of at most {widest}"
        elif isinstance(self.segment, int):
            remedy = f"take a segment of at most {MOST_RANKS:,}"
        else:
            reached = f"p of at most {widest}" + (" instead of a statistic to be kept" if self.keeps else "")
            remedy = f"take segment: auto with {reached}" if self.segment is None else f"take {reached}"
        raise UnsupportedError(
            f"{place}: {inner:,} values of {column!r} swap over segments of {self._segment(inner, window):,} ranks, "
            f"and {MOST_RANKS:,} are the most that are served; {remedy}, or strata (`by:`) of fewer records"
        )

    def plan_of_nothing(self, context: StageContext) -> StagePlan:
        ends = {"bottom": self.bottom, "top": self.top}
        return replace(super().plan_of_nothing(context), detail={"columns": dict.fromkeys(self.columns, ends)})

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        if self.by:
            return masked_schema(schema, self.columns if self.top or self.bottom else (), rounded=False)
        averaged = [column for column, detail in plan.detail["columns"].items() if detail["bottom"] or detail["top"]]
        return masked_schema(schema, tuple(averaged), rounded=False)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        released = self.released_schema(table.schema, plan)
        if self.by:
            strata = Strata.from_dict(plan.detail["strata"], plan.seed_key)
            return engine.map_groups(table, strata.of, SwappedStrata(self, strata, draws, released), released)
        for column in self.columns:
            detail, stream = plan.detail["columns"][column], draws.of(column)
            if self._goes_by_rank(engine, table, column, detail["records"], detail["window"]):
                table = self._by_rank(engine, table, column, detail, stream, released, context)
            else:
                table = self._by_histogram(engine, table, column, detail, stream, released, context)
        return table

    def _goes_by_rank(self, engine: Primitives, table: Any, column: str, records: int, window: int) -> bool:
        """Whether values are exchanged where the rows are, without a histogram; the answer is the same."""
        near = self.kind == "window" and window <= engine.ranks_held
        if near and window >= 1 and not (self.bottom or self.top):
            return True
        if not near and self._segment(records, window) >= records and not engine.forwards_ranks:
            return False
        return is_beyond_driver(engine, table, column, records)

    def _by_rank(
        self,
        engine: Primitives,
        table: Any,
        column: str,
        detail: Mapping[str, Any],
        stream: Stream,
        released: pa.Schema,
        context: StageContext,
    ) -> Any:
        import pyarrow as pa

        window, inner = detail["window"], detail["records"] - detail["bottom"] - detail["top"]
        exchange = self._exchange(inner, window, stream)
        if not (self.bottom or self.top):
            return engine.exchange_ranks(table, column, stream, exchange)
        borders = self._borders(engine, table, column, detail["records"])
        if (borders.bottom, borders.top) != (detail["bottom"], detail["top"]):
            raise DataError(f"{context.place}: the plan was made for another table: column {column!r} differs")
        means = tail_means(engine, table, column, borders)
        schema = table.schema
        aside = engine.map_rows(table, TailsRemoved(column, borders), schema.append(pa.field(TAIL, pa.int64())))
        exchanged = engine.exchange_ranks(aside, column, stream, exchange) if inner else aside
        at, target = schema.get_field_index(column), released.field(column)
        return engine.map_rows(exchanged, Averaged(column, means, target.type), schema.set(at, target))

    def _exchange(self, inner: int, window: int, stream: Stream) -> RankExchange:
        """The exchange between the tails."""
        if self.kind == "window":
            permutation = SegmentPermutation(stream, window, self.partner)
            return RankExchange(inner, self._segment(inner, window), window, permutation)
        return RankExchange(inner, max(inner, 1), inner, WholePermutation(self, inner, window, stream))

    def _segment(self, inner: int, window: int) -> int:
        """Ranks of a segment."""
        from privpipe.kernels.rank_swapping import segment_length

        if self.kind != "window" or self.segment is None:
            return max(inner, 1)
        return segment_length(inner, max(window, 1)) if self.segment == "auto" else self.segment

    def permutation(self, inner: int, window: int, stream: Stream) -> NDArray[Any]:
        """pi over the ranks between the tails."""
        from privpipe.kernels.rank_swapping import bucket_permutation, distribution_permutation, swap_permutation

        if self.kind == "buckets":
            return bucket_permutation(inner, self.buckets, stream)
        if self.kind == "distribution":
            return distribution_permutation(inner, self.p or 1.0, stream)
        segment = self._segment(inner, window)
        return swap_permutation(inner, max(window, 1), stream, partner=self.partner, segment=segment)

    def _by_histogram(
        self,
        engine: Primitives,
        table: Any,
        column: str,
        detail: Mapping[str, Any],
        stream: Stream,
        released: pa.Schema,
        context: StageContext,
    ) -> Any:
        values = SortedValues.of(engine.facts(table, FactsRequest(histograms=(column,))).histograms[column])
        if len(values) != detail["records"]:
            raise DataError(f"{context.place}: the plan was made for another table: column {column!r} differs")
        inner = detail["records"] - detail["bottom"] - detail["top"]
        pi = self.permutation(inner, detail["window"], stream)
        at = table.schema.get_field_index(column)
        target = released.field(column)
        swapped = Swapped(column, pi, values, detail["bottom"], detail["top"], target.type)
        return engine.map_ranked(table, column, stream, swapped, table.schema.set(at, target))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income",), p=0.2),
            cls(columns=("income", "age"), p=0.5, partner="skip", segment=None),
            cls(columns=("income",), p=0.3, partner="content", top=0.1, bottom=0.1),
            cls(columns=("income",), keep_correlation=0.5),
            cls(columns=("income",), kind="buckets", buckets=3),
            cls(columns=("income",), kind="distribution", p=0.4),
        ]


def _missing(facts: Facts, column: str) -> int:
    """Records without a value."""
    return facts.moments[column].nulls if column in facts.moments else facts.nulls[column]


def _rounded_down(share: Fraction) -> str:
    """A share below 1 as a decimal number that does not exceed it, of four digits after the zeros.

    Examples
    --------
    >>> _rounded_down(Fraction(7_812_500, 10**9)), _rounded_down(Fraction(7_812_500, 6 * 10**8))
    ('0.007812', '0.01302')
    """
    digits = 3 - math.floor(math.log10(share))
    return f"{math.floor(share * 10**digits) / 10**digits:.{digits}f}"
