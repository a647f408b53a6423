"""Full-domain generalization: one level a column, failing classes suppressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import FactsRequest, Primitives
from privpipe.blocks.entry import require_integer, require_number
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.suppression import suppress_failing

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws
    from privpipe.hierarchies import Hierarchy

__all__ = ["Generalize", "LossSpec", "SearchBudget", "generalized_columns", "hierarchies_of"]

Aggregate = Literal["geometric_mean", "arithmetic_mean", "sum", "max", "rank"]


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """The quality model of a search.

    Parameters
    ----------
    name : {"loss"}
        Iyengar's loss.
    aggregate : {"geometric_mean", "arithmetic_mean", "sum", "max", "rank"}
        How the columns' losses become one.
    gs_factor : float
        In [0, 1]; below 0.5 suppression is cheap, above it generalization is.
    weights : mapping of column to float
        At least 0; columns left out weigh 1.
    """

    name: Literal["loss"] = "loss"
    aggregate: Aggregate = "geometric_mean"
    gs_factor: float = 0.5
    weights: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_number("Generalize", "loss.gs_factor", self.gs_factor, least=0, most=1)
        for column, weight in self.weights.items():
            require_number("Generalize", f"loss.weights.{column}", weight, least=0)


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """How many nodes a search may check before it ends with the best it has."""

    nodes: int = 100_000

    def __post_init__(self) -> None:
        require_integer("Generalize", "budget.nodes", self.nodes, least=1)


@dataclass(frozen=True, kw_only=True, repr=False)
class Generalize(Transformer):
    """Replace each column's values by their labels at one level of its hierarchy, the best vector of levels.

    With `search`, the vector of least loss under which suppressing all failing classes stays within the
    budget, proved optimal. With `levels`, that vector; classes are then suppressed only when
    `suppress_at_most` is given.

    Parameters
    ----------
    columns : tuple of str, optional
        Default: every quasi-identifier that has a hierarchy.
    search : {"optimal"}, optional
        Default when no `levels` are given.
    levels : mapping of column to int, optional
        0 keeps the raw value.
    loss : LossSpec
    suppress_at_most : float, optional
        Share of the stage's input, in [0, 1]; a search's default is 0.
    budget : SearchBudget

    Notes
    -----
    Source: Samarati, IEEE TKDE 13(6), 2001; Iyengar, KDD 2002 (loss); Bayardo, Agrawal, ICDE 2005.

    Examples
    --------
    >>> Generalize(levels={"age": 2}).is_search, Generalize(suppress_at_most=0.05).is_search
    (False, True)
    """

    taxon: ClassVar[Kind] = "non-perturbative"
    columns_rule: ClassVar[Any] = "optional"
    searches: ClassVar[bool] = True
    suppresses: ClassVar[bool] = True
    preserves: ClassVar[str] = "truth: every label covers the value it stands for"
    reveals: ClassVar[str] = "that a finer vector of levels did not meet the guarantees (minimality)"
    about: ClassVar[Mapping[str, str]] = {
        "columns": "columns to generalize; default: the quasi-identifiers with a hierarchy",
        "search": "how the levels are chosen: optimal",
        "levels": "instead of a search: the level of each column, 0 for the raw value",
        "loss": "the quality model: {name, aggregate, gs_factor, weights}",
        "suppress_at_most": "share of the records that may be suppressed",
        "budget": "limit of the search: {nodes}",
    }
    source: ClassVar[str] = "Samarati, IEEE TKDE 13(6), 2001; Iyengar, KDD 2002"

    columns: tuple[str, ...] | None = None
    search: Literal["optimal"] | None = None
    levels: dict[str, int] | None = None
    loss: LossSpec = field(default_factory=LossSpec)
    suppress_at_most: float | None = None
    budget: SearchBudget = field(default_factory=SearchBudget)

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns("Generalize", self.columns))
        if self.levels is not None and self.search is not None:
            raise UsageError("Generalize: give a search or levels, not both")
        for column, level in (self.levels or {}).items():
            require_integer("Generalize", f"levels.{column}", level, least=0)
        if self.suppress_at_most is not None:
            require_number("Generalize", "suppress_at_most", self.suppress_at_most, least=0, most=1)

    @property
    def is_search(self) -> bool:
        """Whether the levels are searched for."""
        return self.levels is None

    def masked_columns(self) -> tuple[str, ...]:
        return ()

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        import pyarrow as pa

        for column, level in plan.detail["levels"].items():
            if level:
                schema = schema.set(schema.get_field_index(column), pa.field(column, pa.string()))
        return schema

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        levels: Mapping[str, int] = plan.detail["levels"]
        columns = tuple(levels)
        hierarchies, values = hierarchies_of(engine, table, columns, context)
        for column, digest in plan.detail["hierarchies"].items():
            if hierarchies[column].digest() != digest:
                raise DataError(f"{context.place}: the hierarchy of {column!r} is not the one the plan was made with")
        codebooks, shares = {}, {}
        for column, level in levels.items():
            hierarchy = hierarchies[column]
            codes = hierarchy.encode(_texts(values[column], context, column))
            if (codes < 0).any():
                table = _without_unknown(engine, table, column, values[column], codes)
            if level:
                known = codes >= 0
                raw, labels = values[column].filter(_mask(known)), _labels(hierarchy, level, codes[known])
                codebooks[column] = (raw, labels)
            shares[column] = dict(zip(_released(hierarchy, level), hierarchy.shares(level), strict=True))
        if codebooks:
            table = engine.recode(table, codebooks)
        if self.is_search or self.suppress_at_most is not None:
            limit = self.suppress_at_most or 0.0
            entering = int(plan.detail["records"])
            table = suppress_failing(
                engine, table, context, limit, entering=entering, own_loss=OwnShareLoss(shares, self.loss)
            )
        return table

    @classmethod
    def examples(cls) -> list[Self]:
        return [cls(), cls(suppress_at_most=0.3), cls(levels={})]


def generalized_columns(stage: Generalize, context: StageContext) -> tuple[str, ...]:
    """The columns a stage generalizes, in policy order.

    Raises
    ------
    UsageError
        None at all, one without a hierarchy, or one that is not a quasi-identifier.
    """
    held = [name for name in context.roles.quasi_identifiers if name in context.hierarchies]
    asked = list(stage.columns or (stage.levels if stage.levels else held))
    for column in [*asked, *(stage.levels or {}), *stage.loss.weights]:
        if column not in held:
            raise UsageError(
                f"{context.place}: {column!r} is no quasi-identifier with a hierarchy{did_you_mean(column, held)}"
            )
    if not asked:
        raise UsageError(f"{context.place}: no quasi-identifier has a `hierarchy:`, so there is nothing to generalize")
    return tuple(name for name in held if name in set(asked))


def hierarchies_of(
    engine: Primitives, table: Any, columns: tuple[str, ...], context: StageContext
) -> tuple[dict[str, Hierarchy], dict[str, pa.Array]]:
    """Each column's hierarchy over the values at hand, and those values (null last where there are any)."""
    histograms = engine.facts(table, FactsRequest(histograms=columns)).histograms
    built = {}
    for column in columns:
        texts = _texts(histograms[column].values, context, column).to_pylist()
        counts = histograms[column].counts.tolist()
        built[column] = context.hierarchies[column].build(texts, counts, _kind(context, column))
    return built, {column: histograms[column].values for column in columns}


