"""Differences of published cells of finished tables, one inside the other by their labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privpipe.blocks.arrays import Bools, Ints
from privpipe.tables.cells import Cells, Dimension
from privpipe.tables.differencing import atoms_of_leaves

__all__ = ["nested_differences"]


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
