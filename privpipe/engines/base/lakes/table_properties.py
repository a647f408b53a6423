"""What a Delta table says besides its rows: properties, comments, and texts of commits."""

from __future__ import annotations

import json
from typing import Any

from privpipe.engines.base.lakes.delta import opened_delta, reported

__all__ = ["delta_said"]


def delta_said(path: str, version: int | None = None) -> list[str]:
    """Keys of the table's properties, of its columns and of commits that are not the format's own; never values.

    A description is free text, and so are constraints, whose expressions may quote cells. Raises as `delta_table`.
    """
    table = opened_delta(path, version, None)
    with reported(path):
        about = table.metadata()
        found = [name for name in about.configuration if not _is_own(name)]
        found += ["description"] if about.description else []
        found += [
            f"{each.name}: {key}"
            for each in table.schema().fields
            for key in each.metadata
            if not key.startswith("delta.")
        ]
        said = [each["userMetadata"] for each in table.history() if each.get("userMetadata")]
        return found + (["userMetadata of a commit"] if not all(map(_is_ours, said)) else [])


def _is_own(name: str) -> bool:
    return name.startswith(("delta.", "privpipe.")) and not name.startswith("delta.constraints.")


def _is_ours(text: Any) -> bool:
    """Whether what is said with a commit is what a sink of ours says."""
    try:
        said = json.loads(text)
    except (TypeError, ValueError):
        return False
    return isinstance(said, dict) and all(name.startswith("privpipe.") for name in said)