@dataclass(frozen=True)
class OwnShareLoss:
    """Own loss of classes: the aggregate of the columns' shares of their labels.

    `shares` maps each generalized column's labels to the share of the domain they stand for.
    """

    shares: Mapping[str, Mapping[str, float]] = field(repr=False)
    loss: LossSpec

    def __call__(self, classes: Any) -> NDArray[np.float64]:
        columns = [name for name in classes.schema.names if name in self.shares]
        each = np.zeros((classes.num_rows, len(columns)))
        for at, name in enumerate(columns):
            texts = (str(value) for value in classes[name].to_pylist())
            each[:, at] = [self.shares[name].get(text, 1.0) for text in texts]
        return own_loss(each, [self.loss.weights.get(name, 1.0) for name in columns], self.loss.aggregate)


def own_loss(each: NDArray[np.float64], weights: list[float], aggregate: Aggregate) -> NDArray[np.float64]:
    """Aggregate of per-column losses, shape (n, m) to (n,); `rank` orders by the largest.

    Examples
    --------
    >>> own_loss(np.array([[0.0, 1.0]]), [1.0, 1.0], "geometric_mean").round(4).tolist()
    [0.4142]
    """
    top = max(weights, default=1.0) or 1.0
    scaled = each * (np.array(weights) / top if any(weights) else np.ones(len(weights)))
    if aggregate == "geometric_mean":
        return np.asarray(np.prod(1.0 + scaled, axis=1) ** (1.0 / max(1, each.shape[1])) - 1.0)
    if aggregate == "arithmetic_mean":
        return np.asarray(scaled.mean(axis=1))
    return np.asarray(scaled.sum(axis=1) if aggregate == "sum" else scaled.max(axis=1, initial=0.0))


def _kind(context: StageContext, column: str) -> str:
    from privpipe.roles import column_type_of

    return context.types.get(column) or column_type_of(context.schema.field(column).type)


def _texts(values: pa.Array, context: StageContext, column: str) -> Any:
    from privpipe.hierarchies import canonical_text

    return canonical_text(values, _kind(context, column), column=column)


def _labels(hierarchy: Hierarchy, level: int, codes: NDArray[np.int32]) -> pa.Array:
    import pyarrow as pa

    texts = np.array(hierarchy.texts(level), dtype=object)
    return pa.array(texts[codes], pa.string())


def _released(hierarchy: Hierarchy, level: int) -> list[str]:
    return list(hierarchy.texts(level))


def _mask(known: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    return pa.array(known)


def _without_unknown(engine: Primitives, table: Any, column: str, values: pa.Array, codes: NDArray[np.int32]) -> Any:
    """Records whose value the hierarchy lacks are suppressed before all others (`unknown: suppress`)."""
    import pyarrow as pa

    from privpipe.transforms.suppression import KeysDropped

    outside = pa.table({column: values.filter(_mask(codes < 0))})
    return engine.map_rows(table, KeysDropped.of((column,), outside), table.schema)
