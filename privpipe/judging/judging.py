"""Judge a table: one pass for facts where a guarantee needs them, one count for each set of quasi-identifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from privpipe.blocks import (
    ClassQuery,
    DistinctBlock,
    Facts,
    FactsRequest,
    Guarantee,
    Outcome,
    Tally,
    Verdict,
)
from privpipe.blocks.release_history import HistoryMeasure
from privpipe.blocks.row_positions import PositionMeasure
from privpipe.blocks.table_files import TableMeasure
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.judging.assessment import Assessment
from privpipe.judging.composite import Composite, Judged
from privpipe.judging.gate import column_verdicts
from privpipe.judging.grouping import Group, groups_of, keys_of, query_of
from privpipe.judging.item_sets import CountedItems, item_verdict
from privpipe.judging.learning import facts_by_base
from privpipe.judging.pairing import pair_verdicts
from privpipe.judging.persons import require_persons
from privpipe.judging.population import reduce_beside_population, require_population
from privpipe.judging.recoding import recoding_verdicts
from privpipe.judging.recovering import recovery_verdicts
from privpipe.judging.releases import history_verdicts
from privpipe.judging.row_columns import with_row_columns
from privpipe.judging.rules import JudgingRules
from privpipe.judging.served import refused_in_persons, refused_under_wildcard, refused_without_wildcard
from privpipe.judging.suppressed import Sheet
from privpipe.judging.table_notes import table_notes
from privpipe.judging.unlooked import guarantee_notes
from privpipe.judging.whole_files import whole_verdicts
from privpipe.judging.wildcards import alone_notes, reduce_matching
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.roles import Roles

__all__ = ["assess"]

NO_POSITIONS = "needs the rows of the release and of the original in their order; they were not given."


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
        The population the records were drawn from, with the same quasi-identifiers, generalized alike.

    Returns
    -------
    Assessment
        Beside the entries the columns themselves are judged: an identifier among them is a fail that stands first.

    Raises
    ------
    UsageError
        No entry; quasi-identifiers left out everywhere; an entry that the way of counting does not serve, or that
        needs a population where none is given.
    DataError
        A column is missing or has no role, the table has no records, a null under `refuse`, a base that does not cover.
    """
    rules = replace(rules or JudgingRules(), models=tuple(guarantees))
    entries = [entry.over(roles).beside(population is not None) for entry in (*guarantees, *measures)]
    if not entries:
        raise UsageError("nothing to judge by: give at least one guarantee or measure")
    _require_served(entries, rules)
    failed, held, noted = column_verdicts(rules.gate, table.schema.names, roles, guarantees)
    if rules.gate.notes:
        noted += guarantee_notes(entries[: len(guarantees)], roles, whole=rules.gate.whole)
    _require_columns(table, entries, roles)
    if rules.person is not None:
        require_persons(table, rules.person)
    compared = dict.fromkeys(key for entry in entries if entry.needs_population for key in keys_of(entry, roles))
    require_population(engine, population, entries, tuple(compared), rules.nulls == "refuse")
    sheet = Sheet.of(engine, table, rules)
    facts, notes = facts_by_base(sheet, entries, roles, rules)
    verdicts: dict[int, Verdict] = {}
    tallies: dict[int, list[Tally]] = {}
    seen: list[Judged] = []
    classes: int | None = None
    for group in groups_of(entries, roles, rules):
        judged = _judged(sheet, population, group, facts[group.base], rules)
        seen.append(judged)
        notes += alone_notes(judged, group.keys, roles)
        if classes is None and group.keys == group.over:  # not those over some columns alone
            classes = judged.classes
        for place, (at, entry) in enumerate(group.entries):
            if not judged.released:
                verdicts[at] = _all_suppressed(entry, rules)
                continue
            tallies.setdefault(at, []).append(judged.tallies[place])
            verdicts[at] = _verdict(entry, entry.across(tallies[at]), facts[group.base])
    counted: dict[tuple[tuple[str, ...], str | None], DistinctBlock] = {}
    items = CountedItems(sheet)
    for at, entry in enumerate(entries):
        if entry.reads == "facts":
            empty = sheet.nothing
            verdicts[at] = _all_suppressed(entry, rules) if empty else entry.judge(Tally(), facts["released"])
        elif isinstance(entry, NoIdentifiers):
            verdicts[at] = entry.judge_columns(rules.gate.seen(table.schema.names), roles)
        elif entry.reads == "distinct":
            verdicts[at] = _distinct_verdict(sheet, entry, roles, rules, counted)
        elif isinstance(entry, PositionMeasure):
            verdicts[at] = entry.judge_positions(NO_POSITIONS if rules.positions is None else rules.positions)
        elif entry.reads == "items":
            verdicts[at] = item_verdict(items, entry, rules)
    # The judged records with their ids hold the released columns and no others.
    with_ids = sheet if released is None else Sheet.of(engine, released, replace(rules, released=None))
    paired = {at: entry for at, entry in enumerate(entries) if entry.reads in ("pairs", "files")}
    verdicts |= pair_verdicts(with_ids, original, paired, roles, rules)
    verdicts |= recovery_verdicts(with_ids, original, dict(enumerate(entries)), roles, rules)
    histories = {at: entry for at, entry in enumerate(entries) if isinstance(entry, HistoryMeasure)}
    verdicts |= history_verdicts(with_ids, histories, roles, rules)
    tables = {at: entry for at, entry in enumerate(entries) if isinstance(entry, TableMeasure)}
    verdicts |= whole_verdicts(with_ids, original, tables, roles, rules)
    recodings = {at: entry for at, entry in enumerate(entries) if entry.reads == "tables"}
    verdicts |= recoding_verdicts(sheet, original, recodings, roles, rules)
    first = seen[0] if seen else None
    records, suppressed = _records(sheet, first, rules)
    if rules.gate.notes and records:
        left = sheet.left if suppressed else table
        noted += table_notes(engine, left, records, entries, roles, rules, assess)
    remembered = rules.histories.values()
    return Assessment(
        verdicts=(*failed, *(verdicts[at] for at in range(len(guarantees)))),
        measures=tuple(verdicts[at] for at in range(len(guarantees), len(entries))),
        records=records,
        suppressed_records=suppressed,
        classes=classes,
        notes=tuple(dict.fromkeys((*noted, *notes, *(note for own in remembered for note in own.notes)))),
        source_notes=tuple(dict.fromkeys(note for own in remembered for note in own.source_notes)),
        built_in=held,
    )


