"""Files that a path stands for: the text and headers of CSV, partitions in names, and stamps to notice changes."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privpipe.engines.readers.source import FolderFiles, Format, Source, folder_files, refuse_table_format
from privpipe.engines.readers.text_forms import NO_QUOTE, TextForm, restored_cells
from privpipe.engines.readers.unpacking import (
    MOST_BYTES,
    PACKED,
    Unpacking,
    changed_error,
    is_packed,
    reading,
    unpacked,
)
from privpipe.engines.stores import copied_names, is_reached, opened_store, stamp_at
from privpipe.errors import DataError, EngineError
from privpipe.private_files import scratch_folder

__all__ = [
    "TEXT",
    "Stamp",
    "csv_columns",
    "csv_header",
    "csv_lines",
    "elsewhere",
    "left_out",
    "left_out_note",
    "list_files",
    "local_path",
    "names_there",
    "not_of_encoding",
    "open_text",
    "partition_in",
    "plain_text",
    "require_stamp",
    "require_stamps",
    "stamp_of",
    "stamps_of",
    "start_of_rows",
    "text_of",
    "wrong_delimiter_hint",
]


MARKS = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
CHUNK = 1 << 24


def not_of_encoding(place: str, encoding: str) -> DataError:
    """The message about bytes that are not text of their encoding."""
    name = {"utf-8": "UTF-8", "windows-1252": "Windows-1252", "latin-1": "Latin-1"}.get(encoding, encoding.upper())
    return DataError(
        f"{place}: not {name} text; `encoding:` of the source states how it is written, and `privpipe doctor FILE` "
        "guesses it"
    )


def text_of(path: str, form: TextForm, most: int = MOST_BYTES) -> NDArray[np.uint8]:
    """The bytes of a file, unpacked, in an encoding that keeps ASCII: UTF-16 becomes UTF-8.

    Raises
    ------
    DataError
        It is not of the encoding, as far as the whole of it shows; it is damaged, or unpacks to more than `most`.
    EngineError
        It cannot be reached.
    """
    packing, place = form.packing(path), Path(path).name
    if packing is None and form.keeps_ascii:
        text = _mapped(path)
    else:
        text = np.frombuffer(_bytes(path, form, most), dtype=np.uint8)
    _refuse_other_marks(text[:3].tobytes(), form, place)
    if not form.keeps_ascii:
        text = np.frombuffer(_from_utf16(text.tobytes(), form, place), dtype=np.uint8)
    if form.encoding in ("latin-1", "windows-1252"):
        _refuse_other_text(text, form, place)
    return text


def start_of_rows(text: NDArray[np.uint8], form: TextForm) -> int:
    """Where the header, or the first record, begins: behind a byte order mark and the lines that are skipped.

    Examples
    --------
    >>> start_of_rows(np.frombuffer(b"title" + bytes([10]) + b"a,b", dtype=np.uint8), TextForm(skip_rows=1))
    6
    """
    at = 3 if text[:3].tobytes() == codecs.BOM_UTF8 else 0
    for _ in range(form.skip_rows):
        while at < len(text):
            found = np.flatnonzero(text[at : at + CHUNK] == 0x0A)
            at = at + int(found[0]) + 1 if len(found) else min(at + CHUNK, len(text))
            if len(found):
                break
    return at


def plain_text(data: bytes, form: TextForm, place: str) -> bytes:
    """Bytes of `text_of` as UTF-8.

    Raises
    ------
    DataError
        They are not text of the encoding. UTF-8 is left to the parser.
    """
    if form.encoding not in ("latin-1", "windows-1252"):
        return data
    try:
        return data.decode(form.codec).encode()
    except UnicodeDecodeError:
        raise not_of_encoding(place, form.encoding) from None


def csv_header(name: str, delimiter: str, form: TextForm, most: int = MOST_BYTES) -> list[str] | None:
    """The fields of a file's first record; None for a file without one. Only its beginning is read.

    Raises
    ------
    DataError
        Not a CSV file of this form.
    """
    try:
        with reading(name, "CSV"):
            reader = csv.reader(
                csv_lines(name, form, most),
                delimiter=delimiter,
                quotechar=None if form.quote == NO_QUOTE else form.quote,
                quoting=csv.QUOTE_NONE if form.quote == NO_QUOTE else csv.QUOTE_MINIMAL,
                escapechar=form.escape,
                skipinitialspace=form.trim,
                strict=not form.trim,
            )
            found = next(reader, None)
    except UnicodeError:
        raise not_of_encoding(Path(name).name, form.encoding) from None
    except csv.Error:
        raise DataError(f"{Path(name).name}: not a readable CSV file") from None
    return [field.strip() for field in found] if found is not None and form.trim else found


def csv_lines(name: str, form: TextForm, most: int = MOST_BYTES) -> Iterator[str]:
    """Lines of a file from its header on: lines above it are skipped, comments directly above it too."""
    codec = "utf-8-sig" if form.encoding == "utf-8" else form.codec
    packing = form.packing(name)
    binary = io.BufferedReader(Unpacking(name, most, packing)) if packing else open(name, "rb")  # noqa: SIM115
    with io.TextIOWrapper(binary, encoding=codec, newline="") as lines:
        _refuse_other_marks(bytes(binary.peek(3)[:3]), form, Path(name).name)
        kept = islice(lines, form.skip_rows, None)
        yield from dropwhile(lambda line: _is_comment(line, form), kept) if form.comment else kept


def _is_comment(line: str, form: TextForm) -> bool:
    return (line.lstrip(" \t") if form.trim else line).startswith(str(form.comment))


def _mapped(path: str) -> NDArray[np.uint8]:
    with reading(path, "CSV"):
        if os.path.getsize(path) == 0:
            return np.empty(0, dtype=np.uint8)
        return np.memmap(path, dtype=np.uint8, mode="r")


def _bytes(path: str, form: TextForm, most: int) -> bytes:
    packing = form.packing(path)
    if packing is not None:
        return unpacked(path, most, packing)
    with reading(path, "CSV"):
        size = os.path.getsize(path)
        if size > most:
            raise DataError(
                f"{Path(path).name}: more than {most:,} bytes of {form.encoding} text, which is read whole; raise "
                "`max_bytes` of the source, or cut it into several files"
            )
        return Path(path).read_bytes()


def _from_utf16(data: bytes, form: TextForm, place: str) -> bytes:
    try:
        return data.decode(form.codec).removeprefix("\ufeff").encode()
    except UnicodeError:
        raise not_of_encoding(place, form.encoding) from None


def _refuse_other_marks(begin: bytes, form: TextForm, place: str) -> None:
    """Refuse a file whose first bytes are the byte order mark of another encoding, or lack the one it needs."""
    marked = next((encoding for encoding, mark in MARKS.items() if begin.startswith(mark)), None)
    if form.encoding == "utf-16" and begin and marked not in ("utf-16-le", "utf-16-be"):
        raise DataError(
            f"{place}: no UTF-16 text with a byte order mark; declare the `encoding:` utf-16-le or utf-16-be if it is "
            "UTF-16 without one"
        )
    if marked is not None and marked != form.encoding and form.encoding != "utf-16":
        said = "utf-16" if marked.startswith("utf-16") else marked
        raise DataError(
            f"{place}: declared {form.encoding}, and it begins with the byte order mark of {said}; write "
            f"`encoding: {said}` into the source"
        )


def _refuse_other_text(text: NDArray[np.uint8], form: TextForm, place: str) -> None:
    """Any bytes are valid Latin-1: a file that is all UTF-8, or full of control characters, has another encoding."""
    chunks = [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]
    if form.encoding == "latin-1":
        controls = sum(int(((chunk >= 0x80) & (chunk < 0xA0)).sum()) for chunk in chunks)
        if controls and not _is_utf8(chunks):
            raise DataError(
                f"{place}: declared latin-1, and {controls:,} of its bytes are control characters there; is it "
                "windows-1252?"
            )
    if any(bool((chunk >= 0x80).any()) for chunk in chunks) and _is_utf8(chunks):
        raise DataError(
            f"{place}: declared {form.encoding}, and all of its text is UTF-8; write `encoding: utf-8` into the source"
        )


def _is_utf8(chunks: list[NDArray[np.uint8]]) -> bool:
    decode = codecs.getincrementaldecoder("utf-8")().decode
    try:
        for at, chunk in enumerate(chunks):
            decode(chunk.tobytes(), final=at == len(chunks) - 1)
    except UnicodeDecodeError:
        return False
    return True


log = logging.getLogger("privpipe.engines")
MOST_NAMED = 10
_ELSEWHERE = re.compile(r"(?!file:)([A-Za-z][A-Za-z0-9+.-]+):/")
# A single letter before the colon is a drive.
_ENDINGS: dict[Format, tuple[str, ...]] = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".txt", ".data"),
    "json": (".json", ".jsonl", ".ndjson"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "orc": (".orc",),
    "avro": (".avro",),
    "excel": (".xlsx", ".xlsm"),
    "stata": (".dta",),
    "spss": (".sav", ".zsav"),
    "sas": (".sas7bdat", ".xpt"),
}
TEXT: tuple[Format, ...] = ("csv", "json")
"""Formats that are read packed."""


def list_files(source: Source) -> list[str]:
    """Files of a source in order of name: the file itself, or a folder's (deep).

    A path is a path: no sign in it is a pattern. `left_out` lists the files of a folder that are not read.

    Raises
    ------
    DataError
        Nothing there; a folder of Hive partitions, whose columns would go missing; a table format's files.
    EngineError
        A path on a file system that is not mounted here, or a folder that cannot be listed.
    """
    path, kind = local_path(source), source.resolved_format
    found = _found(path, kind, bool(source.partitions))
    if not found.read:
        raise DataError(f"no {kind} file at {path!r}; check the path{_hint(path)}")
    if kind not in TEXT:
        _refuse_packed(found.read, kind)
    if found.left_out:
        _tell(path, tuple(found.left_out))
    return found.read


def _refuse_packed(files: list[str], kind: Format) -> None:
    packed = [name for name in files if is_packed(name)]
    if packed:
        raise DataError(
            f"{Path(packed[0]).name}: {kind} files are not read packed, and {len(packed):,} of {len(files):,} are; "
            "unpack them (the format packs its columns itself)"
        )


def left_out(source: Source) -> tuple[str, ...]:
    """Names of files in a source's folder that may hold data and are not read; empty for a frame or file."""
    if not source.is_path or source.resolved_format == "delta":
        return ()
    if elsewhere(os.fspath(source.data)):
        return tuple(names_there(source).left_out) if is_reached(os.fspath(source.data)) else ()
    return tuple(_found(local_path(source), source.resolved_format, bool(source.partitions)).left_out)


