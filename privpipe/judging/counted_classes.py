"""Count the classes of a judged table: once for each set of quasi-identifiers, for every entry of a run; by
wildcards too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import Cells, ClassBlock, ClassQuery, Facts, FactsRequest, Histogram, Tally, Verdict
from privpipe.blocks.arrays import Bools, Floats, Ints
from privpipe.blocks.class_block import weights_of
from privpipe.blocks.row_reductions import bears_nothing, weight_faults
from privpipe.blocks.verdict import Comparison
from privpipe.engines import Engine
from privpipe.engines.base.class_blocks import codes_of
from privpipe.errors import DataError, UnsupportedError
from privpipe.judging.assessment import all_suppressed, not_judged, resting_on
from privpipe.judging.judged_table import JudgedTable, with_row_columns
from privpipe.judging.rules import Composite, Group, Judged, groups_of, query_of
from privpipe.judging.table_facts import ClassCount

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee
    from privpipe.judging.rules import Base, JudgingRules
    from privpipe.roles import Roles

__all__ = [
    "MOST_PATTERNS",
    "MOST_STEPS",
    "NO_RECORDS",
    "Compared",
    "CountedClasses",
    "JudgingContext",
    "OverPopulation",
    "alone_notes",
    "beside_population",
    "count_classes",
    "matching_block",
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
            "someone in the population, generalized alike"
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

    A record without a value in any of the keys matches only records like it, so it counts in no other record's class.

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
    from privpipe.blocks.arrays import read_only
    from privpipe.kernels.exact_sums import exact_sum_by_class

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


@dataclass(frozen=True, kw_only=True)
class JudgingContext:
    """One table with everything that belongs to it, shared by the ways of judging.

    Parameters
    ----------
    judged_table : JudgedTable
        The judged table, and the table without its suppressed records.
    entries : tuple of Guarantee
        All entries in their order, filled in from the roles.
    roles : Roles
    rules : JudgingRules
    facts : mapping of base to Facts
        What was learnt of the table, under each distribution that an entry compares with.
    facts_by_unit : mapping of column to such a mapping
        The same for entries that count by another column than the rest.
    original : Table, optional
    released : Table, optional
        The judged records with their ids, where the table itself carries none.
    population : Table, optional
    """

    judged_table: JudgedTable
    entries: tuple[Guarantee, ...]
    roles: Roles
    rules: JudgingRules
    facts: Mapping[Base, Facts] = field(repr=False)
    facts_by_unit: Mapping[str | None, Mapping[Base, Facts]] = field(default_factory=dict, repr=False)
    original: Any = field(default=None, repr=False)
    released: Any = field(default=None, repr=False)
    population: Any = field(default=None, repr=False)

    def facts_of(self, unit: str | None) -> Mapping[Base, Facts]:
        """Facts under each base for entries that count by this column."""
        return self.facts if unit == self.rules.person else self.facts_by_unit[unit]

    @property
    def engine(self) -> Engine:
        """The engine of all tables."""
        return self.judged_table.engine

    @cached_property
    def with_ids(self) -> JudgedTable:
        """The judged records with their ids."""
        if self.released is None:
            return self.judged_table
        # They hold the released columns and no others.
        return JudgedTable.of(self.engine, self.released, replace(self.rules, released=None))

    @cached_property
    def weight_faults(self) -> Mapping[str, str]:
        """By weight column of an entry, why its sums would be wrong; columns that are sound are not in it."""
        judged_table = self.judged_table
        columns = dict.fromkeys(name for entry in self.entries if (name := entry.weight_column()) is not None)
        found = {name: weight_faults(self.engine, judged_table.table, name) for name in columns}
        # Suppressed records have no weight, and need none.
        return {
            name: why
            for name, first in found.items()
            if first and (why := weight_faults(self.engine, judged_table.left, name))
        }

    @property
    def aligned(self) -> bool:
        """Whether an original is at hand and records of both tables have ids."""
        original = self.original
        return original is not None and bool(original.has_record_ids and self.with_ids.table.has_record_ids)


NO_RECORDS = "the table has no records: there is nothing to judge"


@dataclass(frozen=True)
class CountedClasses:
    """What the entries over classes saw.

    Parameters
    ----------
    verdicts : mapping of int to Verdict
        By the place of the entry among all of the run.
    first : Judged, optional
        What the entries of the first count of records saw; the policy's own quasi-identifiers come first.
    classes : int, optional
        Classes of the first count over all of its columns.
    notes : tuple of str
    """

    verdicts: Mapping[int, Verdict]
    first: Judged | None = None
    classes: int | None = None
    notes: tuple[str, ...] = ()


def count_classes(context: JudgingContext) -> CountedClasses:
    """Judge every entry of the run that reads classes."""
    first: Judged | None = None
    classes: int | None = None
    notes: list[str] = []
    tallies: dict[int, list[Tally]] = {}
    verdicts: dict[int, Verdict] = {
        at: not_judged(entry, context.weight_faults[str(entry.weight_column())])
        for at, entry in enumerate(context.entries)
        if entry.weight_column() in context.weight_faults
    }
    for group in groups_of(context.entries, context.roles, context.rules, context.weight_faults):
        facts = context.facts_of(group.unit)[group.base]
        judged = _judged(context, group, facts)
        if group.unit is None and first is None:
            first = judged
        notes += alone_notes(judged, group.keys, context.roles)
        if classes is None and group.keys == group.over:  # not those over only some columns
            classes = judged.classes
        for place, (at, entry) in enumerate(group.entries):
            if not judged.released:
                verdicts[at] = all_suppressed(entry, allowed=context.rules.allow_empty)
                continue
            tallies.setdefault(at, []).append(judged.tallies[place])
            verdict = entry.judge(entry.across(tallies[at]), facts)
            verdicts[at] = resting_on(verdict, _in_population(judged)) if group.population else verdict
    return CountedClasses(verdicts, first, classes, tuple(notes))


def alone_notes(judged: Judged, keys: Sequence[str], roles: Roles) -> list[str]:
    """How many complete records are hidden only by blanks of others; nothing where blanks match nothing."""
    if judged.alone is None:
        return []
    over = "" if tuple(keys) == tuple(roles.quasi_identifiers) else f" over {', '.join(keys)}"
    return [
        f"{judged.alone:,} of {judged.released:,} records are complete in the quasi-identifiers{over} and equal no "
        "other complete record: blanks of others alone hide them"
    ]


def _in_population(judged: Judged) -> Comparison:
    """Each released record was found: a class with more of them than the population holds is refused by the count."""
    return Comparison(judged.released, judged.released, "released records are in a class of the population")


def _judged(context: JudgingContext, group: Group, facts: Facts) -> Judged:
    """What the group's entries saw of the records that are not suppressed."""
    engine, table, count = context.engine, context.judged_table, _counting(context, group)
    entries = tuple(entry for _, entry in group.entries)
    composite, adding = Composite(entries), () if group.population else entries
    query = query_of(group, facts, context.rules)
    if not _is_counted_apart(table, query):
        whole = replace(query, mark=None) if table.known == 0 else query
        try:
            rows, asked, known = with_row_columns(engine, table.table, whole, adding, facts)
            judged = count(rows, asked, composite, known)
        except DataError:
            # The mark is not a value of a base distribution, nor a missing value where a record needs one.
            if not table.suppressed:
                raise
        else:
            if judged is None:
                raise DataError(NO_RECORDS)
            if _is_accounted_for(table, whole, judged):
                return judged
    rows, asked, known = with_row_columns(engine, table.left, replace(query, mark=None), adding, facts)
    judged = count(rows, asked, composite, known)
    if judged is None:
        return Judged((), 0, table.suppressed, 0)
    return replace(judged, marked=table.suppressed)


