"""What a solver writes to standard output by itself, kept out of it: documents of commands go there."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet"]

_alone = threading.Lock()
_SOLVER = b"Highs"
"""How the lines of HiGHS begin that no option silences."""


@contextmanager
def quiet() -> Iterator[None]:
    """Drop what the solver prints meanwhile, and send to standard error what else is printed; one thread at a time.

    Only Linux distinguishes the two. Where there are no file descriptors, nothing is done.

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
        held = os.memfd_create("solver") if sys.platform == "linux" else None
        try:
            _flush()
            os.dup2(2 if held is None else held, 1)
            yield
        finally:
            _flush()
            os.dup2(kept, 1)
            os.close(kept)
            if held is not None:
                with os.fdopen(held, "rb") as printed:
                    printed.seek(0)
                    _pass_on(printed.read())


def _pass_on(printed: bytes) -> None:
    """Write to standard error what is none of the solver's, where there is one."""
    others = b"".join(line for line in printed.splitlines(keepends=True) if not line.startswith(_SOLVER))
    if others:
        try:
            os.write(2, others)
        except OSError:
            return


def _flush() -> None:
    """Write out what the C library holds back for standard output."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
