"""Every stage, model and measure over one large table: seconds, CPU seconds and memory, next to reading the table.

Each stage runs in a process of its own; models and measures judge one release per setting (`privpipe.testing`). The
baseline is the same process reading all columns once and giving the records ids. An entry is ended after `--limit`
seconds. Memory is the anonymous memory of the process and of all that it started, at its peak during the entry.

`--engines embedded` has a `memory_limit` of 4 GB, `dask` two worker processes of 4 GB, and `spark` a driver of 1 GB and
two executor processes of 4 GB; on both no table is small enough for the calling process.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from bench_release import _resident, _tree
from bench_release_engines import Clock
from recording import record
from where_rows_go import entries

from privpipe.blocks import Facts, RowBlock
from privpipe.engines import Engine, Source, open_engine
from privpipe.errors import PrivpipeError
from privpipe.models import NoIdentifiers
from privpipe.policy import Policy
from privpipe.running.attached_source import attach
from privpipe.running.run_context import RunContext
from privpipe.running.staging import run_stages
from privpipe.testing import Judging
from privpipe.testing.people import people
from privpipe.testing.stages import Staging, keys_of, tables_for
from privpipe.testing.verdicts import SETTINGS

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "embedded": {"memory_limit": "4GB"},
    "dask": {"driver_bytes": 0},
    "spark": {
        "master": "local-cluster[2,1,4096]",
        "driver_bytes": 0,
        "conf": {"spark.driver.memory": "1g", "spark.executor.memory": "4g"},
    },
}
ROWS_PER_FILE = 1_000_000
TOWNS = ("Ashford", "Barrow", "Crewe", "Derby")


def large_rows(n: int, seed: int = 5) -> pa.Table:
    """Invented people with the columns of `people`: a thousand postcodes in four towns, near-unique incomes."""
    rng = np.random.default_rng(seed)
    household = rng.integers(0, max(1, n // 3), n)
    postcode = household * 7919 % 1000
    texts = pa.array([f"{at:03d}" for at in range(1000)])
    at = np.arange(n)
    return pa.table(
        {
            "name": pa.array(at + seed * n).cast(pa.string()),
            "household": pa.array(household + seed * n).cast(pa.string()),
            "age": pa.array(rng.integers(18, 60, n)),
            "zip": texts.take(pa.array(postcode)),
            "town": pa.array(TOWNS).take(pa.array(postcode // 250)),
            "sex": pa.array(["f", "m"]).take(pa.array(rng.integers(0, 2, n))),
            "illness": pa.array(["flu", "cold", "gout"]).take(pa.array(rng.choice(3, n, p=[0.5, 0.3, 0.2]))),
            "income": pa.array(rng.lognormal(3, 1, n)),
            "born": pa.array(rng.integers(7_000, 16_000, n).astype("datetime64[D]"), mask=rng.random(n) < 0.05),
            "weight": pa.array(np.round(rng.uniform(20, 90, n), 1)),
        }
    )


def large_table(folder: Path, rows: int, columns: Sequence[str]) -> Path:
    """The Parquet files of the columns; written once."""
    whole = folder / f"people-{rows}"
    if not whole.with_suffix(".done").exists():
        whole.mkdir(parents=True, exist_ok=True)
        for at in range(-(-rows // ROWS_PER_FILE)):
            part = large_rows(min(ROWS_PER_FILE, rows - at * ROWS_PER_FILE), seed=5 + at)
            pq.write_table(part, whole / f"{at:04d}.parquet", row_group_size=122_880)
        whole.with_suffix(".done").touch()
    chosen = folder / f"people-{rows}-{'-'.join(columns)}"
    if not chosen.with_suffix(".done").exists():
        chosen.mkdir(exist_ok=True)
        for file in sorted(whole.glob("*.parquet")):
            pq.write_table(pq.read_table(file, columns=list(columns)), chosen / file.name, row_group_size=122_880)
        chosen.with_suffix(".done").touch()
    return chosen


def looked_at(engine: Engine, table: Any) -> None:
    """Read every column of every row."""
    engine.reduce_rows(table, tuple(table.schema.names), _Rows(), Facts())


class _Rows:
    """Counts rows that come with all of their columns."""

    def measure(self, block: RowBlock, facts: Facts) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


def event(kind: str, **figures: Any) -> None:
    print(json.dumps({"event": kind, **figures}), flush=True)


class Peak:
    """The most anonymous memory of this process and of those below it since `start`."""

    def __init__(self) -> None:
        self._most = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def start(self) -> None:
        self._most = 0

    def gigabytes(self) -> float:
        self._look()
        return self._most / 2**30

    def _look(self) -> None:
        self._most = max(self._most, sum(map(_resident, _tree(os.getpid()))))

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.05)


def measured(name: str, job: Callable[[], str], peak: Peak, base: tuple[float, float]) -> None:
    """Run one entry, and print what it took."""
    event("start", name=name)
    peak.start()
    clock = Clock()
    try:
        outcome = job()
    except PrivpipeError as error:
        outcome = f"refused: {type(error).__name__}: {error}"
    took, cpu = clock.read()
    event("end", name=name, outcome=outcome, took=took, cpu=cpu, peak=peak.gigabytes(), base=base[0], base_cpu=base[1])


def run_stage(name: str, example: Any, engine: Engine, folder: Path, rows: int) -> None:
    """One stage over the first table of the kit that serves it."""
    peak, small = Peak(), Path(tempfile.mkdtemp(dir=folder))
    for table in tables_for(example):
        staging = Staging(example, small, table)
        try:
            with open_engine("embedded") as beside:
                staging.run(beside)
        except PrivpipeError:
            continue
        break
    policy = staging.policy()
    source = Source(data=str(large_table(folder, rows, table.rows.column_names)), format="parquet", types=policy.types)
    with keys_of(example):
        context = RunContext(engine, policy, policy.seed.resolve())  # type: ignore[union-attr]
        clock = Clock()
        original = attach(context, source)
        looked_at(engine, original)
        base = clock.read()

        def job() -> str:
            looked_at(engine, run_stages(context, original).table)
            return "done"

        measured(name, job, peak, base)


class LargeJudging(Judging):
    """Releases of the large table; populations are the table itself."""

    rows = 0

    def _source(self, rows: Any, name: str, parts: int, policy: Policy) -> Source:
        source = large_table(self.folder, self.rows, rows.column_names)
        return Source(data=str(source), format="parquet", types=policy.types)


def _served(name: str, small: Judging, engine: Engine) -> tuple[str, Any]:
    """The first example of an entry that has a figure, and its setting; without one the reason, and None."""
    reason = "no table shows it"
    for example in entries()[name]:
        with keys_of(example):
            try:
                setting, verdict = small.first(example, engine)
            except LookupError:
                continue
        if verdict.observed is not None:
            return setting, example
        reason = verdict.reason
    return reason, None


def run_judged(names: Sequence[str], engine: Engine, folder: Path, rows: int) -> None:
    """Models and measures, those of one setting after the other."""
    peak, by_setting = Peak(), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory() as made, open_engine("embedded") as beside:
        small = Judging(Path(made))
        for name in names:
            setting, entry = _served(name, small, beside)
            if entry is None:
                event("start", name=name)
                event("end", name=name, outcome=f"not measured: {setting}")
            else:
                by_setting.setdefault(setting, {})[name] = entry
    large = LargeJudging(folder, SETTINGS)
    large.rows = rows
    for setting, chosen in by_setting.items():
        clock = Clock()
        large.judged([NoIdentifiers()], engine, setting)
        base = clock.read()
        for name, entry in chosen.items():

            def job(entry: Any = entry, setting: str = setting) -> str:
                (verdict,) = large.judged([entry], engine, setting)
                return "done" if verdict.observed is not None else f"no figure: {verdict.reason}"

            with keys_of(entry):
                measured(name, job, peak, base)


@contextmanager
def cluster_of(engine: str) -> Iterator[None]:
    """Two worker processes of 4 GB for Dask, which finds the client that is current."""
    if engine != "dask":
        yield
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="4GB", dashboard_address=None) as cluster,
        Client(cluster),
    ):
        yield


def within(engine: str, folder: Path, rows: int, names: Sequence[str]) -> None:
    """What a process of its own does: one stage, or entries that judge."""
    with cluster_of(engine), open_engine(engine, OPTIONS[engine]) as opened:
        if names[0].startswith("stage"):
            run_stage(names[0], entries()[names[0]][0], opened, folder, rows)
        else:
            run_judged(names, opened, folder, rows)


def lines_of(command: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """Events of a process, which is ended when an entry takes too long; the last one is then `ended`."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for text in child.stdout or ():
            waiting.put(text)
        waiting.put("")

    threading.Thread(target=read, daemon=True).start()
    try:
        while text := waiting.get(timeout=seconds):
            if text.startswith('{"event"'):
                yield json.loads(text)
    except queue.Empty:
        yield {"event": "ended"}
    finally:
        for each in reversed(_tree(child.pid)):
            subprocess.run(["kill", "-9", str(each)], check=False, capture_output=True)
        child.wait()


