"""Fuzzy microaggregation: a record releases the values of one of the groups around it, drawn by nearness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import FactsRequest, Primitives
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.microaggregation.microaggregate import Microaggregate
from privpipe.transforms.strata import SmallStrata, checked_by

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws

__all__ = ["FuzzyMicroaggregate"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FuzzyMicroaggregate(Transformer):
    """Microaggregate, then release for each record the mean of one of the groups near it, drawn by membership.

    An attacker can no longer name the group of a value, so groups of several releases cannot be intersected. Each
    released combination has at least k holders within its block, yet groups are not k-anonymous by construction:
    judge `k_anonymity` on the output. Means are kept in expectation only.

    Parameters
    ----------
    columns : tuple of str
        Numbers, dates or timestamps, grouped as one list.
    k : int
        Least size of a group and least number of holders, at least 2.
    neighbours : int
        Nearest groups that a record may be given, in [2, 20].
    fuzziness : float
        In (1, 10]; membership in a group at distance d is d^(-2 / (fuzziness - 1)), scaled to sum 1.
    by, small_strata, nulls, round
        As in `Microaggregate`.

    Notes
    -----
    Source: Torra, Fuzzy microaggregation for the transparency principle, J. Applied Logic 23, 2017, for the idea. The
    recipe is ours: groups by `Microaggregate`, one keyed draw a record, and groups that fewer than k records drew are
    handed to the nearest one.

    Examples
    --------
    >>> FuzzyMicroaggregate(columns=["income", "age"], k=5)
    FuzzyMicroaggregate(columns=('income', 'age'), k=5)
    """

    taxon: ClassVar[Kind] = "perturbative"
    needs_draws: ClassVar[bool] = True
    preserves: ClassVar[str] = "means of each column in expectation; at least k holders of what is released"
    reveals: ClassVar[str] = "the means of small groups near the record"
    draws_apart: ClassVar[str] = (
        "averages groups of records, and members of a household may be in several: aggregate a table of households"
    )
    source: ClassVar[str] = "Torra, J. Applied Logic 23, 2017"

    columns: Annotated[tuple[str, ...], Columns(), Doc("numeric columns to mask as one group of columns")]
    k: Annotated[int, Ge(2), Doc("least number of records in a group and of holders of a released combination")]
    neighbours: Annotated[int, Ge(2), Le(20), Doc("nearest groups that a record may be given, in [2, 20]")] = 4
    fuzziness: Annotated[float, Gt(1), Le(10), Doc("in (1, 10]; near 1 the nearest group is all but sure")] = 2.0
    by: Annotated[tuple[str, ...], ColumnNames(), Doc("columns within whose combinations records are grouped")] = ()
    small_strata: Annotated[SmallStrata, Doc("strata of fewer than k records: refuse, suppress or merge")] = "refuse"
    nulls: Annotated[Literal["refuse", "keep", "own_group"] | None, Doc("refuse, keep or own_group")] = None
    round: Annotated[bool, Doc("round to whole numbers")] = False

    @property
    def links_releases(self) -> bool:
        return True  # a record is given one of few centroids, which follow from the values

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = "FuzzyMicroaggregate"
        object.__setattr__(self, "columns", checked_columns(owner, self.columns))
        object.__setattr__(self, "by", checked_by(owner, self.by, self.columns, self.small_strata))
        if self.small_strata == "suppress":
            object.__setattr__(self, "suppresses", True)

    def grouping(self) -> Microaggregate:
        """The microaggregation whose groups are drawn from."""
        return Microaggregate(
            columns=self.columns,
            k=self.k,
            by=self.by,
            small_strata=self.small_strata,
            nulls=self.nulls,
            round=self.round,
        )

    def request(self, context: StageContext) -> FactsRequest:
        return self.grouping().request(context)

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        made = self.grouping().learn(engine, table, context)
        warning = "released groups are drawn, so k_anonymity holds within a block at best; judge it on the output"
        return StagePlan(
            name=self.name(),
            parameters=self.parameters(),
            detail={**made.detail, "warnings": [*made.detail["warnings"], warning]},
        )

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return self.grouping().released_schema(schema, plan)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        grouped = replace(plan, name=self.grouping().name())
        fuzzy = (self.neighbours, self.fuzziness)
        return self.grouping().run_groups(engine, table, grouped, draws, context, fuzzy)

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income", "age"), k=3, nulls="keep"),
            cls(columns=("age",), k=2, neighbours=2, fuzziness=1.5, round=True),
        ]
