"""Hierarchy files: delimited text, one line a raw value, read with the line each record starts on."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from privpipe.errors import HierarchyError, UsageError

__all__ = ["check_delimiter", "read_records", "write_records"]

DELIMITERS = ",;\t|"
"""Those that are tried where the one that was declared parts no line."""


def check_delimiter(delimiter: object) -> str:
    """The delimiter, when it is a single character that cannot be part of a quote or line end.

    Examples
    --------
    >>> check_delimiter(";")
    ';'
    """
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\ufeff':
        raise UsageError(f"delimiter: must be one character other than a quote or line end, got {delimiter!r}")
    return delimiter


def read_records(path: str | PathLike[str], delimiter: str, name: str) -> tuple[list[list[str]], list[int]]:
    """Records of a UTF-8 file (RFC 4180 quotes, LF or CRLF, BOM stripped, blank lines left out) and their lines.

    Parameters
    ----------
    path : str or PathLike
        A local file.
    delimiter : str
        One character.
    name : str
        The start of error messages.

    Raises
    ------
    HierarchyError
        ``unreadable`` when the file is missing, not UTF-8 or wrongly quoted; ``delimiter`` when lines have one field
        and all come apart under another delimiter; with the line.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise HierarchyError(
            f"{name}: the file cannot be read ({error.strerror}); relative paths start at the policy file",
            kind="unreadable",
        ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise HierarchyError(f"{name}: line {line} is not UTF-8; save the file as UTF-8", kind="unreadable") from None
    try:
        records, lines = _records(text, delimiter)
    except _NotQuoted as error:
        if other := _other_delimiter(text, delimiter):
            raise HierarchyError(f"{name}: line {error.line} {other}", kind="delimiter") from None
        message = f"{name}: the record at line {error.line} is not well quoted ({error})"
        raise HierarchyError(message, kind="unreadable") from None
    single = next((line for record, line in zip(records, lines, strict=True) if len(record) == 1), None)
    if single is not None and (other := _other_delimiter(text, delimiter)):
        raise HierarchyError(f"{name}: line {single} {other}", kind="delimiter")
    return records, lines


class _NotQuoted(Exception):
    """A record that no quote ends, or that goes on behind one."""

    def __init__(self, message: str, line: int) -> None:
        self.line = line
        super().__init__(message)


def _records(text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    records, lines = [], []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    start = 1
    try:
        for record in reader:
            if record:
                records.append(record)
                lines.append(start)
            start = reader.line_num + 1
    except csv.Error as error:
        raise _NotQuoted(str(error), start) from None
    return _without_blank_lines(records, lines)


def _other_delimiter(text: str, delimiter: str) -> str:
    """What to say where every record of a file has the same number of fields, two or more, under another delimiter."""
    for sign in DELIMITERS.replace(delimiter, ""):
        try:
            widths = {len(record) for record in _records(text, sign)[0]}
        except _NotQuoted:
            continue
        if len(widths) == 1 and (fields := widths.pop()) > 1:
            return (
                f"does not come apart under the delimiter {delimiter!r}, and every line has {fields} fields under "
                f"{sign!r}: write `delimiter: {json.dumps(sign)}` next to `file:` (`--delimiter` of commands), or put "
                "quotes around values that hold this character"
            )
    return ""


def write_records(path: str | PathLike[str], records: Iterable[Sequence[str]], delimiter: str) -> None:
    """Write records as UTF-8 with LF line ends, quoted where needed."""
    with Path(path).open("w", encoding="utf-8", newline="") as stream:
        plain = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
        # The csv module does not quote a carriage return when lines end in LF, and would read it as a line end.
        quoted = csv.writer(stream, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for at, record in enumerate(records):
            # A byte order mark at the very start would be taken for the file's own.
            marked = at == 0 and record[0].startswith("\ufeff")
            (quoted if marked or any("\r" in text for text in record) else plain).writerow(record)


def _without_blank_lines(records: list[list[str]], lines: list[int]) -> tuple[list[list[str]], list[int]]:
    # A line of blanks is a blank line, unless the whole file has a single field a line.
    if max(map(len, records), default=1) == 1:
        return records, lines
    kept = [(record, line) for record, line in zip(records, lines, strict=True) if len(record) > 1 or record[0].strip()]
    return [record for record, _ in kept], [line for _, line in kept]
