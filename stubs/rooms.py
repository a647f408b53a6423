"""What makes the stub of each room whose names come from the catalogues."""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import privpipe
from privpipe.blocks import Catalogue
from privpipe.blocks.guarantee import COMMON_KEYS
from privpipe.measures import CATALOGUE as MEASURES
from privpipe.models import CATALOGUE as MODELS
from stubs.stage_rooms import observe_stub, sklearn_stub, spark_stub
from stubs.text import Stub

__all__ = ["STUBS"]

ROOMS = ("transforms", "models", "measures")


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
    for room in privpipe.CATALOGUES:
        for name in importlib.import_module(f"privpipe.{room}").CATALOGUE.class_names:
            stub.imported(f"privpipe.{room}", f"{name} as {name}")
    stub.add("__version__: str")
    return stub.text()


def expectations_stub() -> str:
    """The stub of the expectations."""
    from privpipe import gx

    stub = Stub()
    for name in gx.__all__:
        stub.imported(_home(gx, name), f"{name} as {name}")
    for name in gx.EXPECTATIONS:
        entry = (MODELS if name in MODELS else MEASURES)[name]
        own = stub.parameters(entry, leave_out=COMMON_KEYS)
        named = [line.partition(":")[0] for line in own]
        beside = [
            f"{name}: {stub.spelled(hint)}{' = ...' if name in vars(gx.PrivacyExpectation) else ''}"
            for name, hint in _settings(gx.PrivacyExpectation).items()
            if name not in named
        ]
        of_gx = [f"{name}: {stub.imported('typing', 'Any')} = ..." for name in ("id", "meta", "notes", "severity")]
        stub.add_class(f"Expect{entry.__name__}", "PrivacyExpectation", [*own, *beside, *of_gx])
    return stub.text()


def _settings(base: Any) -> dict[str, Any]:
    """The fields that every expectation has, with their types."""
    hints = typing.get_type_hints(base)
    return {name: hints[name] for name in base.__annotations__ if typing.get_origin(hints[name]) is not ClassVar}


def _home(room: Any, name: str) -> str:
    found = getattr(room, name)
    home = getattr(found, "__module__", None)
    if home and home.startswith("privpipe.gx."):
        return str(home)
    modules = (
        importlib.import_module(f"privpipe.gx.{each}")
        for each in ("expectations", "joint_expectations", "table_expectations", "tables", "suites")
    )
    return next(module.__name__ for module in modules if name in module.__all__)


def room_of(room: str) -> str:
    """The stub of a room that has a catalogue."""
    return room_stub(importlib.import_module(f"privpipe.{room}").CATALOGUE)


STUBS: Mapping[str, Callable[[], str]] = {
    "": package_stub,
    "gx": expectations_stub,
    "observe": observe_stub,
    "sklearn": sklearn_stub,
    "spark": spark_stub,
    **{room: partial(room_of, room) for room in ROOMS},
}
"""What makes the stub of each room; the package itself is the empty name."""
