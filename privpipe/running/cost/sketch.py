"""How many distinct values and combinations a table has, and how wide its cells are: by one pass, within some 3 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from privpipe.blocks import Facts, RowBlock
from privpipe.draws import Seed
from privpipe.kernels.ids.record_ids import content_hash

__all__ = ["KEPT", "Sketch", "TableSketch"]

KEPT = 1024
"""Smallest hashes that are kept: the estimate has a standard error of 3 %, and below so many values it is exact."""
SAMPLED = 1000
"""Rows of a block whose cells are written out to learn how long they are as text."""
FIXED_BYTES = 8
Words = NDArray[np.uint64]
_FIRST, _SECOND, _ODD = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB), np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Sketch:
    """What one look at the rows leaves behind; no value can be had from it, only how many there are.

    Parameters
    ----------
    rows : int
    smallest : mapping of str to ndarray of uint64
        The smallest distinct hashes of each column, and of each set of columns.
    held_bytes : mapping of column to float
        Bytes of its cells in memory.
    text_bytes : mapping of column to float
        Bytes of its cells written out.
    """

    rows: int
    smallest: Mapping[str, Words] = field(repr=False)
    held_bytes: Mapping[str, float] = field(default_factory=dict)
    text_bytes: Mapping[str, float] = field(default_factory=dict)

    def distinct(self, name: str) -> int:
        """Distinct values of a column, or combinations of a set.

        Examples
        --------
        >>> Sketch(3, {"age": np.array([5, 9], dtype=np.uint64)}).distinct("age")
        2
        """
        seen = self.smallest[name]
        if len(seen) < KEPT:
            return len(seen)
        # The k-th smallest of d uniform numbers lies at k / (d + 1) on average.
        return min(self.rows, round((KEPT - 1) / (float(seen[-1]) / 2.0**64)))


@dataclass(frozen=True)
class TableSketch:
    """A reduction that gathers a sketch. Source: Bar-Yossef et al., RANDOM 2002 (the k smallest hashes).

    Parameters
    ----------
    sets : mapping of str to tuple of str
        Columns whose combinations are counted, by the name of the set.
    """

    sets: Mapping[str, tuple[str, ...]]

    def measure(self, block: RowBlock, facts: Facts) -> Sketch:
        """The sketch of a block."""
        hashes: dict[str, Words] = {}
        held, text = {}, {}
        for name in block.schema.names:
            column = block.batch.column(name)
            hashes[name] = _hashed(column)
            held[name], text[name] = _widths(column)
        smallest = {name: _smallest(each) for name, each in hashes.items()}
        for name, columns in self.sets.items():
            smallest[name] = _smallest(_mixed([hashes[column] for column in columns], len(block)))
        return Sketch(len(block), smallest, held, text)

    def merge(self, left: Sketch, right: Sketch) -> Sketch:
        """The smallest hashes of both; bytes add up."""
        return Sketch(
            left.rows + right.rows,
            {name: _smallest(np.concatenate([each, right.smallest[name]])) for name, each in left.smallest.items()},
            {name: each + right.held_bytes[name] for name, each in left.held_bytes.items()},
            {name: each + right.text_bytes[name] for name, each in left.text_bytes.items()},
        )


def _hashed(column: pa.Array) -> Words:
    """A hash of each cell; equal values have equal hashes whatever block they are in."""
    coded = pc.dictionary_encode(column, null_encoding="encode")
    # Nothing secret is hashed for others to see, so the key may be known; a fixed one gives the same estimate again.
    words = content_hash(pa.table({"value": coded.dictionary}), Seed.insecure(0))[:, 0].view(np.uint64)
    hashes: Words = words[coded.indices.to_numpy(zero_copy_only=False)]
    return hashes


def _mixed(hashes: list[Words], rows: int) -> Words:
    """A hash of each row over several columns."""
    mixed = np.full(rows, _ODD, dtype=np.uint64)
    for each in hashes:
        mixed = (mixed ^ each) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(29))) * _SECOND
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _smallest(hashes: Words) -> Words:
    if len(hashes) > 8 * KEPT:
        some = hashes[hashes <= np.partition(hashes, 4 * KEPT)[4 * KEPT]]
        found = np.unique(some)
        if len(found) >= KEPT:
            return found[:KEPT]
    return np.unique(hashes)[:KEPT]


def _widths(column: pa.Array) -> tuple[float, float]:
    """Bytes of a column's cells in memory, and written out."""
    rows = len(column)
    if pt.is_string(column.type) or pt.is_large_string(column.type) or pt.is_binary(column.type):
        size = float(pc.sum(pc.binary_length(column)).as_py() or 0)
        return size + 4.0 * rows, size
    some = column[:SAMPLED]
    try:
        size = float(pc.sum(pc.binary_length(some.cast(pa.string()))).as_py() or 0)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        size = float(FIXED_BYTES * len(some))
    return float(FIXED_BYTES * rows), size * rows / max(len(some), 1)
