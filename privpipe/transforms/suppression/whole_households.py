"""Households leave as a whole: where one member goes, all go, until nothing more does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, ClassQuery, FactsRequest, Primitives
from privpipe.blocks.household_rule import HouseholdRule
from privpipe.errors import DataError, UsageError
from privpipe.transforms.base import StageContext
from privpipe.transforms.suppression.class_keys import KeysDropped

__all__ = ["household_rules", "without_parts"]


@dataclass(frozen=True)
class Fewer:
    """Which classes are of fewer households than must share a composition."""

    least: int

    def __call__(self, block: ClassBlock) -> NDArray[np.bool_]:
        return np.asarray(block.sizes < self.least, dtype=np.bool_)


def household_rules(context: StageContext) -> tuple[HouseholdRule, ...]:
    """The guarantees over compositions of households that a stage can work for: those with a least number, k."""
    return tuple(each for each in context.guarantees if isinstance(each, HouseholdRule) and each.least_alike() > 1)


def without_parts(
    engine: Primitives,
    entered: Any,
    table: Any,
    without_failing: Callable[[Any], Any],
    rules: tuple[HouseholdRule, ...],
    context: StageContext,
) -> Any:
    """What is left of a table when classes and households that fail are gone, and nobody is left of a part household.

    Parameters
    ----------
    entered : Table
        All records of the stage, suppressed ones too: who misses one of these is in part.
    table : Table
        Those that are not suppressed.
    without_failing : callable
        A table without its failing classes.
    rules : tuple of HouseholdRule
        What the compositions must meet.

    Raises
    ------
    UsageError
        Nothing tells households apart.
    DataError
        A record without a household, where compositions are judged.
    """
    from privpipe.kernels.ids.household_parts import parts_of

    household = context.household
    if household is None or household not in table.schema.names:
        raise UsageError(
            f"{context.place}: whole households cannot go without a column that tells them apart; name it as "
            "`household_id`, and keep it until this stage"
        )
    before = engine.distinct(entered, [household])
    left = table
    while True:
        left = without_failing(left)
        parts = parts_of(before, engine.distinct(left, [household]), household)
        if parts.num_rows:
            left = _without(engine, left, household, parts)
        size = engine.count(left)
        for rule in rules if size else ():
            left = _without_rare(engine, left, rule, context)
        if not size or (not parts.num_rows and engine.count(left) == size):
            return left


def _without(engine: Primitives, table: Any, household: str, gone: Any) -> Any:
    return engine.map_rows(table, KeysDropped.of((household,), gone.select([household])), table.schema)


def _without_rare(engine: Primitives, table: Any, rule: HouseholdRule, context: StageContext) -> Any:
    """The table without the households whose composition too few have."""
    import pyarrow.compute as pc

    from privpipe.kernels.ids.compositions import COMPOSITION, Bucketed, Composed, composition_schema

    household = str(context.household)
    own = context.roles.quasi_identifiers if rule.quasi_identifiers is None else rule.quasi_identifiers
    needed = tuple(name for name in (household, context.person) if name is not None)
    for name, missing in engine.facts(table, FactsRequest(nulls=needed)).nulls.items():
        if missing:
            raise DataError(f"{context.place}: column {name!r} has {missing:,} missing values; fill it in")
    composed = Composed(tuple(own), household, context.person)
    homes = engine.map_groups(table, Bucketed(household), composed, composition_schema(table.schema.field(household)))
    least = rule.least_alike()
    rare = engine.keep_classes(homes, ClassQuery(keys=COMPOSITION, columns=()), Fewer(least))
    gone = engine.distinct(rare, [household])
    gone = gone.filter(pc.is_valid(gone[household]))
    return _without(engine, table, household, gone) if gone.num_rows else table
