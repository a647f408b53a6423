"""Tables of a SQLite file, read by Python's own sqlite3; its cells have types, its columns only the wish for one."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from privpipe.blocks.table_name import TableName
from privpipe.engines.base.logical_types import check_names
from privpipe.engines.databases.locations import Database
from privpipe.engines.databases.staged_rows import EXACT, staged
from privpipe.engines.readers.unpacking import reading
from privpipe.errors import DataError, EngineError, UsageError, did_you_mean

__all__ = ["sqlite_rows", "sqlite_tables"]


ROWS: Final = 32_768
AT_ONCE: Final = 60
"""Columns that one statement examines: SQLite gives up to 2,000 results."""
PATIENCE: Final = 5.0
"""Seconds to wait for a writer."""
VIEW: Final = "privpipe_source"
SCALED: Final = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*\d+\s*,\s*(\d+)\s*\)", re.IGNORECASE)
DAY: Final = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
MOST_DECIMAL: Final = 10**15
"""Below it a number of 64 bits has one decimal of a few digits that it stands for."""
TABLES: Final = (
    "SELECT name, type FROM sqlite_master "
    "WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_' ORDER BY 1"
)


@dataclass(frozen=True)
class Column:
    """A column: what it was declared as, and what its cells are."""

    name: str
    declared: str
    integers: int
    numbers: int
    texts: int
    blobs: int
    least: int | None
    most: int | None
    fits_scale: bool
    dates: int
    instants: int
    zoned: int


def sqlite_rows(source: Database, path: str, folder: Path) -> str:
    """The rows of a table or a query in a new file of a folder; see `staged`."""
    with _opened(source, path) as connection:
        _define(source, connection)
        with _guarded(source):
            names = [(row[1], str(row[2])) for row in connection.execute(f"PRAGMA temp.table_xinfo({VIEW})")]
        check_names([name for name, _ in names])
        columns = [
            column
            for at in range(0, len(names), AT_ONCE)
            for column in _examined(source, connection, names[at : at + AT_ONCE])
        ]
        makers = [_maker(column) for column in columns]
        schema = pa.schema([(column.name, kind) for column, (kind, _) in zip(columns, makers, strict=True)])
        with _guarded(source):
            return staged(_batches(source, connection, schema, [make for _, make in makers]), schema, folder)


def sqlite_tables(path: str, *, views: bool = True) -> list[str]:
    """The tables and views of a file, as a policy writes them.

    Parameters
    ----------
    views : bool
        False: tables alone.

    Raises
    ------
    DataError, EngineError
        As `sqlite_rows`.
    """
    source = Database(at=path, query="")
    with _opened(source, path) as connection, _guarded(source):
        found = [row for row in connection.execute(TABLES) if row[0].isprintable()]
    return [str(TableName((name,))) for name, kind in found if views or kind == "table"]


@contextmanager
def _opened(source: Database, path: str) -> Iterator[sqlite3.Connection]:
    """A connection in one transaction, so that all that is read is of one moment."""
    with _guarded(source):
        # Never `immutable`, which would read past what a writer has in its log.
        connection = sqlite3.connect(
            f"file:{quote(str(Path(path).absolute()))}?mode=ro", uri=True, timeout=PATIENCE, isolation_level=None
        )
    with closing(connection):
        with _guarded(source):
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            _require_whole(source, path)
        yield connection


def _require_whole(source: Database, path: str) -> None:
    """Refuse a file that ends within its pages: SQLite takes what is missing for zeros, and cells for empty ones."""
    with reading(path, "SQLite"), open(path, "rb") as file:
        head = file.read(100)
        size = os.fstat(file.fileno()).st_size
    page = int.from_bytes(head[16:18], "big")
    page = 65536 if page == 1 else page
    counted = head[24:28] == head[92:96]  # else an old writer left the number of pages as it was
    if len(head) < 100 or not page or size % page or (counted and size < page * int.from_bytes(head[28:32], "big")):
        raise DataError(source.located(f"{source.called()} is not a readable SQLite file (truncated)"))


def _define(source: Database, connection: sqlite3.Connection) -> None:
    """A temporary view of what is asked; SQLite makes one of a SELECT alone."""
    if source.query is not None:
        query = source.query.strip().removesuffix(";")
        if not re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES)\b", query, re.IGNORECASE | re.DOTALL):
            raise UsageError(source.located("`query:` must be one SELECT; a source is read and never written"))
    else:
        assert source.table is not None
        query = f"SELECT * FROM {_known(source, connection, source.table)}"
    with _guarded(source, defining=True):
        connection.execute(f"CREATE TEMP VIEW {VIEW} AS {query}\n")


def _known(source: Database, connection: sqlite3.Connection, table: TableName) -> str:
    with _guarded(source):
        found = [str(row[0]) for row in connection.execute(TABLES)]
    *schema, name = table.parts
    folded = {each.casefold(): each for each in found}
    if [part.casefold() for part in schema] not in ([], ["main"]) or name.casefold() not in folded:
        near = did_you_mean(name, found)
        raise DataError(source.located(f"{source.called()} has no table {str(table)!r}{near}"))
    return TableName(("main", folded[name.casefold()])).duckdb


def _examined(source: Database, connection: sqlite3.Connection, names: Sequence[tuple[str, str]]) -> Iterator[Column]:
    parts = [each for name, declared in names for each in _questions(name, declared)]
    with _guarded(source):
        answers = connection.execute(f"SELECT {', '.join(parts)} FROM {VIEW}").fetchone()
    wide = len(parts) // len(names)
    for at, (name, declared) in enumerate(names):
        yield Column(name, declared.upper(), *answers[at * wide : (at + 1) * wide])


def _questions(name: str, declared: str) -> list[str]:
    it = '"' + name.replace('"', '""') + '"'
    is_text = f"typeof({it}) = 'text'"
    scaled = SCALED.search(declared)
    fits = f"round({it}, {scaled[1]}) = {it} AND abs({it}) < {MOST_DECIMAL}" if scaled else "0"
    dated, timed = "DATE" in declared.upper(), "TIME" in declared.upper()
    zone = f"CASE WHEN {it} LIKE '%Z' THEN 1 WHEN {it} GLOB '*[+-][0-9][0-9]:[0-9][0-9]' THEN 6 ELSE 0 END"
    bare = f"substr({it}, 1, length({it}) - {zone})"
    clock = f"replace(substr({it}, 1, 19), 'T', ' ')"
    rest = f"substr({bare}, 20)"
    instant = (
        f"{is_text} AND {it} GLOB '{DAY}[T ]*' AND datetime({clock}, '+0 days') = {clock} AND "
        f"({rest} = '' OR (length({rest}) BETWEEN 2 AND 7 AND {rest} GLOB '.*' "
        f"AND substr({rest}, 2) NOT GLOB '*[^0-9]*'))"
    )
    return [
        f"total(typeof({it}) = 'integer')",
        f"total(typeof({it}) = 'real')",
        f"total({is_text})",
        f"total(typeof({it}) = 'blob')",
        f"min(CASE WHEN typeof({it}) = 'integer' THEN {it} END)",
        f"max(CASE WHEN typeof({it}) = 'integer' THEN {it} END)",
        f"coalesce(min(CASE WHEN typeof({it}) = 'real' THEN {fits} ELSE 1 END), 1)",
        f"total({is_text} AND {it} GLOB '{DAY}' AND date({it}, '+0 days') = {it})" if dated else "0",
        f"total({instant} AND {zone} = 0)" if dated or timed else "0",
        f"total({instant} AND {zone} > 0)" if dated or timed else "0",
    ]


def _maker(column: Column) -> tuple[pa.DataType, Callable[[Any], Any]]:
    """The type of a column, and what makes a cell of it."""
    counts = {"whole numbers": column.integers, "numbers": column.numbers, "texts": column.texts, "bytes": column.blobs}
    held = {name: int(count) for name, count in counts.items() if count}
    if len(held) > 1 and set(held) != {"whole numbers", "numbers"}:
        said = ", ".join(f"{count:,} {name}" for name, count in held.items())
        raise DataError(
            f"column {column.name!r} mixes {said}; make it one type with a `query:`, as in CAST(x AS TEXT) or "
            "NULLIF(x, '')"
        )
    if not held:
        return _wished(column.declared), _as_is
    if "bytes" in held:
        return pa.binary(), _as_is
    return _of_texts(column) if "texts" in held else _of_numbers(column)


def _of_numbers(column: Column) -> tuple[pa.DataType, Callable[[Any], Any]]:
    scaled = SCALED.search(column.declared)
    if scaled and int(scaled[1]) and column.fits_scale:
        digits = int(scaled[1])
        return pa.decimal128(38, digits), lambda cell: None if cell is None else _decimal(cell, digits)
    if not column.numbers:
        if "BOOL" in column.declared and column.least in (0, 1) and column.most in (0, 1):
            return pa.bool_(), lambda cell: None if cell is None else bool(cell)
        return pa.int64(), _as_is
    if column.integers and max(-(column.least or 0), column.most or 0) > EXACT:
        raise DataError(
            f"column {column.name!r} mixes numbers with whole numbers beyond 2^53, which would be rounded; cast it to "
            "TEXT or INTEGER in a `query:`"
        )
    return pa.float64(), lambda cell: None if cell is None else float(cell)


def _of_texts(column: Column) -> tuple[pa.DataType, Callable[[Any], Any]]:
    if column.texts == column.dates:
        return pa.date32(), _as_is
    if column.texts == column.instants:
        return pa.timestamp("us"), _as_is
    if column.texts == column.zoned:
        return pa.timestamp("us", "UTC"), _as_is
    return pa.string(), _as_is


def _wished(declared: str) -> pa.DataType:
    """The type of a column without a cell, by SQLite's own rules of affinity."""
    if "INT" in declared:
        return pa.int64()
    if any(each in declared for each in ("CHAR", "CLOB", "TEXT")):
        return pa.string()
    if "BLOB" in declared:
        return pa.binary()
    return pa.float64() if any(each in declared for each in ("REAL", "FLOA", "DOUB")) else pa.string()


