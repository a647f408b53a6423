"""Which files a path stands for, and what their heads say: found alike on every engine."""

from __future__ import annotations

import csv
import glob
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from privpipe.engines.base.logical import logical_schema
from privpipe.engines.base.source import Format, Source
from privpipe.engines.base.unpacking import MOST_BYTES, PACKED, Unpacking, is_packed, reading
from privpipe.errors import DataError

__all__ = [
    "csv_columns",
    "list_files",
    "open_text",
    "parquet_head",
    "parquet_instants_fit",
    "parquet_schema",
    "wrong_delimiter_hint",
]

_ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".txt", ".data"),
    "json": (".json", ".jsonl", ".ndjson"),
}
LAST_MILLISECOND = (2**63 - 1) // 1000


def list_files(source: Source) -> list[str]:
    """Files of a source in order of name: the file itself, a folder's (deep), or what a glob matches.

    Hidden files and folders (a leading ``.`` or ``_``) are left out; in a folder, so are files whose ending
    is another format's.

    Raises
    ------
    DataError
        Nothing there; a folder of Hive partitions, whose columns would go missing.
    """
    path, kind = os.fspath(source.data), source.resolved_format
    if path.startswith("file://"):
        path = path.removeprefix("file://")
    if os.path.isdir(path):
        found = sorted(_walk(path, kind))
    elif os.path.isfile(path):
        found = [path]
    else:
        found = sorted(name for name in glob.glob(path, recursive=True) if os.path.isfile(name) and not _hidden(name))
    if not found:
        raise DataError(f"no {kind} file at {path!r}; check the path (relative ones start at the policy file)")
    return found


def _walk(folder: str, kind: Format) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _hidden(name)]
        if any("=" in name for name in folders):
            raise DataError(
                "the folder holds Hive partitions (`column=value` folders), whose columns are not in the files; "
                "write it without partitions"
            )
        for name in names:
            if not _hidden(name) and _is_of(name, kind):
                yield os.path.join(place, name)


def _hidden(path: str) -> bool:
    return os.path.basename(path).startswith((".", "_"))


def _is_of(name: str, kind: Format) -> bool:
    name = name.casefold()
    for packed in PACKED:
        name = name.removesuffix(packed)
    others = {ending for other, endings in _ENDINGS.items() if other != kind for ending in endings}
    return not name.endswith(tuple(others)) and not name.endswith((".crc", ".md", ".yaml", ".yml"))


def parquet_schema(files: list[str]) -> pa.Schema:
    """The Arrow schema of Parquet files that must agree in names and logical types.

    Raises
    ------
    DataError
        A file is unreadable (truncated, say) or of another schema than the first.
    """
    first: pa.Schema | None = None
    for name in files:
        with reading(name, "Parquet"):
            found = pq.read_schema(name)
        if first is None:
            first = found
        elif found.names != first.names or logical_schema(found) != logical_schema(first):
            raise DataError(
                f"{Path(name).name}: its columns or types differ from those of {Path(files[0]).name}; "
                "the files of a source must agree"
            )
    if first is None:
        raise DataError("no Parquet file")
    return first.remove_metadata()


def parquet_head(name: str) -> pq.FileMetaData:
    """The footer of a Parquet file; raises as `parquet_schema` does."""
    with reading(name, "Parquet"):
        return pq.read_metadata(name)


def parquet_instants_fit(files: list[str], schema: pa.Schema) -> bool:
    """Whether the statistics of the files prove that no timestamp overflows in microseconds.

    Engines that read Parquet themselves break down on one that does, in the middle of a query.
    """
    coarse = {field.name for field in schema if pt.is_timestamp(field.type) and field.type.unit == "ms"}
    if not coarse:
        return True
    for name in files:
        head = parquet_head(name)
        for group in map(head.row_group, range(head.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                if column.path_in_schema in coarse and not _fits(column):
                    return False
    return True


def _fits(column: Any) -> bool:
    known = column.statistics
    if known is None or not known.has_min_max:
        return bool(column.num_values == 0 or (known is not None and known.null_count == column.num_values))
    return bool(known.min_raw >= -LAST_MILLISECOND and known.max_raw <= LAST_MILLISECOND)


def csv_columns(source: Source, files: list[str]) -> list[str]:
    """Column names of CSV files, whose headers must agree.

    Raises
    ------
    DataError
        An empty file, no UTF-8, a header that differs from the first file's.
    UsageError
        See `Source.resolved_format`.
    """
    if not source.header:
        if not source.columns:
            raise DataError("a CSV file without a header needs its column names under `columns`")
        return list(source.columns)
    first: list[str] | None = None
    for name in files:
        found = _header(name, source.delimiter, source.max_bytes)
        if found is None:
            continue
        if first is not None and found != first:
            raise DataError(f"{Path(name).name}: its header differs from that of the first file")
        first = found
    if first is None:
        raise DataError(f"{Path(files[0]).name}: the file is empty; a CSV file needs a header line")
    return first


def _header(name: str, delimiter: str, most: int) -> list[str] | None:
    try:
        with reading(name, "CSV"), open_text(name, most) as lines:
            return next(csv.reader(lines, delimiter=delimiter, strict=True), None)
    except (UnicodeDecodeError, csv.Error):
        raise DataError(f"{Path(name).name}: not a readable CSV file (UTF-8 text is expected)") from None


def open_text(name: str, most: int = MOST_BYTES) -> TextIO:
    """A text file, unpacked (to `most` bytes) by its ending; a byte order mark is skipped."""
    if is_packed(name):
        return io.TextIOWrapper(io.BufferedReader(Unpacking(name, most)), encoding="utf-8-sig", newline="")
    return open(name, encoding="utf-8-sig", newline="")


def wrong_delimiter_hint(names: list[str], delimiter: str) -> str:
    """What to say when a header came apart into one column only.

    Examples
    --------
    >>> wrong_delimiter_hint(["age;zip"], ",")
    "; the header has one column under the delimiter ',' and holds ';': is that the delimiter?"
    """
    if len(names) != 1:
        return f"; the header has {len(names)} columns under the delimiter {delimiter!r}"
    other = next((sign for sign in (";", "\t", "|", ",") if sign != delimiter and sign in names[0]), None)
    if other is None:
        return f"; the header has one column under the delimiter {delimiter!r}: is that the delimiter?"
    return f"; the header has one column under the delimiter {delimiter!r} and holds {other!r}: is that the delimiter?"
