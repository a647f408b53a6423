"""Files and folders that only their owner can read, and how what is published becomes readable."""

from __future__ import annotations

from privpipe.private_files.ownership import (
    create_private,
    flush_new,
    make_public,
    private_folder,
    public_modes,
    require_ours,
    sync_folder,
    write_private,
)
from privpipe.private_files.run_folder import (
    Leftover,
    has_ended,
    leftovers,
    new_folder,
    remove_folder,
    remove_leftovers,
    scratch_folder,
    this_process,
)

__all__ = [
    "Leftover",
    "create_private",
    "flush_new",
    "has_ended",
    "leftovers",
    "make_public",
    "new_folder",
    "private_folder",
    "public_modes",
    "remove_folder",
    "remove_leftovers",
    "require_ours",
    "scratch_folder",
    "sync_folder",
    "this_process",
    "write_private",
]
