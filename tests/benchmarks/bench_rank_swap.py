"""Rank swapping of one column next to a plain global sort of it on the same engine, in the same run.

Runs are interleaved, so that a noisy machine slows both alike; the least of the repeats counts. Two columns: one of
some 147,000 distinct values, one near-unique. Prints only.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from recording import record

from privpipe.draws import Draws, Seed
from privpipe.engines import Engine, Source, open_engine
from privpipe.kernels.rank_swapping import bucket_permutation, distribution_permutation, swap_permutation
from privpipe.roles import Roles
from privpipe.transforms import RankSwap
from privpipe.transforms.base import StageContext

COLUMNS = ("repeated", "near_unique")
CHUNK = 1_000_000


def table_of(folder: Path, rows: int) -> Path:
    target = folder / f"swap-{rows}"
    if not target.exists():
        target.mkdir(parents=True)
        for part, start in enumerate(range(0, rows, CHUNK)):
            rng = np.random.default_rng([1, part])
            n = min(CHUNK, rows - start)
            incomes = rng.lognormal(10, 1, n)
            columns = {"repeated": np.round(incomes / 5) * 5, "near_unique": incomes}
            pq.write_table(pa.table(columns), target / f"part-{part:05d}.parquet", row_group_size=250_000)
    return target


def plain_sort(engine: Engine, path: Path, column: str) -> Callable[[], Any]:
    """The engine's own sort of the column, written nowhere but worked out to the end."""
    files = str(path / "*.parquet")
    if engine.name == "embedded":
        import duckdb

        sql = f"CREATE OR REPLACE TEMP TABLE s AS SELECT {column} FROM '{files}' ORDER BY 1"
        return lambda: duckdb.sql(sql)
    if engine.name == "dask":
        import dask.dataframe as dd

        return lambda: dd.read_parquet(str(path), columns=[column]).sort_values(column).map_partitions(len).compute()
    frame = engine.session.read.parquet(str(path)).select(column)  # type: ignore[attr-defined]
    return lambda: frame.sort(column).write.format("noop").mode("overwrite").save()


def swap(engine: Engine, table: Any, column: str, p: float) -> Callable[[], Any]:
    stage = RankSwap(columns=[column], p=p)
    context = StageContext(roles=Roles(insensitive=COLUMNS), schema=table.schema, place="bench")
    plan = stage.learn(engine, table, context)

    def run() -> int:
        made = stage.run(engine, table, plan, Draws(Seed.insecure(1), 0, stage.name()), context)
        if engine.name == "embedded":
            return 0
        # Worked out to the end, where an engine is lazy; on Spark as the plain sort is.
        if engine.name == "spark":
            made.frame.write.format("noop").mode("overwrite").save()
            made.frame.unpersist()
            return 0
        return engine.reduce_rows(made, [column], _Rows(), None) or 0  # type: ignore[arg-type]

    return run


class _Rows:
    def measure(self, block: Any, facts: Any) -> int:
        return len(block)

    def merge(self, left: int, right: int) -> int:
        return left + right


def least(jobs: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            seconds[name].append(time.perf_counter() - start)
    return {name: min(each) for name, each in seconds.items()}


def permutations(rows: int) -> None:
    stream = Draws(Seed.insecure(1), 0, "rank_swap").of("x")
    jobs: dict[str, Callable[[], Any]] = {
        "window, p = 0.001": lambda: swap_permutation(rows, rows // 1000, stream),
        "window, p = 0.05": lambda: swap_permutation(rows, rows // 20, stream),
        "buckets, 10": lambda: bucket_permutation(rows, 10, stream),
        "distribution, p = 0.05": lambda: distribution_permutation(rows, 0.05, stream),
    }
    for job in jobs.values():
        job()
    for name, seconds in least(jobs, 1).items():
        print(f"pi of {rows:,} ranks, {name:24} {seconds:6.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engines", nargs="+", default=["embedded", "dask", "spark"])
    parser.add_argument("--p", type=float, default=0.01)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where tables are kept; default: a folder that goes afterwards")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = table_of(options.folder or Path(scratch), options.rows)
        permutations(options.rows)
        for name in options.engines:
            with open_engine(name, {"driver_bytes": 0} if name == "spark" else {}) as engine:
                source = Source(data=str(path), format="parquet")
                table = engine.with_record_ids(engine.scan(source), None, Seed.insecure(1))
                if name == "spark":
                    # Else every question computes the record ids again, which is not part of a swap.
                    table = replace(table, frame=table.frame.persist())  # type: ignore[type-var]
                    engine.count(table)
                    engine.reduce_rows(table, list(COLUMNS), _Rows(), None)  # type: ignore[arg-type]
                for column in COLUMNS:
                    jobs = {"sort": plain_sort(engine, path, column), "swap": swap(engine, table, column, options.p)}
                    found = least(jobs, options.repeats)
                    what = f"rank swap, {name}, {column}, {options.rows:,} rows"
                    record(what, took=found["swap"], baseline=found["sort"], beside="a plain sort")
                    print(
                        f"{name:9} {column:12} {options.rows:>11,} rows   sort {found['sort']:6.2f} s   "
                        f"swap {found['swap']:6.2f} s   {found['swap'] / found['sort']:5.2f} x",
                        flush=True,
                    )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
