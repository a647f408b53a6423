"""Nested differences: published cells whose difference is a small population."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from privpipe.blocks.arrays import Bools, Ints
from privpipe.errors import UsageError
from privpipe.tables.cells import Cells, Dimension

__all__ = ["Differences", "Differencing", "atoms_of_leaves", "nested_differences", "nested_pairs", "small_rests"]


PRODUCTS = 20_000_000
"""Pairs of cells that are looked at together."""


@dataclass(frozen=True)
class Differences:
    """Small populations that published counts give away.

    Parameters
    ----------
    outer, inner : ndarray of int64
        Pairs of cells, one inside the other, by their place among all cells of all tables.
    rests : ndarray of int64
        Cells whose published parts, disjoint and of one level, leave few.
    """

    outer: Ints
    inner: Ints
    rests: Ints

    def __len__(self) -> int:
        return len(self.outer) + len(self.rests)


@dataclass(frozen=True, kw_only=True)
class Differencing:
    """The difference of two published cells, one inside the other, is empty or has at least so many contributors.

    Parameters
    ----------
    at_least : int
        n; a difference A minus B with 0 < |A minus B| < n fails, and one of n does not. The same of A without several
        disjoint cells of one level.

    Examples
    --------
    >>> populations = np.array([20, 19, 1])
    >>> inside = scipy.sparse.csr_array(np.array([[1, 1, 1], [0, 1, 1], [1, 0, 0]]))
    >>> found = Differencing(at_least=10).failures(inside, populations, np.array([True, True, False]))
    >>> found.outer.tolist(), len(Differencing(at_least=10).failures(inside, np.array([10, 19, 1])))
    ([], 0)
    >>> len(Differencing(at_least=21).failures(inside, populations, np.array([True, True, False])))
    1
    """

    at_least: int

    def __post_init__(self) -> None:
        if isinstance(self.at_least, bool) or not isinstance(self.at_least, int) or self.at_least < 1:
            raise UsageError(f"differencing: at_least must be an integer of at least 1, got {self.at_least!r}")

    def failures(
        self,
        inside: scipy.sparse.csr_array,
        populations: Ints,
        published: NDArray[np.bool_] | None = None,
        relations: scipy.sparse.csr_array | None = None,
    ) -> Differences:
        """Small differences between published cells.

        Parameters
        ----------
        inside : csr_array, shape (cells, atoms), entries 1
            Atoms that each cell is made of; cells of all tables together.
        populations : ndarray of int64, shape (atoms,)
            Contributors of each atom; each contributor is in one atom.
        published : ndarray of bool, shape (cells,), optional
        relations : csr_array, optional
            Parent minus children, for the parts of one level.
        """
        shown = np.ones(inside.shape[0], dtype=np.bool_) if published is None else published
        sizes = np.asarray(inside @ populations, dtype=np.int64)
        outer, inner = self._pairs(inside, populations, sizes, shown)
        rests = np.empty(0, dtype=np.int64)
        if relations is not None:
            rests = small_rests(relations, sizes, shown, self.at_least)
        return Differences(outer, inner, rests)

    def _pairs(
        self, inside: scipy.sparse.csr_array, populations: Ints, sizes: Ints, shown: NDArray[np.bool_]
    ) -> tuple[Ints, Ints]:
        found = [
            (outer[rest < self.at_least], inner[rest < self.at_least])
            for outer, inner, rest in _nested(inside, populations, sizes, shown)
        ]
        return _gathered(found)


def small_rests(relations: scipy.sparse.csr_array, sizes: Ints, shown: NDArray[np.bool_], at_least: int) -> Ints:
    """Published cells that at least two published parts of one level leave few members of.

    Parameters
    ----------
    relations : csr_array, shape (relations, cells)
        Parent minus children.
    sizes : ndarray of int64, shape (cells,)
        Contributors; they mean something where `shown`.

    Examples
    --------
    >>> parts = scipy.sparse.csr_array(np.array([[1, -1, -1, -1]]))
    >>> small_rests(parts, np.array([20, 10, 8, 0]), np.array([True, True, True, False]), 5).tolist()
    [0]
    """
    entries = relations.tocoo()
    known = shown[entries.col] & (sizes[entries.col] > 0)
    parents = (entries.data > 0) & shown[entries.col]
    rows = relations.shape[0]
    whole = np.full(rows, -1, dtype=np.int64)
    whole[entries.row[parents]] = entries.col[parents]
    parts = known & (entries.data < 0)
    taken = np.bincount(entries.row[parts], weights=None, minlength=rows)
    left = np.zeros(rows, dtype=np.int64)
    np.add.at(left, entries.row[parts], sizes[entries.col[parts]])
    rest = np.where(whole >= 0, sizes[whole], 0) - left
    small = (whole >= 0) & (taken >= 2) & (rest > 0) & (rest < at_least)
    return np.unique(whole[small])


def nested_pairs(
    inside: scipy.sparse.csr_array,
    populations: Ints,
    sources: Sequence[NDArray[np.bool_]],
    *,
    least: int,
    closest: bool = False,
) -> tuple[Ints, Ints]:
    """Pairs of published cells, one inside the other, that are not both in one of some sources.

    Parameters
    ----------
    inside : csr_array, shape (cells, atoms), entries 1
    populations : ndarray of int64, shape (atoms,)
        Contributors of each atom.
    sources : sequence of ndarray of bool, shape (cells,)
        What each source publishes.
    least : int
        Pairs that differ by fewer contributors than this are found, and no pair that differs by none.
    closest : bool
        In addition, whatever the difference: for each cell the largest inside it, and the smallest around it.

    Returns
    -------
    outer, inner : ndarray of int64
    """
    shown = np.logical_or.reduce(sources)
    if len(sources) < 2 or any(np.array_equal(shown, source) for source in sources):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    sizes = np.asarray(inside @ populations, dtype=np.int64)
    near: list[tuple[Ints, Ints]] = []
    far: list[tuple[Ints, Ints]] = []
    for outer, inner, rest in _nested(inside, populations, sizes, shown):
        apart = ~np.logical_or.reduce([source[outer] & source[inner] for source in sources])
        near.append((outer[apart & (rest < least)], inner[apart & (rest < least)]))
        if closest:
            far.append((outer[apart], inner[apart]))
    outer, inner = _gathered(near)
    if closest:
        around, within = _gathered(far)
        chosen = np.zeros(len(around), dtype=np.bool_)
        for of, size in ((around, -sizes[within]), (within, sizes[around])):
            order = np.lexsort((size, of))
            chosen[order[np.flatnonzero(np.diff(of[order], prepend=-1))]] = True
        both = np.unique(
            np.column_stack([np.concatenate([outer, around[chosen]]), np.concatenate([inner, within[chosen]])]), axis=0
        )
        outer, inner = both[:, 0], both[:, 1]
    return outer, inner


def _nested(
    inside: scipy.sparse.csr_array, populations: Ints, sizes: Ints, shown: NDArray[np.bool_]
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Shown cells with another one inside, and how many contributors they have more than it; in runs of cells."""
    # Atoms without members join nothing; an empty cell inside another differs from it by the whole of that one,
    # which the frequency rule judges.
    cells = np.flatnonzero(shown & (sizes > 0))
    atoms = np.flatnonzero(populations > 0)
    chosen = scipy.sparse.csr_array(inside[cells][:, atoms]).astype(np.int64)
    chosen.sum_duplicates()
    weighted = chosen.multiply(populations[atoms][None, :]).tocsr()
    transposed = chosen.T.tocsr()
    # Rows of the product that a run of cells makes, from how many cells each atom is in.
    work = np.cumsum(chosen @ np.diff(transposed.indptr).astype(np.int64))
    start = 0
    while start < len(cells):
        done = work[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(work, done + PRODUCTS, side="right")))
        shared = scipy.sparse.coo_array(weighted[start:end] @ transposed)
        outer, inner = shared.row + start, shared.col
        rest = sizes[cells[outer]] - shared.data
        # All of the inner cell is shared, and the outer has more.
        kept = (shared.data == sizes[cells[inner]]) & (rest > 0)
        yield cells[outer[kept]], cells[inner[kept]], rest[kept]
        start = end


