"""Class blocks written out by hand, for tests of a single model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privpipe.blocks import Cells, ClassBlock, Facts, Guarantee, Histogram, Verdict

__all__ = ["block_of", "facts_of", "judged"]


def block_of(**columns: Sequence[Sequence[int]]) -> ClassBlock:
    """A class block from a matrix a column: one row a class, one entry a value code, 0 where it is absent.

    Examples
    --------
    >>> block = block_of(illness=[[2, 0, 1], [0, 3, 0]])
    >>> block.sizes.tolist(), block.cells["illness"].codes.tolist()
    ([3, 3], [0, 2, 1])
    """
    cells, sizes = {}, np.zeros(0, dtype=np.int64)
    for name, rows in columns.items():
        pairs = [[(code, count) for code, count in enumerate(row) if count] for row in rows]
        flat = np.array([pair for row in pairs for pair in row], dtype=np.int64).reshape(-1, 2)
        cells[name] = Cells(np.cumsum([0, *map(len, pairs)]), flat[:, 0].copy(), flat[:, 1].copy())
        sizes = np.array([sum(row) for row in rows], dtype=np.int64)
    return ClassBlock(sizes, cells)


def facts_of(block: ClassBlock) -> Facts:
    """Facts whose base is that of the block itself, with the codes 0, 1, ... as values.

    Examples
    --------
    >>> facts_of(block_of(illness=[[2, 1], [1, 0]])).base("illness").tolist()
    [0.75, 0.25]
    """
    import pyarrow as pa

    histograms = {}
    for name, cells in block.cells.items():
        counts = np.bincount(cells.codes, weights=cells.counts).astype(np.int64)
        if not counts.all():
            raise ValueError(f"some code of {name} has no record")
        histograms[name] = Histogram(pa.array(np.arange(len(counts))), counts)
    return Facts(records=block.records, histograms=histograms)


def judged(model: Guarantee, block: ClassBlock, facts: Facts | None = None) -> Verdict:
    """The verdict of one model over one block; facts are the block's own unless given.

    Examples
    --------
    >>> from privpipe.models import DistinctLDiversity
    >>> judged(DistinctLDiversity(column="illness", l=2), block_of(illness=[[2, 1], [3, 0]])).observed
    1
    """
    facts = facts_of(block) if facts is None else facts
    return model.judge(model.measure(block, facts), facts)
