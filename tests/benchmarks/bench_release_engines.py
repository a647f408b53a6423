"""A whole release on Dask and Spark with their default settings, as a ratio to the engine's own read, count and write.

The bare engine reads the same files, counts cells, and writes the rows in an order by hash. Each runs in a process of
its own; its session is started, and has run a first job, before the clock starts. Prints only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_release import QUASI_IDENTIFIERS, SENSITIVE, SHAPES, policy_text, release_table
from recording import record

OPTIONS = {"dask": {"scheduler": "threads"}, "spark": {"master": "local[2]"}}
CELLS = [*QUASI_IDENTIFIERS, SENSITIVE]


def bare(engine: str, source: str, sink: str) -> float:
    """Seconds of the engine alone."""
    if engine == "dask":
        import dask
        import dask.dataframe as dd

        with dask.config.set(scheduler="threads"):
            start = time.perf_counter()
            frame = dd.read_parquet(source, dtype_backend="pyarrow")
            frame.groupby(CELLS, dropna=False, sort=False).size(split_out=2).map_partitions(len).compute()
            frame.assign(order=frame["income"]).shuffle("order").drop(columns="order").to_parquet(sink)
            return time.perf_counter() - start
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g").getOrCreate()
    session.range(10).count()
    start = time.perf_counter()
    rows = session.read.parquet(source)
    rows.groupBy(*CELLS).count().count()
    rows.orderBy(f.xxhash64(*rows.columns)).write.parquet(sink)
    return time.perf_counter() - start


def released(engine: str, policy: str) -> float:
    """Seconds of a release in an engine that is open."""
    from privpipe import Policy, release
    from privpipe.engines import open_engine

    with open_engine(engine, OPTIONS[engine]) as opened:
        if engine == "spark":
            opened.session.range(10).count()  # type: ignore[attr-defined]
        start = time.perf_counter()
        release(Policy.load(policy), engine=opened)
        return time.perf_counter() - start


def timed(*given: str) -> float:
    done = subprocess.run([sys.executable, __file__, "--within", *given], check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def compare(engine: str, rows: int, shape: str, folder: Path) -> None:
    """Print the ratio for one table."""
    source = release_table(folder, rows, shape)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        policy: dict[str, Any] = json.loads(policy_text(source, Path(scratch) / "released", shape, "4GB", 2))
        policy |= {"engine": engine, "engines": {engine: OPTIONS[engine]}}
        written = Path(scratch) / "policy.json"
        written.write_text(json.dumps(policy))
        alone = timed("bare", engine, str(source), str(Path(scratch) / "bare"))
        ours = timed("release", engine, str(written))
    record(
        f"release, {engine}, {shape}, {rows:,} rows", took=ours, baseline=alone, beside="its bare read, count and write"
    )
    print(
        f"{engine:6} {rows:>11,} {shape:5} bare {alone:7.2f} s   release {ours:7.2f} s   ratio {ours / alone:5.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="*", choices=list(OPTIONS), default=list(OPTIONS))
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=["few"])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    parser.add_argument("--within", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.within:
        kind, engine, *places = given.within
        print({"bare": bare, "release": released}[kind](engine, *places))
        return
    for engine in given.engines:
        for rows in given.rows:
            for shape in given.shape:
                compare(engine, rows, shape, given.folder)


if __name__ == "__main__":
    main()
