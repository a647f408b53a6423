"""Record suppression: whole classes that fail go, within one budget over the whole table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassModel, ClassQuery, Facts, Guarantee, Primitives
from privpipe.blocks.suppressed import NothingLeft, suppressed_alone, without_suppressed
from privpipe.errors import NoSolutionError
from privpipe.tolerance import floor_share
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.class_failures import JudgedSets, failing_rows, judged_sets, require_sample
from privpipe.transforms.suppression.class_keys import KeysDropped
from privpipe.transforms.suppression.counted_table import count_combinations, sensitive_codes, text_ranks
from privpipe.transforms.suppression.whole_households import household_rules, without_parts

__all__ = [
    "KeysDropped",
    "OwnLoss",
    "Passing",
    "budget_of",
    "least_share",
    "require_within",
    "sensitive_codes",
    "suppress_failing",
    "text_ranks",
]

OwnLoss = Callable[[Any], NDArray[np.float64]]
"""Own loss of classes, shape (n, r), from a pyarrow Table of their keys; ties of size go by it, column by column."""


@dataclass(frozen=True)
class Passing:
    """Which classes meet every one of some models."""

    models: tuple[ClassModel, ...]
    facts: Facts = field(repr=False)

    def __call__(self, block: ClassBlock) -> NDArray[np.bool_]:
        passing = np.ones(len(block), dtype=np.bool_)
        for model in self.models:
            passing &= model.passing(block, self.facts)
        return passing


def suppress_failing(
    engine: Primitives,
    table: Any,
    context: StageContext,
    limit: float,
    *,
    entering: int | None = None,
    own_loss: OwnLoss | None = None,
    serves: Collection[str] = ("persons",),
    whole: Any = None,
) -> Any:
    """Remove the classes that fail, in rounds until none does, then what sample-based models ask for.

    With `whole`, all records that entered the stage, households go as a whole: those that lack one of these lose all,
    and what is left is judged again, until nothing more goes. The budget counts records all the same.

    Parameters
    ----------
    limit : float
        Budget as a share of the records that enter the stage, over the whole table.
    entering : int, optional
        That number, when some have been removed already; default: the records of `table`.
    own_loss : callable, optional
        Ties among classes of one size go by it, then by class key; without it by class key.
    whole : Table, optional
    serves : collection of str
        Ways of counting that the stage serves; see `Transformer.serves`.

    Raises
    ------
    UnsupportedError
        The policy asks for another one.
    NoSolutionError
        More records would have to go than the budget allows; the message says how many.
    """
    before = engine.count(table) if entering is None else entering
    sets = judged_sets(context, serves=serves)
    rules = () if whole is None else household_rules(context)
    if not sets.keys and not rules:
        return table
    # Records that a recoding left nothing of but marks are in no class that is judged.
    nothing, entered = NothingLeft(context.released(table.schema), context.mark), table
    table = without_suppressed(engine, table, nothing)

    def without_failing(left: Any) -> Any:
        return _once(engine, left, sets, context, own_loss)

    if whole is not None:
        kept = without_parts(engine, whole, table, without_failing, rules, context)
    else:
        kept = without_failing(table)
    if table is not entered:
        kept = engine.append(kept, suppressed_alone(engine, entered, nothing))
    require_within(before - engine.count(kept), limit, before, context)
    return kept


def _once(engine: Primitives, table: Any, sets: JudgedSets, context: StageContext, own_loss: OwnLoss | None) -> Any:
    """The table without the classes that fail."""
    if not sets.keys:
        return table
    kept = table
    if len(sets.keys) == 1 and not sets.compared and not sets.labels:
        # Failing classes go where they lie: removing them changes no other class.
        for keys, models in sets.class_models.items():
            kept = engine.keep_classes(kept, class_query(keys, models, context), Passing(models, context.base))
        done = not sets.size_models
    else:
        done = False
    if not done:
        kept = _without_failing(engine, kept, sets, context, own_loss)
    return kept


def require_within(gone: int, limit: float, records: int, context: StageContext) -> None:
    """Refuse more suppressed records than the budget allows, and a table of which nothing is left.

    Raises
    ------
    NoSolutionError
    """
    if not records:
        raise NoSolutionError(f"{context.place}: no record is left to suppress anything of")
    budget, share = budget_of(limit, records, context), least_share(gone, records + context.suppressed)
    if gone > budget:
        raise NoSolutionError(
            f"{context.place}: the guarantees need {gone:,} of {records:,} records suppressed, the limit allows "
            f"{budget:,}; it would take suppress_at_most >= {share:g}, or more generalization "
            "before it"
        )
    if gone == records:
        raise NoSolutionError(f"{context.place}: every record would have to be suppressed")


def budget_of(limit: float, records: int, context: StageContext) -> int:
    """How many of the records of a stage may go: a share of all that entered it, those set aside among them."""
    return floor_share(limit, records + context.suppressed)


def least_share(gone: int, records: int) -> float:
    """The least share, to six digits, whose budget covers so many of the records.

    Examples
    --------
    >>> least_share(1, 3), least_share(3, 30)
    (0.333334, 0.1)
    """
    share = -(-1_000_000 * gone // records) / 1_000_000
    return share if floor_share(share, records) >= gone else share + 1e-6


def class_query(keys: Sequence[str], models: Sequence[Guarantee], context: StageContext) -> ClassQuery:
    """The count these models need."""
    columns = dict.fromkeys(column for model in models for column in model.sensitive_columns())
    coded = {column for model in models if model.needs_base for column in model.sensitive_columns()}
    return ClassQuery(
        keys=tuple(keys),
        columns=tuple(columns),
        dictionaries={column: context.base.histograms[column] for column in columns if column in coded},
        person=context.counted_by,
    )


def _without_failing(
    engine: Primitives, table: Any, sets: JudgedSets, context: StageContext, own_loss: OwnLoss | None
) -> Any:
    """Count once, decide on the driver as the search does, and drop the combinations that go."""
    counted = count_combinations(engine, table, sets, context)
    if counted is None:
        return table
    require_sample(sets, counted.rows, counted.classes)

    def ties(names: tuple[str, ...], at: NDArray[np.int64]) -> list[NDArray[Any]]:
        own = [] if own_loss is None else list(own_loss(counted.keys.select(list(names)).take(at)).T)
        # Last the order of the keys, so that no two classes are equal.
        return [*own, *(counted.codes[name][at] for name in names), at]

    failures = failing_rows(sets, counted.rows, counted.classes, counted.facts, ties)
    if not failures.met:
        asked = ", ".join(repr(model) for model in context.guarantees)
        raise NoSolutionError(f"{context.place}: {asked} cannot be met by suppressing classes")
    if not failures.rows.any():
        return table
    if failures.rows.all():
        raise NoSolutionError(f"{context.place}: every record would have to be suppressed")
    gone = counted.keys.filter(failures.rows)
    return engine.map_rows(table, KeysDropped.of(gone.schema.names, gone), table.schema)
