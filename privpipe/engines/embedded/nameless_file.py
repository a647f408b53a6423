"""A file for rows that do not fit into memory. It has no name, so it ends with the process, however that ends."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privpipe.errors import EngineError

__all__ = ["NamelessFile"]


class NamelessFile:
    """Arrays one after the other; parts of it are read from any thread.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder, NamelessFile.below(Path(folder)) as file:
    ...     file.append(np.arange(6))
    ...     found = np.empty(4, np.int64)
    ...     file.read(found, [(0, 1), (3, 6)])
    ...     os.listdir(folder), found.tolist()
    ([], [0, 3, 4, 5])
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    @classmethod
    @contextlib.contextmanager
    def below(cls, folder: Path) -> Iterator[NamelessFile]:
        """An empty one on the disk of a folder, for as long as the context lasts.

        Raises
        ------
        EngineError
            The disk cannot be written; so do the methods.
        """
        with contextlib.ExitStack() as stack:
            with _on_disk():
                file = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            yield cls(file)

    def append(self, items: NDArray[Any]) -> None:
        """Write contiguous items behind the others."""
        data = items.view(np.uint8).data
        while data:
            with _on_disk():
                data = data[os.write(self._file.fileno(), data) :]

    def read(self, items: NDArray[Any], stretches: list[tuple[int, int]]) -> None:
        """Fill contiguous items with those of some stretches, each from one place to another, of the same type."""
        target, size, done = items.view(np.uint8).data, items.dtype.itemsize, 0
        for first, last in stretches:
            at, stop = first * size, done + (last - first) * size
            while done < stop:
                with _on_disk():
                    got = os.preadv(self._file.fileno(), [target[done:stop]], at)
                if not got:
                    raise EngineError("the rows that were staged on disk are not whole any more")
                done, at = done + got, at + got


@contextlib.contextmanager
def _on_disk() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise EngineError(f"rows cannot be staged on disk, below temp_directory: {reason}") from None
