"""The Adult release and one stage on each engine, compared with the embedded one; Spark jobs and Dask tasks of each.

Each engine in a process of its own, opened before the clock starts. The first release loads and compiles what it
needs; the ratio is of the medians of the others. Prints only.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recording import record

PROJECT = Path(__file__).resolve().parents[2]
SEED = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"


def counted(engine: Any) -> int:
    """Jobs of Spark, or tasks that a Dask scheduler has seen, so far."""
    if engine.name == "spark":
        tracker = engine.session.sparkContext._jsc.sc().statusStore()
        return int(tracker.jobsList(None).size())
    return TASKS[0]


TASKS = [0]


def count_tasks() -> None:
    from dask.callbacks import Callback

    class Counting(Callback):
        def _pretask(self, key: Any, dsk: Any, state: Any) -> None:
            TASKS[0] += 1

    Counting().register()


def measure(name: str, rounds: int) -> None:
    """Print seconds of each round of one engine, and what it ran."""
    from privpipe import Policy, release
    from privpipe.engines import open_engine
    from privpipe.transforms import RankSwap

    if name == "dask":
        count_tasks()
    policy = Policy.load(PROJECT / "pipelines/adult/release.yaml")
    options = {"spark": {"master": "local[2]", "shuffle_partitions": 4}}.get(name, {})
    with open_engine(name, options) as engine:
        if name == "spark":
            engine.session.range(10).count()  # the first job starts what every session needs
        for job in ("release", "stage"):
            times, ran = [], []
            for _ in range(rounds):
                before, start = counted(engine), time.perf_counter()
                if job == "release":
                    with tempfile.TemporaryDirectory() as folder:
                        release(policy, engine=engine, target=folder + "/adult")
                else:
                    frame = rows_of(engine)
                    found = RankSwap(columns=["hours_per_week"], p=0.05).apply(frame, seed=SEED, engine=engine)
                    len(found) if name != "spark" else found.count()
                times.append(time.perf_counter() - start)
                ran.append(counted(engine) - before)
            print(f"{name} {job} {times[0]:.2f} {statistics.median(times[1:]):.2f} {ran[-1]}", flush=True)


def rows_of(engine: Any) -> Any:
    import pandas as pd

    frame = pd.read_csv(PROJECT / "pipelines/adult/data/adult.csv", sep=";")
    if engine.name == "dask":
        import dask.dataframe as dd

        return dd.from_pandas(frame, npartitions=2)
    return engine.session.createDataFrame(frame) if engine.name == "spark" else frame


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", nargs="*", default=["embedded", "dask", "spark"])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--within", action="store_true", help=argparse.SUPPRESS)
    given, _ = parser.parse_known_args()
    if given.within:
        measure(given.engine[0], given.rounds)
        sys.exit()
    base: dict[str, float] = {}
    for engine in given.engine:
        command = [sys.executable, __file__, "--within", "--engine", engine, "--rounds", str(given.rounds)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for line in printed.splitlines():
            name, job, first, again, ran = line.split()
            base.setdefault(job, float(again))
            record(f"small table: {job}, {name}", took=float(again), baseline=base[job], beside=f"{given.engine[0]}")
            print(
                f"{name:9} {job:8} first {first:>6} s   again {again:>6} s   ratio {float(again) / base[job]:5.2f}   "
                f"jobs or tasks {ran}",
                flush=True,
            )
