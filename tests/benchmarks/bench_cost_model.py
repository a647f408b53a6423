"""What `plan --cost` predicts of a release over what counters say of it; see `docs/scale.md`.

Bytes that the process read and wrote by the system's counters (embedded, Dask), or metrics of all tasks in the event
log (Spark, with nothing on the driver: `driver_bytes: 0`), anonymous memory at its peak, CPU seconds of the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_release import SHAPES, measured, policy_text, release_table
from bench_release_engines import spent
from recording import record

OPTIONS: dict[str, dict[str, Any]] = {
    "embedded": {"threads": 2, "memory_limit": "4GB"},
    "dask": {"scheduler": "threads"},
    "spark": {"master": "local[2]", "driver_bytes": 0},
}
METRICS = {"read": ("Input Metrics", "Bytes Read"), "shuffled": ("Shuffle Write Metrics", "Shuffle Bytes Written")}
"""Of tasks; the files of a release are written outside of what Spark counts."""
LONG_ENOUGH = 200
"""Milliseconds from which on tasks of a stage are compared with each other."""


def released(policy: str) -> dict[str, float]:
    """Counters of a release in this process, with all that the process loads for it."""
    before = _system()
    import privpipe as pp
    from privpipe.engines import open_engine

    loaded = pp.Policy.load(policy)
    with open_engine(loaded.engine, loaded.engines.get(loaded.engine, {})) as opened:
        pp.release(loaded, engine=opened)
        cpu = spent()  # while the processes that the engine started are there
    after = _system()
    return {"cpu_s": cpu, "read": after["rchar"] - before["rchar"], "written": after["wchar"] - before["wchar"]}


def predicted(policy: str) -> dict[str, float | None]:
    """The prediction, by resource."""
    import privpipe as pp

    return {name: each.amount for name, each in pp.plan_cost(policy).estimates.items()}


def _system() -> Counter[str]:
    lines = Path("/proc/self/io").read_text().splitlines()
    return Counter({name: int(value) for name, value in (line.split(": ") for line in lines)})


def counted_by_spark(log: Path) -> tuple[dict[str, float], list[float]]:
    """Bytes over all tasks of an event log, and of each stage of several long tasks its longest over the median."""
    bytes_of: Counter[str] = Counter()
    took: dict[int, list[int]] = defaultdict(list)
    for event in _tasks(log):
        metrics = event.get("Task Metrics") or {}
        for name, (group, key) in METRICS.items():
            bytes_of[name] += metrics.get(group, {}).get(key, 0)
        bytes_of["spilled"] += metrics.get("Disk Bytes Spilled", 0)
        took[event["Stage ID"]].append(metrics.get("Executor Run Time", 0))
    uneven = [
        max(each) / statistics.median(each) for each in took.values() if len(each) > 2 and max(each) > LONG_ENOUGH
    ]
    return {name: float(bytes_of[name]) for name in (*METRICS, "spilled")}, sorted(uneven)


def _tasks(log: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in log.rglob("*") if path.is_file() and not path.name.startswith("appstatus")):
        with file.open() as lines:
            yield from (event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd")


def compare(engine: str, rows: int, shape: str, folder: Path) -> None:
    """Print predicted over counted for one table."""
    source = release_table(folder, rows, shape)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        log, options = Path(scratch, "log"), dict(OPTIONS[engine])
        log.mkdir()
        if engine == "spark":
            settings = {"enabled": True, "dir": log.as_uri(), "compress": False, "rolling.enabled": False}
            memory = {"spark.driver.memory": "4g"}
            options["conf"] = memory | {f"spark.eventLog.{name}": value for name, value in settings.items()}
        document = json.loads(policy_text(source, Path(scratch) / "released", shape, "4GB", 2))
        policy = Path(scratch) / "policy.json"
        policy.write_text(json.dumps(document | {"engine": engine, "engines": {engine: options}}))
        told = measured([sys.executable, __file__, "--within", "released", str(policy)], quiet=False)
        if told["code"]:
            raise SystemExit(f"the release on {engine} ended with {told['code']}")
        found: dict[str, float] = json.loads(told["said"].splitlines()[-1])
        uneven: list[float] = []
        if engine == "spark":
            counters, uneven = counted_by_spark(log)
            found |= counters
            found["written"] = sum(file.stat().st_size for file in Path(scratch, "released").rglob("*.parquet"))
        else:
            found["driver"] = told["peak"] * 2**30
        again = subprocess.run(
            [sys.executable, __file__, "--within", "predicted", str(policy)], check=True, capture_output=True, text=True
        )
    wanted = json.loads(again.stdout.splitlines()[-1])
    for name, amount in found.items():
        expected, what = wanted.get(name), f"{name}, {engine}, {shape}, {rows:,} rows"
        ratio = expected / amount if expected and amount else None
        shown = "" if ratio is None else f", ratio {ratio:.2f}"
        print(f"{what}: predicted {expected or 0:.3g}, counted {amount:.3g}{shown}", flush=True)
        if ratio is not None:
            record(f"cost model, {what}", took=expected, baseline=amount, beside="counters")
    if uneven:
        print(
            f"{engine:9} {rows:>11,} {shape:5} longest task of a stage over the median: at most {uneven[-1]:.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="*", choices=list(OPTIONS), default=list(OPTIONS))
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    parser.add_argument("--within", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.within:
        what, policy = given.within
        print(json.dumps({"released": released, "predicted": predicted}[what](policy)))
        return
    if not Path("/proc/self/io").exists():
        raise SystemExit("this system does not count what a process reads and writes")
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    for engine in given.engines:
        for rows in given.rows:
            for shape in given.shape:
                compare(engine, rows, shape, given.folder)


if __name__ == "__main__":
    main()
