"""Formats of sources: how a CSV file is written, guessed from its bytes, and the tables of database files."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from privpipe.drafting.guesses import INDEX, MISSING, guess_type
from privpipe.engines import Source
from privpipe.engines.readers.text_forms import Encoding, TextForm
from privpipe.engines.readers.unpacking import MOST_BYTES, Compression, Unpacking, packing_of, reading
from privpipe.errors import DataError, UsageError, did_you_mean

__all__ = [
    "Sniffed",
    "database_keys",
    "database_source",
    "database_tables",
    "made_up_names",
    "seen_delimiter",
    "sniffed",
]


MOST_NAMED = 20


def database_tables(path: str, *, views: bool = True) -> tuple[str, list[str]] | None:
    """What database a file is, and its tables and views as a policy writes them; None for any other file.

    Parameters
    ----------
    views : bool
        False: tables alone.

    Raises
    ------
    DataError, EngineError
        It cannot be read.
    """
    from privpipe.engines.databases import database_kind
    from privpipe.engines.databases.duckdb_files import duckdb_tables
    from privpipe.engines.databases.sqlite_files import sqlite_tables

    kind = database_kind(path)
    if kind is None:
        return None
    if kind == "duckdb":
        return "DuckDB", duckdb_tables(path, views=views)
    return "SQLite", sqlite_tables(path, views=views)


def database_source(path: str, table: str | None) -> Source | None:
    """The source of a table in a database file; None for any other file.

    Raises
    ------
    UsageError
        A table of what is not a database; a database of several tables and none named.
    DataError
        A database without tables.
    """
    from privpipe.blocks.table_name import TableName
    from privpipe.engines.databases import Database

    found = database_tables(path)
    if found is None:
        if table is not None:
            raise UsageError(f"--table is for DuckDB and SQLite files, and {path!r} is none by its first bytes")
        return None
    names = found[1]
    if table is None and len(names) != 1:
        if not names:
            raise DataError(f"{path!r} has no tables")
        shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        raise UsageError(f"{path!r} has {len(names):,} tables: name one by --table ({shown})")
    if table is not None and table not in names and not any(name.endswith(f".{table}") for name in names):
        raise UsageError(f"{path!r} has no table {table!r}{did_you_mean(table, names)}")
    return Source(data=Database(at=path, table=TableName.parse(table or names[0])))


def database_keys(database: Any, home: Path) -> dict[str, Any]:
    """The keys of `source:` for a table of a database, in a policy that is in a folder."""
    at = os.path.relpath(database.at, home) if database.is_file else database.at
    return {"database": at, "table": str(database.table)}


DELIMITERS = (",", ";", "\t", "|")
SAMPLE, TAIL = 1 << 18, 1 << 16
LINES = 200
MOST_ABOVE = MOST_BELOW = 20
MOSTLY, OFTEN = 0.7, 0.2
MAGIC: tuple[tuple[bytes, Compression], ...] = (
    (b"\x1f\x8b", "gz"),
    (b"BZh", "bz2"),
    (b"\x28\xb5\x2f\xfd", "zst"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
)
TOTALS = re.compile(
    r"\W*(?:(?:grand|sub)[ -]?)?(?:totals?|sum|summe|gesamt|insgesamt|totaal|totale)\W*(?:[:=].*)?", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Sniffed:
    """What a file seems to be.

    Parameters
    ----------
    form : TextForm
        Encoding, packing, what is above and below the records, quotes, blanks; numbers and dates are recognised by the
        values of whole columns.
    delimiter : str
    header : bool
    fields : int
        Fields of a record.
    names : tuple of str
        Of all columns, where the first line names all but the first, which is an index then.
    """

    form: TextForm
    delimiter: str
    header: bool
    fields: int
    names: tuple[str, ...] = ()


def sniffed(path: str, delimiter: str | None = None) -> Sniffed:
    """Guess how a file is written.

    Parameters
    ----------
    path : str
        One file of this machine.
    delimiter : str, optional
        What is known of it.

    Raises
    ------
    DataError
        It is not text, or cannot be unpacked.
    EngineError
        It cannot be reached.
    """
    with reading(path, "CSV"), open(path, "rb") as file:
        begin = file.read(8)
    packing = next((name for mark, name in MAGIC if begin.startswith(mark)), None)
    said = packing if packing != packing_of(path) else None
    if packing is None and packing_of(path) is not None:
        said = "none"
    head, tail, encoding = _read(path, packing)
    form = TextForm(encoding=encoding, compression=said)
    try:
        top, bottom = head.decode(form.codec, errors="ignore"), tail.decode(form.codec, errors="ignore")
    except UnicodeError:
        raise DataError(f"{Path(path).name}: no text of any encoding that is known here") from None
    return _of_text(top.removeprefix("\ufeff"), bottom, form, delimiter)


def made_up_names(fields: int) -> tuple[str, ...]:
    """Names for the columns of a file that names none.

    Examples
    --------
    >>> made_up_names(2)
    ('column_1', 'column_2')
    """
    return tuple(f"column_{at}" for at in range(1, fields + 1))


def _read(path: str, packing: Compression | None) -> tuple[bytes, bytes, Encoding]:
    """The beginning, the end, and the encoding by all bytes; a packed file is unpacked as far as is allowed."""
    with reading(path, "CSV"):
        raw: Any = open(path, "rb") if packing is None else Unpacking(path, MOST_BYTES, packing)  # noqa: SIM115
        with raw as file:
            return _ends(io.BufferedReader(file) if packing else file)


def _ends(file: Any) -> tuple[bytes, bytes, Encoding]:
    head = file.read(SAMPLE)
    tail, utf8, controls = head, codecs.getincrementaldecoder("utf-8")(), False
    chunk, is_utf8, undefined = head, True, False
    while chunk:
        if is_utf8:
            try:
                utf8.decode(chunk)
            except UnicodeDecodeError:
                is_utf8 = False
        controls = controls or any(0x80 <= byte < 0xA0 for byte in set(chunk))
        undefined = undefined or bool(set(chunk) & {0x81, 0x8D, 0x8F, 0x90, 0x9D})
        tail = (tail + chunk)[-TAIL:] if chunk is not head else head[-TAIL:]
        chunk = file.read(1 << 22)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # The end alone has no mark: what decodes it is what the beginning says.
        mark = head[:2]
        return head, mark + tail[len(tail) % 2 :] if tail is not head else head, "utf-16"
    if (nul := head[:4096].count(0)) > len(head[:4096]) // 4:
        return head, tail[len(tail) % 2 :], "utf-16-le" if head[1:4096:2].count(0) > nul // 2 else "utf-16-be"
    if is_utf8:
        return head, tail, "utf-8"
    return head, tail, "windows-1252" if controls and not undefined else "latin-1"


def _of_text(top: str, bottom: str, form: TextForm, delimiter: str | None) -> Sniffed:
    lines = top.splitlines(keepends=True)
    lines = lines[:-1] if len(top) >= SAMPLE // 4 and len(lines) > 1 else lines  # the last one may be cut
    quote = _quote("".join(lines[:LINES]))
    chosen = delimiter or _delimiter(lines[:LINES], quote)
    records = _records(lines[:LINES], chosen, quote)
    fields = _usual(records)
    above = _above(records, fields)
    body = [record for record in records if record.line > above]
    form = replace(
        form,
        skip_rows=above,
        quote=quote,
        footer=_below(bottom, chosen, quote, fields) if len(body) > 1 else 0,
        trim=_is_padded([record.fields for record in body]),
        escape="\\" if re.search(r'\\"(?![,;\t|\r\n])', top) and '""' not in top else None,
    )
    header = _is_header(body[0].fields) if body else True
    if not header and body[0].fields[1:] and not body[0].fields[0].strip() and _is_header(body[0].fields[1:]):
        rest = [field.strip() for field in body[0].fields[1:]]
        index = next(name for name in _index_names() if name not in rest)
        form = replace(form, skip_rows=body[0].line)
        return Sniffed(form=form, delimiter=chosen, header=False, fields=fields, names=(index, *rest))
    return Sniffed(form=form, delimiter=chosen, header=header, fields=fields)


def _index_names() -> Iterator[str]:
    yield INDEX
    yield from (f"{INDEX}_{at}" for at in count(1))


@dataclass(frozen=True)
class _Record:
    fields: list[str]
    line: int


def _records(lines: Sequence[str], delimiter: str, quote: str) -> list[_Record]:
    """Records with the number of the line on which each ends."""
    reader = csv.reader(lines, delimiter=delimiter, quotechar=quote, skipinitialspace=False)
    found = []
    try:
        for fields in reader:
            found.append(_Record(fields, reader.line_num))
    except csv.Error:
        pass
    return found


def seen_delimiter(lines: list[str]) -> str:
    """The delimiter that splits every line into the same, largest number of fields; else most of them.

    Examples
    --------
    >>> seen_delimiter(["age;zip", "39;081,02"]), seen_delimiter(["Visits, 2024", "age;zip", "39;1", "50;2"])
    (';', ';')
    """
    return _delimiter(lines, '"')


def _delimiter(lines: Sequence[str], quote: str) -> str:
    best, most = ",", (0.0, 1)
    for delimiter in DELIMITERS:
        counts = Counter(len(record.fields) for record in _records(lines, delimiter, quote) if record.fields)
        several = {fields: count for fields, count in counts.items() if fields > 1}
        fields = max(several, key=lambda each: (several[each], each), default=1)
        share = several.get(fields, 0) / max(sum(counts.values()), 1)
        if share >= MOSTLY / 2 and (rank := (share, fields)) > most:
            best, most = delimiter, rank
    return best


def _usual(records: Sequence[_Record]) -> int:
    counts = Counter(len(record.fields) for record in records if record.fields)
    return counts.most_common(1)[0][0] if counts else 0


def _above(records: Sequence[_Record], fields: int) -> int:
    """Lines above the first record of the usual number of fields, where there are several fields and few such lines."""
    if fields < 2:
        return 0
    first = next((at for at, record in enumerate(records) if len(record.fields) == fields), 0)
    # A title that has as many delimiters as a record is followed by fewer names than there are fields.
    above = records[first - 1].line if first else 0
    return above if above <= MOST_ABOVE else 0


def _below(bottom: str, delimiter: str, quote: str, fields: int) -> int:
    """Records at the end that are none, down to the last."""
    lines = bottom.splitlines(keepends=True)[1 if len(bottom) >= TAIL // 4 else 0 :]
    records = [record.fields for record in _records(lines, delimiter, quote) if any(map(str.strip, record.fields))]
    last = records[-min(MOST_BELOW, max(len(records) - 2, 0)) :] if len(records) > 2 else []
    strange = [at for at, record in enumerate(last) if _is_no_record(record, fields)]
    # Without a line end the last line may be a record that is cut short, and the file truncated.
    if last and len(last) - 1 in strange and not bottom.endswith("\n") and not _is_total(last[-1]):
        return 0
    # Whatever is strange at the end must reach the end: one in the middle is a fault of the data.
    if not strange:
        return 0
    first = strange[0]
    return len(last) - first if len(strange) == len(last) - first else 0


def _is_no_record(record: Sequence[str], fields: int) -> bool:
    """Totals, or one text alone; a record that is cut short is none of these, for the file may be truncated."""
    held = [field.strip() for field in record if field.strip()]
    return _is_total(record) or (1 < fields != len(record) and len(held) == 1 and " " in held[0])


def _is_total(record: Sequence[str]) -> bool:
    return bool(TOTALS.fullmatch(next(field.strip() for field in record if field.strip())))


def _quote(text: str) -> str:
    single = len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n]|$)", text, re.MULTILINE))
    return "'" if single > 2 and '"' not in text else '"'


def _is_padded(rows: Sequence[Sequence[str]]) -> bool:
    """Whether some column often has blanks around what it holds."""
    many, padded = Counter[int](), Counter[int]()
    for row in rows[1:]:
        for at, field in enumerate(row):
            if field.strip():
                many[at] += 1
                padded[at] += field != field.strip()
    return any(padded[at] >= max(2, OFTEN * count) for at, count in many.items())


def _is_header(fields: Sequence[str]) -> bool:
    """Whether a first line names columns: distinct texts, none a number, a date or empty."""
    stripped = [field.strip() for field in fields]
    names = all(
        field
        and field not in MISSING
        and guess_type([field])[0] == "text"
        and not re.fullmatch(r"[\d.,:/ '+-]+", field)
        for field in stripped
    )
    return names and len(set(stripped)) == len(stripped)
