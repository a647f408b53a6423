"""Sources that are known to be small before a row is read: what is done with them is less than what workers cost."""

from __future__ import annotations

import os

import pyarrow as pa

from privpipe.engines.base.files import elsewhere, list_files
from privpipe.engines.base.frames import is_local_frame
from privpipe.engines.base.parquet_files import parquet_head
from privpipe.engines.base.source import Source

__all__ = ["MOST_ROWS", "SMALL_BYTES", "is_small"]

SMALL_BYTES = 64 * 2**20
MOST_ROWS = 2_000_000
"""Their release takes one process about a gigabyte; workers on two cores take three to ten times as long for them."""
UNPACKS_TO = 20
"""Bytes that a byte of a packed text file is taken to hold."""


def is_small(source: Source, most: int) -> bool:
    """Whether files of this machine, or a frame of this process, take at most so many bytes.

    Examples
    --------
    >>> is_small(Source(data=pa.table({"age": [1]})), 100), is_small(Source(data=pa.table({"age": [1]})), 0)
    (True, False)
    """
    if not most:
        return False
    if not source.is_path:
        size = getattr(source.data, "nbytes", None) if isinstance(source.data, pa.Table) else None
        return is_local_frame(source.data) and size is not None and size <= most
    kind = source.resolved_format
    return not elsewhere(os.fspath(source.data)) and kind != "delta" and _size(source, kind) <= most


def _size(source: Source, kind: str) -> float:
    """Bytes of the files of a source as they lie in memory, roughly; more than any limit for many rows."""
    files = list_files(source)
    if kind != "parquet":
        return sum(os.path.getsize(name) * (UNPACKS_TO if source.form.packing(name) else 1) for name in files)
    heads = [parquet_head(name) for name in files]
    if sum(head.num_rows for head in heads) > MOST_ROWS:
        return float("inf")
    return sum(head.row_group(at).total_byte_size for head in heads for at in range(head.num_row_groups))
