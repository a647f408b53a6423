"""Policies over made persons whose tables a ledger follows from release to release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["KEY", "Place"]

KEY = "k" * 40
VARIABLE = "PRIVPIPE_TABLE_LEDGER_KEY"


class Place:
    """A folder with a source, a ledger, and sinks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def ledger(self) -> Path:
        return self.path / "ledger"

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """The persons of the source."""
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), self.path / "people.parquet")

    def policy(
        self,
        by: Sequence[str] = ("region",),
        sink: str = "one",
        *,
        at_least: int = 3,
        ledger: bool = True,
        hide: bool = False,
        responses: Sequence[Any] = ("count",),
        tables: Mapping[str, Any] | None = None,
        guarantees: Sequence[Any] = (),
        hierarchies: Mapping[str, Any] | None = None,
        audit: Mapping[str, Any] | None = None,
        stage: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        columns: dict[str, Any] = {name: {"role": "insensitive"} for name in ("region", "sex", "age", "cost")}
        columns["cost"]["type"] = columns["age"]["type"] = "integer"
        for name, given in (hierarchies or {}).items():
            columns[name]["hierarchy"] = given
        columns["person"] = {"role": "identifier"}
        followed = {"ledger": str(self.ledger), "key": {"from_env": VARIABLE}} if ledger else {}
        aggregate = {"tables": dict(tables)} if tables else {"by": list(by), "responses": list(responses)}
        return {
            "version": 1,
            "name": "people",
            "columns": columns,
            "source": {"path": str(self.path / "people.parquet")},
            "sink": {"path": str(self.path / "published" / sink)},
            "person_id": "person",
            "transform": [
                {"aggregate": aggregate},
                *([{"suppress_table": dict(stage or {})}] if hide else []),
            ],
            "guarantees": [
                {"minimum_frequency": {"at_least": at_least}},
                {"table_audit": {**followed, **(audit or {})}},
                *guarantees,
            ],
        }


def people(counts: Mapping[tuple[Any, ...], int], start: int = 0) -> list[dict[str, Any]]:
    """Persons with so many of each combination of region, sex, age and cost."""
    rows = []
    for (region, sex, age, cost), number in counts.items():
        for _ in range(number):
            rows.append({"person": f"p{start + len(rows)}", "region": region, "sex": sex, "age": age, "cost": cost})
    return rows
