"""Microaggregation: groups of at least k similar records, each released with the aggregate of its group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Facts, FactsRequest, Primitives, RowBlock
from privpipe.blocks.entry import require_choice, require_integer
from privpipe.errors import NoSolutionError, UsageError
from privpipe.transforms.base import Kind, StageContext, StagePlan, Transformer, checked_columns
from privpipe.transforms.numeric import masked_schema, refuse_nulls, require_numeric
from privpipe.transforms.record_groups import (
    Aggregate,
    Aggregated,
    BlockKey,
    GroupPlan,
    Method,
    Pattern,
    missing_cells,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws
    from privpipe.kernels.kd_tree import BlockTree

__all__ = ["Microaggregate"]

Nulls = Literal["refuse", "keep", "own_group"]
NEAR, NEAR_IN_LARGE = 20, 10


@dataclass(frozen=True, kw_only=True, repr=False)
class Microaggregate(Transformer):
    """Replace the values of each group of k or more similar records by their mean or median.

    All members of a group become equal in its columns, so the release is k-anonymous on a list of columns that
    holds all quasi-identifiers. Over several lists, or with the methods for one column, it is so for each list
    alone: judge `k_anonymity` on the output.

    Parameters
    ----------
    columns : tuple of str, or tuple of tuples of str
        One list is one multivariate group; several lists are grouped each by itself.
    k : int or tuple of int
        Least size of a group, at least 2; or one a list of columns.
    method : {"mdav", "univariate", "fixed"}
        mdav: groups in all columns of a list at once. univariate: the best groups of one column; fixed: k
        consecutive values each. The latter two take every column by itself.
    refine : {"descent", "none"}
        mdav only: let records change groups while the loss falls.
    block : int or "auto"
        Most records of a block, at least 2k; auto: one block up to 20,000 records, else 4,000. A record's block is
        a function of its values.
    aggregate : {"mean", "median"}
    nulls : {"refuse", "keep", "own_group"}, optional
        refuse: an error. keep: they stay, stand at the mean in distances, and take no part in aggregates; a
        record without any value is in no group. own_group: records are grouped within their pattern of nulls.
        Default: refuse for lists of several columns, keep for single ones.
    round : bool
        Whole numbers, half to even; an integer column then stays one.

    Notes
    -----
    Source: Domingo-Ferrer, Torra, Data Mining and Knowledge Discovery 11, 2005 (MDAV); Hansen, Mukherjee, IEEE
    TKDE 15(4), 2003 (univariate). Distances are Euclidean over columns standardised by the mean and deviation of
    the whole table; a constant column takes no part.

    Examples
    --------
    >>> Microaggregate(columns=["income", "age"], k=5)
    Microaggregate(columns=('income', 'age'), k=5)
    >>> [group for group, _ in Microaggregate(columns=[["a", "b"], ["c"]], k=[3, 5]).groups()]
    [('a', 'b'), ('c',)]
    """

    taxon: ClassVar[Kind] = "perturbative"
    needs_draws: ClassVar[bool] = True
    preserves: ClassVar[str] = "sums and means of each column; groups of at least k equal records"
    reveals: ClassVar[str] = "the means of small groups, whose members lie around them"
    about: ClassVar[Mapping[str, str]] = {
        "columns": "numeric columns: one list is one group of columns, or several lists",
        "k": "least number of records in a group, or one number a list of columns",
        "method": "mdav (several columns at once), univariate (optimal, one column) or fixed",
        "refine": "descent moves records between groups while the loss falls; none",
        "block": "most records of a block that is grouped by itself, or auto",
        "aggregate": "mean or median of the group",
        "nulls": "refuse, keep or own_group",
        "round": "round to whole numbers",
    }
    source: ClassVar[str] = "Domingo-Ferrer, Torra, Data Mining and Knowledge Discovery 11, 2005"

    columns: tuple[str, ...] | tuple[tuple[str, ...], ...]
    k: int | tuple[int, ...]
    method: Method = "mdav"
    refine: Literal["descent", "none"] = "descent"
    block: int | Literal["auto"] = "auto"
    aggregate: Aggregate = "mean"
    nulls: Nulls | None = None
    round: bool = False

    def __post_init__(self) -> None:
        owner = "Microaggregate"
        lists = _lists(self.columns)
        checked_columns(owner, [name for names in lists for name in names])
        nested = not isinstance(self.columns[0], str)
        object.__setattr__(self, "columns", lists if nested else lists[0])
        if isinstance(self.k, list | tuple):
            object.__setattr__(self, "k", tuple(self.k))
            if len(self.k) != len(lists):
                raise UsageError(f"{owner}: k has {len(self.k)} numbers for {len(lists)} lists of columns")
        for k in self._sizes(len(lists)):
            require_integer(owner, "k", k, least=2)
            if self.block != "auto":
                require_integer(owner, "block", self.block, least=2 * k)
        require_choice(owner, "method", self.method, get_args(Method))
        require_choice(owner, "refine", self.refine, ("descent", "none"))
        require_choice(owner, "aggregate", self.aggregate, get_args(Aggregate))
        if self.nulls is not None:
            require_choice(owner, "nulls", self.nulls, get_args(Nulls))

    def groups(self) -> list[tuple[tuple[str, ...], int]]:
        """The lists of columns that are grouped by themselves, each with its k."""
        lists = _lists(self.columns)
        pairs = list(zip(lists, self._sizes(len(lists)), strict=True))
        return pairs if self.method == "mdav" else [((name,), k) for names, k in pairs for name in names]

    def masked_columns(self) -> tuple[str, ...]:
        return tuple(name for names in _lists(self.columns) for name in names)

    def request(self, context: StageContext) -> FactsRequest:
        require_numeric(self.masked_columns(), context)
        return FactsRequest(moments=self.masked_columns())

    def learn(self, engine: Primitives, table: Any, context: StageContext) -> StagePlan:
        facts = engine.facts(table, self.request(context))
        groups = [self._group_plan(engine, table, columns, k, facts, context) for columns, k in self.groups()]
        detail: dict[str, Any] = {
            "groups": [group.to_dict() for group in groups],
            "nulls": {column: facts.moments[column].nulls for column in self.masked_columns()},
        }
        if len(groups) > 1:
            detail["warning"] = "each list of columns is k-anonymous by itself; their combination need not be"
        return StagePlan(name=self.name(), parameters=self.parameters(), detail=detail)

    def released_schema(self, schema: pa.Schema, plan: StagePlan) -> pa.Schema:
        return masked_schema(schema, self.masked_columns(), self.round)

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        for data in plan.detail["groups"]:
            group = GroupPlan.from_dict(data)
            # A stream a list: one more list leaves the ties of the others alone.
            stream = draws.of("/".join(group.columns))
            made = Aggregated(group, self.method, self.refine == "descent", self.aggregate, self.round, stream)
            schema = masked_schema(table.schema, group.columns, self.round)
            table = engine.map_groups(table, BlockKey(group), made, schema)
        return table

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(columns=("income", "age"), k=3),
            cls(columns=(("income",), ("age",)), k=(2, 3), refine="none", round=True),
            cls(columns=("income",), k=2, method="univariate", aggregate="median"),
            cls(columns=("income", "age"), k=2, nulls="own_group", block=8),
        ]

    def _sizes(self, lists: int) -> tuple[int, ...]:
        return self.k if isinstance(self.k, tuple) else (self.k,) * lists

    def _group_plan(
        self,
        engine: Primitives,
        table: Any,
        columns: tuple[str, ...],
        k: int,
        facts: Facts,
        context: StageContext,
    ) -> GroupPlan:
        from privpipe.kernels.kd_tree import BlockTree
        from privpipe.kernels.microaggregation import BLOCK, ONE_BLOCK

        rule = self.nulls or ("refuse" if len(columns) > 1 else "keep")
        moments = {column: facts.moments[column] for column in columns}
        if rule == "refuse":
            for column, figures in moments.items():
                refuse_nulls(column, figures.nulls, context)
        block: int | None = self.block if isinstance(self.block, int) else BLOCK
        if self.block == "auto" and facts.records <= ONE_BLOCK:
            block = None
        group = GroupPlan(
            columns=columns,
            k=k,
            # A column without any value takes no part; its mean is not a number, which JSON has none for.
            mean={column: figures.mean if figures.records else 0.0 for column, figures in moments.items()},
            sd={column: facts.sd(column) for column in columns},
            block=block,
            neighbours=NEAR if facts.records <= ONE_BLOCK else NEAR_IN_LARGE,
            by_pattern=rule == "own_group",
            patterns=(),
        )
        complete = not any(figures.nulls for figures in moments.values())
        if complete and (block is None or facts.records <= block):
            patterns = [Pattern((), facts.records, BlockTree())]
        else:
            patterns = list(_patterns(engine, table, group))
        for pattern in patterns:
            _require_enough(pattern, group, facts.records, context)
        return replace(group, patterns=tuple(patterns))


def _lists(columns: Any) -> tuple[tuple[str, ...], ...]:
    """Lists of columns, also of a single one."""
    if not isinstance(columns, list | tuple) or not columns:
        raise UsageError("Microaggregate: columns must be a list of column names, or a list of such lists")
    flat = isinstance(columns[0], str)
    if any(isinstance(names, str) != flat or not isinstance(names, str | list | tuple) for names in columns):
        raise UsageError("Microaggregate: columns must be a list of column names, or a list of such lists")
    if flat:
        return (tuple(columns),)
    return tuple(checked_columns("Microaggregate", names) for names in columns)


def _patterns(engine: Primitives, table: Any, group: GroupPlan) -> Iterator[Pattern]:
    """Patterns of nulls with their trees, from the distinct combinations: sorted, so the same on every engine."""
    distinct = engine.distinct(table, group.columns)
    counts = distinct["__count"].to_numpy().astype(np.int64)
    rows = RowBlock(distinct.select(list(group.columns)).combine_chunks().to_batches()[0])
    gaps, points = missing_cells(rows, group.columns), group.points(rows)
    if not group.by_pattern:
        held = ~gaps.all(axis=1)
        yield Pattern((), int(counts[held].sum()), _tree(points[held], counts[held], group))
        return
    for gap in np.unique(gaps, axis=0):
        here = (gaps == gap).all(axis=1)
        missing = tuple(column for column, absent in zip(group.columns, gap, strict=True) if absent)
        yield Pattern(missing, int(counts[here].sum()), _tree(points[here], counts[here], group))


def _tree(points: NDArray[np.float64], counts: NDArray[np.int64], group: GroupPlan) -> BlockTree:
    from privpipe.kernels.kd_tree import BlockTree, learn_tree

    if group.block is None or counts.sum() <= group.block:
        return BlockTree()
    tree = learn_tree(points, group.k, group.block, weights=counts)
    thresholds = []
    for column, threshold in zip(tree.columns, tree.thresholds, strict=True):
        values = points[:, column]
        # Between two values: a plan holds no value of the data.
        following = values[values > threshold].min()
        middle = threshold + (following - threshold) / 2.0
        thresholds.append(float(middle if middle < following else threshold))
    return BlockTree(tree.columns, tuple(thresholds), tree.left, tree.right)


def _require_enough(pattern: Pattern, group: GroupPlan, records: int, context: StageContext) -> None:
    """Refuse what has no group of k; records without any value need none where they are kept."""
    if pattern.records >= group.k or (records and not pattern.records):
        return
    named = ", ".join(map(repr, group.columns))
    if pattern.missing:
        raise NoSolutionError(
            f"{context.place}: {pattern.records:,} records miss {', '.join(map(repr, pattern.missing))}, too few for "
            f"a group of k = {group.k} of {named}; lower k, suppress them first, or say `nulls: keep`"
        )
    raise NoSolutionError(
        f"{context.place}: k = {group.k} is more than the {pattern.records:,} records that have a value in {named}"
    )
