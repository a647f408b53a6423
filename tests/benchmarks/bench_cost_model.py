"""What `plan --cost` predicts of a release over what counters say of it; see `docs/scale.md`.

Bytes that the process read and wrote by the system's counters (embedded, Dask), or metrics of all tasks in the event
log (Spark, with nothing on the driver: `driver_bytes: 0`), anonymous memory at its peak, CPU seconds of the processes.
With `--workers 1 2 4`, Dask and Spark work on clusters of so many processes of one thread each, on this machine.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_release import SHAPES, measured, policy_text, release_table
from bench_release_engines import each_table, parser_of, spent
from recording import record

OPTIONS: dict[str, dict[str, Any]] = {
    "embedded": {"threads": 2, "memory_limit": "4GB"},
    "dask": {"scheduler": "threads"},
    "spark": {"master": "local[2]", "driver_bytes": 0},
}
METRICS = {"read": ("Input Metrics", "Bytes Read"), "shuffled": ("Shuffle Write Metrics", "Shuffle Bytes Written")}
"""Of tasks; the files of a release are written outside of what Spark counts."""
WORKER_MEGABYTES = 2048
"""Memory of a Spark worker of a cluster."""
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
        cpu, after = spent(), _system()  # while the processes that the engine started are there
    return {"cpu_s": cpu, "read": after["rchar"] - before["rchar"], "written": after["wchar"] - before["wchar"]}


def predicted(policy: str) -> dict[str, float | None]:
    """The prediction, by resource."""
    import privpipe as pp

    return {name: each.amount for name, each in pp.plan_cost(policy).estimates.items()}


def _system() -> Counter[str]:
    """What this process and those it started read and wrote."""
    import psutil

    own, found = psutil.Process(), Counter[str]()
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(OSError):  # it has just ended
            lines = Path(f"/proc/{process.pid}/io").read_text().splitlines()
            found.update({name: int(value) for name, value in (line.split(": ") for line in lines)})
    return found


def counted_by_spark(log: Path) -> dict[str, float]:
    """Bytes over all tasks of an event log; and of stages of several long tasks, the longest over their median."""
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
    counted = {name: float(bytes_of[name]) for name in (*METRICS, "spilled")}
    return counted | {"longest task over the median": max(uneven, default=1.0)}


def _tasks(log: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in log.rglob("*") if path.is_file() and not path.name.startswith("appstatus")):
        with file.open() as lines:
            yield from (event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd")


def compare(engine: str, rows: int, shape: str, folder: Path, workers: int | None = None) -> None:
    """Print predicted over counted for one table."""
    source = release_table(folder, rows, shape)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        policy = _policy(_options(engine, workers), engine, source, shape, Path(scratch))
        found = _counted(engine, policy, Path(scratch))
        wanted = _within("predicted", policy)
    if engine != "spark":  # what a process writes is counted together, whatever it is for
        wanted["written"] = (wanted["written"] or 0.0) + (wanted["spilled"] or 0.0)
    on = engine if workers is None else f"{engine} on {workers} workers"
    for name, amount in found.items():
        expected, what = wanted.get(name), f"{name}, {on}, {shape}, {rows:,} rows"
        if expected and amount:
            print(f"{what}: predicted {expected:.3g}, counted {amount:.3g}, ratio {expected / amount:.2f}", flush=True)
            per, unit = (1, "s") if name == "cpu_s" else (1e6, "MB")
            record(f"cost model, {what}", took=expected / per, baseline=amount / per, beside="counted", unit=unit)
        else:
            print(f"{what}: counted {amount:.3g}", flush=True)


def _options(engine: str, workers: int | None) -> dict[str, Any]:
    if workers is None or engine == "embedded":
        return dict(OPTIONS[engine])
    if engine == "dask":
        return {"workers": workers, "threads_per_worker": 1, "driver_bytes": 0}
    return OPTIONS[engine] | {"master": f"local-cluster[{workers},1,{WORKER_MEGABYTES}]"}


def _policy(options: dict[str, Any], engine: str, source: Path, shape: str, scratch: Path) -> Path:
    if engine == "spark":
        (scratch / "log").mkdir()
        log = {"enabled": True, "dir": (scratch / "log").as_uri(), "compress": False, "rolling.enabled": False}
        options["conf"] = {f"spark.eventLog.{name}": value for name, value in log.items()}
    document = json.loads(policy_text(source, scratch / "released", shape, "4GB", 2))
    policy = scratch / "policy.json"
    policy.write_text(json.dumps(document | {"engine": engine, "engines": {engine: options}}))
    return policy


def _counted(engine: str, policy: Path, scratch: Path) -> dict[str, float]:
    """Counters of a release in a process of its own, by resource."""
    told = measured([sys.executable, __file__, "--within", "released", str(policy)], quiet=False)
    if told["code"]:
        raise SystemExit(f"the release on {engine} ended with {told['code']}")
    found: dict[str, float] = json.loads(told["said"].splitlines()[-1])
    if engine != "spark":
        return found | {"driver": told["peak"] * 2**30}
    written = sum(file.stat().st_size for file in (scratch / "released").rglob("*.parquet"))
    return found | counted_by_spark(scratch / "log") | {"written": written}


def _within(what: str, policy: Path) -> dict[str, float | None]:
    command = [sys.executable, __file__, "--within", what, str(policy)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float | None] = json.loads(said.splitlines()[-1])
    return found


def main() -> None:
    parser = parser_of(__doc__, OPTIONS, list(SHAPES))
    parser.add_argument("--workers", type=int, nargs="*", default=[None])
    given = parser.parse_args()
    if given.within:
        what, policy = given.within
        print(json.dumps({"released": released, "predicted": predicted}[what](policy)))
        return
    if not Path("/proc/self/io").exists():
        raise SystemExit("this system does not count what a process reads and writes")
    for table in each_table(given):
        for workers in given.workers if table[0] != "embedded" else [None]:
            compare(*table, workers)


if __name__ == "__main__":
    main()
