"""Full-domain generalization: one level per column, failing classes suppressed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le
from typing_extensions import Doc

from privpipe.blocks import Primitives
from privpipe.blocks.arrays import Bools
from privpipe.blocks.marks import Columns, Levels
from privpipe.blocks.parameters import check_parameters
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.roles import column_type_of
from privpipe.transforms.base import StageContext, StagePlan, checked_columns
from privpipe.transforms.local_suppression.suppress_cells_stage import Blanked, apply_blanks
from privpipe.transforms.recoding.labelling import (
    Labelled,
    Labelling,
    LossSpec,
    OwnUnitLoss,
    RecodingStage,
    definition_digest,
    earlier,
    hierarchies_of,
    is_recoded,
    labels_at,
    learnt_lengths,
    quality_parameters,
    texts_of,
    type_of,
    unit_losses,
    with_lengths,
)
from privpipe.transforms.suppression.class_failures import KeysDropped, with_marked, with_unknown_marked
from privpipe.transforms.suppression.record_suppression import require_within, suppress_failing

if TYPE_CHECKING:
    import pyarrow as pa

    from privpipe.draws import Draws
    from privpipe.hierarchies import Hierarchy

__all__ = [
    "MOST_NODES",
    "GeneralizeStage",
    "LossSpec",
    "SearchBudget",
    "generalized_columns",
    "how_given",
    "levels_detail",
]


Search = Literal["optimal", "minimal", "datafly", "bottom_up", "top_down", "genetic"]
Criterion = Literal[
    "minimum_suppression", "minimum_absolute_distance", "minimum_relative_distance", "maximum_distribution"
]
ApproachName = Literal["AG_TS", "AG_AS", "AG_CS", "AG_", "CG_TS", "CG_AS", "CG_CS", "CG_", "_TS", "_AS", "_CS", "_"]

MOST_NODES = 100_000
"""Vectors that a search checks at most, where its policy does not say."""
CARRIED = ("levels", "recoded", "level_names", "hierarchies", "builders", "data_dependent")
"""What a plan states about levels, and not of the table it was made for."""


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """How much a search may do before it ends with the best it has.

    Parameters
    ----------
    nodes : int, optional
        Vectors of levels that may be checked. Default: 100,000, or as many fewer as keep a search of a large table to
        some minutes of one core; they are counted by the table's size, so the outcome stays the same everywhere.
    seconds : float, optional
        Additional limit of time; the result then depends on the machine, as the plan states.
    """

    nodes: Annotated[int | None, Ge(1)] = None
    seconds: Annotated[float | None, Gt(0)] = None

    def __post_init__(self) -> None:
        check_parameters(self, "Generalize", "budget.")

    def stated(self) -> dict[str, Any]:
        """As plans have stated it ever since, so that an older plan fits a policy that leaves it out."""
        return {**asdict(self), "nodes": MOST_NODES if self.nodes is None else self.nodes}


@dataclass(frozen=True, kw_only=True, repr=False)
class GeneralizeStage(RecodingStage):
    """What `Generalize` does to rows once its plan is known."""

    columns_rule = "optional"
    searches = True
    suppresses = True
    recodes_other_rows = True
    serves = ("persons", "population", "wildcard", "labels")
    preserves = "truth: every label covers the value it stands for"
    reveals = "that a finer vector of levels did not meet the guarantees (minimality)"
    source = "Samarati, IEEE TKDE 13(6), 2001; Iyengar, KDD 2002 (loss); Bayardo, Agrawal, ICDE 2005"

    columns: Annotated[
        tuple[str, ...] | None, Columns(), Doc("columns to generalize; default: the quasi-identifiers with a hierarchy")
    ] = None
    search: Annotated[
        Search | None, Doc("how the levels are chosen: optimal, minimal, datafly, bottom_up, top_down or genetic")
    ] = None
    levels: Annotated[
        dict[str, Annotated[int, Ge(0)]] | None,
        Levels(),
        Doc("instead of a search: the level of each column, 0 for the raw value"),
    ] = None
    loss: Annotated[
        LossSpec,
        Doc(
            "the quality model: {name, aggregate, gs_factor, weights}, in addition to compat of "
            "kl_divergence, attacker and amounts of publisher_payout, penalties of static, response "
            "of classification"
        ),
    ] = field(default_factory=LossSpec)
    suppress_at_most: Annotated[float | None, Ge(0), Le(1), Doc("share of the records that may be suppressed")] = None
    criteria: Annotated[
        tuple[Criterion, ...] | None, Doc("for search minimal: criteria among minimal vectors, in order of preference")
    ] = None
    minimal: Annotated[Literal["one", "all"], Doc("of search minimal: whether the plan lists one or all")] = "one"
    mark: Annotated[bool, Doc("whether a suppressed record stays as a row of the suppression mark")] = False
    roots_only: Annotated[bool, Doc("whether each column is either raw or at its root")] = False
    approach: Annotated[ApproachName | None, Doc("short form: AG_TS, AG_AS, AG_CS, AG_, _AS or _TS")] = None
    budget: Annotated[SearchBudget, Doc("limit of the search: {nodes, seconds}; default: by the size of the table")] = (
        field(default_factory=SearchBudget)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None:
            object.__setattr__(self, "columns", checked_columns("Generalize", self.columns))
        if self.levels is not None and self.search is not None:
            raise UsageError("Generalize: give a search or levels, not both")
        for column in self.levels or {}:
            if self.columns is not None and column not in self.columns:
                raise UsageError(
                    f"Generalize: levels.{column} is not among columns{did_you_mean(column, self.columns)}"
                )
        self._require_options()

    def _require_options(self) -> None:
        """Refuse options that say nothing to the others."""
        if self.criteria is not None:
            if not isinstance(self.criteria, list | tuple) or not self.criteria:
                raise UsageError("Generalize: criteria must be a list of at least one criterion")
            object.__setattr__(self, "criteria", tuple(self.criteria))
        if self.search != "minimal" and (self.criteria is not None or self.minimal != "one"):
            raise UsageError("Generalize: criteria and minimal are of search: minimal")
        if self.levels is not None and (self.roots_only or self.approach is not None):
            raise UsageError("Generalize: roots_only and approach are of a search, and levels are given")
        if self.mark and self.limit is None:
            raise UsageError(
                "Generalize: mark is about suppressed records, and without suppress_at_most there are none"
            )
        if self.approach is None:
            return
        if not self.approach.endswith("TS") and self.suppress_at_most:
            raise UsageError(f"Generalize: approach {self.approach} suppresses no records; leave suppress_at_most out")

    @property
    def is_search(self) -> bool:
        """Whether the levels are searched for."""
        return self.levels is None

    @property
    def limit(self) -> float | None:
        """Share that may be suppressed; None when nothing is."""
        return 0.0 if self.is_search and self.suppress_at_most is None else self.suppress_at_most

    @classmethod
    def public_detail(cls, detail: Mapping[str, Any]) -> dict[str, Any]:
        return {"levels": dict(detail.get("levels", {}))}  # the labels are in the data

    def recoded_at_all(self, context: StageContext) -> list[str]:
        at, columns = self.levels or {}, generalized_columns(self, context)
        return [name for name in columns if self.is_search or self.mark or at.get(name, 0)]

    def run(self, engine: Primitives, table: Any, plan: StagePlan, draws: Draws, context: StageContext) -> Any:
        made = context.made_of(table)
        if made is not None:
            return made
        entered = self.labelled(engine, table, self._labelling(engine, table, plan, context), context)
        if "blanks" in plan.detail:
            return apply_blanks(engine, entered.table, Blanked.from_dict(plan.detail), draws.of("cells"), context)
        passing = self.passing(engine, entered, int(plan.detail["records"]), context)
        return self.finished(engine, entered, passing, context)

    def _labelling(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> Labelling:
        """The labels of a plan's levels, by the hierarchies it was made with."""
        columns = generalized_columns(self, context)
        specs = with_lengths(context.hierarchies, plan.detail.get("lengths", {}))
        context, declared = replace(context, hierarchies=specs), context
        levels = {column: int(plan.detail["levels"][column]) for column in columns}
        hierarchies, values = hierarchies_of(engine, table, columns, context)
        planned = plan.detail["hierarchies"]
        strange = [name for name in columns if self.defined(name, hierarchies[name], declared) != planned[name]]
        # What `lengths` fix is not part of a definition, and labels are.
        for older, definition in zip(earlier(specs), earlier(declared.hierarchies), strict=True):
            if not strange:
                break
            found, _ = hierarchies_of(engine, table, tuple(strange), replace(context, hierarchies=older))
            hierarchies |= found
            before = replace(declared, hierarchies=definition)
            strange = [name for name in strange if self.defined(name, hierarchies[name], before) != planned[name]]
        for column in strange:
            raise DataError(f"{context.place}: the hierarchy of {column!r} is not the one the plan was made with")
        return Labelling(hierarchies, values, levels, tuple(plan.detail["recoded"]))

    def labelled(self, engine: Primitives, table: Any, labels: Labelling, context: StageContext) -> Labelled:
        """The records whose values are known, under labels.

        Raises
        ------
        NoSolutionError
            There are others, and nothing may be suppressed.
        """
        codebooks, before, unknown = {}, table, []
        for column, level in labels.levels.items():
            hierarchy, values = labels.hierarchies[column], labels.values[column]
            codes = hierarchy.encode(texts_of(values, context, column))
            known = codes >= 0
            if not known.all():
                unknown.append(_known_by(column, values.filter(_mask(~known))))
                table = engine.map_rows(table, unknown[-1], table.schema)
            if column in labels.recoded:
                codebooks[column] = (values.filter(_mask(known)), labels_at(hierarchy, level, codes[known]))
        if self.mark and context.counts_households:
            raise UnsupportedError(
                f"{context.place}: `mark` blanks the records of classes, and guarantees over households take whole "
                "households out; leave mark out"
            )
        if table is not before and self.limit is None:
            records = engine.count(before)
            require_within(records - engine.count(table), 0.0, records, context)
        recoded = engine.recode(table, codebooks) if codebooks else table
        return Labelled(labels, before, table, recoded, tuple(unknown))

    def passing(self, engine: Primitives, labelled: Labelled, entering: int, context: StageContext) -> Any:
        """The labelled records without the classes that fail, given the number of records that entered the stage.

        Raises
        ------
        NoSolutionError
            More would have to go than may.
        """
        if self.limit is None:
            return labelled.table
        labels = labelled.labels
        units = {
            column: unit_losses(labels.hierarchies[column], level, self.loss) for column, level in labels.levels.items()
        }
        return suppress_failing(
            engine,
            labelled.table,
            context,
            self.limit,
            entering=entering,
            own_loss=OwnUnitLoss(units, self.loss),
            serves=self.serves,
            whole=labelled.before if context.counts_households else None,
        )

    def finished(self, engine: Primitives, labelled: Labelled, passing: Any, context: StageContext) -> Any:
        """What passes, and the other records as rows of the mark where they stay."""
        if not self.mark:
            return passing
        marked = with_marked(engine, labelled.table, passing, context)
        if not labelled.unknown:
            return marked
        return with_unknown_marked(engine, marked, labelled.before, labelled.unknown, context)

    def carried(self, engine: Primitives, table: Any, plan: StagePlan, context: StageContext) -> StagePlan:
        if "blanks" in plan.detail:
            return super().carried(engine, table, plan, context)
        # The levels have another cost on this table than on the first one.
        kept = {name: plan.detail[name] for name in CARRIED}
        kept |= {"lengths": plan.detail["lengths"]} if "lengths" in plan.detail else {}
        return replace(plan, detail={**kept, "records": engine.count(table)})

    def stated_parameters(self) -> dict[str, Any]:
        return {**self.parameters(), "loss": quality_parameters(self.loss), "budget": self.budget.stated()}

    def defined(self, column: str, hierarchy: Hierarchy, context: StageContext) -> str:
        """How a plan recognises the hierarchy of a column."""
        return context.keyed(definition_digest(context.hierarchies[column], hierarchy, type_of(context, column)))

    @classmethod
    def examples(cls) -> list[Self]:
        return [
            cls(),
            cls(suppress_at_most=0.3),
            cls(search="minimal", suppress_at_most=0.3, mark=True),
            cls(levels={}),
        ]


