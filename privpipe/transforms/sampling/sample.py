"""Sampling: release some of the records, each with a known chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Gt, Lt
from typing_extensions import Doc

from privpipe.blocks import Facts, Primitives, RowBlock
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.marks import ColumnNames
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext, StagePlan, Transformer
from privpipe.transforms.exact_quantiles import OrderCuts, order_cuts
from privpipe.transforms.shared_draws import SameWithin, Together, together_of
from privpipe.transforms.strata import Strata, checked_by

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws, Stream

__all__ = ["Sample", "proportional"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Sample(Transformer):
    """Keep a share of the records by keyed draws, or an exact number of them.

    Population figures (k-map, uniqueness) need the original as `population:` afterwards.

    Parameters
    ----------
    fraction : float, optional
        In (0, 1): each record stays with this probability, by its own draw; the number is random.
    records : int, optional
        Instead: exactly this many, those first in keyed order. More than there are is an error.
    by : tuple of str
        Strata: `records` are allotted in proportion (largest remainder, ties to the stratum of least key).
    same_within : {"household_id", "person_id"}, optional
        Households (or persons) stay or go as a whole, each with probability `fraction`; not with `records`, which no
        set of households need add up to.
    weight : str, optional
        A new column with the weight of each record: records of its stratum over those kept.

    Examples
    --------
    >>> Sample(fraction=0.1)
    Sample(fraction=0.1)
    """

    taxon = "non-perturbative"
    columns_rule = "none"
    needs_draws = True
    preserves = "the values of every record that stays; totals in expectation, when weighted"
    reveals = "the sampling fraction"
    source = "Hundepool et al., Statistical Disclosure Control, Wiley, 2012"

    fraction: Annotated[float | None, Gt(0), Lt(1), Doc("probability of each record to be kept, in (0, 1)")] = None
    records: Annotated[int | None, Ge(1), Doc("number of records to keep, instead of fraction")] = None
    by: Annotated[
        tuple[str, ...], ColumnNames(), Doc("columns whose combinations share the records in proportion")
    ] = ()
    weight: Annotated[str | None, Doc("name of a new column of weights")] = None

    same_within: Annotated[
        SameWithin | None, Doc("whose rows stay or go as a whole: household_id or person_id; only with fraction")
    ] = None

    def needs_keys(self) -> tuple[str, ...]:
        return () if self.same_within is None else (self.same_within,)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.fraction is None) == (self.records is None):
            raise UsageError("Sample: give fraction or records, one of the two")
        object.__setattr__(self, "by", checked_by("Sample", self.by, (), "refuse"))
        if self.same_within is not None and self.fraction is None:
            raise UsageError("Sample: same_within requires fraction; no households need add up to exactly `records`")
        if self.weight is not None and (not isinstance(self.weight, str) or not self.weight):
            raise UsageError("Sample: weight must be the name of a new column")

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        if self.weight is not None and self.weight.lower() in (name.lower() for name in context.schema.names):
            raise DataError(f"{context.place}: the table has a column {self.weight!r} already; name the weights else")
        strata = Strata.learn(engine, table, self.by, (), context)
        detail: dict[str, Any] = {"strata": strata.to_dict()}
        if self.records is not None:
            n = sum(strata.records)
            if self.records > n:
                raise DataError(f"{context.place}: records = {self.records:,} is more than the {n:,} there are")
            detail["kept"] = proportional(strata.records, self.records)
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        return schema if self.weight is None else schema.append(pa.field(self.weight, pa.float64()))

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        strata, stream = Strata.from_dict(plan.detail["strata"], plan.seed_key), draws.of("")
        together = together_of(self.same_within, context)
        read = self.by or tuple(table.schema.names[:1])
        if self.fraction is not None:
            chosen = _Chosen(strata, stream, fraction=self.fraction, together=together)
            read = read if together is None else (*read, together.column)
            kept = None
            if self.weight is not None:
                kept = engine.reduce_rows(table, read, _Kept(chosen), Facts())
        else:
            kept = np.asarray(plan.detail["kept"])
            if strata.records and engine.count(table) != sum(strata.records):
                raise DataError(f"{context.place}: the plan was made for another table: the number of records differs")
            if kept.tolist() != proportional(strata.records, self.records or 0):
                raise UsageError(f"{context.place}: the plan keeps other records than the policy: make a new one")
            ranks = [[m - 1] if 0 < m < n else [] for m, n in zip(kept.tolist(), strata.records, strict=True)]
            cuts = order_cuts(engine, table, read, stream, strata.of, ranks)
            chosen = _Chosen(strata, stream, cuts=cuts, kept=tuple(kept.tolist()))
        weights = None
        if self.weight is not None:
            drawn = np.zeros(len(strata), np.int64) if kept is None else kept
            weights = np.array(strata.records) / np.maximum(drawn, 1)
        sampled = _Sampled(chosen, self.weight, weights)
        return engine.map_rows(table, sampled, self.released_schema(table.schema, plan))

    def made_columns(self) -> tuple[str, ...]:
        return () if self.weight is None else (self.weight,)

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(fraction=0.5), cls(records=1), cls(records=1, by=("zip",), weight="weight")]


def proportional(sizes: Sequence[int], records: int) -> list[int]:
    """Records of each stratum, in proportion to its size: whole quotas, then the largest remainders (first of equals).

    Examples
    --------
    >>> proportional([50, 30, 20], 7)
    [4, 2, 1]
    >>> proportional([1, 1, 1], 2)
    [1, 1, 0]
    """
    n = sum(sizes)
    if not n:
        return [0 for _ in sizes]
    quotas = [records * size // n for size in sizes]
    remainders = [records * size % n for size in sizes]
    for at in sorted(range(len(sizes)), key=lambda at: (-remainders[at], at))[: records - sum(quotas)]:
        quotas[at] += 1
    return quotas


@dataclass(frozen=True)
class _Chosen:
    """Which records of a block stay, and their strata."""

    strata: Strata
    stream: Stream = field(repr=False)
    fraction: float | None = None
    cuts: OrderCuts | None = None
    kept: tuple[int, ...] = ()
    together: Together | None = None

    def __call__(self, rows: RowBlock) -> tuple[Bools, Ints]:
        numbers = self.strata.of(rows)
        if self.fraction is not None:
            ids = rows.record_ids if self.together is None else self.together.ids(rows)
            return self.stream.uniform(ids) < self.fraction, numbers
        assert self.cuts is not None
        beyond = self.cuts.of(self.stream.order(rows.record_ids), rows.record_ids, numbers)
        some = np.array(self.kept, np.int64) > 0
        return (beyond == 0) & some[numbers], numbers


@dataclass(frozen=True)
class _Kept:
    """Records of each stratum that stay."""

    chosen: _Chosen

    def measure(self, block: RowBlock, facts: Facts) -> Ints:
        stay, numbers = self.chosen(block)
        return np.bincount(numbers[stay], minlength=len(self.chosen.strata))

    def merge(self, left: Ints, right: Ints) -> Ints:
        return left + right


@dataclass(frozen=True)
class _Sampled:
    """The records that stay, with their weights if these are wanted."""

    chosen: _Chosen
    weight: str | None
    weights: Floats | None

    def __call__(self, rows: RowBlock) -> RowBlock:
        import pyarrow as pa

        stay, numbers = self.chosen(rows)
        places = np.flatnonzero(stay)
        found = rows.take(places)
        if self.weight is None or self.weights is None:
            return found
        batch = found.batch.append_column(self.weight, pa.array(self.weights[numbers[places]], pa.float64()))
        return RowBlock(batch, found.record_ids)
