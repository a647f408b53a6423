"""What readers know of totals whose parts overlap: no part is greater, and their sum is not less."""

from __future__ import annotations

import numpy as np
import scipy

from privpipe.tables.cells import LinkedCells
from privpipe.tables.integer_matrices import Integers, Matrix, matrix_of

__all__ = ["overlaps_of", "with_overlaps"]


def with_overlaps(cells: LinkedCells, true: Integers | None = None) -> tuple[Matrix, Integers | None]:
    """The relations of some tables, and for each total along an overlapping dimension: part <= total <= sum of parts.

    Each inequality has one more variable, which is at least 0.

    Parameters
    ----------
    true : ndarray of int64, shape (variables,), optional

    Returns
    -------
    csr_array
        Over the variables of the cells, then those of inequalities.
    ndarray of int64 or None
        The true figures of the latter, where the others are known.
    """
    overlaps = overlaps_of(cells)
    if not overlaps.shape[0]:
        return cells.relations, None if true is None else np.empty(0, dtype=np.int64)
    entries = overlaps.tocoo()
    rows, size = overlaps.shape
    whole = np.zeros(rows, dtype=np.int64)
    whole[entries.row[entries.data > 0]] = entries.col[entries.data > 0]
    part = np.flatnonzero(entries.data < 0)
    every, pairs = np.arange(rows), np.arange(len(part))
    above, below = whole[entries.row[part]], entries.col[part].astype(np.int64)
    ones = np.ones(len(part), dtype=np.int64)
    more = rows + len(part)
    # Total - parts + slack = 0, and total - part - slack = 0.
    inequalities = matrix_of(
        np.concatenate([entries.data, np.ones(rows, dtype=np.int64), ones, -ones, -ones]),
        np.concatenate([entries.row.astype(np.int64), every, rows + pairs, rows + pairs, rows + pairs]),
        np.concatenate([entries.col.astype(np.int64), size + every, above, below, size + rows + pairs]),
        (more, size + more),
    )
    own = cells.relations.tocoo()
    shape = (cells.relations.shape[0], size + more)
    wider = matrix_of(own.data, own.row.astype(np.int64), own.col.astype(np.int64), shape)
    distances = None
    if true is not None:
        distances = np.concatenate([-(overlaps @ true), true[above] - true[below]]).astype(np.int64)
    return scipy.sparse.csr_array(scipy.sparse.vstack([wider, inequalities])), distances


def overlaps_of(cells: LinkedCells) -> Matrix:
    """Totals along overlapping dimensions and their parts, over all variables."""
    parts = []
    for table, variables in zip(cells.tables, cells.variables, strict=True):
        entries = table.overlaps.tocoo()
        shape = (table.overlaps.shape[0], cells.size)
        parts.append(matrix_of(entries.data, entries.row.astype(np.int64), variables[entries.col], shape))
    return scipy.sparse.csr_array(scipy.sparse.vstack(parts))
