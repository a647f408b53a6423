"""Judge a table: one pass for facts where a guarantee needs them, one count for each set of quasi-identifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.assess.assessment import Assessment
from privpipe.assess.composite import Composite, Judged
from privpipe.assess.pairing import pair_verdicts
from privpipe.assess.persons import count_persons, in_persons, require_persons
from privpipe.assess.population import reduce_beside_population, require_population
from privpipe.assess.row_columns import with_row_columns
from privpipe.assess.served import refused_in_persons, refused_under_wildcard
from privpipe.assess.wildcards import reduce_matching
from privpipe.blocks import (
    ClassBlock,
    ClassQuery,
    DistinctBlock,
    Facts,
    FactsRequest,
    Guarantee,
    Histogram,
    Tally,
    Verdict,
    prepared,
)
from privpipe.engines import Engine
from privpipe.errors import DataError, UnsupportedError, UsageError, did_you_mean
from privpipe.roles import NullRule, Roles

if TYPE_CHECKING:
    from privpipe.draws import Stream
    from privpipe.hierarchies import HierarchySpec

__all__ = ["JudgingRules", "assess"]


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """How values are read, whatever the guarantee.

    Parameters
    ----------
    nulls : {"own_value", "wildcard", "refuse"}
        How a missing quasi-identifier matches.
    refuse_nulls : tuple of str
        Sensitive columns in which a missing value is an error.
    wildcard : str, optional
        Under `nulls: wildcard` a text that matches anything, as a missing value does.
    person : str, optional
        Column that tells persons apart: they are counted instead of records.
    mark : str
        A record with this text in every quasi-identifier counts as suppressed.
    base : mapping of column to Histogram
        Base distributions handed over by a run: S over the records that entered the suppressing stage.
    records : int, optional
        Records that entered the suppressing stage, handed over by a run; default: those of the judged table.
    hierarchies : mapping of column to HierarchySpec
        Declared ones.
    process : mapping, optional
        Record that a stage left of itself, for guarantees of a process rather than of a table.
    stages : tuple of mapping
        The release's own plan, for attacks that know it: of each stage name, parameters and detail.
    order : Stream, optional
        Keyed order of records, by which the attacked ones are sampled.
    allow_empty : bool
        Let a table of suppressed records alone pass vacuously; never set by a release.
    """

    nulls: NullRule = "own_value"
    refuse_nulls: tuple[str, ...] = ()
    wildcard: str | None = None
    person: str | None = None
    mark: str = "*"
    base: Mapping[str, Histogram] = field(default_factory=dict)
    records: int | None = None
    hierarchies: Mapping[str, HierarchySpec] = field(default_factory=dict)
    process: Mapping[str, Any] | None = None
    stages: tuple[Mapping[str, Any], ...] = ()
    order: Stream | None = field(default=None, repr=False)
    allow_empty: bool = False


@dataclass(frozen=True)
class _Group:
    """Entries counted together: the same keys, the same base of each column.

    `whole` are the columns whose every value must be the mark for a record to count as suppressed; `population` says
    whether the classes of a population are counted beside them.
    """

    keys: tuple[str, ...]
    released_base: bool
    whole: tuple[str, ...]
    population: bool
    entries: list[tuple[int, Guarantee]] = field(default_factory=list)


@dataclass(frozen=True)
class _Unmarked:
    """The classes that are not suppressed records."""

    def __call__(self, block: ClassBlock) -> NDArray[np.bool_]:
        return np.ones(len(block), dtype=np.bool_) if block.marked is None else ~block.marked


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

    Raises
    ------
    UsageError
        No entry; quasi-identifiers left out everywhere; an entry that the way of counting does not serve, or that
        needs a population where none is given.
    DataError
        A column is missing, the table has no records, a null under `refuse`, a base that does not cover.
    """
    rules = rules or JudgingRules()
    entries = [entry.over(roles) for entry in (*guarantees, *measures)]
    if not entries:
        raise UsageError("nothing to judge by: give at least one guarantee or measure")
    _require_served(entries, rules)
    _require_columns(table, entries, roles)
    if rules.person is not None:
        require_persons(table, rules.person)
    compared = dict.fromkeys(key for entry in entries if entry.needs_population for key in _keys(entry, roles))
    require_population(engine, population, entries, tuple(compared), rules.nulls == "refuse")
    facts, notes = _facts(engine, table, entries, roles, rules)
    verdicts: dict[int, Verdict] = {}
    tallies: dict[int, list[Tally]] = {}
    seen: list[Judged] = []
    classes: int | None = None
    for group in _groups(entries, roles, rules):
        judged = _judged(engine, table, population, group, facts[group.released_base], rules)
        seen.append(judged)
        if classes is None and group.keys == group.whole:  # not those over some columns alone
            classes = judged.classes
        for (at, entry), tally in zip(group.entries, judged.tallies, strict=True):
            tallies.setdefault(at, []).append(tally)
            figure = entry.across(tallies[at])
            verdicts[at] = _verdict(entry, figure, judged, facts[group.released_base], rules)
    counted: dict[tuple[str, ...], DistinctBlock] = {}
    for at, entry in enumerate(entries):
        if entry.reads == "facts":
            verdicts[at] = entry.judge(Tally(), facts[True])
        elif entry.reads == "distinct":
            verdicts[at] = _distinct_verdict(engine, table, entry, roles, rules, counted)
    paired = {at: entry for at, entry in enumerate(entries) if entry.reads in ("pairs", "files")}
    verdicts |= pair_verdicts(engine, table if released is None else released, original, paired, roles, rules)
    first = seen[0] if seen else None
    records, suppressed = _records(engine, table, roles, first, rules)
    return Assessment(
        verdicts=tuple(verdicts[at] for at in range(len(guarantees))),
        measures=tuple(verdicts[at] for at in range(len(guarantees), len(entries))),
        records=records,
        suppressed_records=suppressed,
        classes=classes,
        notes=tuple(notes),
    )


