"""Judging k + l + t on the Dask engine, as a ratio to Dask's own bare count of cells; ranking, to Dask's bare sort.

Runs are interleaved, so that a noisy machine slows both alike. The bare count is a group-by of a Dask DataFrame with
Arrow-backed types on threads, nulls kept, its result spread over as many partitions as there are threads and only
counted. Prints only.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import dask
import dask.dataframe as dd
from recording import record
from tables import QUASI_IDENTIFIERS, SENSITIVE, SHAPES, benchmark_table

from privpipe.blocks import ClassQuery, FactsRequest, RowBlock
from privpipe.draws import Draws, Seed
from privpipe.engines import Source
from privpipe.engines.dask import DaskEngine
from privpipe.judging.rules import Composite
from privpipe.models.attribute.l_diversity import DistinctLDiversity
from privpipe.models.attribute.t_closeness import TCloseness
from privpipe.models.identity.k_anonymity import KAnonymity

NUMBER = "income"


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def peak() -> float:
    """Peak resident memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(folder: Path, rounds: int, threads: int) -> None:
    """Print the ratio of judging to counting for one table."""
    names = [*QUASI_IDENTIFIERS, SENSITIVE]
    frame = dd.read_parquet(folder, columns=names, dtype_backend="pyarrow")
    cells = frame.groupby(names, dropna=False, sort=False).size(split_out=threads).map_partitions(len)
    models = (KAnonymity(k=5), DistinctLDiversity(column=SENSITIVE, l=3), TCloseness(column=SENSITIVE, t=0.2))
    with DaskEngine.open({"scheduler": "threads", "workers": threads}) as engine:
        table = engine.scan(Source(data=str(folder)))
        facts = engine.facts(table, FactsRequest(histograms=(SENSITIVE,)))
        query = ClassQuery(keys=QUASI_IDENTIFIERS, columns=(SENSITIVE,), dictionaries=facts.histograms, mark="*")
        counting, judging = [], []
        ours = 0.0
        for _ in range(rounds + 1):  # the first round warms the file cache and the compiler
            judging.append(seconds(lambda: engine.reduce_classes(table, query, Composite(models), facts)))
            ours = ours or peak()
            counting.append(seconds(cells.compute))
        judged = engine.reduce_classes(table, query, Composite(models), facts)
    count, judge = statistics.median(counting[1:]), statistics.median(judging[1:])
    record(f"judging k, l, t, dask, {folder.name}", took=judge, baseline=count, beside="the bare count")
    print(
        f"{folder.name:16} {judged.classes if judged else 0:>10,} classes {sum(cells.compute()):>10,} cells   "
        f"count {count:6.2f} s   k + l + t {judge:6.2f} s   ratio {judge / count:5.2f}   "
        f"peak {ours:.1f} GiB, with the bare count {peak():.1f} GiB",
        flush=True,
    )


def same_rows(rows: RowBlock, ranks: object) -> RowBlock:
    """Ranks asked for and not used."""
    return rows


def measure_ranks(folder: Path, rounds: int, threads: int) -> None:
    """Print the ratio of ranking a near-unique column to sorting it, rows kept in memory on both sides."""
    stream = Draws(Seed.insecure(1), stage=0, transformer="bench").of(NUMBER)
    frame = dd.read_parquet(folder, dtype_backend="pyarrow").persist()
    with DaskEngine.open({"scheduler": "threads", "workers": threads}) as engine:
        table = engine.with_record_ids(engine.scan(Source(data=str(folder))), None, Seed.insecure(1))
        sorting, ranking = [], []
        for _ in range(rounds + 1):
            ranking.append(seconds(lambda: engine.map_ranked(table, NUMBER, stream, same_rows, table.schema)))
            sorting.append(seconds(lambda: frame.sort_values(NUMBER).persist()))
    sort, rank = statistics.median(sorting[1:]), statistics.median(ranking[1:])
    record(f"ranking, dask, {folder.name}", took=rank, baseline=sort, beside="the bare sort")
    print(f"{folder.name:16} sort {sort:6.2f} s   rank {rank:6.2f} s   ratio {rank / sort:5.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--shape", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--ranks", action="store_true", help="ranking against sorting instead")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    with dask.config.set(scheduler="threads", num_workers=given.threads):
        for rows in given.rows:
            for shape in given.shape:
                chosen = benchmark_table(given.folder, rows, shape)
                (measure_ranks if given.ranks else measure)(chosen, given.rounds, given.threads)
