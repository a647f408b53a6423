"""Related tables: persons, their rows in several tables, and what an intruder who knows some rows finds."""

from __future__ import annotations

import importlib
from typing import Any

from privpipe.blocks.entry import Catalogue

JOINT_GUARANTEES = Catalogue(
    "privpipe.relations",
    "guarantee on related tables",
    dict.fromkeys(("JointKAnonymity", "JointLDiversity", "JointAlpha", "JointTCloseness"), "guarantees"),
)

STAGES = Catalogue(
    "privpipe.relations",
    "stage on related tables",
    {
        **dict.fromkeys(("CapRows", "SuppressPersons", "SuppressRows"), "set_stages"),
        "GeneralizeJointly": "joint_generalization",
        **dict.fromkeys(("Pseudonymise", "ShiftDates"), "keys_and_dates"),
    },
)
FACES = {"assess": "privpipe.running.related_frames", "check": "privpipe.running.related_frames"}

__all__ = sorted(("JOINT_GUARANTEES", "STAGES", *FACES, *JOINT_GUARANTEES.class_names, *STAGES.class_names))


def __getattr__(name: str) -> Any:
    if name in FACES:
        return getattr(importlib.import_module(FACES[name]), name)
    room = STAGES if name in STAGES.class_names else JOINT_GUARANTEES
    return room.attribute(name)


def __dir__() -> list[str]:
    return list(__all__)
