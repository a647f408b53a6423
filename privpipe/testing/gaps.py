"""What is known not to work yet, with the error it raises meanwhile: a gap that closes fails its test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from privpipe.errors import UnsupportedError

__all__ = ["GAPS", "Gap"]


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A combination that is not served.

    Parameters
    ----------
    raises : type of error
        What it raises.
    why : str
        Reason.
    parameters : mapping, optional
        Those of the catalogue entry that is refused, when it is refused at construction.
    """

    raises: type[Exception]
    why: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


GAPS: Mapping[tuple[str, str], Gap] = {
    ("*", "population search"): Gap(
        raises=UnsupportedError,
        why="suppression and search count the classes of their own table, not those of a population",
    ),
    ("*", "person_id search"): Gap(
        raises=UnsupportedError,
        why="a search reads distinct combinations with their records, which do not tell persons apart",
    ),
    ("*", "wildcard search"): Gap(
        raises=UnsupportedError,
        why="what matches by wildcards is no class, so removing one pattern changes the sizes of others",
    ),
}
"""By (engine, what): an engine's name or ``*``; a hostile table, a catalogue entry, or ``entry table``."""
