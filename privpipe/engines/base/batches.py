"""Record batches joined, functions of blocks on a few threads, whose results come in order, and samples by ids."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from privpipe.blocks import Facts, Reduction, RowBlock

__all__ = [
    "FirstIds",
    "as_type",
    "in_order",
    "joined",
    "last_id_of",
    "reduce_blocks",
    "whole_array",
    "whole_batch",
]


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """One or more batches of one schema as one; a single one is not copied.

    Examples
    --------
    >>> joined([pa.record_batch({"n": [1, 2]}), pa.record_batch({"n": [3]})]).to_pydict()
    {'n': [1, 2, 3]}
    """
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays([batch.column(at) for batch in batches]) for at in range(batches[0].num_columns)]
    return pa.record_batch(columns, schema=batches[0].schema)


def whole_array(column: Any) -> pa.Array:
    """A column as one array, from its chunks if it has any.

    Examples
    --------
    >>> whole_array(pa.chunked_array([[1], [2, 3]])).to_pylist(), len(whole_array(pa.chunked_array([], pa.int64())))
    ([1, 2, 3], 0)
    """
    if isinstance(column, pa.Array):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def whole_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch.

    Examples
    --------
    >>> whole_batch(pa.table({"a": [1, 2]})).num_rows, whole_batch(pa.table({"a": []})).num_rows
    (2, 0)
    """
    return pa.record_batch([whole_array(column) for column in table.columns], schema=table.schema)


def as_type(array: Any, kind: pa.DataType) -> Any:
    """A column as a logical type: Spark names the session's zone in timestamps and may send large texts."""
    return array if array.type == kind else array.cast(kind)


A = TypeVar("A")
B = TypeVar("B")
R = TypeVar("R")


def in_order(function: Callable[[A], B], items: Iterable[A], threads: int) -> Iterator[B]:
    """`function` of each item, in the order of the items, with at most ``2 * threads`` of them waiting.

    Examples
    --------
    >>> list(in_order(lambda x: x * x, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    rest = iter(items)
    first = list(itertools.islice(rest, 2))
    if threads <= 1 or len(first) < 2:  # one item needs no pool
        yield from map(function, itertools.chain(first, rest))
        return
    waiting: deque[Future[B]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="privpipe") as pool:
        try:
            for item in itertools.chain(first, rest):
                waiting.append(pool.submit(function, item))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def reduce_blocks(reduction: Reduction[Any, R], blocks: Iterable[Any], facts: Facts, threads: int) -> R | None:
    """Measure each block and merge in the order of the blocks; None for no block.

    Parameters
    ----------
    reduction : Reduction
    blocks : iterable of blocks
        Never empty ones.
    """
    whole: R | None = None
    first = True
    for part in in_order(partial(reduction.measure, facts=facts), blocks, threads):
        whole = part if first else reduction.merge(whole, part)  # type: ignore[arg-type]
        first = False
    return whole


def last_id_of(share: float) -> int:
    """The largest first word of an id among the first `share` of all ids, which lie evenly over 64 bits.

    Examples
    --------
    >>> last_id_of(1.0) == 2**63 - 1, last_id_of(0.5), last_id_of(0.0) == -(2**63)
    (True, 0, True)
    """
    return min(int(share * 2.0**64 - 2.0**63), 2**63 - 1)


@dataclass(frozen=True)
class FirstIds:
    """The rows whose id has a first word of at most `last`."""

    last: int

    def __call__(self, rows: RowBlock) -> RowBlock:
        return rows.take(np.flatnonzero(rows.record_ids[:, 0] <= self.last))
