"""Compiled kernels made ready on a thread of their own, while files of a large table are looked at."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["LARGE_BYTES", "ready_for"]

LARGE_BYTES = 16 << 20
"""Of files, from which on kernels are needed for sure and loading them is worth a thread."""
log = logging.getLogger("privpipe.engines.embedded")
_begun = threading.Event()


def ready_for(files: Sequence[str]) -> None:
    """Begin to load the kernels of record ids, once in a process, where files are large.

    To import the compiler and bring code back takes half a second, for which every thread would wait that makes ids.
    """
    size = 0
    for file in files:
        with suppress(OSError):  # whoever reads it says so
            size += os.path.getsize(file)
    if size >= LARGE_BYTES and not _begun.is_set():
        _begun.set()
        threading.Thread(target=_load, name="privpipe-kernels").start()


def _load() -> None:
    import pyarrow as pa

    from privpipe.compiled import load
    from privpipe.draws import Seed
    from privpipe.kernels.ids.record_ids import content_hash, ordinals, record_id

    try:
        load()
        seed = Seed.from_os()
        hashes = content_hash(pa.table({"integer": [1], "number": [1.0], "text": ["a"]}), seed)
        record_id(hashes, ordinals(hashes), seed)
    except ImportError as error:  # whoever needs a kernel meets the same error, and says where
        log.debug("kernels could not be loaded ahead of their time: %s", type(error).__name__)