def _require_served(entries: Sequence[Guarantee], rules: JudgingRules) -> None:
    """What a way of counting does not serve is refused; passed over, it would make figures look safer than they are."""
    if rules.nulls == "wildcard" and rules.person is not None:
        raise UnsupportedError("nulls: wildcard counts records and cannot be had together with person_id")
    for entry in entries:
        if rules.nulls == "wildcard" and (refused := refused_under_wildcard(entry)):
            raise UsageError(refused)
        if rules.person is not None and (refused := refused_in_persons(entry)):
            raise UnsupportedError(refused)


def _records(engine: Engine, table: Any, roles: Roles, first: Judged | None, rules: JudgingRules) -> tuple[int, int]:
    """Records judged, and records that bear the mark: a judged group knows, unless it counted persons."""
    if first is not None and rules.person is None:
        return first.released, first.marked
    total = left = engine.count(table)
    if first is not None and first.marked:
        whole = ClassQuery(keys=tuple(roles.quasi_identifiers), mark=rules.mark)
        left = engine.count(engine.keep_classes(table, whole, _Unmarked()))
    return left, total - left


def _counted(
    engine: Engine, table: Any, population: Any, query: ClassQuery, group: _Group, facts: Facts, rules: JudgingRules
) -> Judged | None:
    """Every class of a group once, by the way of counting that the rules ask for."""
    composite = Composite(tuple(entry for _, entry in group.entries))
    if rules.nulls == "wildcard":
        return reduce_matching(engine, table, query, composite, facts, rules.wildcard)
    if group.population:
        return reduce_beside_population(engine, table, population, query, composite, facts)
    return engine.reduce_classes(table, query, composite, facts)


def _judged(engine: Engine, table: Any, population: Any, group: _Group, facts: Facts, rules: JudgingRules) -> Judged:
    query = _query(group, facts, rules)
    if not group.population:
        table, query, facts = with_row_columns(engine, table, query, [entry for _, entry in group.entries], facts)
    judged = _counted(engine, table, population, query, group, facts, rules)
    if judged is not None and judged.marked and group.keys != group.whole:
        # Some columns alone do not tell a suppressed record from one with a mark in these.
        left = engine.keep_classes(table, ClassQuery(keys=group.whole, mark=rules.mark), _Unmarked())
        again = _counted(engine, left, population, replace(query, mark=None), group, facts, rules)
        if again is None:
            return judged
        total = judged.released + judged.marked
        judged = replace(again, marked=total - again.released)
    if judged is None:
        raise DataError("the table has no records: there is nothing to judge")
    return judged


def _keys(entry: Guarantee, roles: Roles) -> tuple[str, ...]:
    if entry.quasi_identifiers is not None:
        return entry.quasi_identifiers
    if not roles.quasi_identifiers:
        raise UsageError(
            f"{entry.name()}: no quasi-identifier is declared, so every table would be one class; declare "
            "`role: quasi_identifier`, or write `quasi_identifiers: []` on the guarantee to mean that"
        )
    return tuple(roles.quasi_identifiers)


def _require_columns(table: Any, entries: Sequence[Guarantee], roles: Roles) -> None:
    names = list(table.schema.names)
    needed: set[str] = set()
    for entry in entries:
        keys = tuple(roles.quasi_identifiers) if entry.quasi_identifiers is None else entry.quasi_identifiers
        needed.update(entry.sensitive_columns(), entry.counted_columns(keys), *entry.key_sets(keys))
    for column in sorted(needed):
        if column not in names:
            raise DataError(f"column {column!r} is not in the table{did_you_mean(column, names)}")


