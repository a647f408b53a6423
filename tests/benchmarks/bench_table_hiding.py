"""Hiding cells of large tables: patterns with their repair, least costs, controlled rounding, cell keys.

CPU seconds, compared with those that the specification of tables allows. Prints only.

    python tests/benchmarks/bench_table_hiding.py [patterns] [hierarchical] [losses] [optimal] [rounding] [keys]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from recording import record

from privpipe.tables import suppression
from privpipe.tables.audit_problem import UNBOUNDED, Levels
from privpipe.tables.cell_keys import NoiseTable
from privpipe.tables.cells import Cells, Dimension, linked
from privpipe.tables.contribution_rows import record_keys
from privpipe.tables.exact_audit import audit
from privpipe.tables.least_cost_patterns import least_cost
from privpipe.tables.moves import Hiding
from privpipe.tables.rounding import controlled
from privpipe.tables.table_loss import table_loss

Ints = NDArray[np.int64]
TREES = ((10, 10), (6, 8), (3, 5))
"""Children of each label, level by level: 116,000 cells."""
HANDBOOK = ((2, 2, 3, 6, 10), (3, 5), (9,))
"""811 x 19 x 10 labels, as near as equal branches come to the 823 x 18 x 10 of the handbook."""
AT_LEAST = 5


def tree(name: str, *branches: int) -> Dimension:
    parents: dict[str, str] = {}
    level = ["Total"]
    for branch in branches:
        below = []
        for above in level:
            for _ in range(branch):
                below.append(f"{name}{len(parents):04}")
                parents[below[-1]] = above
        level = below
    return Dimension.tree(name, parents)


def counted(dimensions: list[Dimension], mean: float, seed: int = 0) -> tuple[Cells, Ints]:
    """A table of skewed counts."""
    draws = np.random.default_rng(seed)
    cells = Cells.complete(dimensions)
    values = np.zeros(cells.shape, dtype=np.int64)
    inner = [dimension.leaves for dimension in dimensions]
    size = [len(leaves) for leaves in inner]
    values[np.ix_(*inner)] = draws.poisson(np.exp(draws.normal(0, 1.3, size)) * mean)
    for axis, dimension in enumerate(dimensions):
        for code in reversed(range(1, len(dimension.labels))):
            above: list[Any] = [slice(None)] * len(dimensions)
            below = list(above)
            above[axis], below[axis] = dimension.parent[code], code
            values[tuple(above)] += values[tuple(below)]
    return cells, values.reshape(-1)


def hiding(cells: Cells, values: Ints, at_least: int) -> Hiding:
    small = np.flatnonzero((values > 0) & (values < at_least))
    levels = Levels(small, values[small] - 1, at_least - 1 - values[small], np.zeros(len(small), dtype=np.int64))
    candidates = values > 0
    candidates[0] = False
    none = np.zeros(len(values), dtype=np.int64)
    price = suppression.costs("value", values, values)
    return Hiding(cells.relations, values, none, np.full(len(values), UNBOUNDED), price, candidates, levels, True)


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    found = job()
    return found, time.process_time() - start


def shown(name: str, took: float, allowed: float, **more: Any) -> None:
    figures = ", ".join(f"{key} {value:g}" for key, value in more.items())
    print(f"{name}: {took:.1f} CPU s of {allowed:g} ({figures})", flush=True)
    record(name, took=took, baseline=allowed, beside="the specification", **more)


def trees(branches: tuple[tuple[int, ...], ...]) -> tuple[Cells, Ints]:
    return counted([tree("abc"[at], *each) for at, each in enumerate(branches)], 10.0)


def suppressed(cells: Cells, problem: Hiding, method: str) -> tuple[suppression.Suppression, float, list[float]]:
    """A pattern, its CPU seconds without audits, and those of the audits with their number."""
    module: Any = suppression
    honest, audits = module.audit, [0.0, 0.0]

    def counting(*arguments: Any, **more: Any) -> Any:
        result, took = timed(lambda: honest(*arguments, **more))
        audits[0], audits[1] = audits[0] + took, audits[1] + 1
        return result

    module.audit = counting
    try:
        found, took = timed(lambda: suppression.suppress(problem, linked([cells]), method=method, time_limit=36_000))
    finally:
        module.audit = honest
    return found, took - audits[0], audits


def patterns(branches: tuple[tuple[int, ...], ...] = TREES, method: str = "gauss", allowed: float = 20) -> None:
    """Pattern and repair apart from the audits, which are a line of their own."""
    cells, values = trees(branches)
    found, took, audits = suppressed(cells, hiding(cells, values, AT_LEAST), method)
    loss = table_loss(cells, values, found.hidden)
    shares: dict[str, Any] = {"cells": loss.cells, "hidden share": loss.cell_share, "value share": loss.value_share}
    shown(f"{method}: pattern and repair", took, allowed, **shares, repaired=found.repaired)
    shown(f"{method}: its audits", audits[0], 30 if branches is TREES else 120, audits=audits[1])


def simple(problem: Hiding) -> Any:
    """What is often done by hand: no relation keeps a single hidden cell, its cheapest other cell is hidden too."""
    hidden, starts = problem.primary.copy(), problem.relations.indptr
    price = np.where(problem.open, problem.cost, np.iinfo(np.int64).max)
    while True:
        alone = np.flatnonzero(np.add.reduceat(hidden[problem.relations.indices].astype(np.int64), starts[:-1]) == 1)
        before = int(hidden.sum())
        for row in alone.tolist():
            cells = problem.relations.indices[starts[row] : starts[row + 1]]
            if hidden[cells].sum() == 1:
                others = cells[~hidden[cells]]
                best = others[np.argmin(price[others])]
                hidden[best] = bool(problem.open[best])
        if int(hidden.sum()) == before:
            return hidden


def losses() -> None:
    """An unsafe table made safe, by method; the simple way is not closed by an audit, and its failures are counted."""
    cells, values = trees(TREES)
    problem = hiding(cells, values, AT_LEAST)
    print(f"{len(cells):,} cells, {int(problem.primary.sum()):,} unsafe")
    row = "{:14} {:>9} {:>9} {:>9} {:>9} {:>9}".format
    print(row("method", "hidden", "of cells", "of value", "fail", "CPU s"))
    for method in ("simple", "gauss", "hierarchical"):
        if method == "simple":
            hidden, took = timed(lambda: simple(problem))
            fail = audit(problem.problem(hidden), time_limit=36_000).failures
        else:
            found, took, _ = suppressed(cells, problem, method)
            hidden, fail = found.hidden, found.audit.failures
        loss = table_loss(cells, values, hidden)
        shares = f"{loss.cell_share:.1%}", f"{loss.value_share:.2%}"
        print(row(method, f"{loss.hidden:,}", *shares, f"{fail:,}", f"{took:.1f}"), flush=True)
        figures: dict[str, Any] = {
            "hidden": loss.hidden,
            "hidden share": loss.cell_share,
            "value share": loss.value_share,
            "fail": fail,
        }
        record(f"made safe: {method}", took=took, baseline=20, beside="the specification", **figures)


def optimal() -> None:
    for shape, mean, allowed in (((20, 20), 12.0, 60), ((8, 8, 8), 10.0, 300)):
        cells, values = counted([tree("abc"[at], size) for at, size in enumerate(shape)], mean)
        problem = hiding(cells, values, 4)
        found, took = timed(partial(least_cost, problem))
        gap = (found.cost - found.bound) / max(found.cost, 1)
        shown(f"least cost {' x '.join(map(str, shape))}", took, allowed, cost=found.cost, gap=gap)


def rounding() -> None:
    cells, values = counted([tree("a", 12, 6), tree("b", 6, 4), tree("c", 3)], 8.0)
    found, took = timed(lambda: controlled(linked([cells]), values, 5))
    alone = int(np.abs(values - (2 * values + 5) // 10 * 5).sum())
    shown(
        "controlled rounding", took, 120,
        cells=len(cells), distance=found.distance, alone=alone, steps=found.steps, proven=found.proven,
    )  # fmt: skip


def keys() -> None:
    number = 5_000_000
    draws = np.random.default_rng(0)
    table = NoiseTable.of_greatest_entropy(5, 3.0, 2, 0.3)
    counts, sums = draws.poisson(6, number), draws.integers(0, 2**32, number)
    _, took = timed(lambda: table.noisy_counts(counts, sums))
    _, hashing = timed(lambda: record_keys(b"counts", [str(at) for at in range(10**6)]))
    shown("cell keys", took, 10, cells=number, a_million_record_keys=hashing)


if __name__ == "__main__":
    jobs: dict[str, Callable[[], None]] = {
        "patterns": patterns,
        "hierarchical": partial(patterns, HANDBOOK, "hierarchical", 600),
        "losses": losses,
        "optimal": optimal,
        "rounding": rounding,
        "keys": keys,
    }
    for job in sys.argv[1:] or jobs:
        jobs[job]()
