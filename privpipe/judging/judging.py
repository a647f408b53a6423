"""Judge a table: refuse what cannot be judged, check its columns, and pass entries to their ways of judging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from privpipe.blocks import Facts, Guarantee, Verdict
from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked
from privpipe.blocks.verdict import binding
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.judging.assessment import EMPTY_PASSED, Assessment, empty_passed, founded, not_judged, rules_of_judging
from privpipe.judging.counted_classes import NO_RECORDS, CountedClasses, JudgingContext, count_classes
from privpipe.judging.judged_table import JudgedTable, require_columns, require_population
from privpipe.judging.notes import perturbation_notes, table_notes
from privpipe.judging.rules import Base, JudgingRules, column_verdicts, keys_of, named_columns
from privpipe.judging.table_facts import facts_by_base, require_persons
from privpipe.judging.ways import WAYS, way_of
from privpipe.roles import Roles

__all__ = [
    "assess",
    "guarantee_notes",
    "nothing_compared",
    "refused_in_persons",
    "refused_under_wildcard",
    "refused_without_wildcard",
    "uncountable",
    "unused_quasi_identifiers",
]


def refused_under_wildcard(entry: Guarantee) -> str:
    """Why an entry has no meaning under `nulls: wildcard`, or nothing."""
    return way_of(entry).refused_under_wildcard(entry)


def refused_without_wildcard(entry: Guarantee) -> str:
    """Why an entry has no meaning but under `nulls: wildcard`, or nothing."""
    what = entry.needs_matching()
    if not what:
        return ""
    return (
        f"{entry.name()}: {what} has a meaning only with `nulls: wildcard`, where blanks of others hide a record; "
        "elsewhere sample_uniqueness bounds the records that equal no other"
    )


def nothing_compared(entry: Guarantee, roles: Roles) -> str:
    """Why there is no column by which an entry could compare records, or nothing."""
    columns = entry.compared_columns(roles)
    if columns is None or columns:
        return ""
    own = "`columns: [...]` on it" if marked(type(entry), Columns) else "`quasi_identifiers: [...]` on it"
    return (
        f"{entry.name()} has no column to compare records by: write {own}, or declare the columns by which a person "
        "could be recognised as quasi-identifiers"
    )


def refused_in_persons(entry: Guarantee) -> str:
    """Why an entry cannot count persons, or nothing."""
    return way_of(entry).refused_in_persons(entry)


def uncountable(entry: Guarantee, person: str | None, household: str | None) -> str:
    """Why the policy cannot distinguish those that an entry counts, or nothing."""
    over = entry.counts_over()
    if entry.reads_households() and over is None and household is None:
        return f"{entry.name()} must know who lives together: name the column of households as `household_id`"
    if (over == "persons" and person is None) or (over == "households" and household is None):
        key = "person_id" if over == "persons" else "household_id"
        return f"{entry.name()} counts over {over}, and nothing distinguishes them: name their column as `{key}`"
    return ""


def unused_quasi_identifiers(guarantees: Sequence[Guarantee], quasi_identifiers: Sequence[str]) -> list[str]:
    """Declared quasi-identifiers in the classes or attack of no guarantee that binds, in their order."""
    seen = {
        column for entry in binding(guarantees) for column in way_of(entry).columns_used_by(entry, quasi_identifiers)
    }
    return [name for name in quasi_identifiers if name not in seen]


def guarantee_notes(guarantees: Sequence[Guarantee], roles: Roles, *, whole: bool) -> list[str]:
    """What a reader of the verdicts must know about what they omit.

    Parameters
    ----------
    guarantees : sequence of Guarantee
    roles : Roles
    whole : bool
        Whether these are all guarantees of the table, so that nothing looks at a column that none of them names.

    Examples
    --------
    >>> from privpipe.models import KAnonymity
    >>> roles = Roles(quasi_identifiers=["zip", "age"])
    >>> guarantee_notes([KAnonymity(k=1, quasi_identifiers=("zip",))], roles, whole=True)
    ["no guarantee looks at the quasi-identifier 'age'", 'k_anonymity with k = 1 protects no one']
    """
    notes = []
    if whole and guarantees:
        if not roles.quasi_identifiers:
            notes.append("no column is a quasi-identifier: no attacker is taken to know anything of a person")
        notes += [
            f"no guarantee looks at the quasi-identifier {name!r}"
            for name in unused_quasi_identifiers(guarantees, roles.quasi_identifiers)
        ]
        judged = {column for entry in binding(guarantees) for column in entry.sensitive_columns()}
        notes += [
            f"no guarantee looks at the sensitive column {name!r}" for name in roles.sensitive if name not in judged
        ]
    for entry in guarantees:
        if entry.quasi_identifiers == () and entry.way.over_keys:
            notes.append(f"{entry.name()} takes all records as one class, whatever they hold")
        if idle := entry.idle():
            notes.append(f"{entry.name()} with {idle} protects no one")
    return list(dict.fromkeys(notes))


def assess(
    engine: Engine,
    table: Any,
    *,
    guarantees: Sequence[Guarantee],
    measures: Sequence[Guarantee] = (),
    roles: Roles,
    rules: JudgingRules | None = None,
    original: Any = None,
    released: Any = None,
    population: Any = None,
) -> Assessment:
    """Judge every guarantee and compute every measure over one table.

    Parameters
    ----------
    engine : Engine
    table : Table
        Of that engine.
    guarantees, measures : sequence of Guarantee
        At least one guarantee or measure.
    roles : Roles
        Of the table's columns.
    rules : JudgingRules, optional
    original : Table, optional
        The original with record ids, for entries that read pairs; without it these are errors, never passes.
    released : Table, optional
        The judged records with their ids, where the table itself (files as written) carries none.
    population : Table, optional
        The population the records were drawn from, with the same quasi-identifiers, generalized in the same way.

    Returns
    -------
    Assessment
        In addition to the entries the columns themselves are judged: an identifier among them is a fail, listed first.

    Raises
    ------
    UsageError
        No entry; quasi-identifiers left out everywhere; an entry that the way of counting does not serve, or that
        needs a population where none is given.
    DataError
        A column is missing or has no role, the table has no records, a null under `refuse`, a base that does not cover.
    """
    rules = replace(rules or JudgingRules(), models=binding(guarantees))
    entries = tuple(entry.with_roles(roles).beside(population is not None) for entry in (*guarantees, *measures))
    _require_served(entries, roles, rules)
    failed, held, noted = column_verdicts(rules.gate, table.schema.names, roles, guarantees, named_columns(entries))
    roles = rules.gate.completed(table.schema.names, roles)
    if rules.gate.notes:
        noted += guarantee_notes(entries[: len(guarantees)], roles, whole=rules.gate.whole)
    _require_beside(engine, table, entries, roles, rules, population)
    remembered = rules.histories.values()
    shown = {*(table.schema.names if rules.released is None else rules.released)} - {*roles.unreleased}
    public = rules_of_judging(guarantees, shown, rules.person, rules.household)
    if rules.empty == "pass" and not engine.count(table) and (original is None or not engine.count(original)):
        return Assessment(
            verdicts=(*failed, *map(empty_passed, entries[: len(guarantees)])),
            measures=tuple(map(empty_passed, entries[len(guarantees) :])),
            records=0,
            notes=_once([EMPTY_PASSED], noted),
            built_in=held,
            public=public,
        )
    judged_table = JudgedTable.of(engine, table, rules)
    by_unit: dict[str | None, Mapping[Base, Facts]] = {}
    notes: list[str] = []
    for unit in dict.fromkeys((rules.person, *map(rules.unit, entries))):
        own = [entry for entry in entries if rules.unit(entry) == unit]
        by_unit[unit], more = facts_by_base(judged_table, own, roles, rules.counting(unit))
        notes += (*more, *perturbation_notes(own, roles, rules.counting(unit)))
    context = JudgingContext(
        judged_table=judged_table,
        entries=entries,
        roles=roles,
        rules=rules,
        facts=by_unit[rules.person],
        facts_by_unit=by_unit,
        original=original,
        released=released,
        population=population,
    )
    # Counts of classes show at no cost whether a record is suppressed, so they come first.
    counted = count_classes(context)
    verdicts = _verdicts(context, counted)
    records, suppressed = _records(judged_table, counted)
    if records or not rules.allow_empty:
        verdicts = tuple(founded(verdict, records) for verdict in verdicts)
    if rules.gate.notes and records:
        left = judged_table.left if suppressed else table
        noted += table_notes(engine, left, records, entries, roles, rules, assess)
    return Assessment(
        verdicts=(*failed, *verdicts[: len(guarantees)]),
        measures=verdicts[len(guarantees) :],
        records=records,
        suppressed_records=suppressed,
        classes=counted.classes,
        notes=_once(noted, notes, counted.notes, *(own.notes for own in remembered)),
        source_notes=_once(*(own.source_notes for own in remembered)),
        built_in=held,
        public=public,
    )


def _verdicts(context: JudgingContext, counted: CountedClasses) -> tuple[Verdict, ...]:
    """One an entry, in their order, whatever the order in which they are judged."""
    verdicts = dict(counted.verdicts)
    judges = {at: way_of(entry) for at, entry in enumerate(context.entries) if at not in verdicts}
    for judging in sorted(set(judges.values()), key=lambda judge: list(WAYS).index(judge.way)):
        own = {at: context.entries[at] for at, judge in judges.items() if judge is judging and at not in verdicts}
        if own:
            lacking = judging.lacking(context)
            verdicts |= (
                {at: not_judged(entry, lacking) for at, entry in own.items()}
                if lacking
                else judging.verdicts(own, context)
            )
    return tuple(verdicts[at] for at in range(len(context.entries)))


def _once(*notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for some in notes for note in some))


def _require_served(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> None:
    """What a way of counting does not serve is refused; passed over, it would make figures look safer than they are."""
    if not entries:
        raise UsageError("nothing to judge by: give at least one guarantee or measure")
    if rules.nulls == "wildcard" and rules.person is not None:
        raise UnsupportedError("nulls: wildcard counts records and cannot be had together with person_id")
    for entry in entries:
        served = refused_under_wildcard if rules.nulls == "wildcard" else refused_without_wildcard
        if refused := served(entry):
            raise UsageError(refused)
        if rules.person is not None and (refused := refused_in_persons(entry)):
            raise UnsupportedError(refused)
        if refused := uncountable(entry, rules.person, rules.household) or nothing_compared(entry, roles):
            raise UsageError(refused)
        if rules.nulls == "wildcard" and rules.unit(entry) is not None:
            raise UnsupportedError(f"nulls: wildcard counts records and cannot be had over {entry.counts_over()}")


def _require_beside(
    engine: Engine, table: Any, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules, population: Any
) -> None:
    """Refuse a table or a population that lacks what the entries count."""
    needed: set[str] = set()
    for entry in entries:
        keys = tuple(roles.quasi_identifiers) if entry.quasi_identifiers is None else entry.quasi_identifiers
        needed.update(entry.columns_needed(keys))
    require_columns(table.schema.names, sorted(needed))
    for unit in dict.fromkeys((rules.person, *map(rules.unit, entries))):
        if unit is not None:
            require_persons(table, unit, "household_id" if unit == rules.household else "person_id")
    compared = dict.fromkeys(key for entry in entries if entry.needs_population for key in keys_of(entry, roles))
    require_population(engine, population, entries, tuple(compared), rules.nulls == "refuse")


def _records(judged_table: JudgedTable, counted: CountedClasses) -> tuple[int, int]:
    """Records judged, and suppressed ones: the first count of classes knows, unless it counted persons."""
    if counted.first is not None:
        return counted.first.released, counted.first.marked
    total = judged_table.engine.count(judged_table.table)
    if not total:
        raise DataError(NO_RECORDS)
    return total - judged_table.suppressed, judged_table.suppressed
