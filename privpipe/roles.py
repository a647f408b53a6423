"""The role of each column: what may identify a person, what must not be learnt, what is never released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from privpipe.border import bordered
from privpipe.errors import RolesError, UsageError, did_you_mean

__all__ = [
    "ColumnType",
    "EmptyRule",
    "NullRule",
    "Role",
    "Roles",
    "case_collisions",
    "column_type_of",
    "not_text",
    "read_roles",
    "require_empty_rule",
    "roles_of_call",
]

Role = Literal["identifier", "quasi_identifier", "sensitive", "insensitive", "drop", "carried"]
ColumnType = Literal["text", "integer", "number", "decimal", "date", "timestamp", "boolean"]
NullRule = Literal["own_value", "wildcard", "refuse"]
EmptyRule = Literal["refuse", "pass"]
"""What a table without a record is: an error, or nothing that could disclose anything."""
FIELDS = ("identifiers", "quasi_identifiers", "sensitive", "insensitive", "dropped", "carried")
"""Where `Roles` keeps the columns of each `Role`."""


def case_collisions(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that are equal or differ only in case: DuckDB and Spark take them for one column.

    Examples
    --------
    >>> case_collisions(["age", "Age", "zip"])
    [('age', 'Age')]
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.casefold(), []).append(name)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def not_text(names: Iterable[object]) -> str:
    """Why one of some names cannot name a column, and what to do; empty if all can. pandas has labels of any type.

    Examples
    --------
    >>> not_text(["age", "zip"]), not_text(["age", 0]).partition(";")[0]
    ('', 'column names must be text and one is int')
    """
    labels = list(names)
    kinds = [type(name).__name__ for name in labels if not isinstance(name, str)]
    if not kinds:
        return ""
    text = '"_".join(map(str, name))' if all(isinstance(name, tuple) for name in labels) else "str(name)"
    return (
        f"column names must be text and one is {kinds[0]}; rename the columns, as in "
        f"frame.columns = [{text} for name in frame.columns], and give the new names"
    )


@bordered
@dataclass(frozen=True, kw_only=True)
class Roles:
    """The role of every column of a table.

    Parameters
    ----------
    quasi_identifiers, sensitive, identifiers, insensitive : sequence of str
        Column names, exactly as the table spells them; no name twice.
    dropped : sequence of str
        Likewise: columns that no release holds and nothing looks at, whatever they are.
    carried : sequence of str
        Likewise: columns that are released unchanged and that no stage or guarantee reads, of any type: lists,
        structs, maps, times of day. They are near-unique until the contrary is known.

    Raises
    ------
    RolesError
        A column with two roles, a name that is not text, or two names that differ only in case.

    Examples
    --------
    >>> roles = Roles(quasi_identifiers=["age", "zip"], sensitive=["illness"])
    >>> roles.of("zip"), roles.columns
    ('quasi_identifier', ('age', 'zip', 'illness'))
    """

    quasi_identifiers: Sequence[str] = ()
    sensitive: Sequence[str] = ()
    identifiers: Sequence[str] = ()
    insensitive: Sequence[str] = ()
    dropped: Sequence[str] = ()
    carried: Sequence[str] = ()

    def __post_init__(self) -> None:
        for field in FIELDS:
            given = getattr(self, field)
            if isinstance(given, str) or not isinstance(given, Iterable):
                what = f"the text {given!r}" if isinstance(given, str) else type(given).__name__
                raise RolesError(f"{field} must be a list of column names, got {what}")
            names = tuple(given)
            if wrong := not_text(names):
                raise RolesError(f"{field}: {wrong}")
            object.__setattr__(self, field, names)
        twice = [name for name, times in Counter(self.columns).items() if times > 1]
        if twice:
            raise RolesError(f"a column has one role; {', '.join(map(repr, twice))} has several")
        for group in case_collisions(self.columns):
            raise RolesError(f"column names differ only in case: {', '.join(map(repr, group))}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that has a role."""
        return tuple(name for field in FIELDS for name in getattr(self, field))

    @property
    def unreleased(self) -> tuple[str, ...]:
        """Columns that no finished table holds: identifiers, then those that are dropped."""
        return (*self.identifiers, *self.dropped)

    def of(self, name: str) -> Role:
        """The role of one column."""
        for role, field in zip(get_args(Role), FIELDS, strict=True):
            if name in getattr(self, field):
                return role  # type: ignore[no-any-return]
        raise RolesError(f"column {name!r} has no role{did_you_mean(name, self.columns)}")


