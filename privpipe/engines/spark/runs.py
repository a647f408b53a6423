"""Runs of equal keys in batches that come sorted by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.engines.base.batches import joined

__all__ = ["RunNumbers", "RunOrdinals", "together", "whole_runs"]

ENOUGH_ROWS = 1 << 16


class RunNumbers:
    """Numbers rows within their run, over the borders of batches.

    Examples
    --------
    >>> runs = RunNumbers()
    >>> runs.number(np.array([[7], [7], [8]])).tolist(), runs.number(np.array([[8], [9]])).tolist()
    ([0, 1, 0], [1, 0])
    """

    def __init__(self) -> None:
        self._last: NDArray[np.int64] | None = None
        self._seen = 0

    def number(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """0, 1, ... within each run of equal rows of `keys`, shape (n, w)."""
        if not len(keys):
            return np.zeros(0, np.int64)
        starts = run_starts(keys)
        lengths = np.diff(np.append(starts, len(keys)))
        numbers = np.arange(len(keys)) - np.repeat(starts, lengths)
        if self._last is not None and (keys[0] == self._last).all():
            numbers[: lengths[0]] += self._seen
        self._last, self._seen = keys[-1].copy(), int(numbers[-1]) + 1
        return numbers


class RunOrdinals:
    """Numbers rows among those of equal content, which lie in one run, over the borders of batches.

    Examples
    --------
    >>> runs, words = RunOrdinals(), np.array([[7, 1], [7, 2], [7, 1], [8, 1]])
    >>> runs.of(np.array([1, 1, 1, 2]), words).tolist(), runs.of(np.array([2, 3]), words[[3, 0]]).tolist()
    ([0, 0, 1, 0], [1, 0])
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._seen: dict[tuple[int, int], int] = {}

    def of(self, keys: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
        """0, 1, ... among the equal rows of `words`, shape (n, 2); `keys`, shape (n,), are equal along a run."""
        from privpipe.kernels.ids.record_ids import ordinals

        numbers = np.zeros(len(keys), np.int64)
        if not len(keys):
            return numbers
        starts = run_starts(keys[:, None])
        lengths = np.diff(np.append(starts, len(keys)))
        shared = np.flatnonzero(np.repeat(lengths > 1, lengths))
        numbers[shared] = ordinals(words[shared])
        if self._seen and keys[0] == self._last:
            first = words[: lengths[0]]
            numbers[: len(first)] += np.array([self._seen.get((a, b), 0) for a, b in first.tolist()], np.int64)
        if len(starts) > 1 or keys[0] != self._last:
            self._seen = {}
        self._last, last = int(keys[-1]), slice(int(starts[-1]), len(keys))
        found, at = np.unique(words[last], axis=0, return_inverse=True)
        counted = np.zeros(len(found), np.int64)
        np.maximum.at(counted, at.reshape(-1), numbers[last] + 1)
        self._seen |= {(a, b): count for (a, b), count in zip(found.tolist(), counted.tolist(), strict=True)}
        return numbers


def run_starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run of equal rows starts, the first at 0."""
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    return np.flatnonzero(fresh)


def whole_runs(batches: Iterable[pa.RecordBatch], key: str) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Each run of one key as one batch, with the key.

    Examples
    --------
    >>> parts = [pa.record_batch({"k": [1, 2]}), pa.record_batch({"k": [2, 2, 5]})]
    >>> [(found, len(rows)) for found, rows in whole_runs(parts, "k")]
    [(1, 1), (2, 3), (5, 1)]
    """
    waiting: list[pa.RecordBatch] = []
    current = 0
    for batch in batches:
        keys = batch.column(key).to_numpy()
        if not len(keys):
            continue
        starts = run_starts(keys[:, None])
        for start, stop in zip(starts, np.append(starts[1:], len(keys)), strict=True):
            if waiting and keys[start] != current:
                yield current, joined(waiting)
                waiting = []
            current = int(keys[start])
            waiting.append(batch.slice(start, stop - start))
    if waiting:
        yield current, joined(waiting)


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: a small one costs as much to send as a large one.

    Examples
    --------
    >>> [len(rows) for rows in together(pa.record_batch({"k": [at]}) for at in range(3))]
    [3]
    """
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= ENOUGH_ROWS:
            yield joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield joined(waiting)
