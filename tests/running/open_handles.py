"""What a process holds: handles, threads and memory, before and after releases to each kind of sink."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import privpipe as pp

__all__ = ["SINKS", "Held", "growth", "sink_policy"]

SINKS: Mapping[str, Mapping[str, str]] = {
    "parquet": {"path": "out/rows"},
    "csv": {"path": "out/rows", "format": "csv"},
    "delta": {"path": "out/rows", "format": "delta"},
    "delta appended": {"path": "out/rows", "format": "delta", "mode": "append"},
    "iceberg": {"iceberg": "db.rows", "catalog": "lake"},
    "iceberg appended": {"iceberg": "db.rows", "catalog": "lake", "mode": "append"},
    "sqlite": {"database": "rows.sqlite", "table": "rows"},
    "duckdb": {"database": "rows.duckdb", "table": "rows"},
    "store": {"path": "memory://lake/rows"},
}


class Held(NamedTuple):
    """Open handles, threads and resident megabytes of this process."""

    handles: int
    threads: int
    megabytes: float

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        status = Path("/proc/self/status").read_text().splitlines()
        [resident] = [line.split()[1] for line in status if line.startswith("VmRSS:")]
        own = Path("/proc/self")
        return cls(len(os.listdir(own / "fd")), len(os.listdir(own / "task")), int(resident) / 1024)

    def since(self, before: Held) -> Held:
        return Held(*(now - then for now, then in zip(self, before, strict=True)))


def sink_policy(folder: Path, sink: str) -> pp.Policy:
    """A policy over 20 people to a sink of this kind in the folder."""
    (folder / "people.csv").write_text("town,illness\n" + "Ulm,flu\nBonn,gout\n" * 10)
    document = {
        "version": 1,
        "name": "people",
        "source": {"path": "people.csv"},
        "columns": {"town": {"role": "quasi_identifier"}, "illness": {"role": "insensitive"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": dict(SINKS[sink]),
        "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
    }
    return pp.Policy.from_dict(document, folder)


def growth(run: Callable[[], Any], warm: int, times: int) -> Held:
    """What is held more after so many runs, the first ones apart."""
    for _ in range(warm):
        run()
    before = Held.now()
    for _ in range(times):
        run()
    return Held.now().since(before)
