"""What the formats share: the guarantees of a verdict document, and when its run began."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from privpipe.errors import escaped
from privpipe.reporting.run_documents import RunDocuments

__all__ = ["began", "called", "judged_rows", "name_of"]


def judged_rows(run: RunDocuments) -> list[Mapping[str, Any]]:
    """Guarantees in the order of the verdict, built-in ones first."""
    return [*run.verdict.get("built_in", ()), *run.verdict["guarantees"]]


def called(row: Mapping[str, Any]) -> str:
    """A guarantee with what is asked of it.

    Examples
    --------
    >>> called({"name": "t_closeness", "parameters": {"column": "illness", "t": 0.2}})
    't_closeness(column=illness, t=0.2)'
    """
    plain = {name: value for name, value in row["parameters"].items() if isinstance(value, str | int | float)}
    said = ", ".join(f"{name}={value}" for name, value in plain.items())
    return escaped(f"{row['name']}({said})" if said else str(row["name"]))


def name_of(run: RunDocuments) -> str:
    """The release's name."""
    return escaped(str(run.verdict.get("name") or "privpipe"))


def began(run: RunDocuments) -> datetime | None:
    """When the run began, by its id; None: it has none."""
    found = re.match(r"\d{8}T\d{6}Z", str(run.verdict.get("run_id") or ""))
    if found is None:
        return None
    try:
        return datetime.strptime(found[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
