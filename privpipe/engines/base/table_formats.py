"""Folders that belong to a table format, in which a file may hold rows that are no longer in the table."""

from __future__ import annotations

import os
from collections.abc import Iterator

from privpipe.errors import DataError

__all__ = ["folders_above", "is_delta_table", "refuse_table_format", "table_format_error", "table_format_of"]

REMEDIES = {
    "Delta": "give the table's own folder and say `format: delta` (needs `pip install 'privpipe[delta]'`)",
    "Iceberg": "name the table, `source: {iceberg: db.table, catalog: name}` (needs `pip install 'privpipe[iceberg]'`)",
    "Hudi": "hand the table over as a frame (Spark's `read.format('hudi')`), or export it",
}
MARKS = {"_delta_log": "Delta", ".hoodie": "Hudi", ".hoodie_partition_metadata": "Hudi"}


def table_format_of(folder: str) -> str | None:
    """The table format whose marks a folder holds: ``Delta``, ``Iceberg`` or ``Hudi``; None for a plain folder."""
    for mark, found in MARKS.items():
        if _holds(folder, mark):
            return found
    for name in _cases("metadata"):
        try:
            names = os.listdir(os.path.join(folder, name))
        except OSError:  # no such folder, or none that can be listed
            continue
        if any(".metadata.json" in each.casefold() or each.casefold() == "version-hint.text" for each in names):
            return "Iceberg"
    return None


def _cases(name: str) -> tuple[str, str]:
    """A name as it is written, and as file systems and archives without lower case bring it back."""
    return name, name.upper()


def _holds(folder: str, mark: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in _cases(mark))


def is_delta_table(path: str) -> bool:
    """Whether a path is the folder of a Delta table itself; False for what lies in it."""
    return _holds(path, "_delta_log")


def folders_above(path: str) -> Iterator[str]:
    """A path and the folders above it, up to the root, by its own name and by where its links lead."""
    for start in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        folder = start
        while True:
            yield folder
            if folder == os.path.dirname(folder):
                break
            folder = os.path.dirname(folder)


def refuse_table_format(path: str) -> None:
    """Refuse a file or folder that is a table of such a format, or a part of one at any depth.

    Parameters
    ----------
    path : str
        It exists.

    Raises
    ------
    DataError
        It is: read as plain files, rows that were deleted or overwritten would count.
    """
    for folder in folders_above(path):
        found = table_format_of(folder)
        if found is not None:
            raise table_format_error(found, folder, path)


def table_format_error(found: str, folder: str, path: str | None = None) -> DataError:
    """What is said of a table that may not be read as plain files, and of a path within one."""
    article = "an" if found[0] in "AEIOU" else "a"
    within = f"{path!r} lies in " if path is not None and os.path.abspath(path) != folder else ""
    return DataError(
        f"{within}{folder!r}{',' if within else ''} {'' if within else 'is '}{article} {found} table, whose files may "
        f"hold rows that were deleted or overwritten; it is not read as plain files: {REMEDIES[found]}"
    )
