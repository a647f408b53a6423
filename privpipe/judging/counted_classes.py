"""Count the classes of a judged table: once for each set of quasi-identifiers, for every entry of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from privpipe.blocks import ClassQuery, Facts, FactsRequest, Tally, Verdict
from privpipe.blocks.row_reductions import weight_faults
from privpipe.blocks.verdict import Comparison
from privpipe.errors import DataError
from privpipe.judging.entry_groups import Composite, Group, Judged, groups_of, query_of
from privpipe.judging.judged_columns import with_row_columns
from privpipe.judging.population import reduce_beside_population
from privpipe.judging.suppressed_records import JudgedTable
from privpipe.judging.verdicts import all_suppressed, not_judged, resting_on
from privpipe.judging.wildcards import alone_notes, reduce_matching

if TYPE_CHECKING:
    from privpipe.blocks import Guarantee
    from privpipe.engines import Engine
    from privpipe.judging.entry_groups import Base
    from privpipe.judging.rules import JudgingRules
    from privpipe.roles import Roles

__all__ = ["NO_RECORDS", "CountedClasses", "JudgingContext", "JudgingInputs", "count_classes"]


@dataclass(frozen=True, kw_only=True)
class JudgingInputs:
    """One table with everything that belongs to it.

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


def count_classes(context: JudgingInputs) -> CountedClasses:
    """Judge every entry of the run that reads classes."""
    groups = groups_of(context.entries, context.roles, context.rules, context.weight_faults)
    counts = [_Count(context, group) for group in groups]
    seen: list[Judged] = []
    notes: list[str] = []
    classes: int | None = None
    tallies: dict[int, list[Tally]] = {}
    verdicts: dict[int, Verdict] = {
        at: not_judged(entry, context.weight_faults[str(entry.weight_column())])
        for at, entry in enumerate(context.entries)
        if entry.weight_column() in context.weight_faults
    }
    for count in counts:
        judged, group = count.judged(), count.group
        if group.unit is None:
            seen.append(judged)
        notes += alone_notes(judged, group.keys, context.roles)
        if classes is None and group.keys == group.over:  # not those over some columns alone
            classes = judged.classes
        for place, (at, entry) in enumerate(group.entries):
            if not judged.released:
                verdicts[at] = all_suppressed(entry, allowed=context.rules.allow_empty)
                continue
            tallies.setdefault(at, []).append(judged.tallies[place])
            verdict = entry.judge(entry.across(tallies[at]), count.facts)
            verdicts[at] = resting_on(verdict, _in_population(judged)) if group.population else verdict
    return CountedClasses(verdicts, seen[0] if seen else None, classes, tuple(notes))


def _in_population(judged: Judged) -> Comparison:
    """Each released record was found: a class with more of them than the population holds is refused by the count."""
    return Comparison(judged.released, judged.released, "released records are in a class of the population")


@dataclass(frozen=True)
class _Count:
    """One count of classes, for the entries of a group."""

    context: JudgingInputs
    group: Group

    @property
    def facts(self) -> Facts:
        return self.context.facts_of(self.group.unit)[self.group.base]

    def judged(self) -> Judged:
        """What the group's entries saw of the records that are not suppressed."""
        judged_table = self.context.judged_table
        query = query_of(self.group, self.facts, self.context.rules)
        needed = tuple(name for name in (query.weight, query.person) if name is not None)
        # Suppressed records have no weight and no person, and need none.
        lacking = needed and any(
            judged_table.engine.facts(judged_table.table, FactsRequest(nulls=needed)).nulls.values()
        )
        if not (judged_table.known or (lacking and judged_table.suppressed)):
            found = self._as_it_is(query)
            if found is not None:
                return found
        judged = self._of(judged_table.left, replace(query, mark=None))
        if judged is None:
            return Judged((), 0, judged_table.suppressed, 0)
        return replace(judged, marked=judged_table.suppressed)

    def _as_it_is(self, query: ClassQuery) -> Judged | None:
        """The table counted whole; None where its suppressed records must be left out before it is."""
        judged_table = self.context.judged_table
        if query.keys and not judged_table.holds_suppressed(query.keys) and judged_table.suppressed:
            return None
        if judged_table.known == 0:
            query = replace(query, mark=None)
        try:
            judged = self._of(judged_table.table, query)
        except DataError:
            # The mark is not a value of a base distribution, nor a missing one of what a record needs.
            if not judged_table.suppressed:
                raise
            return None
        if judged is None:
            raise DataError(NO_RECORDS)
        if query.mark is None or judged_table.is_whole_release(query.keys):
            return judged
        if not judged.marked and judged_table.holds_suppressed(query.keys):
            judged_table.note_none_suppressed()
        # All suppressed records are in the class of the mark; they may be the whole of it.
        return judged if judged_table.suppressed == judged.marked and query.person is None else None

    def _of(self, table: Any, query: ClassQuery) -> Judged | None:
        """Every class once, by the way of counting that the rules ask for."""
        engine, rules, facts = self.context.engine, self.context.rules, self.facts
        entries = tuple(entry for _, entry in self.group.entries)
        composite = Composite(entries)
        if not self.group.population:
            table, query, facts = with_row_columns(engine, table, query, entries, facts)
        if rules.nulls == "wildcard":
            return reduce_matching(engine, table, query, composite, facts, rules.wildcard)
        if self.group.population:
            return reduce_beside_population(engine, table, self.context.population, query, composite, facts)
        return engine.reduce_classes(table, query, composite, facts)


@dataclass(frozen=True, kw_only=True)
class JudgingContext(JudgingInputs):
    """The inputs of a run, with what its ways of judging share."""

    @cached_property
    def counted(self) -> CountedClasses:
        """Every class that an entry asks for, counted once whatever the way it is judged in."""
        return count_classes(self)
