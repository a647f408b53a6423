"""Subtables: an inner node of each dimension with its children, from the top to the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Ints
from privpipe.tables.cells import Cells, Dimension, LinkedCells

__all__ = ["Subtable", "subtables"]


@dataclass(frozen=True)
class Subtable:
    """Cells of one inner node of each dimension and its children.

    Parameters
    ----------
    cells : ndarray of int64
        Variables of the linked tables.
    inner : ndarray of bool
        Which of them are no margin: a child in every dimension that has children here.
    relations : csr_array of int64, shape (relations, cells of the subtable)
    """

    cells: Ints
    inner: NDArray[np.bool_]
    relations: scipy.sparse.csr_array


def subtables(linked: LinkedCells) -> Iterator[Subtable]:
    """All subtables of linked tables with a relation, in the order of the summed depth of their nodes, then of labels.

    Examples
    --------
    >>> from privpipe.tables.cells import linked
    >>> tree = Dimension.tree("a", {"1": "T", "2": "T", "1a": "1", "1b": "1"})
    >>> [part.cells.tolist() for part in subtables(linked([Cells.complete([tree])]))]
    [[0, 1, 2], [1, 3, 4]]
    """
    waiting = []
    for at, table in enumerate(linked.tables):
        nodes = [_nodes(dimension) for dimension in table.dimensions]
        for node in product(*nodes):
            depth = sum(int(d.depth[code]) for d, code in zip(table.dimensions, node, strict=True))
            labels = tuple(d.labels[code] for d, code in zip(table.dimensions, node, strict=True))
            waiting.append((depth, at, labels, node))
    places = [{int(key): at for at, key in enumerate(table.keys.tolist())} for table in linked.tables]
    for _, at, _, node in sorted(waiting):
        found = _subtable(linked.tables[at], linked.variables[at], places[at], node)
        if found.relations.shape[0]:
            yield found


def _nodes(dimension: Dimension) -> list[int]:
    """Labels with children; the total alone where no label has any or children do not add up."""
    if dimension.overlapping:
        return list(range(len(dimension.labels)))
    return [code for code, below in enumerate(dimension.children) if below] or [0]


def _subtable(table: Cells, variables: Ints, places: dict[int, int], node: tuple[int, ...]) -> Subtable:
    below = [
        () if dimension.overlapping else dimension.children[code]
        for dimension, code in zip(table.dimensions, node, strict=True)
    ]
    flat = tuple(
        Dimension(dimension.name, tuple(dimension.labels[c] for c in (code, *children)), (-1,) + (0,) * len(children))
        for dimension, code, children in zip(table.dimensions, node, below, strict=True)
    )
    codes = [(code, *children) for code, children in zip(node, below, strict=True)]
    rows, cells = [], []
    for place in product(*(range(len(of)) for of in codes)):
        key = 0
        for of, code, size in zip(codes, place, table.shape, strict=True):
            key = key * size + of[code]
        cell = places.get(key)
        if cell is not None:
            rows.append(place)
            cells.append(cell)
    within = Cells(flat, np.array(rows, dtype=np.int64).reshape(-1, len(flat)))
    deep = np.array([bool(children) for children in below])
    inner = ((within.codes > 0) | ~deep).all(axis=1) if len(rows) else np.zeros(0, dtype=np.bool_)
    return Subtable(variables[np.array(cells, dtype=np.int64)], inner, within.relations)