def names_there(source: Source) -> FolderFiles:
    """What a source in an object store reads and leaves out, by names below its path; empty if it is not reached.

    The session of an engine may reach it; if not, its scan says so.
    """
    with scratch_folder("names") as folder:
        try:
            path = copied_names(os.fspath(source.data), folder)
        except EngineError:
            return FolderFiles()
        found = _found(path, source.resolved_format, bool(source.partitions))
        return FolderFiles([os.path.relpath(name, path) for name in found.read], found.left_out)


def local_path(source: Source) -> str:
    """The path of a source in the file system of this process.

    Raises
    ------
    EngineError
        It names another file system.
    """
    path = os.fspath(source.data)
    scheme = elsewhere(path)
    if scheme:
        raise EngineError(
            f"{path!r} cannot be read here: files on `{scheme}` are read through fsspec (pip install "
            "'privpipe[remote]', or s3, gcs or azure in its place) or by a Spark session with the connector for "
            f"`{scheme}`; else mount or copy them, or hand a frame over"
        )
    return path.removeprefix("file://")


def elsewhere(path: str) -> str:
    """The scheme of a path on another file system, else empty; a path that exists locally is local.

    Examples
    --------
    >>> elsewhere("s3://lake/adult"), elsewhere("file:///data/adult"), elsewhere("data/adult")
    ('s3', '', '')
    """
    found = _ELSEWHERE.match(path)
    return found[1] if found and not os.path.lexists(path) else ""


