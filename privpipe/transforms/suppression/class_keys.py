"""Classes by hashes of their keys: what a worker must know to drop them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock
from privpipe.draws import Seed

__all__ = ["KeysDropped"]


@dataclass(frozen=True)
class KeysDropped:
    """Removes the records of some classes, known by a 128-bit null-safe hash of their key."""

    keys: tuple[str, ...]
    hashes: Any = field(repr=False)

    @classmethod
    def of(cls, keys: Sequence[str], classes: Any) -> KeysDropped:
        """From a pyarrow Table of at least one class key."""
        return cls(tuple(keys), _hashes(keys, classes.combine_chunks().to_batches()[0]))

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(~self.holds(rows.batch)))

    def holds(self, rows: Any) -> NDArray[np.bool_]:
        """Which rows of an Arrow batch, or of a table of at least one row, are of these classes."""
        import pyarrow as pa
        import pyarrow.compute as pc

        batch = rows.combine_chunks().to_batches()[0] if isinstance(rows, pa.Table) else rows
        found = pc.is_in(_hashes(self.keys, batch), value_set=self.hashes)
        return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _hashes(keys: Sequence[str], batch: Any) -> Any:
    import pyarrow as pa

    from privpipe.kernels.ids.record_ids import content_hash

    words = np.ascontiguousarray(content_hash(batch.select(list(keys)), Seed.public("privpipe/class keys")))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(words), [None, pa.py_buffer(words)])
