"""Two more ways to count classes: blanks that match anything, and records next to a population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, Histogram
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import weights_of
from privpipe.blocks.row_reductions import bears_nothing
from privpipe.engines import Engine
from privpipe.engines.base.histograms import codes_of
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging.judged_table import with_row_columns
from privpipe.judging.rules import Composite, Judged
from privpipe.judging.table_facts import ClassCount

__all__ = [
    "MOST_PATTERNS",
    "MOST_STEPS",
    "Compared",
    "OverPopulation",
    "beside_population",
    "matching_block",
    "reduce_beside_population",
    "reduce_matching",
]


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
        short = both.sizes > (np.zeros(len(both), np.int64) if both.population is None else both.population)
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


MOST_PATTERNS = 1 << 24
"""Distinct patterns that the driver holds."""
MOST_STEPS = 1 << 33
"""Patterns times masks that it joins."""


def reduce_matching(
    engine: Engine, table: Any, query: ClassQuery, composite: Composite, facts: Facts, *, wildcard: str | None
) -> Judged | None:
    """Judge the distinct patterns of some keys by the records that match each; None for a table without records.

    Raises
    ------
    UnsupportedError
        More patterns, or more pairs of masks, than the driver serves.
    """
    asked = tuple(dict.fromkeys((*query.keys, *query.dictionaries, *((query.weight,) if query.weight else ()))))
    _require_few(engine, table, asked)
    found = engine.distinct(table, asked)
    if not found.num_rows or not int(found["__count"][0].as_py()):
        return None
    block, marked = matching_block(found, query.keys, wildcard, query.mark, query.weight, query.dictionaries)
    return replace(composite.measure(block, facts), marked=marked, alone=block.alone)


def matching_block(
    distinct: Any,
    keys: Sequence[str],
    wildcard: str | None,
    mark: str | None,
    weight: str | None = None,
    dictionaries: Mapping[str, Histogram] | None = None,
) -> tuple[ClassBlock, int]:
    """Patterns as a block, with their matching sizes, and the number of records that consist of the mark left out.

    A record without a value in any of the keys vouches for no other record: it matches those like it and no others.

    Parameters
    ----------
    distinct : pyarrow.Table
        Distinct combinations of `keys` (and of the columns below) with their `__count`.
    wildcard : str or None
        A text that matches anything, as a missing value does.
    weight : str, optional
        Column of sampling weights to add up.
    dictionaries : mapping of column to Histogram, optional
        Columns counted within each pattern.

    Examples
    --------
    >>> import pyarrow as pa
    >>> distinct = pa.table({"sex": ["F", "M", None], "__count": [1, 2, 4]})
    >>> block, _ = matching_block(distinct, ["sex"], None, "*")
    >>> block.sizes.tolist(), block.matching.tolist()
    ([4, 1, 2], [4, 1, 2])
    """
    from privpipe.kernels.local_suppression.wildcard_matching import (
        informative_frequencies,
        informative_sizes,
        mask_count,
    )

    counts = distinct["__count"].to_numpy().astype(np.int64)
    columns = [distinct[name].combine_chunks() for name in keys]
    marked = np.full(len(counts), mark is not None and bool(columns))
    for column in columns if mark is not None else ():
        marked &= bears_nothing(column, str(mark))
    codes = np.full((len(counts), len(columns)), -1, dtype=np.int64)
    for place, column in enumerate(columns):
        codes[:, place] = _codes(column, wildcard)
    codes, kept = codes[~marked], counts[~marked]
    _require_served(len(codes), mask_count(codes))
    # With a wildcard text two patterns may read differently and mean the same; then they are one.
    distinct_codes, first, owner = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    owner = owner.ravel()
    merged = np.bincount(owner, weights=kept, minlength=len(first)).astype(np.int64)
    complete: Bools = np.asarray((distinct_codes >= 0).all(axis=1))
    gone = int(counts[marked].sum())
    cells = {
        column: _cells(codes_of(distinct[column].combine_chunks(), histogram, column)[~marked], owner, kept, len(first))
        for column, histogram in (dictionaries or {}).items()
    }
    if weight is None:
        return ClassBlock(merged, cells, matching=informative_sizes(distinct_codes, merged), complete=complete), gone
    weights = _pattern_weights(
        weights_of(distinct[weight], np.where(marked, 0, counts), weight)[~marked], owner, kept, len(first)
    )
    found = informative_frequencies(distinct_codes, merged, weights)
    return (
        ClassBlock(
            merged,
            cells,
            matching=found.matching,
            weights=found.weights,
            partial=found.partial,
            partial_weights=found.partial_weights,
            complete=complete,
        ),
        gone,
    )


def _pattern_weights(weights: Floats, owner: NDArray[np.intp], counts: Ints, patterns: int) -> Floats:
    """Weight of each pattern, exact and rounded once."""
    from privpipe.kernels.columns.arrays import read_only
    from privpipe.kernels.weight_sums import exact_sum_by_class

    order = np.argsort(owner, kind="stable")
    offsets = np.searchsorted(owner[order], np.arange(patterns + 1)).astype(np.int64)
    cells = read_only(offsets, np.int64), read_only(weights[order], np.float64), read_only(counts[order], np.int64)
    return np.asarray(exact_sum_by_class(*cells), dtype=np.float64)


def _cells(codes: Ints, owner: NDArray[np.intp], counts: Ints, patterns: int) -> Cells:
    """Records of each pattern with each code."""
    pairs, place = np.unique(np.column_stack([owner, codes]), axis=0, return_inverse=True)
    offsets = np.searchsorted(pairs[:, 0], np.arange(patterns + 1)).astype(np.int64)
    sums = np.bincount(place.ravel(), weights=counts, minlength=len(pairs)).astype(np.int64)
    return Cells(offsets, pairs[:, 1].astype(np.int64), sums)


def _require_few(engine: Engine, table: Any, keys: Sequence[str]) -> None:
    """Count the patterns where they are before any of them travels to the driver."""
    if engine.count(table) <= MOST_PATTERNS:
        return
    patterns = engine.reduce_classes(table, ClassQuery(keys=tuple(keys)), ClassCount(), Facts()) or 0
    if patterns > MOST_PATTERNS:
        raise _too_many(f"{patterns:,} combinations")


def _require_served(patterns: int, masks: int) -> None:
    if patterns > MOST_PATTERNS or patterns * masks > MOST_STEPS:
        raise _too_many(f"{patterns:,} combinations with {masks:,} different sets of missing columns")


def _too_many(what: str) -> UnsupportedError:
    return UnsupportedError(
        f"nulls: wildcard serves {MOST_PATTERNS:,} distinct combinations and {MOST_STEPS:,} comparisons of them; "
        f"this table has {what}; judge fewer quasi-identifiers at a time, generalize them, or write "
        "`nulls: own_value`, which is stricter"
    )


def _codes(column: Any, wildcard: str | None) -> Ints:
    import pyarrow as pa
    import pyarrow.compute as pc

    if wildcard is not None and pa.types.is_string(column.type):
        column = pc.if_else(pc.equal(column, wildcard), pa.scalar(None, column.type), column)
    encoded = column.dictionary_encode()
    codes: Ints = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
