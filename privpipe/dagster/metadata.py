"""What Dagster shows beside an asset or a check: figures of the public edition, as its metadata values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from privpipe.judging.public_figures import check_metadata
from privpipe.scheduled import Ending

__all__ = ["asset_check_metadata", "ending_metadata"]


def asset_check_metadata(figures: Mapping[str, Any]) -> dict[str, Any]:
    """The guarantees as a table, and the counts that the public edition shows.

    Parameters
    ----------
    figures : mapping
        `Ending.figures`, or what `Assessment.to_asset_check_metadata` gives. The figure of a guarantee that the public
        edition withholds is left empty.
    """
    found = check_metadata(figures)
    rows = found.pop("guarantees", [])
    if not rows:
        return {}
    schema = dg.TableSchema(columns=[dg.TableColumn(name, "string") for name in rows[0]])
    table = dg.MetadataValue.table([dg.TableRecord(row) for row in rows], schema=schema)
    warned = {"warnings": dg.MetadataValue.json(found.pop("warnings"))} if "warnings" in found else {}
    return {"guarantees": table, **found, **warned}


def ending_metadata(ending: Ending) -> dict[str, Any]:
    """The run and its word, with the figures."""
    known = {"verdict": ending.word, "run_id": ending.run_id, "policy": ending.name}
    told: dict[str, Any] = {name: text for name, text in known.items() if text}
    for name, place in (("path", ending.path), ("report", ending.report)):
        if place:
            told[name] = dg.MetadataValue.path(place)
    return {**told, **asset_check_metadata(ending.figures)}
