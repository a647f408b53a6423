"""Releases of small tables into a Delta table, and what its readers see."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import privpipe as pp

SEED = "7d1c9a3e5b8f2046d1e7c3a95f80b264"
Row = tuple[Any, ...]


def rows_of(**classes: Sequence[str]) -> pa.Table:
    """A row a letter: the town is the class, the letter the illness."""
    found = [(town, ill) for town, letters in classes.items() for ill in letters]
    return pa.table({"town": [town for town, _ in found], "ill": [ill for _, ill in found]})


@dataclass
class Releases:
    """One sink, and sources that are released into it."""

    home: Path
    name: str = "visits"
    k: int = 3
    guarantees: list[Mapping[str, Any]] = field(default_factory=list)
    engine: Any = None

    @property
    def path(self) -> Path:
        return self.home / self.name

    @property
    def state(self) -> Path:
        return self.home / f".{self.name}.privpipe"

    def document(self, mode: str = "replace", **changes: Any) -> dict[str, Any]:
        sink = {"path": str(self.path), "format": "delta", "mode": mode, **changes.pop("sink", {})}
        return {
            "source": {"path": str(self.home / "source.parquet")},
            "columns": {"town": {"role": "quasi_identifier"}, "ill": {"role": "sensitive"}},
            "guarantees": [
                {"k_anonymity": {"k": self.k}},
                {"distinct_l_diversity": {"column": "ill", "l": 1}},
                *self.guarantees,
            ],
            "sink": sink,
            "seed": SEED,
            **changes,
        }

    def policy(self, rows: pa.Table, mode: str = "replace", **changes: Any) -> pp.Policy:
        self.home.mkdir(exist_ok=True)
        pq.write_table(rows, self.home / "source.parquet")
        return pp.Policy.from_dict(self.document(mode, **changes), self.home)

    def release(self, rows: pa.Table, mode: str = "replace", **changes: Any) -> Any:
        run = {name: changes.pop(name) for name in ("progress", "dry_run", "target") if name in changes}
        return pp.release(self.policy(rows, mode, **changes), engine=self.engine, **run)

    def seen(self, version: int | None = None) -> Counter[Row]:
        """The rows that a reader of the format sees."""
        from deltalake import DeltaTable

        return counted(DeltaTable(str(self.path), version=version).to_pyarrow_table())

    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(str(self.path))

    def listing(self) -> dict[str, bytes]:
        """Every file below the table's folder with what it holds; folders with nothing."""
        if not self.path.exists():
            return {}
        found = {str(self.path): b""}
        for path in self.path.rglob("*"):
            found[str(path.relative_to(self.path))] = b"" if path.is_dir() else path.read_bytes()
        return found

    def unreferenced(self) -> list[str]:
        """What a VACUUM of everything would delete, that is not of an earlier version."""
        table = self.table()
        gone = set(table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False, full=True))
        named = set()
        for version in range(table.version() + 1):
            table.load_as_version(version)
            named.update(pa.table(table.get_add_actions())["path"].to_pylist())
        return sorted(gone - named)

    def log(self) -> list[dict[str, Any]]:
        """Every action of the newest commit."""
        newest = sorted((self.path / "_delta_log").glob("*.json"))[-1]
        return [json.loads(line) for line in newest.read_text(encoding="utf-8").splitlines()]


def counted(table: pa.Table) -> Counter[Row]:
    names = sorted(table.column_names)
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))
