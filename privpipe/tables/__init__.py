"""Aggregated tables: cells that may be released, and the audit that no suppressed cell can be worked out."""

from __future__ import annotations

import importlib
from typing import Any

from privpipe.blocks.entry import Catalogue

STAGES = Catalogue(
    "privpipe.tables",
    "table stage",
    {
        "Aggregate": "stages",
        "SuppressTable": "suppress_table",
        "RoundTable": "perturbed_tables",
        "CellKey": "perturbed_tables",
        "PrivateTable": "private_tables",
    },
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
        "Differencing": "population_differences",
        "Averaging": "perturbed_tables",
        "TableAudit": "table_audit",
        "TableLoss": "table_loss",
    },
)

FACES = {
    "Table": "privpipe.tables.table",
    "audit": "privpipe.running.table_frames",
}

__all__ = sorted(("CELL_GUARANTEES", "STAGES", *FACES, *CELL_GUARANTEES.class_names, *STAGES.class_names))


def __getattr__(name: str) -> Any:
    if name in FACES:
        return getattr(importlib.import_module(FACES[name]), name)
    room = STAGES if name in STAGES.class_names else CELL_GUARANTEES
    return room.attribute(name)


def __dir__() -> list[str]:
    return list(__all__)