def levels_detail(
    stage: GeneralizeStage, hierarchies: Mapping[str, Hierarchy], levels: Mapping[str, int], context: StageContext
) -> dict[str, Any]:
    """What a plan states about its levels and the hierarchies they are of."""
    return {
        "levels": dict(levels),
        "recoded": [name for name, own in hierarchies.items() if is_recoded(own, levels[name]) or stage.mark],
        "level_names": {name: own.level_names[levels[name]] for name, own in hierarchies.items()},
        "hierarchies": {name: stage.defined(name, own, context) for name, own in hierarchies.items()},
        **learnt_lengths(context.hierarchies, hierarchies),
        "builders": {name: context.hierarchies[name].recorded() for name in hierarchies},
        "data_dependent": [name for name, own in hierarchies.items() if own.data_dependent],
    }


def generalized_columns(stage: GeneralizeStage, context: StageContext) -> tuple[str, ...]:
    """The columns a stage generalizes, in policy order.

    Raises
    ------
    UsageError
        None at all, one without a hierarchy, or one that is not a quasi-identifier.
    """
    held = [name for name in context.roles.quasi_identifiers if name in context.hierarchies]
    asked = list(stage.columns or stage.levels or held)
    for column in [*asked, *(stage.levels or {}), *stage.loss.weights]:
        if column not in held:
            raise UsageError(
                f"{context.place}: {column!r} is not a quasi-identifier with a hierarchy{did_you_mean(column, held)}; "
                f"{how_given(column, context)}"
            )
    if not asked:
        name = next(iter(context.roles.quasi_identifiers), "age")
        raise UsageError(
            f"{context.place}: no quasi-identifier has a `hierarchy:`, so there is nothing to generalize; "
            f"{how_given(name, context)}"
        )
    return tuple(name for name in held if name in set(asked))


NUMBERS = ("integer", "number", "decimal")


def how_given(column: str, context: StageContext) -> str:
    """How a call and a policy give a column its role and its hierarchy, where it lacks them."""
    given = [] if column in context.roles.quasi_identifiers else [f"quasi_identifiers=[{column!r}]"]
    if column not in context.hierarchies:
        numbers = column in context.schema.names and column_type_of(context.schema.field(column).type) in NUMBERS
        builder = {"bands": {"steps": [5, 10, 20]}} if numbers else {"redact": {"keep": "left"}}
        given.append(f"hierarchies={{{column!r}: {builder}}} (or another builder, or the path of a CSV file)")
    return (
        f"in Python give {' and '.join(given)}; in a policy `role: quasi_identifier` and `hierarchy:` of the column; "
        "`privpipe explain hierarchy` lists the builders"
    )


def _mask(known: Bools) -> pa.Array:
    import pyarrow as pa

    return pa.array(known)


def _known_by(column: str, values: pa.Array) -> KeysDropped:
    """Records whose value the hierarchy lacks are suppressed before all others (`unknown: suppress`)."""
    import pyarrow as pa

    return KeysDropped.of((column,), pa.table({column: values}))
