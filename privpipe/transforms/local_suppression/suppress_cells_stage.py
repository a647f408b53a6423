"""Local suppression: blank single cells of rare records, until each record matches k records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Primitives
from privpipe.blocks.marks import ColumnNames, Columns
from privpipe.blocks.parameters import check_parameters
from privpipe.errors import UsageError, did_you_mean
from privpipe.transforms.base import StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.local_suppression.cell_blanks import Blanked, apply_blanks

if TYPE_CHECKING:
    from privpipe.draws import Draws

__all__ = ["ByRisk", "CellBudget", "Combination", "SuppressCellsStage"]


@dataclass(frozen=True, kw_only=True)
class CellBudget:
    """How long `method: optimal` looks on.

    `neighbourhoods` counts the small problems that are solved one after the other; `seconds`, where given, ends the
    search by the clock, so that it cannot be repeated exactly, which the plan says.
    """

    neighbourhoods: Annotated[int, Ge(0)] = 60
    seconds: Annotated[float | None, Gt(0)] = None

    def __post_init__(self) -> None:
        check_parameters(self, "SuppressCells", "budget.")


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Subsets of the columns over which each record is like `k` records: all of a size, or one that is named."""

    columns: Annotated[int, Ge(1)] | tuple[str, ...]
    k: Annotated[int, Ge(2)]

    def __post_init__(self) -> None:
        if isinstance(self.columns, list | tuple):
            object.__setattr__(self, "columns", checked_columns("SuppressCells", self.columns))
        check_parameters(self, "SuppressCells", "combinations.")


@dataclass(frozen=True, kw_only=True)
class ByRisk:
    """Cells that are blanked in records whose individual risk exceeds a threshold.

    `columns` are blanked in these records; `weight` is the column of sampling weights, without which the risk is one
    over the records alike.
    """

    threshold: Annotated[float, Ge(0), Le(1)]
    columns: tuple[str, ...]
    weight: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", checked_columns("SuppressCells", self.columns))
        check_parameters(self, "SuppressCells", "by_risk.")


