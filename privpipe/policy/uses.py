"""`uses:` of a policy: what the released data is for, as lines that name columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from privpipe.errors import UsageError, did_you_mean

__all__ = ["FORMS", "NUMERIC", "Use", "UseKind", "read_use"]

UseKind = Literal["mean", "regression", "table"]
FORMS: Mapping[UseKind, str] = {
    "mean": "mean of NUMBER by COLUMN [and COLUMN ...]",
    "regression": "regression of NUMBER on COLUMN [and COLUMN ...]",
    "table": "table of COLUMN [by COLUMN [and COLUMN ...]]",
}
"""How a use is written; `,` may replace `and`."""
NUMERIC = ("integer", "number", "decimal")
LINE = re.compile(r"\s*(\w+)\s+of\s+(.+?)\s*", re.IGNORECASE | re.DOTALL)
JOINS: Mapping[UseKind, str] = {"mean": "by", "regression": "on", "table": "by"}


@dataclass(frozen=True)
class Use:
    """One use of a table.

    Parameters
    ----------
    kind : UseKind
    of : str
        What is explained, averaged, or the first column of a table.
    by : tuple of str
        What explains it, or the columns by which it is distinguished.
    """

    kind: UseKind
    of: str
    by: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All that it needs."""
        return (self.of, *self.by)

    def __str__(self) -> str:
        join = f" {JOINS[self.kind]} {' and '.join(self.by)}" if self.by else ""
        return f"{self.kind} of {self.of}{join}"


def read_use(text: str, columns: Collection[str], types: Mapping[str, str] | None = None) -> Use:
    """A use from its line.

    Parameters
    ----------
    text : str
    columns : collection of str
        Those of the policy; a name may hold blanks and the words of the line.
    types : mapping of column to declared type, optional

    Raises
    ------
    UsageError
        No such form, a column that there is not, or a text where a number is needed.

    Examples
    --------
    >>> read_use("regression of income on age, education", ["age", "education", "income"])
    Use(kind='regression', of='income', by=('age', 'education'))
    """
    found = LINE.fullmatch(text)
    kind = found[1].lower() if found else ""
    if found is None or kind not in FORMS:
        near = did_you_mean(kind, FORMS) if kind else ""
        raise UsageError(f"is not a use of a table{near}; write {', or '.join(FORMS.values())}")
    join = JOINS[kind]  # type: ignore[index]
    of, by = _parted(found[2], join, columns)
    named = _listed(by, columns) if by else ()
    if kind != "table" and not named:
        raise UsageError(f"does not name the columns after {join}; write {FORMS[kind]}")  # type: ignore[index]
    for name in (of, *named):
        if name not in columns:
            raise UsageError(f"names {name!r}, which is not a column of the policy{did_you_mean(name, columns)}")
    if len({of, *named}) != 1 + len(named):
        raise UsageError("names a column twice")
    if kind != "table" and (types or {}).get(of, "number") not in NUMERIC:
        raise UsageError(f"needs a number; {of!r} is declared as {(types or {})[of]}")
    return Use(kind, of, named)  # type: ignore[arg-type]


def _parted(text: str, join: str, columns: Collection[str]) -> tuple[str, str]:
    """What is before and after the word, where a name may hold the word."""
    places = [found.span(1) for found in re.finditer(rf"(?=(\s+{join}\s+))", text, re.IGNORECASE)]
    for start, end in places:
        if text[:start].strip() in columns:
            return text[:start].strip(), text[end:]
    if text.strip() in columns or not places:
        return text.strip(), ""
    start, end = places[0]
    return text[:start].strip(), text[end:]


def _listed(text: str, columns: Collection[str]) -> tuple[str, ...]:
    """The columns of a list, where a name may hold `and` or a comma."""
    parts = re.split(r"(\s*,\s*(?:and\s+)?|\s+and\s+)", text.strip())
    names: list[str] = []
    at = 0
    while at < len(parts):
        for end in range(len(parts), at, -2):
            joined = "".join(parts[at:end])
            if joined in columns or end - at == 1:
                names.append(joined)
                at = end + 1
                break
    return tuple(names)
