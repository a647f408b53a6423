"""Patterns of hidden cells found subtable by subtable, from the top of the hierarchies to the bottom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.tables.audit_problem import Levels
from privpipe.tables.cells import Cells, Dimension, LinkedCells
from privpipe.tables.least_cost_patterns import Limits, least_cost
from privpipe.tables.moves import Hiding

__all__ = ["Subtable", "hierarchical", "subtables"]


@dataclass(frozen=True)
class Subtable:
    """Cells of one inner node of each dimension and its children.

    Parameters
    ----------
    cells : ndarray of int64
        Variables of the linked tables.
    inner : ndarray of bool
        Which of them are not margins: a child in every dimension that has children here.
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
    """Labels with children; only the total where no label has any or children do not add up."""
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


SUBTABLE_LIMITS = Limits(nodes=1_000, rounds=20, entries=500_000)
LARGE_SUBTABLE = 300
LARGE_LIMITS = Limits(nodes=0, rounds=0, entries=0)
"""A subtable with more cells to choose from gets the cheapest moves one after the other, without cuts."""


def hierarchical(hiding: Hiding, linked: LinkedCells, hidden: Bools) -> Bools:
    """Protect the hidden cells of each subtable on its own, its margins as the subtables above left them.

    Source: de Wolf, HiTaS, LNCS 2316 (2002). Hidden margins must not be exact. Where inner cells do not suffice,
    margins are hidden too, and the subtables that have them are done again; hidden cells only grow in number. What
    cannot be protected in its subtable is left to the audit of the whole table and its repair.

    Parameters
    ----------
    hiding : Hiding
    linked : LinkedCells
    hidden : ndarray of bool
        Cells that are hidden already, the sensitive ones among them.

    Returns
    -------
    ndarray of bool
    """
    hidden = hidden.copy()
    parts = list(subtables(linked))
    holding: dict[int, list[int]] = {}
    for at, part in enumerate(parts):
        for cell in part.cells.tolist():
            holding.setdefault(cell, []).append(at)
    level_of = np.full(len(hiding), -1)
    level_of[hiding.levels.variables] = np.arange(len(hiding.levels.variables))
    waiting = {at for at, part in enumerate(parts) if hidden[part.cells].any()}
    while waiting:
        at = min(waiting)
        waiting.discard(at)
        added = _protected(hiding, parts[at], hidden, level_of)
        hidden[added] = True
        for cell in added.tolist():
            # The cell's other subtables have a hidden cell more; those that come later have it from the start.
            waiting.update(other for other in holding[cell] if other != at)
    return hidden


def _protected(hiding: Hiding, part: Subtable, hidden: Bools, level_of: Ints) -> Ints:
    """Cells to be hidden in addition, so that those hidden in a subtable are protected within it."""
    cells, inner = part.cells, part.inner
    protected = hidden[cells]
    if hiding.given is not None:
        # Unpublished cells may turn out exact.
        protected = protected & (hiding.primary[cells] | ~hiding.given[cells])
    here = np.flatnonzero(protected)
    if not len(here):
        return cells[:0]
    at = np.where(inner[here], level_of[cells[here]], -1)
    known = at >= 0
    levels = hiding.levels
    lower, upper, span = (
        np.where(known, figures[at], 0) if len(figures) else np.zeros(len(here), dtype=np.int64)
        for figures in (levels.lower, levels.upper, levels.span)
    )
    problem = Hiding(
        part.relations,
        hiding.true[cells],
        hiding.low[cells],
        hiding.high[cells],
        hiding.cost[cells],
        hiding.candidates[cells] & inner,
        Levels(here.astype(np.int64), lower, upper, span, levels.denominator),
        hiding.whole,
        given=None if hiding.given is None else hiding.given[cells],
    )
    limits = SUBTABLE_LIMITS if int(problem.open.sum()) <= LARGE_SUBTABLE else LARGE_LIMITS
    found = least_cost(problem, limits)
    if found.unattainable:
        found = least_cost(replace(problem, candidates=hiding.candidates[cells]), limits)
    return cells[found.hidden & ~hidden[cells]]
