"""Mondrian and local recoding: seconds, records a second, peak memory; printed only.

Adult comes from a folder with `adult.csv` and its hierarchies; larger tables are perturbed copies of it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from recording import record

from privpipe.draws import Draws, Seed
from privpipe.engines import Source
from privpipe.engines.embedded import EmbeddedEngine
from privpipe.hierarchies import HierarchySpec
from privpipe.models import KAnonymity
from privpipe.roles import Roles
from privpipe.transforms import LocalRecoding, Mondrian
from privpipe.transforms.base import StageContext, Transformer
from privpipe.transforms.mondrian.cut_search import by_combination, cut_tables, histograms_of
from privpipe.transforms.mondrian.mondrian_stage import tree_columns, tree_names

CHUNK = 1_000_000
REDRAWN = 0.03


def perturbed(adult: pa.Table, rows: int, folder: Path) -> Path:
    """A folder of Parquet files: copies of Adult with some of their cells drawn again."""
    target = folder / f"adult-{rows}-rows"
    if (target / "_done").exists():
        return target
    target.mkdir(parents=True, exist_ok=True)
    for part, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng([1, part])
        n = min(CHUNK, rows - start)
        picked = adult.take(pa.array(rng.integers(0, len(adult), n)))
        columns = {}
        for name in adult.column_names:
            values = picked[name].combine_chunks()
            seen = values.dictionary_encode()
            codes = seen.indices.to_numpy(zero_copy_only=False).copy()
            again = rng.random(n) < REDRAWN
            codes[again] = rng.integers(0, len(seen.dictionary), int(again.sum()))
            columns[name] = seen.dictionary.take(pa.array(codes))
        pq.write_table(pa.table(columns), target / f"part-{part:05d}.parquet")
    (target / "_done").touch()
    return target


def seconds(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    made = job()
    return time.perf_counter() - start, made


def context_of(adult: pa.Table, folder: Path, schema: pa.Schema, k: int) -> StageContext:
    specs = {
        name: HierarchySpec.from_mapping({"file": f"adult_hierarchy_{name}.csv", "delimiter": ";"}, folder, column=name)
        for name in adult.column_names
    }
    return StageContext(
        roles=Roles(quasi_identifiers=adult.column_names),
        schema=schema,
        hierarchies=specs,
        guarantees=(KAnonymity(k=k),),
        place="transform[0]",
    )


def measure(
    engine: EmbeddedEngine, source: Any, adult: pa.Table, folder: Path, stage: Transformer, k: int, n: int
) -> None:
    """Print what planning and running a stage take."""
    table = engine.with_record_ids(engine.scan(Source(data=source)), None, Seed.insecure(1))
    context = context_of(adult, folder, table.schema, k)
    planned = [seconds(lambda: stage.learn(engine, table, context)) for _ in range(n)]
    plan = planned[-1][1]
    took, out = seconds(lambda: stage.run(engine, table, plan, Draws(Seed.insecure(1), 0, stage.name()), context))
    records = plan.detail["records"]
    middle = statistics.median(second for second, _ in planned)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{stage!r:32} k {k:3} {records:>10,} records {plan.detail['tuples']:>9,} tuples   plan {middle:7.3f} s   "
        f"run {took:6.2f} s   {records / (middle + took) / 1e6:5.2f} M records/s   "
        f"cell_loss {plan.detail['cell_loss']:.4f}   peak {peak:.1f} GiB",
        flush=True,
    )
    del out
    if isinstance(stage, Mondrian):
        tree_alone(engine, table, stage, context, n)


def tree_alone(engine: EmbeddedEngine, table: Any, stage: Mondrian, context: StageContext, rounds: int) -> None:
    """Print what the tree takes once the combinations are counted and coded."""
    from privpipe.kernels.mondrian.tree import grown

    least = max(model.least_size() for model in context.guarantees if isinstance(model, KAnonymity))
    counted, distinct = seconds(lambda: engine.distinct(table, tree_names(stage, context)[0]))
    columns, cut = tree_columns(histograms_of(distinct, distinct.column_names[:-1]), stage, context)
    problem = by_combination(distinct, columns, cut, (), (), context)
    tables = cut_tables(columns, cut, stage.score == "loss")
    for workers in (1, 4):
        took = []
        for _ in range(rounds):
            codes, counts = problem.codes.copy(), problem.counts.copy()
            took.append(seconds(lambda: grown(codes, counts, least, tables, workers=workers))[0])  # noqa: B023
        middle = statistics.median(took)
        what = f"mondrian tree, {stage.score} cuts, {problem.counts.sum():,} records, k = {least}, {workers} threads"
        record(what, took=middle, baseline=counted, beside="counting the combinations")
        print(f"{'':12}tree alone, {workers} threads {statistics.median(took):7.4f} s   counted in {counted:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where adult.csv and its hierarchies are")
    parser.add_argument("--rows", type=int, nargs="*", default=[300_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()) / "privpipe-benchmarks")
    given = parser.parse_args()
    adult = pc.read_csv(given.folder / "adult.csv", parse_options=pc.ParseOptions(delimiter=";"))
    with EmbeddedEngine.open({"threads": given.threads}) as engine:
        for stage in (Mondrian(), Mondrian(score="loss"), LocalRecoding(suppress_at_most=0.01)):
            for k in (2, 5, 10, 100) if stage == Mondrian() else (5,):
                measure(engine, adult, adult, given.folder, stage, k, given.rounds)
        for rows in given.rows:
            measure(engine, str(perturbed(adult, rows, given.tables)), adult, given.folder, Mondrian(), 5, 1)
