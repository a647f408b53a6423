"""What a data file or a folder of a table format is, in words, and the `source:` of a policy that reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from privpipe.drafting.column_profiles import ProfiledTable, profile_table
from privpipe.drafting.draft import source_keys
from privpipe.drafting.methods import flow
from privpipe.drafting.source_formats import database_tables
from privpipe.engines import Source, open_engine
from privpipe.engines.base import format_of
from privpipe.engines.lakes import delta_table, delta_version, has_deltalake
from privpipe.engines.readers.files import list_files
from privpipe.engines.readers.source import is_delta_table, refuse_table_format, table_format_error, table_format_of
from privpipe.engines.readers.text_forms import NO_QUOTE
from privpipe.errors import PrivpipeError, UsageError

__all__ = ["described_csv", "described_database", "described_lake", "described_other", "is_csv"]


MOST_NAMED = 20


def is_csv(path: str) -> bool:
    """Whether a path's ending says CSV.

    Examples
    --------
    >>> is_csv("a.csv.gz"), is_csv("a.parquet"), is_csv("a.doc")
    (True, False, False)
    """
    try:
        return format_of(path) == "csv"
    except UsageError:
        return False


def described_csv(path: str) -> tuple[str, str]:
    """What a CSV file is, and the line of the policy that reads it from the working directory.

    Raises
    ------
    DataError
        It cannot be read as it seems to be written.
    """
    table = profile_table(path)
    source = flow(source_keys(table.source, table.profiles, Path.cwd()))
    return ", ".join(_parts(table, path)), f"source: {source}"


def described_database(path: str) -> tuple[str, str] | None:
    """What a database in a file holds, and the line of the policy that reads a table of it; None for any other file.

    Raises
    ------
    DataError, EngineError
        It cannot be read.
    """
    found = database_tables(path)
    if found is None:
        return None
    kind, names = found
    if not names:
        return f"{kind}, no tables", ""
    shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
    keys = {"database": os.path.relpath(path), "table": names[0]}
    return f"{kind}, {len(names):,} table{'s' if len(names) != 1 else ''}: {shown}", f"source: {flow(keys)}"


def described_other(path: str) -> tuple[str, str]:
    """What a file is by its ending, and the line of the policy that reads it.

    Raises
    ------
    UsageError
        An ending without a format, or of a format that is not read: what to do instead.
    DataError, EngineError
        It cannot be read.
    """
    kind = format_of(path)
    with open_engine("embedded") as engine:
        table = engine.scan(Source(data=path))
        said = f"{kind}, {len(table.schema.names):,} columns, {engine.count(table):,} records"
    return said, f"source: {flow({'path': os.path.relpath(path), 'format': kind})}"


def _parts(table: ProfiledTable, path: str) -> Iterator[str]:
    source, form = table.source, table.source.form
    yield "CSV"
    if packing := form.packing(list_files(Source(data=path, format="csv"))[0]):
        yield f"packed by {packing}"
    yield form.encoding
    yield f"delimiter {source.delimiter!r}"
    if form.quote not in ('"', NO_QUOTE):
        yield f"quoted by {form.quote}"
    if form.escape is not None:
        yield f"escaped by {form.escape}"
    yield "a header" if source.header else "no header"
    if form.skip_rows:
        yield f"{_lines(form.skip_rows)} above it"
    yield f"decimal sign {form.decimal!r}"
    if form.thousands is not None:
        yield f"thousands {form.thousands!r}"
    if form.trim:
        yield "blanks around the fields"
    formats = {} if isinstance(form.date_format, str) else form.date_format
    for name, written in formats.items():
        yield f"{name} as {written}{' (or the month first)' if name in table.unsure else ''}"
    if form.footer:
        yield f"{_lines(form.footer)} of totals or notes below"
    yield f"{len(table.profiles):,} columns, {table.profiles[0].records:,} records"


def _lines(count: int) -> str:
    return f"{count:,} line{'s' if count != 1 else ''}"


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
