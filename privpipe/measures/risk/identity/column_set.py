"""Gates over one set of columns: how well it distinguishes records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le
from typing_extensions import Doc

from privpipe.blocks import SizeModel
from privpipe.blocks.marks import Columns, Stricter
from privpipe.errors import UsageError

__all__ = ["ColumnSetMeasure", "require_columns"]


def require_columns(owner: str, columns: object) -> tuple[str, ...]:
    """The names as a tuple.

    Raises
    ------
    UsageError
        Not a list of distinct names, or an empty one.

    Examples
    --------
    >>> require_columns("Distinction", ["age", "zip"])
    ('age', 'zip')
    """
    names = tuple(columns) if isinstance(columns, list | tuple) else ()
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"{owner}: columns must be a list of column names")
    if len(set(names)) < len(names):
        raise UsageError(f"{owner}: columns name one twice")
    return names


@dataclass(frozen=True, kw_only=True, repr=False)
class ColumnSetMeasure(SizeModel):
    """A figure of the classes that `columns` form.

    `columns` may be of any role. They are the keys of the entry, so a search, a suite and a judgement count the same.
    """

    threshold_field = "at_most"
    protects_nobody_at = 1

    columns: Annotated[
        tuple[str, ...] | None,
        Columns(),
        Stricter("equal"),
        Doc("the set of columns, of any role; left out: all quasi-identifiers"),
    ] = None
    at_most: Annotated[float | None, Ge(0), Le(1)] = None

    quasi_identifiers: Annotated[
        tuple[str, ...] | None, Stricter("names"), Doc("the same as `columns`; give one of the two")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        if self.columns is not None:
            columns = require_columns(owner, self.columns)
            if self.quasi_identifiers not in (None, columns):
                raise UsageError(f"{owner}: quasi_identifiers and columns name different sets; give columns alone")
            object.__setattr__(self, "columns", columns)
            object.__setattr__(self, "quasi_identifiers", columns)
