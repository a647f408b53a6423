"""Texts, their first letter, and a root."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from privpipe.errors import UsageError
from privpipe.hierarchies.levels import Draft, Levels
from privpipe.hierarchies.options import ROOT, known_keys

__all__ = ["Initials"]


@dataclass(frozen=True, kw_only=True)
class Initials:
    """Three levels: the text, its first letter, ``*``.

    Parameters
    ----------
    after : str
        What is put behind the letter.

    Examples
    --------
    >>> Initials().draft(["Crewe", "Derby"], None, "text", "town").levels.labels[1]
    ('C.', 'D.')
    """

    after: str = "."

    @classmethod
    def from_parameters(cls, given: object) -> Self:
        """From the mapping under `initials:`."""
        return cls(**known_keys(given, cls, "{after: .}"))

    def __post_init__(self) -> None:
        if not isinstance(self.after, str):
            raise UsageError(f"after: must be a text, got {self.after!r}")

    def draft(self, values: Sequence[str], counts: Sequence[int] | None, kind: str | None, column: str) -> Draft:
        """Levels of the distinct values, in order of their text."""
        texts = sorted(values)
        return Draft(
            levels=Levels.from_columns([texts, [text[:1] + self.after for text in texts], [ROOT] * len(texts)]),
            source="initials",
            level_names=("raw", "initial", ROOT),
        )
