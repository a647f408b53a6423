"""What judging related tables costs: persons and what is known of a row or two, compared with the join by hand.

One million persons, five million rows, two quasi-identifiers each, in Parquet files; runs interleaved. CPU seconds of
this process on the embedded engine, wall-clock seconds on Dask and Spark, whose work is elsewhere. Prints only.

    python tests/benchmarks/bench_related_tables.py [persons] [embedded | dask | spark]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.engines import Engine, Source, open_engine
from privpipe.relations import JointKAnonymity
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import Tree

ROUNDS = 3
OPTIONS: dict[str, dict[str, Any]] = {
    "embedded": {"threads": 2, "memory_limit": "4GB"},
    "dask": {},
    "spark": {"master": "local[2]"},
}
CODED = "SELECT id, ward * 12 + day AS row, row_number() OVER (ORDER BY id) AS number FROM visits"
BY_HAND = {
    1: "SELECT min(n) FROM (SELECT age, town, ward, day, count(DISTINCT id) AS n FROM patients JOIN visits USING (id) "
    "GROUP BY age, town, ward, day) AS found",
    2: "SELECT min(n) FROM (SELECT age, town, a, b, count(DISTINCT id) AS n FROM (SELECT age, town, p.id AS id, "
    "least(x.row, y.row) AS a, greatest(x.row, y.row) AS b FROM patients AS p JOIN coded AS x ON x.id = p.id "
    "JOIN coded AS y ON y.id = x.id AND x.number < y.number) AS pairs GROUP BY age, town, a, b) AS found",
}


def write_tables(persons: int, folder: Path) -> None:
    """Patients and five visits each, on average, in four files each."""
    draw = np.random.default_rng(1)
    rows = 5 * persons
    patients = {"id": np.arange(persons), "age": draw.integers(0, 9, persons), "town": draw.integers(0, 20, persons)}
    visits = {
        "id": draw.integers(0, persons, rows),
        "ward": draw.integers(0, 8, rows),
        "day": draw.integers(0, 12, rows),
    }
    for name, columns in (("patients", patients), ("visits", visits)):
        table = pa.table(columns)
        (folder / name).mkdir()
        for at in range(4):
            part = -(-table.num_rows // 4)
            pq.write_table(table.slice(at * part, part), folder / name / f"part-{at}.parquet")


def cpu_seconds(run: Callable[[], object]) -> float:
    """CPU seconds of a run."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wall_seconds(run: Callable[[], object]) -> float:
    """Seconds by the clock of a run."""
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def by_duckdb(folder: Path, known: int, _: Engine) -> None:
    """The smallest group, by a query written by hand."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as database:
        for name in ("patients", "visits"):
            database.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}/*.parquet'")
        if known == 2:
            database.execute(f"CREATE TABLE coded AS {CODED}")
        database.execute(BY_HAND[known]).fetchall()


def by_spark(folder: Path, known: int, engine: Any) -> None:
    """The same by Spark's SQL."""
    session = engine.session
    for name in ("patients", "visits"):
        session.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    if known == 2:
        coded = "SELECT id, ward * 12 + day AS row, monotonically_increasing_id() AS number FROM visits"
        session.sql(coded).createOrReplaceTempView("coded")
    session.sql(BY_HAND[known]).collect()


def by_dask(folder: Path, known: int, _: Engine) -> None:
    """The same by joins of Dask's frames."""
    import dask.dataframe as dd

    patients, visits = (dd.read_parquet(str(folder / name)) for name in ("patients", "visits"))
    if known == 1:
        keys = ["age", "town", "ward", "day"]
        found = patients.merge(visits, on="id")
    else:
        keys = ["age", "town", "a", "b"]
        coded = visits.assign(row=visits.ward * 12 + visits.day, number=1)[["id", "row", "number"]]
        coded = coded.assign(number=coded.number.cumsum())
        pairs = coded.merge(coded, on="id")
        pairs = pairs[pairs.number_x < pairs.number_y]
        swapped = pairs.row_x > pairs.row_y
        pairs = pairs.assign(a=pairs.row_x.mask(swapped, pairs.row_y), b=pairs.row_y.mask(swapped, pairs.row_x))
        found = patients.merge(pairs[["id", "a", "b"]], on="id")
    persons = found[["id", *keys]].drop_duplicates(split_out=4)
    persons.groupby(keys).size(split_out=4).min().compute()


def judged(folder: Path, known: int, engine: Engine) -> None:
    """The same by the guarantee."""
    handles = {name: engine.scan(Source(data=str(folder / name))) for name in ("patients", "visits")}
    names = {"patients": ["age", "town"], "visits": ["ward", "day"]}
    tree = Tree.of(handles, [{"from": "visits.id", "to": "patients"}], {"patients": "id"}, names)
    JointKAnonymity(knows={"visits": known}).judge(RelatedTables(engine, tree, handles))


HANDS = {"embedded": by_duckdb, "dask": by_dask, "spark": by_spark}


def main() -> None:
    persons = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    name: Any = sys.argv[2] if len(sys.argv) > 2 else "embedded"
    seconds, unit = (cpu_seconds, "CPU s") if name == "embedded" else (wall_seconds, "s")
    with tempfile.TemporaryDirectory() as place, open_engine(name, OPTIONS[name]) as engine:
        folder = Path(place)
        write_tables(persons, folder)
        for known in (1, 2):
            pairs = [
                (
                    seconds(partial(HANDS[name], folder, known, engine)),
                    seconds(partial(judged, folder, known, engine)),
                )
                for _ in range(ROUNDS)
            ]
            hand, ours = (float(np.median(each)) for each in zip(*pairs, strict=True))
            print(
                f"{name}, {known} rows known: by hand {hand:.2f} {unit}, judged {ours:.2f} {unit}, {ours / hand:.2f} x"
            )
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
