"""Aggregated tables: cells that may leave, and the audit that shows that no suppressed cell can be worked out."""

from __future__ import annotations

from typing import Any

from privpipe.blocks.catalogue import Catalogue

STAGES = Catalogue(
    "privpipe.tables",
    "table stage",
    {"Aggregate": "stages", "SuppressTable": "cell_stages", "RoundTable": "cell_stages"},
)
CELL_GUARANTEES = Catalogue(
    "privpipe.tables",
    "guarantee on cells",
    {
        "MinimumFrequency": "guarantees",
        "Dominance": "guarantees",
        "PPercent": "guarantees",
        "PriorPosterior": "guarantees",
        "GroupDisclosure": "guarantees",
        "Differencing": "guarantees",
        "TableAudit": "table_audit",
    },
)

__all__ = sorted(("CELL_GUARANTEES", "STAGES", *CELL_GUARANTEES.class_names, *STAGES.class_names))


def __getattr__(name: str) -> Any:
    room = STAGES if name in STAGES.class_names else CELL_GUARANTEES
    return room.attribute(name)


def __dir__() -> list[str]:
    return list(__all__)