def _gathered(pairs: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    none = np.empty(0, dtype=np.int64)
    return np.concatenate([none, *(one for one, _ in pairs)]), np.concatenate([none, *(other for _, other in pairs)])


def atoms_of_leaves(tables: Sequence[Cells], leaves: Cells) -> scipy.sparse.csr_array:
    """Which atoms each cell of each table is made of, where atoms are the leaf cells of one grouping.

    Parameters
    ----------
    tables : sequence of Cells
    leaves : Cells
        Of all dimensions, and all columns of `only`, of all tables; those dimensions may go deeper than the tables'.

    Returns
    -------
    csr_array, shape (cells of all tables, leaves), entries 1

    Raises
    ------
    UsageError
        A table has a dimension or a label that the leaves do not have.
    """
    return scipy.sparse.csr_array(scipy.sparse.vstack([_inside(table, leaves) for table in tables]))


def _inside(table: Cells, leaves: Cells) -> scipy.sparse.csr_array:
    names = [dimension.name for dimension in leaves.dimensions]
    wanted = {dimension.name for dimension in table.dimensions} | set(table.only)
    if not wanted <= set(names):
        raise UsageError(f"differencing: {sorted(wanted - set(names))} are not dimensions of the common grouping")
    kept = np.arange(len(leaves))
    for column, label in table.only.items():
        place = names.index(column)
        above = _ancestors(leaves, place, {label: 0})
        kept = kept[above[leaves.codes[kept, place]][:, 0] == 0] if above.size else kept[:0]
    # Each leaf in each combination of its ancestors' labels.
    rows, keys = kept, np.zeros(len(kept), dtype=np.int64)
    for dimension in table.dimensions:
        place = names.index(dimension.name)
        above = _ancestors(leaves, place, dimension.codes)[leaves.codes[rows, place]]
        one, depth = np.nonzero(above >= 0)
        rows, keys = rows[one], keys[one] * len(dimension.labels) + above[one, depth]
    order = np.argsort(table.keys)
    sorted_keys = table.keys[order]
    at = np.minimum(np.searchsorted(sorted_keys, keys), len(order) - 1)
    there = sorted_keys[at] == keys
    shape = (len(table), len(leaves))
    data = np.ones(int(there.sum()), dtype=np.int64)
    return scipy.sparse.csr_array((data, (order[at[there]], rows[there])), shape=shape)


def _ancestors(leaves: Cells, place: int, codes: dict[str, int]) -> Ints:
    """For each label of a dimension, the codes of itself and of those above it among other codes; -1 for the rest."""
    dimension = leaves.dimensions[place]
    depth = int(dimension.depth.max(initial=0)) + 1
    found = np.full((len(dimension.labels), depth), -1, dtype=np.int64)
    known = np.array([codes.get(label, -1) for label in dimension.labels], dtype=np.int64)
    code = np.arange(len(dimension.labels))
    parent = np.asarray(dimension.parent, dtype=np.int64)
    for step in range(depth):
        found[:, step] = np.where(code >= 0, known[code], -1)
        code = np.where(code >= 0, parent[code], -1)
    return found


def nested_differences(
    tables: Sequence[Cells], counts: Sequence[Ints], shown: Sequence[Bools], at_least: int, *, between: bool = False
) -> int:
    """How many pairs of published cells, one inside the other, differ by some contributors and fewer than `at_least`.

    Parameters
    ----------
    counts : sequence of ndarray of int64
        Contributors of each cell; they mean something where `shown`.
    between : bool
        Look only at pairs of two tables.

    Examples
    --------
    >>> region = Dimension.tree("region", {"North": "Total", "South": "Total"})
    >>> cells = Cells.complete([region])
    >>> nested_differences([cells], [np.array([20, 18, 2])], [np.array([True, True, False])], 5)
    1
    """
    found = 0
    for at, outer in enumerate(tables):
        for other, inner in enumerate(tables):
            if between and at == other:
                continue
            pairs = atoms_of_leaves([outer], _with_dimensions(inner, outer)).tocoo()
            whole, part = pairs.row, pairs.col
            rest = counts[at][whole] - counts[other][part]
            seen = shown[at][whole] & shown[other][part] & (counts[other][part] > 0)
            found += int((seen & (rest > 0) & (rest < at_least)).sum())
    return found


def _with_dimensions(inner: Cells, outer: Cells) -> Cells:
    """The same cells with a dimension for each column that restricts either table, and each that only `outer` has."""
    dimensions, codes = list(inner.dimensions), [inner.codes]
    present = {each.name for each in dimensions}
    for name, label in inner.only.items():
        if name not in present:
            total = next((each.labels[0] for each in outer.dimensions if each.name == name), "")
            dimensions.append(Dimension(name, (total, label), (-1, 0)))
            codes.append(np.ones((len(inner), 1), dtype=np.int64))
            present.add(name)
    totals = {each.name: each.labels[0] for each in outer.dimensions}
    for name in (*totals, *outer.only):
        if name not in present:
            dimensions.append(Dimension(name, (totals.get(name, ""),), (-1,)))
            codes.append(np.zeros((len(inner), 1), dtype=np.int64))
            present.add(name)
    return Cells(tuple(dimensions), np.concatenate(codes, axis=1))