def _facts(
    engine: Engine, table: Any, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules
) -> tuple[dict[bool, Facts], list[str]]:
    """Facts under each choice of base (False: the original's where known, True: the released table's)."""
    based = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
    from_table = {
        column
        for entry in entries
        if entry.needs_base
        for column in entry.sensitive_columns()
        if column not in rules.base or _wants_released(entry)
    }
    for entry in entries:
        from_table.update(entry.counted_columns(tuple(entry.quasi_identifiers or roles.quasi_identifiers)))
    refused = tuple(roles.quasi_identifiers) if rules.nulls == "refuse" else ()
    request = FactsRequest(histograms=tuple(sorted(from_table)), nulls=(*refused, *rules.refuse_nulls))
    counts_records = rules.records is None and any(entry.needs_records for entry in entries)
    learnt = engine.facts(table, request) if request or counts_records else Facts()
    for column, count in learnt.nulls.items():
        if count:
            raise DataError(f"column {column!r} has {count:,} missing values and the policy says `nulls: refuse`")
    notes = [
        f"base distribution of {column!r}: " + ("the original" if column in rules.base else "the judged table")
        for column in sorted(based)
    ]
    if rules.nulls == "wildcard":
        notes.append("a missing quasi-identifier matches anything: sizes are those of all records that match")
    if rules.person is not None:
        notes.append(f"persons are counted, not records: they are told apart by {rules.person!r}")
        learnt = replace(
            learnt,
            records=count_persons(engine, table, rules.person) if counts_records else learnt.records,
            histograms={**learnt.histograms, **in_persons(engine, table, learnt.histograms, rules.person)},
        )
    released = replace(
        learnt,
        records=learnt.records if rules.records is None else rules.records,
        hierarchies=rules.hierarchies,
        extra={} if rules.process is None else {"process": rules.process},
    )
    original = replace(released, histograms={**learnt.histograms, **rules.base})
    return {wants: prepared(facts, entries) for wants, facts in ((False, original), (True, released))}, notes


def _wants_released(entry: Guarantee) -> bool:
    base = getattr(entry, "base", "original")
    if base not in ("original", "released"):
        raise UnsupportedError(f"{entry.name()}: a base from a file is not served yet; use original or released")
    return bool(base == "released")


def _groups(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> list[_Group]:
    groups: dict[tuple[tuple[str, ...], bool, tuple[str, ...], bool], _Group] = {}
    for at, entry in enumerate(entries):
        if entry.reads not in ("classes", "process"):
            continue
        released = entry.needs_base and _wants_released(entry) and bool(rules.base)
        sets = entry.key_sets(_keys(entry, roles))
        whole = _whole(entry, sets, roles)
        for keys in sets:
            kind = (keys, released, whole, entry.needs_population)
            group = groups.setdefault(kind, _Group(*kind))
            group.entries.append((at, entry))
    # The policy's own quasi-identifiers first: their class count stands in the verdict document.
    own = tuple(roles.quasi_identifiers)
    return sorted(groups.values(), key=lambda group: (group.keys != own, group.keys != group.whole, group.population))


def _whole(entry: Guarantee, sets: Sequence[tuple[str, ...]], roles: Roles) -> tuple[str, ...]:
    """Columns that are all the mark in a suppressed record."""
    columns = [column for keys in sets for column in keys]
    if entry.quasi_identifiers is not None and getattr(entry, "columns", None) == entry.quasi_identifiers:
        # It looks at some columns of the table: a mark in all of these may be a coarse value.
        columns += roles.quasi_identifiers
    return tuple(dict.fromkeys(columns))


def _query(group: _Group, facts: Facts, rules: JudgingRules) -> ClassQuery:
    entries = [entry for _, entry in group.entries]
    columns = dict.fromkeys(column for entry in entries for column in entry.sensitive_columns())
    coded = {column for entry in entries if entry.needs_base for column in entry.sensitive_columns()}
    return ClassQuery(
        keys=group.keys,
        columns=tuple(columns),
        dictionaries={column: facts.histograms[column] for column in columns if column in coded},
        mark=rules.mark,
        person=rules.person,
    )


def _verdict(entry: Guarantee, tally: Any, judged: Judged, facts: Facts, rules: JudgingRules) -> Verdict:
    if not judged.released:
        outcome = "pass" if rules.allow_empty else "fail"
        return Verdict(entry, None, outcome, entry.threshold(), reason="every record is suppressed.")  # type: ignore[arg-type]
    verdict = entry.judge(tally, facts)
    if isinstance(verdict.observed, float) and math.isnan(verdict.observed):
        return replace(verdict, outcome="error", observed=None, reason="the figure is undefined (not a number).")
    return verdict


def _distinct_verdict(
    engine: Engine,
    table: Any,
    entry: Guarantee,
    roles: Roles,
    rules: JudgingRules,
    counted: dict[tuple[str, ...], DistinctBlock],
) -> Verdict:
    keys = _keys(entry, roles)
    whole = _whole(entry, [keys], roles)
    if whole not in counted:
        counted[whole] = DistinctBlock.from_table(engine.distinct(table, whole), whole, rules.mark)
    block = counted[whole]
    if not len(block):
        if not engine.count(table):
            raise DataError("the table has no records: there is nothing to judge")
        return Verdict(entry, None, "fail", entry.threshold(), reason="every record is suppressed.")
    return entry.judge(entry.measure(block.of(keys), Facts()), Facts())  # type: ignore[arg-type]
