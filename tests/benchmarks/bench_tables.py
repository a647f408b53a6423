"""What aggregation of tables costs: contributors, sums and the three largest, over the bare group-by of the engine.

Three dimensions. Contributors are records; persons with all records in one leaf cell; and persons in several, whose
totals are counted level by level (compared with the bare counts of distinct persons at every level). CPU seconds of
this process and its children, which other work on the machine changes little; runs are interleaved. Prints only.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from recording import record

from privpipe.draws import Seed
from privpipe.engines import Engine, Source, open_engine
from privpipe.tables.aggregation import TableSpec, aggregated
from privpipe.tables.responses import responses_of
from privpipe.tables.stages import Aggregate

DIMENSIONS = {"region": 50, "age": 20, "kind": 6}
ENGINES = ("embedded", "dask", "spark")


def write_records(folder: Path, rows: int) -> None:
    """Records of persons who have some three each: `mover` is in several leaf cells, `settled` in one."""
    draw = np.random.default_rng(5)
    per_file = 1_000_000
    persons = max(rows // 3, 1)
    home = {name: draw.integers(0, size, persons) for name, size in DIMENSIONS.items()}
    for at, start in enumerate(range(0, rows, per_file)):
        number = min(per_file, rows - start)
        settled = draw.integers(0, persons, number)
        columns = {name: home[name][settled] for name in DIMENSIONS}
        more = {"settled": settled, "mover": draw.integers(0, persons, number)}
        cost = draw.lognormal(7, 1.5, number).astype(np.int64)
        pq.write_table(pa.table({**columns, **more, "cost": cost}), folder / f"part-{at:05}.parquet")


def bare(engine: Engine, table: Any, folder: Path, person: str | None, levels: bool) -> Callable[[], object]:
    """The engine's own group-by, as its users would write it: count and sum, or distinct persons at every level."""
    names = list(DIMENSIONS)
    sets = [each for size in range(len(names) + 1) for each in itertools.combinations(names, size)]
    if engine.name == "embedded":
        own: Any = engine
        columns = ", ".join(names)
        if levels:
            queries = [
                f"SELECT count(DISTINCT {person}), sum(cost) FROM {table.source}"
                + (f" GROUP BY {', '.join(each)}" if each else "")
                for each in sets
            ]
            return lambda: [own.session.table(query, table.frames) for query in queries]
        inner = f"SELECT {columns}, count(*) AS n, sum(cost) AS cost FROM {table.source} GROUP BY {columns}"
        if person is not None:
            inner = f"SELECT count(*), sum(n) FROM ({inner}, {person})"
        return lambda: own.session.table(inner, table.frames)
    if engine.name == "dask":
        import dask.dataframe as dd

        wanted = [*names, "cost", *([person] if person else [])]
        frame = dd.read_parquet(folder, columns=wanted, dtype_backend="pyarrow")
        if levels:
            return lambda: [frame.groupby(list(each), sort=False)[person].nunique().compute() for each in sets if each]
        keys = [*names, *([person] if person else [])]
        split = 8 if person else 1
        return lambda: len(frame.groupby(keys, sort=False).agg({"cost": ["count", "sum"]}, split_out=split).compute())
    from pyspark.sql import functions as sf

    rows = table.frame.toDF(*table.schema.names)
    if levels:
        counted = [rows.groupBy(*each).agg(sf.countDistinct(person), sf.sum("cost")) for each in sets]
        return lambda: [each.toArrow() for each in counted]
    keys = [*names, *([person] if person else [])]
    grouped = rows.groupBy(*keys).agg(sf.count(sf.lit(1)).alias("n"), sf.sum("cost").alias("cost"))
    return lambda: grouped.agg(sf.count("n"), sf.sum("cost")).collect() if person else grouped.toArrow()


CASES: dict[str, tuple[str | None, bool]] = {
    "records": (None, False),
    "one leaf": ("settled", False),
    "levels": ("mover", True),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "embedded": {"threads": 2},
    "dask": {"scheduler": "threads"},
    "spark": {"master": "local[2]", "driver_bytes": 0},
}


def cpu_seconds() -> float:
    """Of this process and those below it: Spark works in a virtual machine."""
    import psutil

    own = psutil.Process()
    found = 0.0
    for each in (own, *own.children(recursive=True)):
        times = each.cpu_times()
        found += times.user + times.system
    return found


def seconds(job: Callable[[], object]) -> float:
    start = cpu_seconds()
    job()
    return cpu_seconds() - start


def one_pass(engine: Engine, table: Any, rounds: int, title: str) -> None:
    """Three tables of one policy from one count of all combinations, compared with a count of each."""
    whole = {"responses": ["count", {"sum": "cost"}]}
    tables = {
        "a": {"by": ["region", "age"], **whole},
        "b": {"by": ["region", "kind"], **whole},
        "c": {"by": ["age"], "only": {"kind": "2"}, **whole},
    }
    stage = Aggregate(tables=tables)
    specs = list(stage.specs().values())
    together = functools.partial(stage.tables_over, engine, table, person=None, seed=Seed.from_os(), hierarchies={})
    times: dict[str, list[float]] = {"together": [], "each": []}
    for _ in range(rounds):
        times["each"].append(sum(seconds(functools.partial(aggregated, engine, table, spec)) for spec in specs))
        times["together"].append(seconds(together))
    took, baseline = (statistics.median(times[each]) for each in ("together", "each"))
    print(f"{title}: {took:.2f} CPU s, {took / baseline:.2f} x one count per table ({baseline:.2f})", flush=True)
    record(title, took=took, baseline=baseline, beside="one count per table", unit="CPU s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    spec = TableSpec(by=tuple(DIMENSIONS), responses=responses_of(["count", {"sum": "cost"}]))
    for rows, name in itertools.product(given.rows, given.engines):
        with tempfile.TemporaryDirectory() as place, open_engine(name, OPTIONS[name]) as engine:
            folder = Path(place)
            write_records(folder, rows)
            table = engine.scan(Source(data=str(folder)))
            for case in given.cases:
                person, levels = CASES[case]
                plain = bare(engine, table, folder, person, levels)
                times: dict[str, list[float]] = {"aggregate": [], "bare": []}
                ours = functools.partial(aggregated, engine, table, spec, person=person)
                for _ in range(given.rounds):
                    times["bare"].append(seconds(plain))
                    times["aggregate"].append(seconds(ours))
                took, baseline = (statistics.median(times[each]) for each in ("aggregate", "bare"))
                title = f"aggregate {rows:,} records, {case}, {name}"
                ratio = took / baseline
                print(f"{title}: {took:.2f} CPU s, {ratio:.2f} x the bare group-by ({baseline:.2f})", flush=True)
                record(title, took=took, baseline=baseline, beside="bare group-by", unit="CPU s")
            one_pass(engine, table, given.rounds, f"three tables of {rows:,} records, {name}")


if __name__ == "__main__":
    main()
