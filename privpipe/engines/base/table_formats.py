"""Folders that belong to a table format, in which a file may hold rows that are no longer in the table."""

from __future__ import annotations

import os

from privpipe.errors import DataError

__all__ = ["refuse_table_format", "table_format_error", "table_format_of"]

LEVELS_UP = 3
"""Folders above a path that may be a table's own: `table/data`, and partitions below it."""
REMEDIES = {
    "Delta": "say `format: delta`",
    "Iceberg": "hand the table over as a frame (pyiceberg's `scan().to_arrow()`, Spark's `table(...)`), or export it",
    "Hudi": "hand the table over as a frame (Spark's `read.format('hudi')`), or export it",
}


def table_format_of(folder: str) -> str | None:
    """The table format whose marks a folder holds: ``Delta``, ``Iceberg`` or ``Hudi``; None for a plain folder."""
    if os.path.isdir(os.path.join(folder, "_delta_log")):
        return "Delta"
    if os.path.isdir(os.path.join(folder, ".hoodie")):
        return "Hudi"
    try:
        names = os.listdir(os.path.join(folder, "metadata"))
    except OSError:  # no such folder, or none that can be listed
        return None
    return "Iceberg" if any(".metadata.json" in name or name == "version-hint.text" for name in names) else None


def refuse_table_format(path: str) -> None:
    """Refuse a file or folder that is a table of such a format, or a part of one.

    Parameters
    ----------
    path : str
        It exists.

    Raises
    ------
    DataError
        It is: read as plain files, rows that were deleted or overwritten would count.
    """
    for start in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        folder = start if os.path.isdir(start) else os.path.dirname(start)
        for _ in range(1 + LEVELS_UP):
            found = table_format_of(folder)
            if found is not None:
                raise table_format_error(found, folder)
            folder = os.path.dirname(folder)


def table_format_error(found: str, folder: str) -> DataError:
    """What is said of a table that may not be read as plain files."""
    article = "an" if found[0] in "AEIOU" else "a"
    return DataError(
        f"{folder!r} is {article} {found} table, whose files may hold rows that were deleted or overwritten; "
        f"it is not read as plain files: {REMEDIES[found]}"
    )
