"""A whole release on Dask and Spark with their default settings, as a ratio to the engine's own read, count and write.

The bare engine reads the same files, counts cells, and writes the rows in an order by hash. Each runs in a process of
its own; its session is started, and has run a first job, before the clock starts. CPU seconds are those of the process
and all that it started. With `--on-workers` no table is small enough for the calling process. Prints only.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench_release import QUASI_IDENTIFIERS, SENSITIVE, SHAPES, policy_text, release_table
from recording import record

OPTIONS = {"dask": {"scheduler": "threads"}, "spark": {"master": "local[2]"}}
CELLS = [*QUASI_IDENTIFIERS, SENSITIVE]


class Clock:
    """Seconds and CPU seconds of this process and of all below it, since it was made."""

    def __init__(self) -> None:
        self._start, self._cpu = time.perf_counter(), spent()

    def read(self) -> tuple[float, float]:
        """Both."""
        return time.perf_counter() - self._start, spent() - self._cpu


def spent() -> float:
    """CPU seconds of this process and of all below it, since it began."""
    import psutil

    own = psutil.Process()
    found = 0.0
    for process in [own, *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:  # it has just ended, and its parent has its seconds
            continue
        found += times.user + times.system + times.children_user + times.children_system
    return found


def bare(engine: str, source: str, sink: str) -> tuple[float, float]:
    """Seconds of the engine alone."""
    if engine == "dask":
        import dask
        import dask.dataframe as dd

        with dask.config.set(scheduler="threads"):
            clock = Clock()
            frame = dd.read_parquet(source, dtype_backend="pyarrow")
            frame.groupby(CELLS, dropna=False, sort=False).size(split_out=2).map_partitions(len).compute()
            frame.assign(order=frame["income"]).shuffle("order").drop(columns="order").to_parquet(sink)
            return clock.read()
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").getOrCreate()
    session.range(10).count()
    clock = Clock()
    rows = session.read.parquet(source)
    rows.groupBy(*CELLS).count().count()
    rows.orderBy(f.xxhash64(*rows.columns)).write.parquet(sink)
    return clock.read()


def released(engine: str, policy: str) -> tuple[float, float]:
    """Seconds of a release in an engine that is open."""
    from privpipe import Policy, release
    from privpipe.engines import open_engine

    loaded = Policy.load(policy)
    with open_engine(engine, loaded.engines[engine]) as opened:
        if engine == "spark":
            opened.session.range(10).count()  # type: ignore[attr-defined]
        clock = Clock()
        release(loaded, engine=opened)
        return clock.read()


def timed(*given: str) -> tuple[float, float]:
    done = subprocess.run([sys.executable, __file__, "--within", *given], check=True, capture_output=True, text=True)
    took, cpu = done.stdout.split()[-2:]
    return float(took), float(cpu)


def compare(engine: str, rows: int, shape: str, folder: Path, *, on_workers: bool) -> None:
    """Print the ratio for one table; `on_workers`: none of it is worked on by the calling process."""
    source = release_table(folder, rows, shape)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        policy: dict[str, Any] = json.loads(policy_text(source, Path(scratch) / "released", shape, "4GB", 2))
        policy |= {"engine": engine, "engines": {engine: OPTIONS[engine] | ({"driver_bytes": 0} if on_workers else {})}}
        written = Path(scratch) / "policy.json"
        written.write_text(json.dumps(policy))
        alone, alone_cpu = timed("bare", engine, str(source), str(Path(scratch) / "bare"))
        ours, ours_cpu = timed("release", engine, str(written))
    where = ", on workers" if on_workers else ""
    name, beside = f"release, {engine}, {shape}, {rows:,} rows{where}", "its bare read, count and write"
    record(name, took=ours, baseline=alone, beside=beside, took_cpu=ours_cpu, baseline_cpu=alone_cpu)
    print(
        f"{engine:6} {rows:>11,} {shape:5} bare {alone:7.2f} s ({alone_cpu:.1f} CPU s)   release {ours:7.2f} s "
        f"({ours_cpu:.1f} CPU s)   ratio {ours / alone:5.2f} ({ours_cpu / alone_cpu:.2f})",
        flush=True,
    )


def parser_of(about: str | None, engines: Collection[str], shapes: Sequence[str]) -> argparse.ArgumentParser:
    """Arguments of a benchmark of releases: engines, rows and shapes of the tables, and where these are kept."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--engines", nargs="*", choices=list(engines), default=list(engines))
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(shapes))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    parser.add_argument("--within", nargs="+", help=argparse.SUPPRESS)
    return parser


def each_table(given: argparse.Namespace) -> Iterator[tuple[str, int, str, Path]]:
    """Engine, rows, shape and folder of each comparison that is asked for."""
    for engine, rows, shape in itertools.product(given.engines, given.rows, given.shape):
        yield engine, rows, shape, given.folder


def main() -> None:
    parser = parser_of(__doc__, OPTIONS, ["few"])
    parser.add_argument("--on-workers", action="store_true")
    given = parser.parse_args()
    if given.within:
        kind, engine, *places = given.within
        print(*{"bare": bare, "release": released}[kind](engine, *places))
        return
    for table in each_table(given):
        compare(*table, on_workers=given.on_workers)


if __name__ == "__main__":
    main()
