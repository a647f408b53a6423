"""Related tables: their names, the columns by which rows belong to a person, and what is known about a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from privpipe.errors import UsageError, did_you_mean

__all__ = ["RelatedColumns", "Relation", "Tree", "table_and_column"]

FROM = re.compile(r"(?P<table>[^.\[\]]+)\.(?:\[(?P<several>[^\[\]]+)\]|(?P<one>[^\[\]]+))")


def table_and_column(owner: str, text: Any) -> tuple[str, str]:
    """The table and the column of ``table.column``.

    Raises
    ------
    UsageError

    Examples
    --------
    >>> table_and_column("joint_alpha", "drugs.substance")
    ('drugs', 'substance')
    """
    parts = text.split(".", 1) if isinstance(text, str) else ()
    if len(parts) != 2 or not all(parts):
        raise UsageError(f"{owner}: column must be a table and its column, as in drugs.substance")
    return parts[0], parts[1]


@dataclass(frozen=True)
class Relation:
    """Rows of one table belong to rows of another, many to one.

    Parameters
    ----------
    table : str
        The table with many rows.
    columns : tuple of str
        Its columns that hold the key of `to`.
    to : str

    Examples
    --------
    >>> Relation.of({"from": "visits.[hospital, patient]", "to": "patients"})
    Relation(table='visits', columns=('hospital', 'patient'), to='patients')
    """

    table: str
    columns: tuple[str, ...]
    to: str

    @classmethod
    def of(cls, given: Any) -> Self:
        """The relation of ``{"from": "visits.patient_id", "to": "patients"}``.

        Raises
        ------
        UsageError
        """
        if isinstance(given, cls):
            return given
        wrong = UsageError(
            "a relation must be {from: table.column, to: table}, or {from: table.[column, column], to: table}"
        )
        if not isinstance(given, Mapping) or set(given) != {"from", "to"} or not isinstance(given["to"], str):
            raise wrong
        found = FROM.fullmatch(given["from"]) if isinstance(given["from"], str) else None
        if found is None:
            raise wrong
        names = found["several"].split(",") if found["several"] else [found["one"]]
        return cls(found["table"].strip(), tuple(name.strip() for name in names), given["to"])


@dataclass(frozen=True)
class RelatedColumns:
    """Columns of one table that matter to its relations.

    Parameters
    ----------
    key : tuple of str
        Distinguishes its rows; empty where nothing is related to it.
    quasi_identifiers : tuple of str
        Those that are released.
    """

    key: tuple[str, ...] = ()
    quasi_identifiers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    """Tables and their relations: each leads to the root by one path.

    Parameters
    ----------
    tables : mapping of str to RelatedColumns
    relations : tuple of Relation

    Raises
    ------
    UsageError
        No root or several, a circle, two paths, a relation to a table without a key or with one of another length, or
        to a table that is not there.

    Examples
    --------
    >>> tree = Tree(
    ...     {"patients": RelatedColumns(("id",)), "visits": RelatedColumns(("visit",)), "drugs": RelatedColumns()},
    ...     (Relation("visits", ("patient",), "patients"), Relation("drugs", ("visit",), "visits")),
    ... )
    >>> tree.root, [relation.table for relation in tree.path("drugs")]
    ('patients', ['drugs', 'visits'])
    """

    tables: Mapping[str, RelatedColumns]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        self._check_names()
        self._check_paths()
        roots = self._roots()
        if len(roots) != 1:
            raise UsageError(
                f"{_listed(roots)} lead to no other table: each table but one, whose rows are persons, needs a "
                "relation that leads to it"
                if roots
                else "every table leads to another: relations go in a circle, and no table has persons as its rows"
            )
        for name in self.tables:
            self.path(name)

    def _check_names(self) -> None:
        for relation in self.relations:
            for name in (relation.table, relation.to):
                if name not in self.tables:
                    raise UsageError(f"relations: there is no table {name!r}{did_you_mean(name, self.tables)}")
            key = self.tables[relation.to].key
            if not key:
                raise UsageError(
                    f"relations: table {relation.to!r} is the target of a relation and has no `key:`; name its columns"
                )
            if len(key) != len(relation.columns):
                raise UsageError(
                    f"relations: {relation.table!r} names {len(relation.columns)} columns, and the key of "
                    f"{relation.to!r} has {len(key)}"
                )

    def _check_paths(self) -> None:
        for name in self.tables:
            out = [relation.to for relation in self.relations if relation.table == name]
            if len(out) > 1:
                raise UsageError(
                    f"relations: table {name!r} leads to the persons by two paths, through {_listed(out)}; leave one "
                    "out"
                )

    def _roots(self) -> list[str]:
        leaving = {relation.table for relation in self.relations}
        return [name for name in self.tables if name not in leaving]

    @property
    def root(self) -> str:
        """The table whose rows are persons."""
        return self._roots()[0]

    @property
    def children(self) -> tuple[str, ...]:
        """All other tables, in their order."""
        return tuple(name for name in self.tables if name != self.root)

    def path(self, table: str) -> tuple[Relation, ...]:
        """The relations from a table to the root; none from the root.

        Raises
        ------
        UsageError
            They go in a circle.
        """
        found: list[Relation] = []
        while table != self.root:
            step = next(relation for relation in self.relations if relation.table == table)
            if step in found:
                raise UsageError(f"relations: {_listed([each.table for each in found])} lead to each other in a circle")
            found.append(step)
            table = step.to
        return tuple(found)

    @classmethod
    def of(
        cls,
        tables: Iterable[str],
        relations: Iterable[Any],
        keys: Mapping[str, str | Sequence[str]],
        quasi_identifiers: Mapping[str, Sequence[str]],
    ) -> Self:
        """The tree as Python callers describe it.

        Raises
        ------
        UsageError
        """
        names = tuple(tables)
        for what, given in (("keys", keys), ("quasi_identifiers", quasi_identifiers)):
            for name in given:
                if name not in names:
                    raise UsageError(f"{what}: there is no table {name!r}{did_you_mean(name, names)}")
        described = {
            name: RelatedColumns(_texts("keys", keys.get(name, ())), tuple(quasi_identifiers.get(name, ())))
            for name in names
        }
        return cls(described, tuple(Relation.of(each) for each in relations))


def _texts(owner: str, given: Any) -> tuple[str, ...]:
    found = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(each, str) for each in found):
        raise UsageError(f"{owner}: give the name of a column, or a list of names")
    return found


def _listed(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
