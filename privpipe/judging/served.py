"""Which entries can be judged under wildcard matching and when persons are counted."""

from __future__ import annotations

from privpipe.blocks import Guarantee
from privpipe.blocks.marks import Columns
from privpipe.blocks.parameters import marked
from privpipe.judging.ways import way_of
from privpipe.roles import Roles

__all__ = [
    "nothing_compared",
    "refused_in_persons",
    "refused_under_wildcard",
    "refused_without_wildcard",
    "uncountable",
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
    """Why the policy cannot tell apart those whom an entry counts, or nothing."""
    over = entry.counts_over()
    if entry.reads_households() and over is None and household is None:
        return f"{entry.name()} must be told who lives together: name the column of households as `household_id`"
    if (over == "persons" and person is None) or (over == "households" and household is None):
        key = "person_id" if over == "persons" else "household_id"
        return f"{entry.name()} counts over {over}, and nothing tells them apart: name their column as `{key}`"
    return ""
