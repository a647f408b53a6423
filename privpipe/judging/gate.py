"""The gate's check of column names: no column without a role, and no identifier."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from privpipe.blocks import Guarantee, Verdict
from privpipe.blocks.marks import ColumnName, ColumnNames
from privpipe.engines import Source
from privpipe.engines.readers.unjudged_content import foreign_metadata
from privpipe.errors import DataError, UsageError, did_you_mean
from privpipe.models.identity.no_identifiers import NoIdentifiers
from privpipe.roles import Roles

__all__ = [
    "Gate",
    "OthersRule",
    "UndeclaredRule",
    "column_verdicts",
    "metadata_notes",
    "named_columns",
    "undeclared_rule",
]

MOST_KEYS = 10
UndeclaredRule = Literal["refuse", "note"]
OthersRule = Literal["refuse", "note", "drop"]
"""What becomes of columns that a policy does not name; a table that is finished is judged unchanged: `drop` refuses."""


def undeclared_rule(said: Any, *, whole: bool) -> UndeclaredRule:
    """What becomes of a column without a role: as said, else an error where roles of a whole table are given.

    Parameters
    ----------
    said : {"refuse", "note"} or None
    whole : bool
        Whether roles of the table's columns are given, not only the columns that are counted.

    Examples
    --------
    >>> undeclared_rule(None, whole=True), undeclared_rule(None, whole=False), undeclared_rule("note", whole=True)
    ('refuse', 'note', 'note')
    """
    if said is None:
        return "refuse" if whole else "note"
    if said not in get_args(UndeclaredRule):
        near = did_you_mean(said, get_args(UndeclaredRule)) if isinstance(said, str) else ""
        raise UsageError(f"undeclared must be refuse or note, not {said!r}{near}")
    return said  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How the columns of a judged table are looked at.

    Parameters
    ----------
    undeclared : {"refuse", "note"}
        Whether a column without a role is an error.
    declared : tuple of str
        Columns that have a role which the entries do not ask for.
    metadata : {"refuse", "note"}
        Whether metadata of files that is not their writers' own is an error.
    raw : bool
        The table is a source, raw by nature: its identifiers are noted, for no release holds them.
    columns : tuple of str, optional
        What readers see, where the judged table holds more; default: all its columns.
    whole : bool
        Whether the guarantees are all that the table is judged by.
    notes : bool
        Whether columns and spellings that no entry asks for are looked at as well.
    pseudonyms : tuple of str
        Columns that a `pseudonymise` stage made: each value stands for one person by design.
    """

    undeclared: UndeclaredRule = "note"
    declared: tuple[str, ...] = ()
    metadata: UndeclaredRule = "note"
    raw: bool = False
    columns: tuple[str, ...] | None = None
    whole: bool = True
    notes: bool = False
    pseudonyms: tuple[str, ...] = ()

    def seen(self, names: Sequence[str]) -> tuple[str, ...]:
        """The columns that readers of the table see."""
        return tuple(names) if self.columns is None else self.columns

    def completed(self, names: Sequence[str], roles: Roles) -> Roles:
        """The roles; columns of a whole table without one are insensitive, so that attacks and notes look at them."""
        if not self.whole:
            return roles
        more = [name for name in self.seen(names) if name in names and name not in roles.columns]
        return replace(roles, insensitive=(*roles.insensitive, *more)) if more else roles


def named_columns(entries: Iterable[Guarantee]) -> tuple[str, ...]:
    """Columns that entries name themselves, whatever roles the table has.

    Examples
    --------
    >>> from privpipe.models import DistinctLDiversity
    >>> named_columns([DistinctLDiversity(column="illness", l=2, quasi_identifiers=("zip",))])
    ('zip', 'illness')
    """
    return tuple(
        dict.fromkeys(
            name
            for entry in entries
            for name in (
                *(entry.quasi_identifiers or ()),
                *entry.columns_marked(ColumnName),
                *entry.columns_marked(ColumnNames),
            )
        )
    )


def column_verdicts(
    gate: Gate, names: Sequence[str], roles: Roles, guarantees: Sequence[Guarantee], named: Collection[str] = ()
) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...], list[str]]:
    """Verdicts over the columns of a table: built-in ones that fail, built-in ones that hold, and notes.

    Where the guarantees list `no_identifiers` themselves it is not built in a second time. `named` are columns that
    entries name themselves: they need no role.

    Raises
    ------
    DataError
        Columns without a role, unless these are noted.
    """
    seen = gate.seen(names)
    notes = _undeclared(gate, seen, {*roles.columns, *gate.declared, *named})
    if gate.raw:
        for what, those in (("identifiers", roles.identifiers), ("dropped columns", roles.dropped)):
            found = [name for name in seen if name in those]
            if found:
                notes.append(f"{what} of the source, which no release holds: {_listed(found)}")
        return (), (), notes
    if any(isinstance(guarantee, NoIdentifiers) for guarantee in guarantees):
        return (), (), notes
    verdict = NoIdentifiers().judge_columns(seen, roles)
    return ((), (verdict,), notes) if verdict.passed else ((verdict,), (), notes)


def metadata_notes(source: Source, rule: UndeclaredRule) -> tuple[str, ...]:
    """What the files of a finished table say in addition to their rows, in notes by their kind: keys, never values.

    Raises
    ------
    DataError
        They say anything, unless that is noted.
    """
    told = [
        f"{kind} files hold metadata that is neither rows nor their writers' own: {_listed(keys[:MOST_KEYS])}"
        + (f" and {len(keys) - MOST_KEYS:,} more" if len(keys) > MOST_KEYS else "")
        for kind, keys in foreign_metadata(source).items()
    ]
    if told and rule == "refuse":
        raise DataError(
            f"{'; '.join(told)}; readers get it and nothing judges it: write the table without it, or write "
            "`metadata: note` to judge the table all the same"
        )
    return tuple(told)


def _undeclared(gate: Gate, seen: Sequence[str], declared: Collection[str]) -> list[str]:
    extra = [name for name in seen if name not in declared]
    if not extra:
        return []
    if gate.undeclared == "note":
        return [f"columns without a role, which nobody looked at: {_listed(extra)}"]
    raise DataError(
        f"{len(extra)} column(s) of the table have no role: {_listed(extra)}; give each a role (under `columns:` of a "
        "policy, in `roles` of a call), take it out of the table (a named index level is a column), or write "
        "`undeclared: note` to judge the table all the same"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
