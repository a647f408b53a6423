"""Small random tables that add up, and programmes of the tests that search all tables or patterns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privpipe.tables.cells import Cells, Dimension

Ints = NDArray[np.int64]


def flat(name: str, size: int) -> Dimension:
    return Dimension.tree(name, {f"{name}{at}": "Total" for at in range(1, size + 1)})


def nested(name: str, *sizes: int) -> Dimension:
    """A tree of two levels: as many inner labels as sizes, each with so many leaves."""
    parents: dict[str, str] = {}
    for at, size in enumerate(sizes, 1):
        parents[f"{name}{at}"] = "Total"
        parents |= {f"{name}{at}.{below}": f"{name}{at}" for below in range(1, size + 1)}
    return Dimension.tree(name, parents)


def inner_cells(cells: Cells) -> Ints:
    leaf = [np.isin(cells.codes[:, at], dimension.leaves) for at, dimension in enumerate(cells.dimensions)]
    return np.flatnonzero(np.logical_and.reduce(leaf))


def added_up(cells: Cells, inner: Sequence[int]) -> Ints:
    """Values of all cells from those of the inner ones, by the definition."""
    values = np.zeros(len(cells), dtype=np.int64)
    for cell, value in zip(inner_cells(cells).tolist(), inner, strict=True):
        for above in above_and_itself(cells, cell):
            values[above] += value
    return values


def above_and_itself(cells: Cells, cell: int) -> Iterator[int]:
    """Every cell that a cell is part of."""
    where = {tuple(codes): at for at, codes in enumerate(cells.codes.tolist())}
    ways = []
    for place, dimension in enumerate(cells.dimensions):
        way, code = [], int(cells.codes[cell, place])
        while code >= 0:
            way.append(code)
            code = dimension.parent[code]
        ways.append(way)
    yield from (where[codes] for codes in product(*ways))


SHAPES = [
    (flat("a", 3), flat("b", 2)),
    (flat("a", 2), flat("b", 4)),
    (nested("a", 2, 2), flat("b", 2)),
    (flat("a", 2), flat("b", 2), flat("c", 2)),
    (nested("a", 2, 3),),
]


def random_table(seed: int, mean: float = 4.0) -> tuple[Cells, Ints]:
    """Counts of a table of one of a few shapes."""
    draws = np.random.default_rng(seed)
    cells = Cells.complete(SHAPES[seed % len(SHAPES)])
    lot = np.exp(draws.normal(0, 0.8, len(inner_cells(cells)))) * mean
    return cells, added_up(cells, draws.poisson(lot).tolist())