def _found(path: str, kind: Format, partitioned: bool) -> FolderFiles:
    if os.path.exists(path):
        refuse_table_format(path)
    if os.path.isdir(path):
        return folder_files(path, lambda name: _is_of(name, kind), partitioned=partitioned)
    return FolderFiles([path] if os.path.isfile(path) else [])


def _hint(path: str) -> str:
    if os.path.isfile(os.path.join(path, "_CURRENT")):
        return "; it is the sink of an object store, whose `_CURRENT` names the folder of the release: give that"
    if any(sign in path for sign in "*?[{"):
        return "; a path names one file or one folder, and its signs are no pattern: give the folder of the files"
    return " (relative ones start at the policy file)"


@functools.lru_cache(maxsize=256)
def _tell(path: str, names: tuple[str, ...]) -> None:
    """Reported once for a folder and its contents, however often it is read."""
    log.warning("%r: %s", path, left_out_note(names))


def left_out_note(names: Sequence[str]) -> str:
    """The note about files that are not read.

    Examples
    --------
    >>> left_out_note(["_old.parquet"])
    "1 name in the folder was left out: '_old.parquet'"
    """
    shown = ", ".join(map(repr, names[:MOST_NAMED])) + (
        f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    )
    said = "names in the folder were" if len(names) != 1 else "name in the folder was"
    return f"{len(names):,} {said} left out: {shown}"


