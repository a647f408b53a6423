"""Classes of the released sample compared with those of the population they were drawn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privpipe.blocks import ClassBlock, ClassQuery, Facts, Histogram
from privpipe.engines import Engine
from privpipe.errors import DataError
from privpipe.judging.entry_groups import Composite, Judged
from privpipe.judging.judged_table import with_row_columns

__all__ = ["Compared", "OverPopulation", "beside_population", "reduce_beside_population"]

SIDE = "__privpipe_side"


@dataclass(frozen=True)
class Compared:
    """What was judged, and the released classes that hold more records than the population does."""

    judged: Judged
    short_classes: int
    short_records: int


@dataclass(frozen=True)
class OverPopulation:
    """A composite that reads the class table of sample and population together, `SIDE` distinguishing them."""

    inner: Composite

    def measure(self, block: ClassBlock, facts: Facts) -> Compared:
        """Measure the classes of both; suppressed records are in no class, yet their persons are."""
        both, marked = beside_population(block)
        short = both.sizes > _population(both)
        judged = self.inner.measure(both, facts)
        return Compared(
            replace(judged, marked=marked, classes=int((both.sizes > 0).sum())),
            int(short.sum()),
            int(both.sizes[short].sum()),
        )

    def merge(self, left: Compared, right: Compared) -> Compared:
        """Merge entry by entry."""
        return Compared(
            self.inner.merge(left.judged, right.judged),
            left.short_classes + right.short_classes,
            left.short_records + right.short_records,
        )


def beside_population(block: ClassBlock) -> tuple[ClassBlock, int]:
    """The block with f_c as sizes and F_c as population, and the number of suppressed records taken out.

    Examples
    --------
    >>> from privpipe.blocks import Cells
    >>> cells = Cells(np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([2, 5, 4]))
    >>> both, _ = beside_population(ClassBlock(np.array([7, 4]), {SIDE: cells}))
    >>> both.sizes.tolist(), both.population.tolist()
    ([2, 0], [5, 4])
    """
    cells = block.cells[SIDE]
    owner = np.repeat(np.arange(len(block)), np.diff(cells.offsets))
    sides = np.zeros((2, len(block)), dtype=np.int64)
    sides[cells.codes, owner] = cells.counts
    sample, population = sides
    marked = 0
    if block.marked is not None:
        marked = int(sample[block.marked].sum())
        sample[block.marked] = 0
    there = (sample > 0) | (population > 0)
    others = {name: each.take(there) for name, each in block.cells.items() if name != SIDE}
    return ClassBlock(sample[there], others, population=population[there]), marked


def reduce_beside_population(
    engine: Engine, table: Any, query: ClassQuery, composite: Composite, facts: Facts, *, population: Any
) -> Judged | None:
    """Judge the classes of a sample and its population in one count; None for a sample without records.

    Raises
    ------
    DataError
        Classes with more records in the sample than in the population.
    """
    import pyarrow as pa

    sides = Histogram(pa.array([0, 1], pa.int64()), np.ones(2, dtype=np.int64))
    stacked = engine.stack(table, population, query.keys, SIDE)
    asked = replace(query, columns=(SIDE,), dictionaries={SIDE: sides})
    stacked, asked, facts = with_row_columns(engine, stacked, asked, composite.entries, facts)
    found = engine.reduce_classes(stacked, asked, OverPopulation(composite), facts)
    if found is None or not found.judged.released + found.judged.marked:
        return None
    if found.short_classes:
        raise DataError(
            f"not a sample of this population: {found.short_classes:,} of {found.judged.classes:,} classes hold more "
            f"records than the population does ({found.short_records:,} records); every released record must be of "
            "somebody in the population, generalized alike"
        )
    return found.judged


def _population(block: ClassBlock) -> Any:
    return np.zeros(len(block), np.int64) if block.population is None else block.population