def _counting(context: JudgingContext, group: Group) -> Callable[[Any, ClassQuery, Composite, Facts], Judged | None]:
    """Every class once, in the way that the rules require."""
    if context.rules.nulls == "wildcard":
        return partial(reduce_matching, context.engine, wildcard=context.rules.wildcard)
    if group.population:
        return partial(reduce_beside_population, context.engine, population=context.population)
    return context.engine.reduce_classes


def _is_counted_apart(table: JudgedTable, query: ClassQuery) -> bool:
    """Whether suppressed records are there, and must be left out before the classes are counted."""
    needed = tuple(name for name in (query.weight, query.person) if name is not None)
    # Suppressed records have no weight and no person, and need none.
    lacking = bool(needed) and any(table.engine.facts(table.table, FactsRequest(nulls=needed)).nulls.values())
    unseen = bool(query.keys) and not table.holds_suppressed(query.keys)
    return bool(table.known or ((lacking or unseen) and table.suppressed))


def _is_accounted_for(table: JudgedTable, query: ClassQuery, judged: Judged) -> bool:
    """Whether a count of the whole table took all suppressed records for the class of the mark, and no others."""
    if query.mark is None or table.is_whole_release(query.keys):
        return True
    if not judged.marked and table.holds_suppressed(query.keys):
        table.note_none_suppressed()
    # All suppressed records are in the class of the mark; they may be the whole of it.
    return table.suppressed == judged.marked and query.person is None
