"""What judging costs on one engine: one l-diversity, twenty guarantees, the bare count; and pycanon next to them.

Twenty guarantees stand over one set of quasi-identifiers and two sensitive columns. Runs are interleaved, so that a
noisy machine slows all alike. Peak memory is that of the judging alone, read before the bare count or pycanon begin
in a process of their own. Prints only.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recording import record
from tables import QUASI_IDENTIFIERS, SECOND_SENSITIVE, SENSITIVE, SHAPES, benchmark_table

from privpipe import models
from privpipe.engines import Engine, Source, open_engine
from privpipe.judging import assess
from privpipe.roles import Roles

ROLES = Roles(quasi_identifiers=QUASI_IDENTIFIERS, sensitive=(SENSITIVE, SECOND_SENSITIVE), insensitive=("income",))


def one_guarantee() -> list[Any]:
    return [models.DistinctLDiversity(column=SENSITIVE, l=3)]


def twenty_guarantees() -> list[Any]:
    whole = [
        models.KAnonymity(k=5),
        models.AverageRisk(at_most=0.1),
        models.StrictAverageRisk(highest=0.2, at_most=0.1),
        models.SampleUniqueness(at_most=0.05),
    ]
    for column in (SENSITIVE, SECOND_SENSITIVE):
        whole += [
            models.DistinctLDiversity(column=column, l=3),
            models.EntropyLDiversity(column=column, l=2.0),
            models.RecursiveCLDiversity(column=column, c=3.0, l=2),
            models.TCloseness(column=column, t=0.3),
            models.DeltaDisclosure(column=column, delta=2.0),
            models.BasicBetaLikeness(column=column, beta=2.0),
            models.EnhancedBetaLikeness(column=column, beta=2.0),
            models.AlphaKAnonymity(column=column, alpha=0.6, k=3),
        ]
    return whole


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def bare_count(name: str, folder: Path, threads: int, memory: str | None) -> Callable[[], object]:
    """The engine's own count of cells of one sensitive column, as its users would write it."""
    names = [*QUASI_IDENTIFIERS, SENSITIVE]
    if name == "embedded":
        import duckdb

        bare = duckdb.connect(config={"threads": threads, **({"memory_limit": memory} if memory else {})})
        bare.execute("SET preserve_insertion_order = false")
        columns = ", ".join(names)
        sql = f"SELECT count(*) FROM (SELECT count(*) FROM '{folder}/*.parquet' GROUP BY {columns})"
        return lambda: bare.execute(sql).fetchall()
    if name == "dask":
        import dask.dataframe as dd

        frame = dd.read_parquet(folder, columns=names, dtype_backend="pyarrow")
        cells = frame.groupby(names, dropna=False, sort=False).size(split_out=threads).map_partitions(len)
        return lambda: cells.compute(scheduler="threads", num_workers=threads)
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    return lambda: session.read.parquet(str(folder)).groupBy(*names).count().count()


def options_of(name: str, threads: int, memory: str | None) -> dict[str, Any]:
    if name == "embedded":
        return {"threads": threads, **({"memory_limit": memory} if memory else {})}
    return {"workers": threads} if name == "dask" else {"master": f"local[{threads}]"}


def judge(engine: Engine, folder: Path, guarantees: list[Any]) -> Any:
    return assess(engine, engine.scan(Source(data=str(folder))), guarantees=guarantees, roles=ROLES)


def peak_of(name: str, folder: Path, threads: int, memory: str | None) -> float:
    """Peak resident memory in GiB of a fresh process that judges twenty guarantees once (its children's apart)."""
    given = json.dumps([name, str(folder), threads, memory])
    code = "import sys, bench_guarantees as b; b.judge_once(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, given], cwd=Path(__file__).parent, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(done.stdout.split()[-1])


def judge_once(given: str) -> None:
    name, folder, threads, memory = json.loads(given)
    with open_engine(name, options_of(name, threads, memory)) as engine:
        judge(engine, Path(folder), twenty_guarantees())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def pycanon_seconds(folder: Path) -> float | None:
    """What pycanon takes for k, distinct l and t alone, over a pandas frame already in memory; None where it is not."""
    if importlib.util.find_spec("pycanon") is None:
        return None
    import pandas as pd
    from pycanon import anonymity

    frame = pd.read_parquet(folder)
    keys = list(QUASI_IDENTIFIERS)

    def all_three() -> None:
        anonymity.k_anonymity(frame, keys)
        anonymity.l_diversity(frame, keys, [SENSITIVE])
        anonymity.t_closeness(frame, keys, [SENSITIVE])

    return seconds(all_three)


def measure(given: argparse.Namespace, folder: Path) -> None:
    name = given.engine
    with open_engine(name, options_of(name, given.threads, given.memory_limit)) as engine:
        bare = bare_count(name, folder, given.threads, given.memory_limit)
        times: dict[str, list[float]] = {"count": [], "one": [], "twenty": []}
        for _ in range(given.rounds + 1):  # the first round warms the file cache and the compiler
            times["count"].append(seconds(bare))
            times["one"].append(seconds(lambda: judge(engine, folder, one_guarantee())))
            times["twenty"].append(seconds(lambda: judge(engine, folder, twenty_guarantees())))
        classes = judge(engine, folder, one_guarantee()).classes
    count, one, twenty = (statistics.median(found[1:]) for found in times.values())
    memory = peak_of(name, folder, given.threads, given.memory_limit)
    record(
        f"20 guarantees, {name}, {folder.name}", took=twenty, baseline=count, beside="the bare count", peak_gib=memory
    )
    print(
        f"{name:9} {folder.name:20} {classes:>11,} classes   count {count:7.2f} s   one {one:7.2f} s   "
        f"{len(twenty_guarantees())} guarantees {twenty:7.2f} s   over one {twenty / one:5.2f}   "
        f"over the count {twenty / count:5.2f}   peak {memory:.1f} GiB",
        flush=True,
    )
    if given.pycanon:
        theirs = pycanon_seconds(folder)
        shown = "not installed" if theirs is None else f"{theirs:.1f} s, ratio to ours {theirs / twenty:.0f}"
        print(f"{'pycanon':9} {folder.name:20} k, distinct l and t: {shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("embedded", "dask", "spark"), default="embedded")
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=["few", "many"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--memory-limit")
    parser.add_argument("--pycanon", action="store_true", help="also time pycanon, where it is installed")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    arguments = parser.parse_args()
    for number in arguments.rows:
        for shape in arguments.shape:
            measure(arguments, benchmark_table(arguments.folder, number, shape))
