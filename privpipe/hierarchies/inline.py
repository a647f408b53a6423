"""`rows`: a hierarchy that stands in the policy itself, one list a raw value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from privpipe.errors import UsageError
from privpipe.hierarchies.draft import Draft
from privpipe.hierarchies.rows import draft_from_rows

__all__ = ["Rows"]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """`rows`: a list a raw value, then its labels from finest to coarsest.

    Parameters
    ----------
    rows : tuple of tuple of str

    Examples
    --------
    >>> rows = Rows.from_parameters([["flu", "common", "*"], ["gout", "rare", "*"]])
    >>> rows.draft((), None, None, "illness").levels.labels[1]
    ('common', 'rare')
    """

    example: ClassVar[str] = "[[flu, common, '*'], [gout, rare, '*']]"
    example_values: ClassVar[tuple[str, ...]] = ("flu", "gout")
    example_type: ClassVar[str] = "text"

    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the lists under `rows:`."""
        if not isinstance(given, list | tuple) or not given:
            raise UsageError("must be a list of rows, each a raw value and its labels")
        for at, row in enumerate(given):
            if not isinstance(row, list | tuple) or not row or not all(isinstance(cell, str) for cell in row):
                raise UsageError(f"row {at + 1} must be a list of texts: a raw value and its labels")
        return cls(rows=tuple(tuple(row) for row in given))

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the rows, in their order; the data's values do not matter."""
        draft = draft_from_rows(self.rows, kind=kind, column=column, source="rows")
        return replace(draft, written_out=True)
