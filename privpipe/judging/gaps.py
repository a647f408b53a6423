"""Gaps: entries, columns and thresholds of a policy that do not protect as it seems.

Entries that a way of counting does not serve, columns that no guarantee uses, thresholds that protect no record.
"""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.blocks import Guarantee
from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked
from privpipe.blocks.verdict import binding
from privpipe.judging.ways import way_of
from privpipe.roles import Roles

__all__ = [
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
        return f"{entry.name()} must be told who lives together: name the column of households as `household_id`"
    if (over == "persons" and person is None) or (over == "households" and household is None):
        key = "person_id" if over == "persons" else "household_id"
        return f"{entry.name()} counts over {over}, and nothing tells them apart: name their column as `{key}`"
    return ""


def unused_quasi_identifiers(guarantees: Sequence[Guarantee], quasi_identifiers: Sequence[str]) -> list[str]:
    """Declared quasi-identifiers in the classes or attack of no guarantee that binds, in their order."""
    seen = {
        column for entry in binding(guarantees) for column in way_of(entry).columns_used_by(entry, quasi_identifiers)
    }
    return [name for name in quasi_identifiers if name not in seen]


def guarantee_notes(guarantees: Sequence[Guarantee], roles: Roles, *, whole: bool) -> list[str]:
    """What a reader of the verdicts must know of what they leave out.

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
    ["no guarantee looks at the quasi-identifier 'age'", 'k_anonymity with k = 1 protects nobody']
    """
    notes = []
    if whole and guarantees:
        if not roles.quasi_identifiers:
            notes.append("no column is a quasi-identifier: nobody is taken to know anything of a person")
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
            notes.append(f"{entry.name()} with {idle} protects nobody")
    return list(dict.fromkeys(notes))
