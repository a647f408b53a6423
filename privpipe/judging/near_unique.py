"""Columns in which most records have a value of their own: whoever knows that value finds the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, FactsRequest, RowBlock
from privpipe.engines import Engine
from privpipe.measures.risk.attribute.recovery import in_percent

__all__ = ["Values", "near_unique_notes", "values_of"]

PRUNED_BELOW = 0.1
"""A column whose distinct values, by an estimate, are fewer than this share of the records is not counted: for half of
the records to be alone the estimate would have to be off by five times its standard error of at most 13 %."""
HELD = 200_000
"""Distinct values that come to the driver, at the most."""


@dataclass(frozen=True)
class Values:
    """How the values of a column lie.

    Parameters
    ----------
    distinct : int
        Distinct values, a missing one not among them.
    own : int
        Records that share theirs with nobody, or with their own household alone.
    """

    distinct: int = 0
    own: int = 0


@dataclass(frozen=True)
class _SingleValueClasses:
    """A reduction over classes of one value each."""

    household: str | None

    def measure(self, block: ClassBlock, facts: Facts) -> Values:
        alone = block.sizes == 1
        if self.household is not None:
            alone |= np.diff(block.cells[self.household].offsets) == 1
        return Values(len(block), int(block.sizes[alone].sum()))

    def merge(self, left: Values, right: Values) -> Values:
        return Values(left.distinct + right.distinct, left.own + right.own)


def values_of(
    engine: Engine, table: Any, columns: Sequence[str], records: int, household: str | None
) -> dict[str, Values]:
    """The values of each column that may be near-unique; a missing value is nobody's own.

    Columns that an estimate of their distinct values rules out are left out.
    """
    estimated = engine.estimated_distinct(table, columns) if columns else {}
    near = [name for name in columns if estimated.get(name, records) >= PRUNED_BELOW * records]
    few = [name for name in near if household is None and min(estimated.get(name, records), records) <= HELD]
    found = _by_histograms(engine, table, few)
    return found | _by_classes(engine, table, [name for name in near if name not in found], household)


def _by_histograms(engine: Engine, table: Any, columns: Sequence[str]) -> dict[str, Values]:
    """Values that are few enough for the driver, all columns in one pass."""
    if not columns:
        return {}
    histograms = engine.facts(table, FactsRequest(histograms=tuple(columns))).histograms
    found = {}
    for name in columns:
        counts = histograms[name].counts
        counts = counts[:-1] if histograms[name].nulls else counts  # a missing value is nobody's own
        found[name] = Values(len(counts), int(np.count_nonzero(counts == 1)))
    return found


def _by_classes(engine: Engine, table: Any, near: Sequence[str], household: str | None) -> dict[str, Values]:
    """Values of any number, counted where they lie."""
    if not near:
        return {}
    nulls = engine.facts(table, FactsRequest(nulls=(*near, *([household] if household else [])))).nulls
    if household is not None and nulls[household]:
        household = None  # records without a household are not one household
    found: dict[str, Values] = {}
    for name in near:
        together = household if household != name else None
        seen = table
        if nulls[name]:
            kept = [name, *([together] if together else [])]
            chosen = engine.select(table, kept)
            seen = engine.map_rows(chosen, _Present(name), chosen.schema)
        query = ClassQuery(keys=(name,), columns=() if together is None else (together,))
        found[name] = engine.reduce_classes(seen, query, _SingleValueClasses(together), Facts()) or Values()
    return found


@dataclass(frozen=True)
class _Present:
    """The rows that have a value."""

    column: str

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.column(self.column).is_valid().to_numpy(zero_copy_only=False)))


def near_unique_notes(found: Mapping[str, Values], records: int, household: str | None) -> list[str]:
    """A sentence for each column in which more than half of the records have a value of their own.

    Examples
    --------
    >>> near_unique_notes({"income": Values(90, 80), "sex": Values(2, 0)}, 100, None)
    ['80 % of the records have a value of `income` of their own: whoever knows that value finds the record']
    """
    whose = "of their own" if household is None else "of their own or of their household's"
    return [
        f"{in_percent(values.own / records)} of the records have a value of `{name}` {whose}: whoever knows that value "
        "finds the record"
        for name, values in found.items()
        if 2 * values.own > records
    ]
