"""Patterns of single records, with their sampling weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import ClassBlock, DistinctBlock

__all__ = ["weighted_patterns"]


def weighted_patterns(records: DistinctBlock, matching: bool) -> tuple[ClassBlock, NDArray[np.intp]]:
    """The classes of records, or under `matching` their patterns, with weights; and which each record is in.

    Examples
    --------
    >>> codes, ones = np.array([[0], [0], [1]]), np.ones(3, dtype=np.int64)
    >>> block, owner = weighted_patterns(DistinctBlock(("a",), codes, ones, weights=np.array([2.0, 3.0, 4.0])), False)
    >>> block.sizes.tolist(), block.weights.tolist(), owner.tolist()
    ([2, 1], [5.0, 4.0], [0, 0, 1])
    """
    from privpipe.kernels.columns.arrays import read_only
    from privpipe.kernels.sums.weights import exact_sum_by_class
    from privpipe.kernels.uniqueness.sample_frequencies import informative_frequencies

    blanks = records.blanks if matching else None
    codes = records.codes if blanks is None else np.where(blanks, -1, records.codes)
    patterns, owner = np.unique(codes, axis=0, return_inverse=True)
    owner = owner.ravel()
    order = np.argsort(owner, kind="stable")
    offsets = np.searchsorted(owner[order], np.arange(len(patterns) + 1)).astype(np.int64)
    counts = records.counts[order]
    cells = read_only(np.asarray(records.weights)[order], np.float64), read_only(counts, np.int64)
    weights = np.asarray(exact_sum_by_class(read_only(offsets, np.int64), *cells), dtype=np.float64)
    sizes = np.bincount(owner, weights=records.counts, minlength=len(patterns)).astype(np.int64)
    if not matching:
        return ClassBlock(sizes, weights=weights), owner
    found = informative_frequencies(patterns, sizes, weights)
    block = ClassBlock(
        sizes,
        matching=found.matching,
        weights=found.weights,
        partial=found.partial,
        partial_weights=found.partial_weights,
    )
    return block, owner