@dataclass(frozen=True, kw_only=True, repr=False)
class SuppressCellsStage(Transformer):
    """What `SuppressCells` does to rows once its plan is known."""

    taxon = "non-perturbative"
    columns_rule = "optional"
    searches = True
    suppresses = True
    serves = ("wildcard",)
    spelt = {"with": "along"}
    preserves = "truth: every value that stays is the record's own"
    reveals = "that a record with a blank was rare, and in which columns (minimality)"
    source = "Templ, Kowarik, Meindl, J. Statistical Software 67(4), 2015; Meyerson, Williams, PODS 2004 (NP-hardness)"
    formula = "least sum of w_j over blanked cells such that every record matches >= k records"
    choose = (
        "Generalize first, so that few records are rare. own_value protects against anyone who reads blanks as blanks "
        "and costs about twice the cells; under wildcard look at how many records fail by own_value before you release."
    )

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns whose cells may be blanked; default: all quasi-identifiers")
    ] = None
    k: Annotated[
        int | None, Ge(2), Doc("records that each must be like, itself included; default: that of the guarantees")
    ] = None
    method: Annotated[Literal["greedy", "optimal"], Doc("greedy, or optimal: integer programs on top of it")] = "greedy"
    weights: Annotated[dict[str, Annotated[float, Gt(0)]], Doc("cost of a blank in a column; 1 where not named")] = (
        field(default_factory=dict)
    )
    order: Annotated[tuple[str, ...] | None, Doc("instead of weights: all columns, first the one to keep longest")] = (
        None
    )
    by: Annotated[
        tuple[str, ...], ColumnNames(), Doc("columns that part the table into strata, each treated by itself")
    ] = ()
    combinations: Annotated[
        tuple[Combination, ...],
        Doc("subsets of columns with a k of their own: [{columns: 3, k: 10}, {columns: [a, b], k: 5}]"),
    ] = ()
    by_risk: Annotated[
        ByRisk | None,
        Doc("blank `columns` of records whose individual risk exceeds `threshold`: {threshold, columns, weight}"),
    ] = None
    alone_at_most: Annotated[
        float,
        Ge(0),
        Le(1),
        Doc("under `nulls: wildcard`, share of the records that may stay complete and equal no other complete one"),
    ] = 0.01
    along: Annotated[
        dict[str, tuple[str, ...]],
        ColumnNames(),
        Doc("columns blanked wherever the stage blanks a cell: {zip: [town]}"),
    ] = field(default_factory=dict)
    suppress_at_most: Annotated[
        float, Ge(0), Le(1), Doc("share of the records that may be suppressed where no blanks help")
    ] = 0.0
    budget: Annotated[CellBudget, Doc("limit of method optimal: {neighbourhoods, seconds}")] = CellBudget()

    def __post_init__(self) -> None:
        owner = "SuppressCells"
        if isinstance(self.combinations, list | tuple):
            object.__setattr__(self, "combinations", tuple(_combination(each) for each in self.combinations))
        super().__post_init__()
        for name in ("columns", "order", "by"):
            given = getattr(self, name)
            if given is not None and given != ():
                object.__setattr__(self, name, checked_columns(owner, given))
        object.__setattr__(self, "by", tuple(self.by))
        if self.order is not None and self.weights:
            raise UsageError(f"{owner}: give weights or an order, not both")
        if self.method == "optimal" and (self.combinations or self.by_risk):
            raise UsageError(f"{owner}: combinations and by_risk go with method greedy")
        along = {name: checked_columns(owner, names) for name, names in self.along.items()}
        object.__setattr__(self, "along", along)
        self._check_names(owner)

    def _check_names(self, owner: str) -> None:
        if self.columns is None:
            return
        blanked = {"by_risk": self.by_risk.columns if self.by_risk else ()}
        for name in ("weights", "order", "along", "by_risk"):
            for column in blanked.get(name, getattr(self, name)) or ():
                if column not in self.columns:
                    raise UsageError(
                        f"{owner}: {name} names {column!r}, not among columns{did_you_mean(column, self.columns)}"
                    )
        if both := set(self.by) & set(self.columns):
            raise UsageError(f"{owner}: by names {sorted(both)[0]!r}, whose cells are to be blanked")

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def solves_programs(self) -> bool:
        return self.method == "optimal"

    def stated_parameters(self) -> dict[str, Any]:
        stated = {**self.parameters(), "budget": asdict(self.budget)}
        if self.combinations:
            stated["combinations"] = [asdict(each) for each in self.combinations]
        return stated | ({} if self.by_risk is None else {"by_risk": asdict(self.by_risk)})

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        blanked = Blanked.from_dict(plan.detail)
        self._check_along(blanked.keys, context)
        return apply_blanks(engine, table, blanked, draws.of("cells"), context, along=self.along)

    def _check_along(self, keys: tuple[str, ...], context: StageContext) -> None:
        for name, beside in self.along.items():
            if name not in keys:
                raise UsageError(f"{context.place}: along names {name!r}, whose cells are not blanked")
            for column in beside:
                if column in keys:
                    raise UsageError(
                        f"{context.place}: {column!r} cannot be blanked along, for records must match in it; name it "
                        "under `columns:`"
                    )
                if column not in context.schema.names:
                    raise UsageError(
                        f"{context.place}: along names {column!r}{did_you_mean(column, context.schema.names)}"
                    )

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(k=2),
            cls(k=3, weights={}),
            cls(suppress_at_most=1.0),
            cls(combinations=(Combination(columns=1, k=3),), suppress_at_most=1.0),
        ]


def _combination(given: Any) -> Any:
    """A combination, also from a mapping; what is neither is refused with the other parameters."""
    if not isinstance(given, Mapping):
        return given
    try:
        return Combination(**given)
    except TypeError:
        raise UsageError("SuppressCells: combinations are mappings of `columns` and `k`") from None
