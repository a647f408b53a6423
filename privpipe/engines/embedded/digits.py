"""Names as SQL, and the values of a column as numbers that pack into keys."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from privpipe.blocks.arrays import Ints

__all__ = ["Digits", "column_list", "quoted"]


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


@dataclass(frozen=True)
class Digits:
    """The values of a column as 0, 1, ...; a missing one is the last.

    Parameters
    ----------
    size : int
        How many there are, with the one of missing values.
    texts : pyarrow.Array, optional
        Of an enumeration, in its order.
    least : int
        Of integers, the value of 0.
    missing : bool
        Whether a cell may be missing.
    """

    size: int
    texts: pa.Array | None = field(default=None, repr=False)
    least: int = 0
    missing: bool = True

    def sql(self, name: str, kind: str) -> str:
        """The digit of a cell, from a column of `EmbeddedTable.compact`, as a number of this type."""
        value = f"({quoted(name)} - {self.least})" if self.texts is None else f"enum_code({quoted(name)})"
        return f"coalesce({value}::{kind}, {self.size - 1})" if self.missing else f"{value}::{kind}"

    def values_of(self, digits: Ints) -> pa.Array:
        """The values of some digits."""
        missing = digits == self.size - 1
        if self.texts is None:
            return pa.array(digits + self.least, mask=missing)
        return self.texts.take(pa.array(digits, mask=missing))

    def of_text(self, text: str) -> int | None:
        """The digit of a text; None where it is none of the values."""
        found = None if self.texts is None else self.texts.index(text).as_py()
        return None if found is None or found < 0 else int(found)
