"""Rows for releases into Iceberg tables, other writers of these, and what their readers see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

TABLE = "db.visits_public"
NAMES = ["age", "town", "cost", "day"]


def rows(records: int = 200, start: int = 20, kinds: int = 10) -> pa.Table:
    at = range(records)
    return pa.table(
        {
            "age": [start + each % kinds for each in at],
            "town": [f"town {each % 2}" for each in at],
            "cost": [each % 7 + 0.25 for each in at],
            "day": pa.array([20_000 + each % 5 for each in at], pa.date32()),
        }
    )


def standing(lake: Path, table: Callable[[], Any]) -> tuple[Any, ...]:
    """What a reader of the catalogue and of the warehouse's folder can see."""
    files = sorted(str(path) for path in (lake / "warehouse").rglob("*"))
    from pyiceberg.exceptions import NoSuchTableError

    try:
        found = table()
    except NoSuchTableError:
        return (files,)
    snapshots = [each.snapshot_id for each in found.snapshots()]
    return files, snapshots, found.refs(), found.metadata_location, dict(found.properties)


def content(found: pa.Table) -> list[Any]:
    return sorted(map(str, found.select(NAMES).to_pylist()))


def foreign_write(table: Callable[[], Any], records: int = 12) -> None:
    found = table()
    found.append(rows(records, start=90, kinds=1).cast(found.schema().as_arrow()))


def read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pyiceberg read its environment, which it does once."""
    import pyiceberg.catalog

    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", type(pyiceberg.catalog._ENV_CONFIG)())
