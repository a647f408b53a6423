"""Stubs of the rooms whose names come from the catalogues: ``python -m tests.typing.stubs`` writes them anew."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import privpipe
from privpipe.blocks import Catalogue, Entry
from privpipe.blocks.parameters import hint_of

PACKAGE = Path(privpipe.__file__).parent
HEADER = '"""Types of this room, made from the catalogue by `python -m tests.typing.stubs`; a test compares."""\n'
NAMES = "list[str] | tuple[str, ...]"
"""What a list of names may be: a text is a sequence of texts too, and never meant."""
ROOMS = ("transforms", "models", "measures")
PLAIN = {str: "str", int: "int", float: "float", bool: "bool", Any: "Any", type(None): "None"}


class Stub:
    """The text of a stub, and what it has to import."""

    def __init__(self) -> None:
        self._imports: set[tuple[str, str]] = set()
        self._lines: list[str] = []

    def imported(self, module: str, name: str) -> str:
        """A name that the stub imports."""
        self._imports.add((module, name))
        return name.rpartition(" as ")[2]

    def add(self, *lines: str) -> None:
        """More lines."""
        self._lines += lines

    def text(self) -> str:
        """The whole file."""
        found = [f"from {module} import {name}" for module, name in sorted(self._imports)]
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
        if origin in (dict, Mapping):
            inner = ", ".join(self.spelled(each) for each in given)
            return f"{self.imported('collections.abc', 'Mapping')}[{inner}]"
        if origin is list:
            return f"list[{self.spelled(given[0])}]"
        if hint in PLAIN:
            return self.imported("typing", "Any") if hint is Any else PLAIN[hint]
        named = self.imported(hint.__module__, hint.__qualname__)
        if dataclasses.is_dataclass(hint):
            return f"{named} | {self.imported('collections.abc', 'Mapping')}[str, {self.imported('typing', 'Any')}]"
        return named

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

    def add_class(self, name: str, base: str, arguments: Sequence[str]) -> None:
        """A class that takes these arguments by name."""
        taken = ", ".join(["self", *(["*", *arguments] if arguments else [])])
        self.add(f"class {name}({base}):", f"    def __init__({taken}) -> None: ...", "")


def room_stub(catalogue: Catalogue) -> str:
    """The stub of a catalogue's room."""
    stub = Stub()
    stub.add(f"CATALOGUE: {stub.imported('privpipe.blocks', 'Catalogue')}", "")
    for name in catalogue.built_in:
        entry = catalogue[name]
        base = stub.imported(entry.__module__, f"{entry.__name__} as _{entry.__name__}")
        stub.add_class(entry.__name__, base, stub.parameters(entry))
    return stub.text()


def package_stub() -> str:
    """The stub of the package itself."""
    stub = Stub()
    for name, module in privpipe.WIRES.items():
        stub.imported(module, f"{name} as {name}")
    for room in privpipe.ROOMS:
        stub.imported("privpipe", f"{room} as {room}")
    stub.add("__version__: str")
    return stub.text()


def expectations_stub() -> str:
    """The stub of the expectations."""
    from privpipe import gx

    stub = Stub()
    for name in gx.__all__:
        stub.imported(_home(gx, name), f"{name} as {name}")
    for made in gx.EXPECTATIONS.values():
        own = stub.parameters(made.entry, leave_out=["quasi_identifiers"])
        named = [line.partition(":")[0] for line in own]
        beside = [
            f"{name}: {stub.spelled(hint)}{'' if gx.PrivacyExpectation.__fields__[name].required else ' = ...'}"
            for name, hint in _settings(gx.PrivacyExpectation).items()
            if name not in named
        ]
        of_gx = [f"{name}: {stub.imported('typing', 'Any')} = ..." for name in ("id", "meta", "notes", "severity")]
        stub.add_class(made.__name__, "PrivacyExpectation", [*own, *beside, *of_gx])
    return stub.text()


def _settings(base: Any) -> dict[str, Any]:
    """The fields that every expectation has, with their types."""
    hints = typing.get_type_hints(base)
    return {name: hints[name] for name in base.__annotations__ if name in base.__fields__}


def _home(room: Any, name: str) -> str:
    found = getattr(room, name)
    home = getattr(found, "__module__", None)
    if home and home.startswith("privpipe.gx."):
        return str(home)
    modules = (importlib.import_module(f"privpipe.gx.{each}") for each in ("expectations", "handle", "suites"))
    return next(module.__name__ for module in modules if hasattr(module, name))


def stubs() -> dict[Path, str]:
    """Every stub by its file."""
    found = {PACKAGE / "__init__.pyi": package_stub(), PACKAGE / "gx" / "__init__.pyi": expectations_stub()}
    for room in ROOMS:
        catalogue = importlib.import_module(f"privpipe.{room}").CATALOGUE
        found[PACKAGE / room / "__init__.pyi"] = room_stub(catalogue)
    return {path: formatted(text) for path, text in found.items()}


def formatted(text: str) -> str:
    """A stub as the linter wants it."""
    for command in (["check", "--fix", "--quiet", "--select", "I", "-"], ["format", "-"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "privpipe/stub.pyi"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True, cwd=PACKAGE.parent).stdout
    return text


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
