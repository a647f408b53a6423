"""Names as SQL."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["column_list", "quoted"]


def quoted(name: str) -> str:
    """A name as an SQL identifier.

    Examples
    --------
    >>> len(quoted('odd "name"')) - len('odd "name"')
    4
    """
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str], alias: str = "") -> str:
    """Names as an SQL list, each behind a table's alias if there is one.

    Examples
    --------
    >>> column_list(["age", "zip"], "t")
    't."age", t."zip"'
    """
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(name) for name in names)
