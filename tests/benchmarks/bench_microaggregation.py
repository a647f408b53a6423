"""Microaggregation by blocks next to MDAV over all records, on five kinds of data, and a stage on an engine.

Losses are 100 SSE / SST; times are CPU seconds of one thread for the kernels, wall seconds for the engine. Prints only.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from recording import record

from privpipe.draws import Draws, Seed
from privpipe.engines import Source, open_engine
from privpipe.kernels.microaggregation.blocks import microaggregate
from privpipe.kernels.microaggregation.mdav import mdav_groups
from privpipe.kernels.microaggregation.refine import group_sse
from privpipe.roles import Roles
from privpipe.transforms import Microaggregate
from privpipe.transforms.base import StageContext

Points = NDArray[np.float64]
COLUMNS = 5


def mixture(n: int, rng: np.random.Generator) -> Points:
    """Twelve clusters."""
    middles = rng.normal(0, 3, (12, COLUMNS))
    return np.asarray(middles[rng.integers(0, 12, n)] + rng.normal(size=(n, COLUMNS)))


def uniform(n: int, rng: np.random.Generator) -> Points:
    """A cube."""
    return rng.random((n, COLUMNS))


def correlated(n: int, rng: np.random.Generator) -> Points:
    """Normal, two factors behind five columns."""
    return np.asarray(rng.normal(size=(n, 2)) @ rng.normal(size=(2, COLUMNS)) + 0.2 * rng.normal(size=(n, COLUMNS)))


def skewed(n: int, rng: np.random.Generator) -> Points:
    """Lognormal with heavy tails, as incomes are."""
    return np.asarray(np.exp(rng.normal(size=(n, COLUMNS)) + rng.normal(size=(n, 1))))


def tied(n: int, rng: np.random.Generator) -> Points:
    """Small integers: ages, counts and codes, with many equal records."""
    return np.stack([rng.binomial(size, 0.3, n) for size in (80, 30, 12, 8, 60)], axis=1).astype(np.float64)


GENERATORS: dict[str, Callable[[int, np.random.Generator], Points]] = {
    made.__name__: made for made in (mixture, uniform, correlated, skewed, tied)
}


def standardised(values: Points) -> Points:
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0, ddof=1))


def kernels(name: str, n: int, k: int, seed: int) -> None:
    """Loss and CPU time of blocks with border passes, as shares of those of MDAV over all records."""
    points = standardised(GENERATORS[name](n, np.random.default_rng(seed)))
    points = points[np.random.default_rng(seed + 1).permutation(n)]
    order, total = np.arange(n), (n - 1) * points.shape[1] / 100
    microaggregate(points[:3000], np.arange(3000), k, block=1000)  # compiles
    start = time.process_time()
    whole = group_sse(points, mdav_groups(points, k)) / total
    spent = time.process_time() - start
    line = f"{name:10} k = {k:<2} MDAV {whole:8.4f} % {spent:6.2f} s"
    for passes in (0, 1, 2):
        start = time.process_time()
        loss = group_sse(points, microaggregate(points, order, k, passes=passes)) / total
        used = time.process_time() - start
        what = f"microaggregation by blocks, {name}, {n:,} rows, k = {k}, {passes} passes"
        record(what, took=used, baseline=spent, beside="MDAV over all records", loss_ratio=loss / whole)
        line += f"   {passes} passes {loss:8.4f} % {used:5.2f} s (loss x {loss / whole:.3f}, time x {used / spent:.2f})"
    print(line, flush=True)


def table_of(folder: Path, n: int, name: str) -> Path:
    target = folder / f"microaggregation-{name}-{n}"
    if (target / "_done").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for part, first in enumerate(range(0, n, 1_000_000)):
        values = GENERATORS[name](min(1_000_000, n - first), rng)
        pq.write_table(pa.table({f"c{at}": column for at, column in enumerate(values.T)}), target / f"{part}.parquet")
    (target / "_done").touch()
    return target


def stage(engine_name: str, folder: Path, n: int, k: int, name: str, rounds: int) -> None:
    """Wall seconds of planning and of running the stage; record ids are there already, as in a run."""
    options = {"threads": 4} if engine_name != "spark" else {}
    columns = [f"c{at}" for at in range(COLUMNS)]
    made = Microaggregate(columns=columns, k=k)
    with open_engine(engine_name, options) as engine:
        planned, ran = [], []
        for _ in range(rounds):
            scanned = engine.scan(Source(data=str(table_of(folder, n, name)), format="parquet"))
            table = engine.with_record_ids(scanned, None, Seed.insecure(1))
            engine.count(table)
            context = StageContext(roles=Roles(insensitive=columns), schema=table.schema, place="transform[0]")
            start = time.perf_counter()
            plan = made.learn(engine, table, context)
            middle = time.perf_counter()
            done = made.run(engine, table, plan, Draws(Seed.insecure(1), 0, made.name()), context)
            engine.count(done)
            planned.append(middle - start)
            ran.append(time.perf_counter() - middle)
    both = statistics.median(map(sum, zip(planned, ran, strict=True)))
    print(
        f"{engine_name} {name} {n:,} x {COLUMNS}, k = {k}: plan {statistics.median(planned):.2f} s, "
        f"run {statistics.median(ran):.2f} s, together {both:.2f} s",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--k", type=int, nargs="*", default=[3, 10])
    parser.add_argument("--data", nargs="*", choices=GENERATORS, default=list(GENERATORS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", nargs="*", choices=["embedded", "dask", "spark"], default=[])
    parser.add_argument("--engine-rows", type=int, nargs="*", default=[1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    for engine_name in given.engine:
        for n in given.engine_rows:
            stage(engine_name, given.folder, n, given.k[0], given.data[0], given.rounds)
    for name in given.data if not given.engine else []:
        for k in given.k:
            kernels(name, given.rows, k, given.seed)
