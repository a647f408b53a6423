"""Facts of a table that are needed before it is judged: base distributions, distinct values, number of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from privpipe.blocks import Facts, FactsRequest, Guarantee, Histogram, prepared
from privpipe.errors import DataError
from privpipe.judging.base_files import histogram_of_file
from privpipe.judging.grouping import Base, base_of
from privpipe.judging.persons import count_persons, in_persons
from privpipe.judging.perturbed import perturbation_notes
from privpipe.judging.rules import JudgingRules
from privpipe.judging.suppressed import JudgedTable
from privpipe.models.attribute.base_distribution import BaseNamed, BaseTable, GivenBase
from privpipe.roles import Roles

__all__ = ["facts_by_base"]


def facts_by_base(
    judged_table: JudgedTable, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules
) -> tuple[dict[Base, Facts], list[str]]:
    """Facts under each base that an entry compares with, and notes for who reads the verdicts.

    ``original`` and ``released`` are always there: the original's distribution where it is known, and the judged
    table's.

    Raises
    ------
    DataError
        A missing value under `refuse`; a file that is no distribution of its column.
    """
    bases = dict.fromkeys(base for base in map(base_of, entries) if not isinstance(base, str))
    learnt = _learnt(judged_table, entries, roles, rules)
    released = replace(
        learnt,
        records=learnt.records if rules.records is None else rules.records,
        hierarchies=rules.hierarchies,
        extra={} if rules.process is None else {"process": rules.process},
        unit=rules.counted,
    )
    original = replace(released, histograms={**learnt.histograms, **rules.base})
    found: dict[Base, Facts] = {"original": original, "released": released}
    for base in bases:
        own = _distributions(judged_table, base, _columns_with_base(entries, base), rules.versions)
        found[base] = replace(original, histograms={**original.histograms, **own})
    # Of suppressed records alone there is nothing to learn, and no class to judge by it.
    nothing = judged_table.nothing
    ready: dict[Base, Facts] = {
        base: facts if nothing else prepared(facts, _asking(base, entries, rules)) for base, facts in found.items()
    }
    return ready, [*_notes(entries, rules), *perturbation_notes(entries, roles, rules)]


def _distributions(
    judged_table: JudgedTable, base: GivenBase, columns: Iterable[str], versions: Mapping[str, int]
) -> dict[str, Histogram]:
    """What a base that is given says of these columns."""
    engine, schema = judged_table.engine, judged_table.table.schema
    return {name: histogram_of_file(engine, base, name, schema.field(name).type, versions) for name in columns}


def _asking(base: Base, entries: Sequence[Guarantee], rules: JudgingRules) -> list[Guarantee]:
    """Entries that are judged by the facts under a base."""
    asking = [entry for entry in entries if not entry.needs_base or base_of(entry) == base]
    if base == "original" and not rules.base:
        asking += [entry for entry in entries if entry.needs_base and base_of(entry) == "released"]
    return asking


def _columns(entries: Iterable[Guarantee]) -> list[str]:
    return sorted({column for entry in entries if entry.needs_base for column in entry.sensitive_columns()})


def _columns_with_base(entries: Sequence[Guarantee], base: Base) -> list[str]:
    return _columns(entry for entry in entries if base_of(entry) == base)


def _learnt(judged_table: JudgedTable, entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> Facts:
    """Facts of the judged table itself, in persons where they are counted: values of what is left, and all records."""
    engine, table = judged_table.engine, judged_table.table
    request = _request(entries, roles, rules)
    counts_records = rules.records is None and any(entry.needs_records for entry in entries)
    learnt = engine.facts(table, request) if request or counts_records else Facts()
    if request and judged_table.hinted(learnt.histograms, learnt.nulls) and judged_table.suppressed:
        learnt = replace(engine.facts(judged_table.left, request), records=learnt.records)
    for column, count in learnt.nulls.items():
        if count:
            raise DataError(
                f"column {column!r} has {count:,} missing values and the policy says `nulls: refuse`; "
                "complete or leave out those records, or write `nulls: own_value` or `nulls: wildcard`"
            )
    if rules.person is None:
        return learnt
    left = judged_table.left if judged_table.known else table
    persons: Mapping[str, Histogram] = in_persons(engine, left, learnt.histograms, rules.person)
    return replace(
        learnt,
        records=count_persons(engine, table, rules.person) if counts_records else learnt.records,
        histograms={**learnt.histograms, **persons},
    )


def _request(entries: Sequence[Guarantee], roles: Roles, rules: JudgingRules) -> FactsRequest:
    """What the entries need of the judged table, and the columns that the rules let have no missing value."""
    from_table = set(_columns_with_base(entries, "released"))
    from_table.update(set(_columns_with_base(entries, "original")) - set(rules.base))
    for entry in entries:
        from_table.update(entry.counted_columns(tuple(entry.quasi_identifiers or roles.quasi_identifiers)))
    refused = tuple(roles.quasi_identifiers) if rules.nulls == "refuse" else ()
    return FactsRequest(histograms=tuple(sorted(from_table)), nulls=(*refused, *rules.refuse_nulls))


def _notes(entries: Sequence[Guarantee], rules: JudgingRules) -> list[str]:
    given = {
        (column, _told(base))
        for entry in entries
        if not isinstance(base := base_of(entry), str)
        for column in entry.sensitive_columns()
    }
    others = _columns(entry for entry in entries if isinstance(base_of(entry), str))
    notes = [
        f"base distribution of {column!r}: " + ("the original" if column in rules.base else "the judged table")
        for column in others
    ]
    notes += [f"base distribution of {column!r}: {name}" for column, name in sorted(given)]
    if rules.nulls == "wildcard":
        notes.append("a missing quasi-identifier matches anything: sizes are those of all records that match")
    if rules.person is not None:
        notes.append(f"{rules.counted} are counted, not records: they are told apart by {rules.person!r}")
    return notes


def _told(base: GivenBase) -> str:
    if isinstance(base, BaseNamed):
        return f"the table {base.table}"
    return "given in Python" if isinstance(base, BaseTable) else f"the file {PurePath(base.file).name!r}"
