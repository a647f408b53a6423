"""Catalogues: one line an entry, imported when first asked for; then what plug-ins add."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from privpipe import plugins
from privpipe.blocks.entry import Entry, snake_case
from privpipe.errors import UsageError, did_you_mean

__all__ = ["Catalogue"]


class Catalogue(Mapping[str, type[Entry]]):
    """Entries of one room by snake_case name: those built in, in order, then those of plug-ins.

    A name that is built in is found without a look at what is installed. What iterates leaves out plug-ins that are not
    sound; asking for one by its name says what is wrong with it.

    Parameters
    ----------
    package : str
        The room, as in ``privpipe.models``; also the group of its plug-ins.
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
        if name in self._names:
            return self.of_class(self._names[name])
        if name in self:
            brought: type[Entry] = plugins.load(self.package, name)
            return brought
        raise UsageError(f"unknown {self.kind} {name!r}{did_you_mean(name, self)}")

    def __contains__(self, name: object) -> bool:
        return name in self._names or plugins.has(self.package, name)

    def of_class(self, name: str) -> type[Entry]:
        """The built-in class of that CamelCase name."""
        module = importlib.import_module(f"{self.package}.{self._classes[name]}")
        entry: type[Entry] = getattr(module, name)
        return entry

    def __iter__(self) -> Iterator[str]:
        yield from self._names
        yield from plugins.names(self.package)

    def __len__(self) -> int:
        return len(self._names) + len(plugins.names(self.package))

    @property
    def built_in(self) -> tuple[str, ...]:
        """Names of the entries of this package alone."""
        return tuple(self._names)

    @property
    def class_names(self) -> tuple[str, ...]:
        """CamelCase names of the built-in entries, in catalogue order."""
        return tuple(self._classes)

    def module_of(self, name: str) -> str:
        """Dotted path inside the room of a built-in entry, of which the first part is its group; else of its module."""
        return self._classes[self._names[name]] if name in self._names else self[name].__module__

    def attribute(self, name: str) -> type[Entry]:
        """The class of that CamelCase name, as an attribute of the room.

        Raises
        ------
        AttributeError
            There is none.
        UsageError
            A plug-in brings it and is not sound.
        """
        if name in self._classes:
            return self.of_class(name)
        # Python asks modules for its own names, of which none is a class: no reason to look at what is installed.
        called = snake_case(name) if name[:1].isupper() else ""
        if called and called not in self._names and plugins.has(self.package, called):
            entry = self[called]
            if entry.__name__ == name:
                return entry
        raise AttributeError(f"module {self.package!r} has no attribute {name!r}")

    def attributes(self) -> list[str]:
        """What the room has to offer by name: its catalogue and the class of each entry, also of plug-ins."""
        plugged = (each.class_name for each in plugins.found() if each.group == self.package)
        return sorted({"CATALOGUE", *self._classes, *plugged})
