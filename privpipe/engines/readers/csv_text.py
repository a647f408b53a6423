"""The text of a CSV file: decoded, its first lines skipped, its encoding doubted where the bytes speak against it."""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Iterator
from itertools import dropwhile, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from privpipe.engines.readers.text_forms import NO_QUOTE, TextForm
from privpipe.engines.readers.unpacking import MOST_BYTES, Unpacking, reading, unpacked
from privpipe.errors import DataError

__all__ = ["csv_header", "csv_lines", "not_of_encoding", "plain_text", "start_of_rows", "text_of"]


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
    """Lines of a file from its header on: what stands above it is skipped, comments directly above it too."""
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
    """Any byte is some Latin-1 text: what is UTF-8 throughout, or full of control characters, is another encoding."""
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
