"""Items that do not fit into memory, by bucket: dealt a stretch at a time to one file, and read a bucket at a time.

Each stretch lies in the file by bucket, so it is written from its begin to its end, and a bucket is read in as many
pieces as there are stretches. The file has no name: it ends with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import EngineError

__all__ = ["DealtItems", "by_bucket"]

Ints = NDArray[np.int64]


def by_bucket(items: NDArray[Any], buckets: NDArray[np.uint16], number: int) -> tuple[NDArray[Any], Ints]:
    """Some items by bucket, in their order within each, and how many each bucket has.

    Examples
    --------
    >>> [found.tolist() for found in by_bucket(np.array([5, 6, 7]), np.array([1, 0, 1], np.uint16), 3)]
    [[6, 5, 7], [1, 2, 0]]
    """
    # NumPy gathers structures by `take` fifty times as fast as by an index in brackets.
    return items.take(np.argsort(buckets, kind="stable")), np.bincount(buckets, minlength=number)


class DealtItems:
    """Items of one type in a file; buckets are read from any thread once all are there.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder, DealtItems.below(Path(folder), np.dtype(np.int64), 2) as dealt:
    ...     for items in ([3, 8, 5], [2, 7]):
    ...         dealt.add(*by_bucket(np.array(items), np.array(items, np.uint16) % np.uint16(2), 2))
    ...     os.listdir(folder), dealt.sizes.tolist(), [dealt.read(bucket).tolist() for bucket in (0, 1)]
    ([], [2, 3], [[8, 2], [3, 5, 7]])
    """

    def __init__(self, file: IO[bytes], kind: np.dtype[Any], number: int) -> None:
        self._file, self._kind = file, kind
        self._added = [np.zeros(number, np.int64)]

    @classmethod
    @contextlib.contextmanager
    def below(cls, folder: Path, kind: np.dtype[Any], number: int) -> Iterator[DealtItems]:
        """None yet, on the disk of a folder, for so many buckets and as long as the context lasts.

        Raises
        ------
        EngineError
            The disk cannot be written; so do the methods.
        """
        with contextlib.ExitStack() as stack:
            with _on_disk():
                file = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            yield cls(file, kind, number)

    def add(self, items: NDArray[Any], counts: Ints) -> None:
        """Write a stretch, as `by_bucket` gives it."""
        data = items.view(np.uint8).data
        while data:
            with _on_disk():
                data = data[os.write(self._file.fileno(), data) :]
        self._added.append(counts)

    @cached_property
    def counts(self) -> Ints:
        """Items of each bucket in each stretch, shape (stretches + 1, buckets); the first stretch is empty."""
        return np.array(self._added)

    @cached_property
    def sizes(self) -> Ints:
        """Items of each bucket."""
        found: Ints = self.counts.sum(axis=0)
        return found

    @cached_property
    def _ends(self) -> Ints:
        """The place behind each stretch of each bucket."""
        return np.cumsum(self.counts.ravel()).reshape(self.counts.shape)

    def read(self, bucket: int, room: NDArray[Any] | None = None) -> NDArray[Any]:
        """The items of a bucket, in the order in which they came; in an array of one's own where they fit into it."""
        count, size, done = int(self.sizes[bucket]), self._kind.itemsize, 0
        items = np.empty(count, self._kind) if room is None or count > len(room) else room[:count]
        target = items.view(np.uint8).data
        for own, end in zip(self.counts[:, bucket].tolist(), self._ends[:, bucket].tolist(), strict=True):
            at, stop = (end - own) * size, done + own * size
            while done < stop:
                with _on_disk():
                    got = os.preadv(self._file.fileno(), [target[done:stop]], at)
                if not got:
                    raise EngineError("the rows that were staged on disk are not whole any more")
                done, at = done + got, at + got
        return items


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineError(f"rows cannot be staged on disk, below temp_directory: {reason}") from None
