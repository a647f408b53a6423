"""Every public callable lets no foreign exception out: it has passed the border, or is said here why it has not."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator
from typing import Any

import privpipe

ROOMS = {
    "privpipe": (),
    "privpipe.checks": (),
    "privpipe.dbt": ("package",),  # a path of ours
    "privpipe.gx": ("EXPECTATIONS", "REFUSED", "ContextFinding", "PrivacyExpectation", "RaiseOnFailure"),
    "privpipe.hierarchies": (
        *("BUILDERS", "COLUMN_TYPES", "OPTION_KEYS", "HierarchySpec", "Options", "builders"),
        *("canonical_literal", "canonical_text"),
    ),  # their values are a policy's
    "privpipe.observe": ("figures",),  # looks names up
    "privpipe.record": ("Check", "History", "Verification"),  # figures of ours
    "privpipe.running": ("ReleaseResult",),  # figures of ours
    "privpipe.sklearn": (),
    "privpipe.stages": (),
    "privpipe.tables": (),
}
"""Rooms that users call, and what of them sees no cell: constants, records of figures, classes that GX calls."""
SEE_NO_CELL = ("FittedStage", "Verdict")
"""An abstract class, and a record of figures."""
REQUIRED = {"gx": "great_expectations", "sklearn": "sklearn"}


def public(room: str) -> Iterator[tuple[str, Any]]:
    found = importlib.import_module(room)
    for name in found.__all__:
        each = getattr(found, name)
        if callable(each) and name not in (*ROOMS[room], *SEE_NO_CELL):
            yield name, each


def test_every_public_callable_has_passed_the_border() -> None:
    needed = {f"privpipe.{room}" for room, package in REQUIRED.items() if importlib.util.find_spec(package) is None}
    unguarded = [
        f"{room}.{name}"
        for room in sorted(ROOMS.keys() - needed)
        for name, each in public(room)
        if not hasattr(each, "__bordered__")
    ]
    assert not unguarded, f"decorate with privpipe.border.bordered: {unguarded}"


def test_so_has_what_the_methods_of_entries_call() -> None:
    from privpipe.blocks.guarantee import CheckFace
    from privpipe.transforms.face import FittedStage, StageFace

    for face in (CheckFace, StageFace, FittedStage):
        for name, method in vars(face).items():
            if inspect.isfunction(method) and (not name.startswith("_") or name == "__call__"):
                passed = hasattr(method, "__bordered__") or getattr(method, "__isabstractmethod__", False)
                assert passed or "room_above(" in inspect.getsource(method), f"{face.__name__}.{name}"


def test_rooms_above_are_bordered() -> None:
    for room, name in (("checks", "judged_alone"), ("stages", "apply"), ("stages", "fit"), ("stages", "load")):
        assert hasattr(getattr(importlib.import_module(f"privpipe.{room}"), name), "__bordered__")
    assert hasattr(privpipe.observe.distinction.__call__, "__bordered__")  # a figure of an entry
