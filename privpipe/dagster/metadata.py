"""What Dagster shows beside an asset or a check: figures of the public edition, as its metadata values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from privpipe.scheduled import Ending

__all__ = ["asset_check_metadata", "ending_metadata"]

COLUMNS = ("guarantee", "parameters", "asked", "reached", "margin", "outcome")


def asset_check_metadata(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The guarantees as a table, and the counts that the public edition shows.

    Parameters
    ----------
    figures : mapping
        `Ending.figures`. The figure of a guarantee that the public edition withholds is left empty.
    """
    rows = [dg.TableRecord({name: _cell(row[name]) for name in COLUMNS}) for row in figures.get("guarantees", ())]
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in COLUMNS])
    counts = {name: figures[name] for name in ("records", "classes") if figures.get(name) is not None}
    warned = {"warnings": dg.MetadataValue.json(list(figures["warnings"]))} if figures.get("warnings") else {}
    return {"guarantees": dg.MetadataValue.table(rows, schema=schema), **counts, **warned} if rows else {}


def ending_metadata(ending: Ending) -> dict[str, Any]:
    """The run and its word, with the figures."""
    known = {"verdict": ending.word, "run_id": ending.run_id, "policy": ending.name}
    told: dict[str, Any] = {name: text for name, text in known.items() if text}
    for name, place in (("path", ending.path), ("report", ending.report)):
        if place:
            told[name] = dg.MetadataValue.path(place)
    return {**told, **asset_check_metadata(ending.figures)}


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return "" if value is None else str(value)
