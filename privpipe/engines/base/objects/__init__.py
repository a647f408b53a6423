"""Tables in object stores and other remote file systems, which fsspec reaches: copied to this machine as they are."""

from __future__ import annotations

from privpipe.engines.base.objects.copying import CopiedFiles, copied_files, copied_names, settled_store, whole_copy
from privpipe.engines.base.objects.listing import StoredFile, listed_files, names_beside, stamp_at
from privpipe.engines.base.objects.opening import (
    OpenedStore,
    is_reached,
    opened_store,
    reason_of,
    refuse_credentials,
    store_faults,
)
from privpipe.engines.base.objects.pointer import POINTER, pointed_at, pointer_text, release_of

__all__ = [
    "POINTER",
    "CopiedFiles",
    "OpenedStore",
    "StoredFile",
    "copied_files",
    "copied_names",
    "is_reached",
    "listed_files",
    "names_beside",
    "opened_store",
    "pointed_at",
    "pointer_text",
    "reason_of",
    "refuse_credentials",
    "release_of",
    "settled_store",
    "stamp_at",
    "store_faults",
    "whole_copy",
]
