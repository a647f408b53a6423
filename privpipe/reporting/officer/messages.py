"""The catalogue of texts of each language: JSON files beside this module, with the same keys in all of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from privpipe.reporting.officer.languages import Language

__all__ = ["Messages", "catalogue"]


@functools.cache
def catalogue(lang: Language) -> Mapping[str, str]:
    """All texts of a language by key: of pages, of notes, and against whom entries guard."""
    folder = files(__package__).joinpath("texts")
    found: dict[str, str] = {}
    for name in (f"{lang}.json", f"notes.{lang}.json", f"guards.{lang}.json"):
        found |= json.loads(folder.joinpath(name).read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Messages:
    """The texts of one language.

    Parameters
    ----------
    lang : {"en", "de", "fr", "es"}

    Examples
    --------
    >>> Messages.of("en").text("role.identifier")
    'identifier'
    """

    lang: Language
    texts: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, lang: Language) -> Self:
        """The catalogue of a language."""
        return cls(lang, catalogue(lang))

    def text(self, key: str, **given: Any) -> str:
        """The text of a key with what it speaks of filled in.

        Raises
        ------
        KeyError
            No such text, or something that it speaks of was not given.
        """
        return self.texts[key].format_map(given) if given else self.texts[key]

    def has(self, key: str) -> bool:
        """Whether the catalogue has a text of its own for a key."""
        return key in self.texts
