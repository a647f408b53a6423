"""CPU seconds of the exact audit of made tables, compared with those that the specification of tables allows.

    python tests/benchmarks/bench_table_audit.py [name ...]

Each line is a process of its own, so that peaks of memory are its own. Patterns are starts that no audit has repaired
(every relation hides none, or enough for each of its sensitive cells), so that a part of the cells fails. Figures of
GaussSuppression and sdcTable are not measured: R packages are in none of the registries that benchmarks install from.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from recording import record

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Insider, Levels
from privpipe.tables.cells import Cells, Dimension, linked
from privpipe.tables.moves import Hiding
from privpipe.tables.suppression import costs, suppress

Ints = NDArray[np.int64]
FREQUENCY = 10


def dimension(name: str, branches: int, leaves: int) -> Dimension:
    """A tree of two levels below the total."""
    above = {f"{name}{branch}": "Total" for branch in range(branches)}
    below = {f"{name}{b}.{leaf}": f"{name}{b}" for b in range(branches) for leaf in range(leaves)}
    return Dimension.tree(name, above | below)


def leaves_of(cells: Cells) -> NDArray[np.bool_]:
    leaves = np.ones(len(cells), dtype=np.bool_)
    for place, each in enumerate(cells.dimensions):
        leaves &= np.isin(cells.codes[:, place], each.leaves)
    return leaves


def with_totals(cells: Cells, of_leaves: Ints, join: np.ufunc = np.add) -> Ints:
    """Figures of all cells from those of the leaves."""
    shape = tuple(len(each.labels) for each in cells.dimensions)
    figures = np.zeros(shape, dtype=np.int64)
    figures[tuple(cells.codes[leaves_of(cells)].T)] = of_leaves
    for place, each in enumerate(cells.dimensions):
        moved = np.moveaxis(figures, place, 0)
        for code in range(len(each.labels) - 1, 0, -1):
            parent = each.parent[code]
            join(moved[parent], moved[code], out=moved[parent])
    return figures[tuple(cells.codes.T)]


def made_counts(cells: Cells, mean: float, seed: int = 0) -> Ints:
    """Counts of all cells from skewed leaves."""
    draw = np.random.default_rng(seed)
    return with_totals(cells, draw.poisson(np.exp(draw.normal(np.log(mean), 1.6, int(leaves_of(cells).sum())))))


def hidden_start(cells: Cells, counts: Ints, primary: NDArray[np.bool_], needs: Ints) -> NDArray[np.bool_]:
    """Primary cells, and more until in each relation the other hidden cells can make up for each primary one."""
    matrix = cells.relations
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    hidden = primary.copy()
    while True:
        inside = hidden[matrix.indices]
        held = np.bincount(rows, np.where(inside, counts[matrix.indices], 0), minlength=matrix.shape[0])
        missing = np.zeros(matrix.shape[0])
        np.maximum.at(missing, rows, np.where(inside, np.maximum(needs, 1)[matrix.indices], 0))
        missing -= held
        number = np.bincount(rows, inside, minlength=matrix.shape[0])
        missing[number == 1] = np.maximum(missing, 1)[number == 1]
        offered = (missing[rows] > 0) & ~inside & (counts[matrix.indices] > 0)
        if not offered.any():
            return hidden
        row, cell = rows[offered], matrix.indices[offered]
        enough = counts[cell] >= missing[row]
        order = np.lexsort((cell, np.where(enough, counts[cell], -counts[cell]), ~enough, row))
        _, first = np.unique(row[order], return_index=True)
        hidden[cell[order][first]] = True


def problem_of(cells: Cells, counts: Ints, hidden: NDArray[np.bool_], primary: NDArray[np.bool_]) -> AuditProblem:
    """Counts with the frequency rule, levels `masked`."""
    variables = np.flatnonzero(primary)
    n = counts[variables]
    levels = Levels(variables, n - 1, FREQUENCY - 1 - n, np.zeros_like(n))
    low, high = np.where(hidden, 0, counts), np.where(hidden, UNBOUNDED, counts)
    return AuditProblem(cells.relations, low, high, True, counts, levels)


P_PERCENT = 10


def drawn_few(primary: NDArray[np.bool_], share: float) -> NDArray[np.bool_]:
    """As many of the primary cells as make up a share of all."""
    rare = np.random.default_rng(1).random(len(primary)) < share * len(primary) / max(int(primary.sum()), 1)
    return primary & rare


def counts_problem(*shapes: tuple[int, int], mean: float = 15.0) -> AuditProblem:
    """Counts of trees of two levels, 15 % of the cells primary."""
    cells = Cells.complete([dimension(name, *shape) for name, shape in zip("abc", shapes, strict=True)])
    return with_start(cells, made_counts(cells, mean))


def flat_problem(*sizes: int) -> AuditProblem:
    """Counts without trees, hidden by gauss and repaired, as small tables mostly are."""
    names = "abc"[: len(sizes)]
    parents = [{f"{name}{at}": "Total" for at in range(size)} for name, size in zip(names, sizes, strict=True)]
    cells = Cells.complete([Dimension.tree(name, each) for name, each in zip(names, parents, strict=True)])
    problem = with_start(cells, made_counts(cells, 15.0))
    assert problem.true is not None
    assert problem.levels is not None
    counts, none = problem.true, np.zeros(len(cells), dtype=np.int64)
    candidates = counts > 0
    candidates[0] = False
    hiding = Hiding(
        cells.relations,
        counts,
        none,
        none + UNBOUNDED,
        costs("value", counts, counts),
        candidates,
        problem.levels,
        True,
    )
    hidden = suppress(hiding, linked([cells]), method="gauss").hidden
    return problem_of(cells, counts, hidden, hiding.primary)


def with_start(cells: Cells, counts: Ints) -> AuditProblem:
    primary = drawn_few((counts > 0) & (counts < FREQUENCY), 0.15)
    needs = np.where(primary, np.maximum(FREQUENCY - 1, counts), 0)
    return problem_of(cells, counts, hidden_start(cells, counts, primary, needs), primary)


def sums_problem(*shapes: tuple[int, int]) -> AuditProblem:
    """Sums of trees of two levels by the p % rule; who is alone in a hidden cell knows it."""
    cells = Cells.complete([dimension(name, *shape) for name, shape in zip("abc", shapes, strict=True)])
    leaves, draw = leaves_of(cells), np.random.default_rng(2)
    size = int(leaves.sum())
    number = draw.poisson(np.exp(draw.normal(np.log(4.0), 1.2, size)))
    values = np.where(number > 0, np.exp(draw.normal(10, 1.5, size)).astype(np.int64) + 1, 0)
    first = np.where(number == 1, values, (values * draw.beta(2, 4, size)).astype(np.int64) + (number > 0))
    totals, contributors = with_totals(cells, values), with_totals(cells, number)
    largest = with_totals(cells, np.minimum(first, values), np.maximum)
    code = with_totals(cells, np.where(number == 1, np.arange(1, size + 1), 0), np.maximum)
    short = P_PERCENT * largest - 100 * (totals - largest)
    primary = drawn_few((short > 0) & (contributors > 0), 0.15)
    needs = np.where(primary, totals + -(-np.maximum(short, 0) // 100), 0)
    hidden = hidden_start(cells, totals, primary, needs)
    variables = np.flatnonzero(primary)
    lower = np.minimum(short[variables], 100 * totals[variables])
    levels = Levels(variables, lower, short[variables], np.zeros_like(lower), 100)
    alone = np.flatnonzero(hidden & (contributors == 1))
    order = alone[np.argsort(code[alone], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(code[order])) + 1)
    knowing = tuple(Insider(np.sort(own), variables) for own in groups)
    low, high = np.where(hidden, 0, totals), np.where(hidden, UNBOUNDED, totals)
    return AuditProblem(cells.relations, low, high, False, totals, levels, knowing)


def rounded_problem() -> AuditProblem:
    """10,000 counts rounded to multiples of 5 by floor or ceiling; small ones are sensitive."""
    cells = Cells.complete(
        [dimension(name, *shape) for name, shape in zip("abc", ((4, 5), (3, 6), (3, 5)), strict=True)]
    )
    counts = made_counts(cells, 15.0)
    below = counts // 5 * 5
    shown = np.where(np.random.default_rng(3).random(len(counts)) < (counts - below) / 5, below + 5, below)
    small = np.flatnonzero((counts > 0) & (counts < 5))
    none = np.zeros(len(small), dtype=np.int64)
    levels = Levels(small, none, none, none)
    return AuditProblem(cells.relations, np.maximum(shown - 4, 0), shown + 4, True, counts, levels)


def hierarchical_problem() -> AuditProblem:
    """823 x 18 x 10 cells, the first dimension a tree of three levels."""
    parents: dict[str, str] = {}
    for branch in range(6):
        parents[f"a{branch}"] = "Total"
        for middle in range(8):
            parents[f"a{branch}.{middle}"] = f"a{branch}"
            for leaf in range(16):
                parents[f"a{branch}.{middle}.{leaf}"] = f"a{branch}.{middle}"
    trees = [Dimension.tree("a", parents)]
    for name, size in (("b", 17), ("c", 9)):
        trees.append(Dimension.tree(name, {f"{name}{at}": "Total" for at in range(size)}))
    cells = Cells.complete(trees)
    return with_start(cells, made_counts(cells, 15.0))


CASES = {
    "counts, 10,000 cells": (partial(counts_problem, (4, 5), (3, 6), (3, 5)), 30),
    "counts, 100,000 cells": (partial(counts_problem, (6, 7), (6, 6), (6, 7)), 30),
    "counts, 1,000,000 cells": (partial(counts_problem, (9, 10), (9, 10), (10, 10)), 400),
    "sums, p %, singles, 100,000 cells": (partial(sums_problem, (6, 7), (6, 6), (6, 7)), 180),
    "counts, 823 x 18 x 10": (hierarchical_problem, 120),
    "counts, 20 x 20": (partial(flat_problem, 20, 20), 1),
    "counts, 8 x 8 x 8": (partial(flat_problem, 8, 8, 8), 1),
    "rounded counts, 10,000 cells": (rounded_problem, 60),
}
"""Tables, and the CPU seconds that the specification allows."""


def main() -> None:
    """Print a line for each case."""
    if len(sys.argv) != 2:
        for name in sys.argv[1:] or CASES:
            subprocess.run([sys.executable, Path(__file__), name], check=True)
        return
    from privpipe.compiled import load
    from privpipe.tables.exact_audit import audit

    name = sys.argv[1]
    make, allowed = CASES[name]
    load()
    audit(counts_problem((2, 3), (3, 4), (3, 4)))  # compiled code is read, or made
    problem = make()
    start = time.process_time()
    result = audit(problem, time_limit=3600)
    took = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    hidden = int((~problem.published).sum())
    tableaus = result.by_tableaus / max(result.requirements, 1)
    print(
        f"{name}: {took:.1f} CPU s of {allowed}, {memory:.2f} GB, {len(problem.low):,} cells, {hidden:,} hidden, "
        f"largest component {result.largest_component:,}, {tableaus:.1%} by tableaus, {result.programmes:,} programs; "
        f"{result}",
        flush=True,
    )
    figures = {"cells": len(problem.low), "hidden": hidden, "sensitive": len(result.variables), "gigabytes": memory}
    more = {"largest component": result.largest_component, "by tableaus": tableaus, "programs": result.programmes}
    record(name, took=took, baseline=allowed, beside="the specification", unit="CPU s", **figures, **more)


if __name__ == "__main__":
    main()
