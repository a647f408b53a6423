"""Cell suppression: blanks and seconds of both readings and methods, next to the bare count of wildcard matches.

Prints only; the files are named on the command line.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from recording import record

import privpipe as pp
from privpipe.engines import Source, open_engine
from privpipe.kernels.local_suppression.wildcard_matching import matches
from privpipe.transforms import SuppressCells
from privpipe.transforms.base import StageContext
from privpipe.transforms.local_suppression.cell_table import read_cells
from privpipe.transforms.local_suppression.integer_programs import improved
from privpipe.transforms.local_suppression.suppress_cells import greedy_cells
from privpipe.transforms.local_suppression.suppress_cells_stage import BlanksFound, CellBudget

HOUSEHOLDS = ("urbrur", "roof", "walls", "water", "electcon", "relat", "sex")


def timed(job: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    done = job()
    return time.perf_counter() - start, done


def measure(rows: pa.Table, keys: tuple[str, ...], k: int, nulls: Any, programs: int, repeats: int) -> None:
    """Print a line for one table, k and reading; least time of the repeats, so the compiler's share is left out."""
    with open_engine("embedded") as engine:
        table = engine.scan(Source(data=rows))
        context = StageContext(roles=pp.Roles(quasi_identifiers=keys), schema=table.schema, nulls=nulls, place="bench")
        counted, cells = timed(lambda: read_cells(engine, table, SuppressCells(k=k), context))
    words, missing, _ = cells.packed
    least = min(timed(lambda: matches(words, missing, cells.judged_bits, cells.counts))[0] for _ in range(repeats))
    runs = [timed(lambda: greedy_cells(cells, context)) for _ in range(repeats)]
    seconds, blank_groups = min(runs, key=lambda run: run[0])
    line = (
        f"{nulls:9} k = {k:<2} {cells.records:>9,} records {len(cells):>7,} combinations   count {counted:5.2f} s   "
        f"greedy {cells.cost(blank_groups):>9,.0f} in {seconds:6.2f} s ({seconds / max(least, 1e-9):6.0f} x a count)"
    )
    if programs:
        start = BlanksFound(tuple(blank_groups))
        took, found = timed(lambda: improved(cells, start, CellBudget(neighbourhoods=programs)))
        line += (
            f"   optimal {cells.cost(found.blank_groups):>7,.0f} >= {found.bound:,.0f} in {took:5.1f} s, {found.status}"
        )
    after = cells.failing(blank_groups)
    record(
        f"cell suppression, {cells.records:,} rows, {nulls}, k = {k}",
        took=seconds,
        baseline=least,
        beside="a count of matches",
    )
    print(f"{line}   below k: own_value {after['own_value']:,}, wildcard {after['wildcard']:,}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("csv", type=Path, help="a table with the keys")
    parser.add_argument("--keys", nargs="+", default=list(HOUSEHOLDS))
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--k", nargs="+", type=int, default=[2, 3, 5, 10])
    parser.add_argument("--programs", type=int, default=0, help="integer programs of method optimal; 0: none")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows = pa.Table.from_pandas(pd.read_csv(options.csv, sep=options.delimiter, dtype=str)[options.keys])
    for nulls in ("wildcard", "own_value"):
        for k in options.k:
            measure(rows, tuple(options.keys), k, nulls, options.programs, options.repeats)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
