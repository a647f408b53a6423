"""Record batches joined, and functions of blocks on a few threads, whose results come in order."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from privpipe.blocks import Facts, Reduction

__all__ = ["in_order", "joined", "reduce_blocks"]


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
