"""What `doctor` says of a folder of a table format."""

from __future__ import annotations

import os
from typing import Literal

from privpipe.engines.base.lakes import delta_table, delta_version, has_deltalake
from privpipe.engines.base.table_formats import (
    is_delta_table,
    refuse_table_format,
    table_format_error,
    table_format_of,
)
from privpipe.errors import PrivpipeError

__all__ = ["described_lake"]

State = Literal["ok", "warning", "failed"]


def described_lake(path: str) -> tuple[State, str, str] | None:
    """Whether a path is a table of a format, what it holds and what to do; None for a plain file or folder."""
    if not is_delta_table(path):
        try:
            refuse_table_format(path)
            for folder, _, _ in os.walk(path):
                if (below := table_format_of(folder)) is not None:
                    raise table_format_error(below, folder)
        except PrivpipeError as error:
            found, sign, remedy = str(error).partition("not read as plain files")
            return "failed", found + sign, remedy.removeprefix(": ")
        return None
    if not has_deltalake():
        return "failed", "a Delta table, and deltalake is not installed", "pip install 'privpipe[delta]'"
    try:
        version = delta_version(path)
        table = delta_table(path, version)
    except PrivpipeError as error:
        return "failed", str(error), "see `privpipe explain delta`"
    said = f"a Delta table at version {version:,} of {len(table.pieces):,} live file(s)"
    deleted = sum(getattr(piece, "deleted", None) is not None for piece in table.pieces)
    if deleted:
        said += f", {deleted:,} of them with a deletion vector"
    return "ok", said, f"source: {{path: {path}, format: delta}}"
