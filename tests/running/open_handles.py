"""What a process holds: handles, threads and memory, before and after releases to each kind of sink."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import privpipe as pp

__all__ = ["SINKS", "Held", "growth"]

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


def growth(folder: Path, sinks: Mapping[str, str], warm: int, times: int) -> dict[str, Held]:
    """What a fresh process holds more after so many runs on each sink, the first ones apart.

    A process that serves other tests opens and closes handles of theirs meanwhile.

    Parameters
    ----------
    sinks : mapping of str to str
        What runs on each: "release", "look" (a dry run) or "read" (an assessment of the released table).
    """
    from tests.engines.lakes import icebergs

    lake = folder / "lake"
    icebergs.catalogue(lake).close()
    run = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(dict(sinks)), str(warm), str(times)],
        cwd=folder,
        env={**os.environ, **icebergs.environment(lake), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return {sink: Held(*held) for sink, held in json.loads(run.stdout.splitlines()[-1]).items()}


def _grown(run: Callable[[], Any], warm: int, times: int) -> Held:
    for _ in range(warm):
        run()
    before = Held.now()
    for _ in range(times):
        run()
    return Held.now().since(before)


def _runs(folder: Path, sink: str, kind: str) -> Callable[[], Any]:
    policy = sink_policy(folder, sink)
    if kind == "release":
        return lambda: pp.release(policy)
    pp.release(policy)
    if kind == "look":
        return lambda: pp.release(policy, dry_run=True)
    document = {
        "version": 1,
        "source": dict(SINKS[sink]),
        "columns": {"town": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
    }
    read = policy.replaced(source=pp.Policy.from_dict(document, folder).source)
    return lambda: pp.assess(None, read)


def main() -> None:
    sinks, warm, times = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    grown = {}
    for number, (sink, kind) in enumerate(sinks.items()):
        folder = Path.cwd() / str(number)
        folder.mkdir()
        grown[sink] = _grown(_runs(folder, sink, kind), warm, times)
    print(json.dumps(grown))


if __name__ == "__main__":
    main()
