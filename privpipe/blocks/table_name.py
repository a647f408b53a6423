"""The name of a table in a catalogue: its parts, and how it is quoted, so that no name becomes part of a statement."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self

from privpipe.errors import UnsupportedError, UsageError, escaped

__all__ = ["MOST_PARTS", "OWN_CATALOGUE", "TableName", "backquoted", "refuse_table"]

MOST_PARTS = 3
OWN_CATALOGUE = "spark_catalog"
"""What Spark calls the catalogue of its own tables and views."""
FORM = (
    "write `table`, `db.table` or `catalog.db.table`, a part with other signs than letters, digits and _ in backquotes"
)
PART = re.compile(r"`(?P<quoted>(?:[^`]|``)*)`|(?P<plain>[A-Za-z0-9_]+)")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class TableName:
    """A table, a view or a temporary view that a session finds by name.

    Parameters
    ----------
    parts : tuple of str
        One to three, without quotes: the table, its database before it, the catalogue before that.
    place : str
        Where the name is written, for errors, as in ``release.yaml:3: source.table``.

    Examples
    --------
    >>> TableName.parse("lake.`visits 2026`").parts, str(TableName(("lake", "a`b")))
    (('lake', 'visits 2026'), 'lake.`a``b`')
    """

    parts: tuple[str, ...]
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= MOST_PARTS:
            raise UsageError(f"a table name has one to three parts, not {len(self.parts)}; {FORM}")
        for part in self.parts:
            if not part.strip() or not part.isprintable():
                raise UsageError(f"a part of a table name is empty or holds what cannot be printed; {FORM}")

    @classmethod
    def parse(cls, text: str, place: str = "") -> Self:
        """The name as written by a person.

        Raises
        ------
        UsageError
            It is none; a statement never is.

        Examples
        --------
        >>> TableName.parse("visits; DROP TABLE visits")
        Traceback (most recent call last):
        ...
        privpipe.errors.UsageError: 'visits; DROP TABLE visits' is not the name of a table; write `table`, ...
        """
        parts, at = [], 0
        while found := PART.match(text, at):
            quoted = found["quoted"]
            parts.append(found["plain"] if quoted is None else quoted.replace("``", "`"))
            at = found.end()
            if at == len(text):
                return cls(tuple(parts), place)
            if text[at] != ".":
                break
            at += 1
        raise UsageError(f"{escaped(text)!r} is not the name of a table; {FORM}")

    @property
    def sql(self) -> str:
        """The name with every part in backquotes, for Spark.

        Examples
        --------
        >>> TableName.parse("db.visits").sql
        '`db`.`visits`'
        """
        return ".".join(backquoted(part) for part in self.parts)

    @property
    def duckdb(self) -> str:
        """The name with every part in double quotes, for DuckDB.

        Examples
        --------
        >>> TableName.parse("db.visits").duckdb
        '"db"."visits"'
        """
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.parts)

    def __str__(self) -> str:
        return ".".join(part if PLAIN.fullmatch(part) else backquoted(part) for part in self.parts)

    def located(self, message: str) -> str:
        """A sentence with the place of the name before it.

        Examples
        --------
        >>> TableName(("visits",), "release.yaml:3: source.table").located("there is no such table")
        'release.yaml:3: source.table: there is no such table'
        """
        return f"{self.place}: {message}" if self.place else message


def backquoted(part: str) -> str:
    """A name of a part or a column quoted for Spark's SQL, whatever characters it has.

    Examples
    --------
    >>> backquoted("zip"), backquoted("a`b")
    ('`zip`', '`a``b`')
    """
    return "`" + part.replace("`", "``") + "`"


def refuse_table(name: TableName, engine: str) -> UnsupportedError:
    """The message if an engine has no catalogue.

    Examples
    --------
    >>> refuse_table(TableName(("visits",)), "dask")
    UnsupportedError('the dask engine reads no table of a catalogue (visits): run it with `engine: spark` ...')
    """
    return UnsupportedError(
        name.located(
            f"the {engine} engine reads no table of a catalogue ({name}): run it with `engine: spark` in a session "
            "that knows the table, or give the `path:` of its files or a frame"
        )
    )
