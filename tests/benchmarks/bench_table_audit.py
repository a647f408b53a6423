"""CPU seconds of the audit of made tables of counts and sums, by number of cells.

    python tests/benchmarks/bench_table_audit.py [cells ...]

The pattern is a start that no audit has repaired: every relation hides none or at least two cells.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.audit_problem import UNBOUNDED, AuditProblem, Levels
from privpipe.tables.cells import Cells, Dimension

Ints = NDArray[np.int64]
FREQUENCY = 10


def dimension(name: str, branches: int, leaves: int) -> Dimension:
    """A tree of two levels below the total."""
    above = {f"{name}{branch}": "Total" for branch in range(branches)}
    below = {f"{name}{b}.{leaf}": f"{name}{b}" for b in range(branches) for leaf in range(leaves)}
    return Dimension.tree(name, above | below)


def made_counts(cells: Cells, mean: float, seed: int = 0) -> Ints:
    """Counts of all cells from skewed leaves."""
    draw = np.random.default_rng(seed)
    leaves = np.ones(len(cells), dtype=np.bool_)
    for place, each in enumerate(cells.dimensions):
        leaves &= np.isin(cells.codes[:, place], each.leaves)
    shape = tuple(len(each.labels) for each in cells.dimensions)
    counts = np.zeros(shape, dtype=np.int64)
    where = tuple(cells.codes[leaves].T)
    counts[where] = draw.poisson(np.exp(draw.normal(np.log(mean), 1.6, int(leaves.sum()))))
    for place, each in enumerate(cells.dimensions):
        moved = np.moveaxis(counts, place, 0)
        for code in range(len(each.labels) - 1, 0, -1):
            moved[each.parent[code]] += moved[code]
    return counts[tuple(cells.codes.T)]


def hidden_start(cells: Cells, counts: Ints, primary: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Primary cells, and more until in each relation the other hidden cells can make up for each primary one."""
    matrix = cells.relations
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    hidden = primary.copy()
    needs = np.where(primary, np.maximum(FREQUENCY - 1, counts), 0)
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


SHAPES = {
    10_000: ((4, 5), (3, 6), (3, 5)),
    100_000: ((6, 7), (6, 6), (6, 7)),
    268_000: ((8, 7), (7, 8), (8, 8)),
    1_000_000: ((9, 10), (9, 10), (10, 10)),
}


def made_problem(size: int) -> AuditProblem:
    """A table of about so many cells, of which about 15 % are primary."""
    names = ("a", "b", "c")
    cells = Cells.complete([dimension(name, *shape) for name, shape in zip(names, SHAPES[size], strict=True)])
    counts = made_counts(cells, 15.0)
    primary = (counts > 0) & (counts < FREQUENCY)
    rare = np.random.default_rng(1).random(len(cells)) < 0.15 * len(cells) / max(int(primary.sum()), 1)
    primary &= rare | (counts < 0)
    return problem_of(cells, counts, hidden_start(cells, counts, primary), primary)


def main() -> None:
    """Print a line for each size."""
    for size in [int(given) for given in sys.argv[1:]] or list(SHAPES):
        problem = made_problem(size)
        from privpipe.tables.exact_audit import audit

        start = time.process_time()
        result = audit(problem)
        spent = time.process_time() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        hidden = int((~problem.published).sum())
        print(
            f"{len(problem.low)} cells, {hidden} hidden: {spent:.1f} CPU s, {memory:.2f} GB, "
            f"{result.programmes} programmes, largest component {result.largest_component}; {result}",
            flush=True,
        )


if __name__ == "__main__":
    main()
