"""Judging k + l + t on the embedded engine, as a ratio to DuckDB's own bare count of cells.

Runs are interleaved, so that a noisy machine slows both alike. Prints only.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from recording import record
from tables import QUASI_IDENTIFIERS, SENSITIVE, SHAPES, benchmark_table

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine
from privpipe.judging.rules import Composite
from privpipe.models.attribute.l_diversity import DistinctLDiversity
from privpipe.models.attribute.t_closeness import TCloseness
from privpipe.models.identity.k_anonymity import KAnonymity


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def measure(folder: Path, rounds: int, threads: int, memory_limit: str | None) -> None:
    """Print the ratio for one table."""
    options = {"threads": threads, **({"memory_limit": memory_limit} if memory_limit else {})}
    names = ", ".join((*QUASI_IDENTIFIERS, SENSITIVE))
    bare = duckdb.connect(config=options)
    bare.execute("SET preserve_insertion_order = false")
    sql = f"SELECT count(*) FROM (SELECT count(*) FROM '{folder}/*.parquet' GROUP BY {names})"
    models = (KAnonymity(k=5), DistinctLDiversity(column=SENSITIVE, l=3), TCloseness(column=SENSITIVE, t=0.2))
    with EmbeddedEngine.open(options) as engine:
        table = engine.scan(Source(data=str(folder)))
        facts = engine.facts(table, FactsRequest(histograms=(SENSITIVE,)))
        query = ClassQuery(keys=QUASI_IDENTIFIERS, columns=(SENSITIVE,), dictionaries=facts.histograms, mark="*")
        counting, judging = [], []
        for _ in range(rounds + 1):  # the first round warms the file cache and the compiler
            counting.append(seconds(lambda: bare.execute(sql).fetchall()))
            judging.append(seconds(lambda: engine.reduce_classes(table, query, Composite(models), facts)))
        cells = bare.execute(sql).fetchall()[0][0]
        judged = engine.reduce_classes(table, query, Composite(models), facts)
    count, judge = statistics.median(counting[1:]), statistics.median(judging[1:])
    record(f"judging k, l, t, embedded, {folder.name}", took=judge, baseline=count, beside="the bare count")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{folder.name:16} {judged.classes if judged else 0:>10,} classes {cells:>10,} cells   "
        f"count {count:6.2f} s   k + l + t {judge:6.2f} s   ratio {judge / count:5.2f}   peak {peak:.1f} GiB",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--memory-limit")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    for rows in given.rows:
        for shape in given.shape:
            measure(benchmark_table(given.folder, rows, shape), given.rounds, given.threads, given.memory_limit)
