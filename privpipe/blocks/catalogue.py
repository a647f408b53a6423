"""Catalogues: one line an entry, imported when first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from privpipe.blocks.entry import Entry, snake_case
from privpipe.errors import UsageError, did_you_mean

__all__ = ["Catalogue"]


class Catalogue(Mapping[str, type[Entry]]):
    """Entries of one room by snake_case name.

    Parameters
    ----------
    package : str
        The room, as in ``privpipe.models``.
    kind : str
        What the room calls an entry, for error messages.
    lines : mapping of class name to module path inside the room
    """

    def __init__(self, package: str, kind: str, lines: Mapping[str, str]) -> None:
        self.package = package
        self.kind = kind
        self._classes = dict(lines)
        self._names = {snake_case(name): name for name in lines}

    def __getitem__(self, name: str) -> type[Entry]:
        if name not in self._names:
            raise UsageError(f"unknown {self.kind} {name!r}{did_you_mean(name, self._names)}")
        return self.of_class(self._names[name])

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def of_class(self, name: str) -> type[Entry]:
        """The class of that CamelCase name."""
        module = importlib.import_module(f"{self.package}.{self._classes[name]}")
        entry: type[Entry] = getattr(module, name)
        return entry

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """CamelCase names, in catalogue order."""
        return tuple(self._classes)

    def module_of(self, name: str) -> str:
        """Dotted path inside the room of a snake_case entry; its first part is the entry's group."""
        return self._classes[self._names[name]]