def read_roles(given: object) -> Roles:
    """The forms in which a call may give roles.

    Parameters
    ----------
    given : Roles or mapping
        A mapping of columns to their roles, or of the arguments of `Roles` to lists of columns.

    Raises
    ------
    RolesError
        Something else, or a role that does not exist.

    Examples
    --------
    >>> by_column = read_roles({"zip": "quasi_identifier", "illness": "sensitive"})
    >>> by_column == read_roles({"quasi_identifiers": ["zip"], "sensitive": ["illness"]})
    True
    """
    if isinstance(given, Roles):
        return given
    if not isinstance(given, Mapping):
        raise RolesError(
            "roles must be a privpipe.Roles or a mapping, as in "
            f"{{'zip': 'quasi_identifier', 'illness': 'sensitive'}}, not {type(given).__name__}"
        )
    if wrong := not_text(given):
        raise RolesError(f"roles: {wrong}")
    roles = get_args(Role)
    if all(name in FIELDS and role not in roles for name, role in given.items()):
        return Roles(**given)
    found: dict[str, list[str]] = {field: [] for field in FIELDS}
    for name, role in given.items():
        if not isinstance(role, str):
            if near := did_you_mean(name, FIELDS):
                raise RolesError(f"roles has no {name!r}{near}")
            raise RolesError(f"roles: {name!r} must have one role; lists of columns are given as {', '.join(FIELDS)}")
        if role not in roles:
            near = did_you_mean(role, roles) or f"; known: {', '.join(roles)}"
            raise RolesError(f"roles: {name!r} has a role that does not exist{near}")
        found[FIELDS[roles.index(role)]].append(name)
    return Roles(**found)


def roles_of_call(given: Mapping[str, Any]) -> Roles:
    """The roles that the options of a call give: by `roles`, or by `quasi_identifiers` and `sensitive`.

    Raises
    ------
    UsageError
        Both, or what `read_roles` raises.

    Examples
    --------
    >>> roles_of_call({"quasi_identifiers": ["zip"]}) == roles_of_call({"roles": {"zip": "quasi_identifier"}})
    True
    """
    named = {name: given[name] for name in ("quasi_identifiers", "sensitive") if name in given}
    if "roles" not in given:
        return Roles(**named)
    if named:
        raise UsageError(f"give roles or {' and '.join(named)}, not both")
    return read_roles(given["roles"])


def column_type_of(arrow_type: object) -> ColumnType:
    """The policy's name of an Arrow type, from the type's own text.

    Examples
    --------
    >>> column_type_of("int64"), column_type_of("timestamp[us, tz=UTC]"), column_type_of("string")
    ('integer', 'timestamp', 'text')
    """
    name = str(arrow_type)
    prefixes: tuple[tuple[str, ColumnType], ...] = (
        ("int", "integer"),
        ("uint", "integer"),
        ("double", "number"),
        ("float", "number"),
        ("decimal", "decimal"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("bool", "boolean"),
    )
    return next((kind for prefix, kind in prefixes if name.startswith(prefix)), "text")


def require_empty_rule(said: object) -> None:
    """Refuse anything that is not a rule for a table without records; None means no rule.

    Raises
    ------
    UsageError
    """
    if said is not None and said not in get_args(EmptyRule):
        near = did_you_mean(said, get_args(EmptyRule)) if isinstance(said, str) else ""
        raise UsageError(f"empty must be one of {', '.join(get_args(EmptyRule))}, not {said!r}{near}")