def _require_served(entries: Sequence[Guarantee], rules: JudgingRules) -> None:
    """What a way of counting does not serve is refused; passed over, it would make figures look safer than they are."""
    if rules.nulls == "wildcard" and rules.person is not None:
        raise UnsupportedError("nulls: wildcard counts records and cannot be had together with person_id")
    for entry in entries:
        served = refused_under_wildcard if rules.nulls == "wildcard" else refused_without_wildcard
        if refused := served(entry):
            raise UsageError(refused)
        if rules.person is not None and (refused := refused_in_persons(entry)):
            raise UnsupportedError(refused)


def _records(sheet: Sheet, first: Judged | None, rules: JudgingRules) -> tuple[int, int]:
    """Records judged, and suppressed ones: a judged group knows, unless it counted persons."""
    if first is not None and rules.person is None:
        return first.released, first.marked
    total = sheet.engine.count(sheet.table)
    if not total:
        raise DataError("the table has no records: there is nothing to judge")
    return total - sheet.suppressed, sheet.suppressed


def _counted(
    engine: Engine, table: Any, population: Any, query: ClassQuery, group: Group, facts: Facts, rules: JudgingRules
) -> Judged | None:
    """Every class of a group once, by the way of counting that the rules ask for."""
    composite = Composite(tuple(entry for _, entry in group.entries))
    if rules.nulls == "wildcard":
        return reduce_matching(engine, table, query, composite, facts, rules.wildcard)
    if group.population:
        return reduce_beside_population(engine, table, population, query, composite, facts)
    return engine.reduce_classes(table, query, composite, facts)


