"""What a solver writes to standard output by itself, kept out of it: documents of commands go there."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]

_alone = threading.Lock()


@contextmanager
def quiet() -> Iterator[None]:
    """Send what compiled code prints meanwhile to standard error; one thread at a time.

    HiGHS has lines that no option silences. Where there are no file descriptors, nothing is done.

    Examples
    --------
    >>> with quiet():
    ...     done = True
    """
    with _alone:
        try:
            kept = os.dup(1)
        except OSError:
            yield
            return
        try:
            _flush()
            os.dup2(2, 1)
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)


def _flush() -> None:
    """Write out what the C library holds back for standard output."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
