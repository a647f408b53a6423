"""Record batches put together."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

__all__ = ["joined"]


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema, at least one, as one; a lone one is not copied.

    Examples
    --------
    >>> joined([pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]).to_pydict()
    {'n': [1, 2, 3]}
    """
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(batches[0].num_columns)]
    return pa.record_batch(columns, schema=batches[0].schema)