def compare(engine: str, rows: int, folder: Path, names: Sequence[str], limit: float) -> None:
    """Print a line for each entry."""
    stages = [[name] for name in names if name.startswith("stage")]
    judged = [name for name in names if not name.startswith("stage")]
    waiting = [*stages, *([judged] if judged else [])]
    while waiting:
        group = waiting.pop(0)
        running, left = "", list(group)
        command = [sys.executable, __file__, "--within", engine, "--rows", str(rows), "--folder", str(folder)]
        for found in lines_of([*command, "--only", *group], limit):
            if found["event"] == "start":
                running = found["name"]
            elif found["event"] == "end":
                left.remove(found["name"])
                running = ""
                line(engine, rows, found)
            elif running:
                left.remove(running)
                line(engine, rows, {"name": running, "outcome": f"not within {limit:g} s"})
                running = ""
        if running:
            left.remove(running)
            line(engine, rows, {"name": running, "outcome": "its process ended"})
        elif left == group:
            print(f"{engine}: nothing ran of {', '.join(group)}", flush=True)
            continue
        if left:
            waiting.append(left)


def line(engine: str, rows: int, found: Mapping[str, Any]) -> None:
    """One line of the table."""
    figures = " | | | "
    if "took" in found:
        ratio = found["took"] / found["base"]
        figures = f" {found['took']:.1f} ({found['cpu']:.1f}) | {ratio:.2f} | {found['peak']:.1f} "
        name, more = f"{found['name']}, {engine}, {rows:,} rows", {"took_cpu": found["cpu"], "peak": found["peak"]}
        record(name, took=found["took"], baseline=found["base"], beside="reading the table", **more)
    print(f"| {engine} | {found['name']} | {found['outcome']} |{figures}|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", nargs="+", default=["embedded"], choices=list(OPTIONS))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--within", choices=list(OPTIONS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.within:
        within(asked.within, asked.folder, asked.rows, asked.only)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        large_table(folder, asked.rows, list(people().rows.column_names))
        names = [name for name in entries() if not asked.only or any(each in name for each in asked.only)]
        for engine in asked.engines:
            compare(engine, asked.rows, folder, names, asked.limit)


if __name__ == "__main__":
    main()