def _judged(sheet: Sheet, population: Any, group: Group, facts: Facts, rules: JudgingRules) -> Judged:
    """What a group's entries saw of the records that are not suppressed."""
    engine = sheet.engine
    query = query_of(group, facts, rules)
    needed = tuple(name for name in (query.weight, query.person) if name is not None)
    # Suppressed records have no weight and no person, and need none.
    lacking = needed and any(engine.facts(sheet.table, FactsRequest(nulls=needed)).nulls.values())
    if not (sheet.known or (lacking and sheet.suppressed)):
        found = _as_it_is(sheet, population, query, group, facts, rules)
        if found is not None:
            return found
    judged = _counted_with_columns(engine, sheet.left, population, replace(query, mark=None), group, facts, rules)
    if judged is None:
        return Judged((), 0, sheet.suppressed, 0)
    return replace(judged, marked=sheet.suppressed)


def _as_it_is(
    sheet: Sheet, population: Any, query: ClassQuery, group: Group, facts: Facts, rules: JudgingRules
) -> Judged | None:
    """The table counted whole; None where its suppressed records must be left out before it is."""
    if query.keys and not sheet.told_by(query.keys) and sheet.suppressed:
        return None
    if sheet.known == 0:
        query = replace(query, mark=None)
    try:
        judged = _counted_with_columns(sheet.engine, sheet.table, population, query, group, facts, rules)
    except DataError:
        # The mark is no value of a base distribution, nor a missing one of what a record needs.
        if not sheet.suppressed:
            raise
        return None
    if judged is None:
        raise DataError("the table has no records: there is nothing to judge")
    if query.mark is None or sheet.alone_in(query.keys):
        return judged
    if not judged.marked and sheet.told_by(query.keys):
        sheet.none_found()
    # All suppressed records are in the class of the mark; they may be the whole of it.
    return judged if sheet.suppressed == judged.marked and query.person is None else None


def _counted_with_columns(
    engine: Engine, table: Any, population: Any, query: ClassQuery, group: Group, facts: Facts, rules: JudgingRules
) -> Judged | None:
    if not group.population:
        table, query, facts = with_row_columns(engine, table, query, [entry for _, entry in group.entries], facts)
    return _counted(engine, table, population, query, group, facts, rules)


def _require_columns(table: Any, entries: Sequence[Guarantee], roles: Roles) -> None:
    names = list(table.schema.names)
    needed: set[str] = set()
    for entry in entries:
        keys = tuple(roles.quasi_identifiers) if entry.quasi_identifiers is None else entry.quasi_identifiers
        needed.update(
            entry.sensitive_columns(), entry.counted_columns(keys), entry.record_columns(), *entry.key_sets(keys)
        )
    for column in sorted(needed):
        if column not in names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, names)}")


def _all_suppressed(entry: Guarantee, rules: JudgingRules) -> Verdict:
    outcome: Outcome = "pass" if rules.allow_empty else "fail"
    return Verdict(entry, None, outcome, entry.demanded(), reason="every record is suppressed.")


def _verdict(entry: Guarantee, tally: Any, facts: Facts) -> Verdict:
    verdict = entry.judge(tally, facts)
    if isinstance(verdict.observed, float) and math.isnan(verdict.observed):
        return replace(verdict, outcome="error", observed=None, reason="the figure is undefined (not a number).")
    return verdict


def _distinct_verdict(
    sheet: Sheet,
    entry: Guarantee,
    roles: Roles,
    rules: JudgingRules,
    counted: dict[tuple[tuple[str, ...], str | None], DistinctBlock],
) -> Verdict:
    keys = keys_of(entry, roles)
    whole, weight = tuple(dict.fromkeys((*keys, *roles.quasi_identifiers))), entry.weight_column()
    if (whole, weight) not in counted:
        found = sheet.engine.distinct(sheet.left, whole if weight is None else (*whole, weight))
        wildcard = rules.wildcard if rules.nulls == "wildcard" else None
        counted[whole, weight] = DistinctBlock.from_table(found, whole, wildcard=wildcard, weight=weight)
    block = counted[whole, weight]
    if not len(block):
        if not sheet.suppressed:
            raise DataError("the table has no records: there is nothing to judge")
        return Verdict(entry, None, "fail", entry.demanded(), reason="every record is suppressed.")
    return entry.judge(entry.measure(block.of(keys), Facts()), Facts())  # type: ignore[arg-type]
