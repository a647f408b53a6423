"""Related tables: persons, their rows in several tables, and what an intruder who knows some of them finds."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.entry import Catalogue

JOINT_GUARANTEES = Catalogue(
    "privpipe.relations",
    "guarantee on related tables",
    dict.fromkeys(("JointKAnonymity", "JointLDiversity", "JointAlpha", "JointTCloseness"), "guarantees"),
)

__all__ = sorted(("JOINT_GUARANTEES", *JOINT_GUARANTEES.class_names))


def __getattr__(name: str) -> Any:
    return JOINT_GUARANTEES.attribute(name)


def __dir__() -> list[str]:
    return list(__all__)
