"""Runs of several holders on loopback folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from privpipe.sharing import Participant, RunDocument, SealingKey
from privpipe.signing import SigningKey, new_key, read_private

pytest.importorskip("cryptography")

NONCE = "0123456789abcdef" * 4
REGIONS, AGES = ["North", "South", "West"], ["young", "old"]


class Run:
    """Holders with their keys, records and private folders, and the document of their run."""

    def __init__(self, folder: Path, tables: dict[str, pd.DataFrame], changes: dict[str, Any]) -> None:
        self.folder, self.tables, self.keys = folder, tables, {}
        for name, table in tables.items():
            (folder / name).mkdir()
            new_key(folder / name / "key")
            self.keys[name] = read_private(folder / name / "key")
            table.to_parquet(folder / name / "records.parquet")
        self.given: dict[str, Any] = {
            "version": 1,
            "nonce": NONCE,
            "exchange": "exchange",
            "holders": {name: self.entry(name) for name in tables},
            "dimensions": {"region": REGIONS, "age": AGES},
            "measures": {"count": {"between": [0, 1000]}, "cost": {"decimals": 2, "between": [0, 100000]}},
            "person_id": "person",
            "disjoint_persons": True,
            "writer": next(iter(tables)),
            "guarantees": [{"minimum_frequency": {"at_least": 3}}, {"table_audit": {}}],
        }
        for key, value in changes.items():
            if value is None:
                self.given.pop(key, None)
            else:
                self.given[key] = value
        self.path = folder / "run.yaml"
        self.write()

    def entry(self, name: str) -> dict[str, str]:
        key = self.keys[name]
        return {"sign": key.public.line, "seal": SealingKey.from_private(key).line}

    def write(self) -> None:
        self.path.write_text(json.dumps(self.given), encoding="utf-8")

    @property
    def document(self) -> RunDocument:
        return RunDocument.load(self.path)

    def key(self, name: str) -> SigningKey:
        return self.keys[name]

    def work(self, name: str) -> Path:
        return self.folder / name / "work"

    def participant(self, name: str, **changes: Any) -> Participant:
        own = {"document": self.document, "name": name, "key": self.keys[name], "work": self.work(name)}
        return Participant(**{**own, **changes})

    def split(self, name: str, **options: Any) -> int:
        data = self.folder / name / "records.parquet"
        return self.participant(name).split(data, **options)

    def add_up(self, name: str, **options: Any) -> bool:
        return self.participant(name).add_up(**options)

    def all_but_the_last(self, **options: Any) -> None:
        for name in self.tables:
            self.split(name, **options)
        for name in self.tables:
            self.add_up(name)


def records(first: int, number: int, seed: int) -> pd.DataFrame:
    """Persons numbered from `first`, each in one cell."""
    draw = pd.Series(range(number)) * 7919 + seed * 104729
    return pd.DataFrame(
        {
            "person": range(first, first + number),
            "region": [REGIONS[each // 5 % 3] for each in draw],
            "age": [AGES[each // 3 % 2] for each in draw],
            "cost": [(each % 977) / 4 for each in draw],
        }
    )


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Run]:
    """A run of three holders; `tables` gives other ones, the rest changes the document."""

    def made(tables: dict[str, pd.DataFrame] | None = None, **changes: Any) -> Run:
        own = tables or {name: records(at * 1000, 20 + at, at) for at, name in enumerate(("north", "south", "west"))}
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Run(folder, own, changes)

    return made
