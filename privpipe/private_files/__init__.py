"""Files and folders that only their owner can read, and how what is published becomes readable."""

from __future__ import annotations

from privpipe.private_files.ownership import (
    Leftover,
    create_private,
    flush_new,
    has_ended,
    leftovers,
    locked,
    make_public,
    new_folder,
    private_folder,
    public_modes,
    remove_folder,
    remove_leftovers,
    require_ours,
    scratch_folder,
    seal_folder,
    sync_folder,
    this_process,
    write_private,
)

__all__ = [
    "Leftover",
    "create_private",
    "flush_new",
    "has_ended",
    "leftovers",
    "locked",
    "make_public",
    "new_folder",
    "private_folder",
    "public_modes",
    "remove_folder",
    "remove_leftovers",
    "require_ours",
    "scratch_folder",
    "seal_folder",
    "sync_folder",
    "this_process",
    "write_private",
]
