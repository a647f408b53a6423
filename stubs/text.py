"""The text of a stub: types as an argument may have them, classes, and what has to be imported for them."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from privpipe.blocks import Entry
from privpipe.blocks.parameters import hint_of

__all__ = ["HEADER", "NAMES", "Stub", "capital", "definition"]

HEADER = '"""Types of this room, made from the catalogue by `python -m stubs`."""\n'
NAMES = "list[str] | tuple[str, ...]"
"""What a list of names may be: a text is a sequence of texts too, and never meant."""
WIDTH = 120
PLAIN = {str: "str", int: "int", float: "float", bool: "bool", bytes: "bytes", Any: "Any", type(None): "None"}


def capital(name: str) -> str:
    """A name with its first letter large, the others as they are."""
    return name[:1].upper() + name[1:]


def definition(indent: str, name: str, arguments: Sequence[str], gives: str, note: str = "") -> str:
    """A function; its arguments share a line if they fit and there is no note on the first.

    Examples
    --------
    >>> print(definition("    ", "fit", ["self", "table: Any"], "Self"))
        def fit(self, table: Any) -> Self: ...
    """
    whole = f"{indent}def {name}({', '.join(arguments)}) -> {gives}: ..."
    if len(whole) <= WIDTH and not note:
        return whole
    lines = (f"{indent}    {argument}," for argument in arguments)
    return "\n".join([f"{indent}def {name}({note and '  ' + note}", *lines, f"{indent}) -> {gives}: ..."])


class Stub:
    """The text of a stub, and what it has to import."""

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = {}
        self._lines: list[str] = []

    def imported(self, module: str, name: str) -> str:
        """A name that the stub imports."""
        self._imports.setdefault(module, set()).add(name)
        return name.rpartition(" as ")[2]

    def add(self, *lines: str) -> None:
        """More lines."""
        self._lines += lines

    def text(self) -> str:
        """The whole file."""
        found = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._imports.items())]
        return "\n".join([HEADER, *found, "", *self._lines]) + "\n"

    def spelled(self, hint: Any) -> str:
        """A type as an argument may have it: any list where a field holds a tuple."""
        origin, given = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self.spelled(given[0])
        if origin in (types.UnionType, typing.Union):
            return " | ".join(dict.fromkeys(self.spelled(each) for each in given))
        if origin is Literal:
            return f"{self.imported('typing', 'Literal')}[{', '.join(map(repr, given))}]"
        if origin is tuple:
            return self._sequence(given)
        if origin in (dict, Mapping, Sequence):
            inner = ", ".join(self.spelled(each) for each in given)
            return f"{self.imported('collections.abc', 'Sequence' if origin is Sequence else 'Mapping')}[{inner}]"
        if origin is list:
            return f"list[{self.spelled(given[0])}]"
        if hint in PLAIN:
            return self.imported("typing", "Any") if hint is Any else PLAIN[hint]
        named = self.imported(hint.__module__, hint.__qualname__)
        if dataclasses.is_dataclass(hint):
            return f"{named} | {self.imported('collections.abc', 'Mapping')}[str, {self.imported('typing', 'Any')}]"
        return named

    def read(self, hint: Any) -> str:
        """A type as what was given is read back where JSON has to know it."""
        origin, given = typing.get_origin(hint), typing.get_args(hint)
        if origin is Annotated:
            return self.read(given[0])
        if origin in (types.UnionType, typing.Union):
            return " | ".join(dict.fromkeys(self.read(each) for each in given))
        if origin in (tuple, list):
            same = origin is list or given[1:] == (Ellipsis,)
            return f"list[{self.read(given[0] if same else Any)}]"
        if origin in (dict, Mapping):
            return f"dict[str, {self.read(given[1])}]"
        if origin is Literal or hint in PLAIN:
            return self.spelled(hint)
        return f"dict[str, {self.spelled(Any)}]" if dataclasses.is_dataclass(hint) else self.spelled(Any)

    def _sequence(self, given: Sequence[Any]) -> str:
        if len(given) == 2 and given[1] is Ellipsis:
            if given[0] is str:
                return NAMES
            return f"{self.imported('collections.abc', 'Sequence')}[{self.spelled(given[0])}]"
        inner = ", ".join(self.spelled(each) for each in given)
        return f"tuple[{inner}]"

    def parameters(self, entry: type[Entry], leave_out: Iterable[str] = ()) -> list[str]:
        """The parameters of an entry as arguments by name."""
        found = []
        for each in dataclasses.fields(entry):  # type: ignore[arg-type]
            if each.name in leave_out or not each.init:
                continue
            needed = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            found.append(f"{each.name}: {self.spelled(hint_of(entry, each.name))}{'' if needed else ' = ...'}")
        return found

    def add_class(self, name: str, base: str, arguments: Sequence[str], *more: str) -> None:
        """A class that takes these arguments by name; `more` lines of its body."""
        taken = ["self", *(["*", *arguments] if arguments else [])]
        self.add(f"class {name}({base}):", definition("    ", "__init__", taken, "None"), *more, "")
