"""What judging related tables costs: persons and what is known of a row or two, over the same join written by hand.

One million persons, five million rows, two quasi-identifiers each. CPU seconds of this process, runs interleaved; the
peak is that of the whole run. Prints only.

    python tests/benchmarks/bench_related_tables.py [persons]
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from privpipe.engines import Source, open_engine
from privpipe.relations import JointKAnonymity
from privpipe.relations.counting import RelatedTables
from privpipe.relations.schema import Tree

ROUNDS = 3
BY_HAND = {
    1: "SELECT min(n) FROM (SELECT age, town, ward, day, count(DISTINCT id) AS n FROM patients JOIN visits USING (id) "
    "GROUP BY ALL)",
    2: "SELECT min(n) FROM (SELECT age, town, least(x.row, y.row) AS a, greatest(x.row, y.row) AS b, "
    "count(DISTINCT p.id) AS n FROM patients AS p JOIN coded AS x USING (id) JOIN coded AS y ON y.id = x.id "
    "AND x.number < y.number GROUP BY ALL)",
}


def tables(persons: int) -> dict[str, pa.Table]:
    """Patients and five visits each, on average."""
    draw = np.random.default_rng(1)
    rows = 5 * persons
    patients = {"id": np.arange(persons), "age": draw.integers(0, 9, persons), "town": draw.integers(0, 20, persons)}
    visits = {
        "id": draw.integers(0, persons, rows),
        "ward": draw.integers(0, 8, rows),
        "day": draw.integers(0, 12, rows),
    }
    return {"patients": pa.table(patients), "visits": pa.table(visits)}


def seconds(run: Callable[[], object]) -> float:
    """CPU seconds of a run."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def by_hand(found: dict[str, pa.Table], known: int) -> None:
    """The smallest group, by a query written by hand."""
    with duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}) as database:
        for name, table in found.items():
            database.register(name, table)
        if known == 2:
            database.execute(
                "CREATE TABLE coded AS SELECT id, ward * 12 + day AS row, row_number() OVER () AS number FROM visits"
            )
        database.execute(BY_HAND[known]).fetchall()


def judged(found: dict[str, pa.Table], known: int) -> None:
    """The same by the guarantee."""
    with open_engine("embedded", {"threads": 2, "memory_limit": "4GB"}) as engine:
        handles = {name: engine.scan(Source(data=table)) for name, table in found.items()}
        names = {"patients": ["age", "town"], "visits": ["ward", "day"]}
        tree = Tree.of(handles, [{"from": "visits.id", "to": "patients"}], {"patients": "id"}, names)
        JointKAnonymity(knows={"visits": known}).judge(RelatedTables(engine, tree, handles))


def main() -> None:
    found = tables(int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000)
    for known in (1, 2):
        pairs = [
            (seconds(partial(by_hand, found, known)), seconds(partial(judged, found, known))) for _ in range(ROUNDS)
        ]
        hand, ours = (float(np.median(each)) for each in zip(*pairs, strict=True))
        print(f"{known} rows known: by hand {hand:.2f} CPU s, judged {ours:.2f} CPU s, {ours / hand:.2f} x")
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