def _is_of(name: str, kind: Format) -> bool:
    name = name.casefold()
    for packed in PACKED:
        name = name.removesuffix(packed)
    others = {ending for other, endings in _ENDINGS.items() if other != kind for ending in endings}
    return not name.endswith((*others, ".crc", ".md", ".yaml", ".yml"))


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
        found = csv_header(name, source.delimiter, source.form, source.max_bytes)
        if found is None:
            continue
        if first is not None and found != first:
            raise DataError(f"{Path(name).name}: its header differs from that of the first file")
        first = found
    if first is None:
        raise DataError(f"{Path(files[0]).name}: the file is empty; a CSV file needs a header line")
    if source.escaped_formulas:
        first = restored_cells(pa.array(first, pa.string())).to_pylist()
    return first


def open_text(name: str, most: int = MOST_BYTES) -> TextIO:
    """A text file, unpacked (to `most` bytes) by its ending; a byte order mark is skipped."""
    if is_packed(name):
        return io.TextIOWrapper(io.BufferedReader(Unpacking(name, most)), encoding="utf-8-sig", newline="")
    return open(name, encoding="utf-8-sig", newline="")


def wrong_delimiter_hint(names: list[str], delimiter: str) -> str:
    """The hint when a header was split into only one column.

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


Stamp = tuple[int, int, int]
"""Inode, size, time of the last change in nanoseconds; of what is in a store, its files, bytes and a hash of them."""


def stamp_of(path: str) -> Stamp:
    """The stamp of a file.

    Raises
    ------
    EngineError
        It cannot be reached.
    """
    if elsewhere(path):
        return stamp_at(opened_store(path))
    with reading(path, "data"):
        found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns


def require_stamp(path: str, stamp: Stamp | None) -> None:
    """Refuse a file that is no longer the one that was stamped.

    Raises
    ------
    EngineError
    """
    if stamp is not None and stamp_of(path) != stamp:
        raise changed_error(path)


def stamps_of(source: Source) -> dict[str, Stamp]:
    """The stamps of a source's files; empty for a frame or a path that only the session of an engine reaches."""
    if not source.is_path or source.resolved_format == "delta":
        return {}
    path = os.fspath(source.data)
    if elsewhere(path):
        try:
            return {path: stamp_of(path)} if is_reached(path) else {}
        except EngineError:
            return {}  # a session may reach it; where it is copied, each copy is of one moment
    return {name: stamp_of(name) for name in list_files(source)}


def require_stamps(stamps: Mapping[str, Stamp]) -> None:
    """Refuse what was learnt from files that changed meanwhile; raises as `require_stamp`."""
    for name, stamp in stamps.items():
        require_stamp(name, stamp)


NAMED = re.compile(r"part-\d{5,}-(?P<partition>[0-9a-f]{8}-[0-9a-f]{24})\.parquet")


def partition_in(name: str) -> str | None:
    """The partition in a file's name; None: the file belongs to no partition.

    Examples
    --------
    >>> partition_in("run/part-00000-" + "0" * 8 + "-" + "1" * 24 + ".parquet")
    '00000000-111111111111111111111111'
    >>> partition_in("part-00000.parquet") is None
    True
    """
    found = NAMED.fullmatch(name.rsplit("/", 1)[-1])
    return found["partition"] if found else None
