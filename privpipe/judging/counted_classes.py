"""Count the classes of a judged table: once for each set of quasi-identifiers, for every entry of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from privpipe.blocks import ClassQuery, Facts, FactsRequest, Tally, Verdict
from privpipe.blocks.row_reductions import weight_faults
from privpipe.blocks.verdict import Comparison
from privpipe.errors import DataError
from privpipe.judging.assessment import all_suppressed, not_judged, resting_on
from privpipe.judging.judged_table import JudgedTable, with_row_columns
from privpipe.judging.matched_classes import reduce_beside_population, reduce_matching
from privpipe.judging.rules import Composite, Group, Judged, groups_of, query_of

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee
    from privpipe.engines import Engine
    from privpipe.judging.rules import Base, JudgingRules
    from privpipe.roles import Roles

__all__ = ["NO_RECORDS", "CountedClasses", "JudgingContext", "alone_notes", "count_classes"]


@dataclass(frozen=True, kw_only=True)
class JudgingContext:
    """One table with everything that belongs to it, shared by the ways of judging.

    Parameters
    ----------
    judged_table : JudgedTable
        The judged table, and what is left of it without its suppressed records.
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
        Classes of the first count that is not over some of its columns alone.
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
        if classes is None and group.keys == group.over:  # not those over some columns alone
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
    """How many complete records blanks of others alone hide; nothing where blanks match nothing."""
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
            # The mark is not a value of a base distribution, nor a missing one of what a record needs.
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
