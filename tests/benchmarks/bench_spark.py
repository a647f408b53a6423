"""Judging k + l + t on the Spark engine, as a ratio to Spark's own bare count of cells.

Runs are interleaved, so that a noisy machine slows both alike. Peak memory is of the driver, its virtual machine and
the Python workers together, counted twice where they share it. Prints only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from recording import record
from tables import QUASI_IDENTIFIERS, SENSITIVE, SHAPES, benchmark_table

from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.engines import Source
from privpipe.engines.spark import SparkEngine
from privpipe.judging.rules import Composite
from privpipe.models.attribute.l_diversity import DistinctLDiversity
from privpipe.models.attribute.t_closeness import TCloseness
from privpipe.models.identity.k_anonymity import KAnonymity


class PeakMemory(threading.Thread):
    """Resident memory of this process and all its descendants, looked at five times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, _resident_tree(os.getpid()))
            time.sleep(0.2)


def _resident_tree(root: int) -> int:
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        parents[int(place.name)] = int(fields[1])
        resident[int(place.name)] = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    tree = {root}
    for _ in range(8):
        tree |= {pid for pid, parent in parents.items() if parent in tree}
    return sum(resident.get(pid, 0) for pid in tree)


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def measure(engine: SparkEngine, folder: Path, rounds: int) -> None:
    """Print the ratio for one table."""
    models = (KAnonymity(k=5), DistinctLDiversity(column=SENSITIVE, l=3), TCloseness(column=SENSITIVE, t=0.2))
    native = engine.session.read.parquet(str(folder))
    table = engine.scan(Source(data=str(folder)))
    request = FactsRequest(histograms=(SENSITIVE,))
    facts = engine.facts(table, request)
    query = ClassQuery(keys=QUASI_IDENTIFIERS, columns=(SENSITIVE,), dictionaries=facts.histograms, mark="*")
    counting, judging, learning = [], [], []
    for _ in range(rounds + 1):  # the first round warms the file cache and the compilers
        counting.append(seconds(lambda: native.groupBy(*QUASI_IDENTIFIERS, SENSITIVE).count().count()))
        judging.append(seconds(lambda: engine.reduce_classes(table, query, Composite(models), facts)))
        learning.append(seconds(lambda: engine.facts(table, request)))
    cells = native.groupBy(*QUASI_IDENTIFIERS, SENSITIVE).count().count()
    judged = engine.reduce_classes(table, query, Composite(models), facts)
    count, judge, learn = (statistics.median(found[1:]) for found in (counting, judging, learning))
    record(f"judging k, l, t, spark, {folder.name}", took=judge, baseline=count, beside="the bare count")
    print(
        f"{folder.name:16} {judged.classes if judged else 0:>10,} classes {cells:>10,} cells   "
        f"count {count:6.2f} s   k + l + t {judge:6.2f} s   ratio {judge / count:5.2f}   "
        f"(base distribution {learn:.2f} s)",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    memory = PeakMemory()
    memory.start()
    with SparkEngine.open({"master": f"local[{given.threads}]"}) as opened:
        for rows in given.rows:
            for shape in given.shape:
                measure(opened, benchmark_table(given.folder, rows, shape), given.rounds)
    print(f"peak {memory.peak / 2**30:.1f} GiB")
