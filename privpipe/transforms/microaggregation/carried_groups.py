"""What records carry from one pass to the next: their group, and the block it falls into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.blocks import RowBlock

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["GROUP", "NEXT", "carried", "carried_schema", "with_columns"]

GROUP, NEXT = "__privpipe_group", "__privpipe_next"


def carried_schema(schema: pa.Schema) -> pa.Schema:
    """The schema between two passes."""
    import pyarrow as pa

    return schema.append(pa.field(GROUP, pa.int64())).append(pa.field(NEXT, pa.int64()))


def carried(rows: RowBlock, name: str) -> NDArray[np.int64]:
    """The numbers that records carry in a column."""
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), dtype=np.int64)


def with_columns(rows: RowBlock, columns: dict[str, NDArray[np.int64]]) -> RowBlock:
    """The rows with these columns at the end, in place of any of the same name."""
    import pyarrow as pa

    rows = rows.drop([name for name in columns if name in rows.schema.names])
    arrays: list[Any] = [*rows.batch.columns, *(pa.array(values) for values in columns.values())]
    return RowBlock(pa.record_batch(arrays, names=[*rows.schema.names, *columns]), rows.record_ids)