def _as_is(cell: Any) -> Any:
    return cell


def _decimal(cell: float, digits: int) -> Decimal:
    return Decimal(f"{cell:.{digits}f}" if isinstance(cell, float) else cell)


def _batches(
    source: Database, connection: sqlite3.Connection, schema: pa.Schema, makers: Sequence[Callable[[Any], Any]]
) -> Iterator[pa.RecordBatch]:
    cursor = connection.execute(f"SELECT * FROM {VIEW}")
    while rows := cursor.fetchmany(ROWS):
        try:
            yield pa.record_batch(
                [_array([make(row[at]) for row in rows], schema.field(at).type) for at, make in enumerate(makers)],
                schema=schema,
            )
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            raise DataError(
                source.located(
                    f"{source.called()}: cells changed their type while they were read; is the query random?"
                )
            ) from None


def _array(cells: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.array(cells, pa.string()).cast(kind)
    return pa.array(cells, kind)


@contextmanager
def _guarded(source: Database, *, defining: bool = False) -> Iterator[None]:
    """What SQLite says, without its texts: they quote cells."""
    try:
        yield
        return
    except (sqlite3.Error, sqlite3.Warning) as error:
        problem = _problem(source, error, defining)
    raise problem from None


def _problem(source: Database, error: Exception, defining: bool) -> Exception:
    name, kind = source.called(), getattr(error, "sqlite_errorname", None) or type(error).__name__
    if kind.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return EngineError(
            source.located(f"{name} is locked by a writer; run again once it is done, or give a copy of the file")
        )
    if kind.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")):
        return DataError(source.located(f"{name} is not a readable SQLite file (truncated, damaged or encrypted)"))
    if kind.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_PERM")):
        return EngineError(
            source.located(
                f"{name} cannot be opened to read ({kind}); a file with a log (-wal) next to it needs a folder that "
                "may be written: give a copy, or close its writer"
            )
        )
    if defining or kind == "SQLITE_ERROR" or isinstance(error, sqlite3.ProgrammingError | sqlite3.Warning):
        return UsageError(
            source.located(
                f"SQLite does not understand the query or view ({kind}): is it one SELECT of tables and columns there?"
            )
        )
    return DataError(source.located(f"SQLite cannot compute the rows ({kind})"))
