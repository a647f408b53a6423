"""Gaps of the guarantees: columns that none of them uses, thresholds that protect nobody."""

from __future__ import annotations

from collections.abc import Sequence

from privpipe.blocks import Guarantee
from privpipe.blocks.severity import binding
from privpipe.judging.ways import way_of
from privpipe.roles import Roles

__all__ = ["guarantee_notes", "unused_quasi_identifiers"]


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
        Whether these are all guarantees of the table, so that a column none of them names is looked at by nobody.

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
