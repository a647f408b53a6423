"""Tables of database servers: PostgreSQL by ADBC, which brings Arrow; any other by SQLAlchemy."""

from __future__ import annotations

import importlib
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from privpipe.engines.base.conversion import decimal_scale, from_text
from privpipe.engines.databases.locations import Database
from privpipe.engines.databases.staged_rows import staged
from privpipe.errors import DataError, EngineError, PrivpipeError, UsageError

__all__ = ["server_rows"]


ROWS: Final = 32_768
POSTGRESQL: Final = ("postgresql", "postgres")
OURS: Final = ("sqlite", "duckdb")
SELECTS: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|VALUES|TABLE)\b", re.IGNORECASE | re.DOTALL)
MISREAD: Final = ("money", "oid", "timetz", "bit", "varbit", "xid", "cid")
"""Types of PostgreSQL that arrive as numbers or bytes that they are not."""
UNREACHED: Final = ("08", "57P")
FAULTS: Final = {
    "28": (
        EngineError,
        "refuses the credentials; the environment gives them (the URL's variable, or PGUSER and PGPASSWORD)",
    ),
    "3D": (EngineError, "has no database of that name"),
    "42501": (EngineError, "does not let this user read the table"),
    "42P01": (DataError, "has no such table"),
    "42703": (UsageError, "has no column that `query:` names"),
    "25006": (UsageError, "was asked to write; a source is read and never written"),
    "0A": (UsageError, "does not serve `query:`; it must be one SELECT that writes nothing"),
    "42": (UsageError, "does not understand `query:`; it must be one SELECT"),
}


def server_rows(source: Database, folder: Path) -> str:
    """The rows of a table or a query in a new file of a folder; see `staged`.

    Raises
    ------
    UsageError
        No driver, no SELECT, no URL.
    EngineError
        The server cannot be reached or refuses.
    DataError
        See `staged`.
    """
    url = source.url()
    scheme = url.partition("://")[0]
    if scheme.partition("+")[0] in OURS:
        raise UsageError(source.located("a DuckDB or SQLite database is a file: write its path under `database:`"))
    if source.query is not None and not SELECTS.match(source.query):
        raise UsageError(source.located("`query:` must be one SELECT; a source is read and never written"))
    if scheme in POSTGRESQL:
        return _postgresql(source, url, folder)
    return _any(source, url, folder)


def _library(source: Database, package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(
            source.located(f"a database server needs {package.partition('.')[0]}: pip install 'privpipe[databases]'")
        ) from None


def _postgresql(source: Database, url: str, folder: Path) -> str:
    dbapi = _library(source, "adbc_driver_postgresql.dbapi")
    if source.query is not None:
        # As a part of another query nothing but a query is understood, and nothing of it writes.
        statement = f"SELECT * FROM (\n{source.query.strip().rstrip(';')}\n) AS privpipe_source"
    else:
        assert source.table is not None
        statement = f"SELECT * FROM {source.table.duckdb}"
    with _guarded(source), dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(statement)
        reader = cursor.fetch_record_batch()
        for field in reader.schema:
            _require_known(field)
        schema = _plain(
            pa.record_batch([pa.nulls(0, each.type) for each in reader.schema], schema=reader.schema)
        ).schema
        return staged(map(_plain, reader), schema, folder)


def _require_known(field: pa.Field) -> None:
    said = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    unknown = isinstance(field.type, pa.BaseExtensionType) and pt.is_binary(field.type.storage_type)
    if said in MISREAD or (unknown and said != "uuid"):
        raise DataError(
            f"column {field.name!r} has the type {said or field.type}, which no release can carry; cast it to text or "
            "numeric in a `query:`"
        )


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch without extension types and metadata; decimals, which come as texts, with the digits they need."""
    columns = [_column(array, field.name) for array, field in zip(batch.columns, batch.schema, strict=True)]
    return pa.record_batch(columns, names=batch.schema.names)


def _column(array: pa.Array, name: str) -> pa.Array:
    kind = array.type
    if not isinstance(kind, pa.BaseExtensionType):
        return array
    storage = array.storage
    if kind.extension_name == "arrow.uuid":
        return pa.array(
            [None if cell is None else str(uuid.UUID(bytes=cell)) for cell in storage.to_pylist()], pa.string()
        )
    if getattr(kind, "type_name", "") != "numeric":
        return storage
    found, wrong = from_text(storage, "decimal", scale=decimal_scale(storage))
    if wrong:
        raise DataError(
            f"column {name!r}: {wrong:,} cells are infinite or have more than 38 digits; round or leave them out in "
            "a `query:`"
        )
    return found


def _any(source: Database, url: str, folder: Path) -> str:
    alchemy = _library(source, "sqlalchemy")
    with _guarded(source):
        engine = alchemy.create_engine(url, hide_parameters=True, poolclass=alchemy.pool.NullPool)
    with _guarded(source), engine.connect() as connection:
        if source.query is not None:
            statement = source.query.strip().rstrip(";")
        else:
            assert source.table is not None
            prepared = engine.dialect.identifier_preparer
            statement = "SELECT * FROM " + ".".join(map(prepared.quote_identifier, source.table.parts))
        if engine.dialect.name in POSTGRESQL:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        streamed = connection.execution_options(stream_results=True, yield_per=ROWS)
        try:
            result = streamed.exec_driver_sql(statement)
            names = list(result.keys())
            schema = pa.schema([(name, pa.string()) for name in names])
            try:
                return staged(_inferred(result, names), schema, folder)
            finally:
                result.close()
        finally:
            connection.rollback()  # whatever the statement did


def _inferred(result: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
    for rows in result.partitions(ROWS):
        yield pa.record_batch([_cells([row[at] for row in rows], name) for at, name in enumerate(names)], names=names)


def _cells(cells: list[Any], name: str) -> pa.Array:
    cells = [None if isinstance(cell, Decimal) and cell.is_nan() else cell for cell in cells]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {uuid.UUID}:
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    try:
        if kinds == {int, float} and any(isinstance(cell, int) and abs(cell) > 2**53 for cell in cells):
            raise pa.ArrowInvalid
        if bool in kinds and len(kinds) > 1:
            raise pa.ArrowInvalid
        found = pa.array(cells)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        said = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(
            f"column {name!r} holds what no release can carry, or mixes types ({said}); cast it in a `query:`"
        ) from None
    return pc.cast(found, pa.decimal128(38, found.type.scale)) if pt.is_decimal(found.type) else found


@contextmanager
def _guarded(source: Database) -> Iterator[None]:
    """What a driver says, without its texts: they quote cells, URLs and passwords."""
    try:
        yield
        return
    except PrivpipeError:
        raise
    except MemoryError:
        problem: PrivpipeError = EngineError("memory ran out while a database was read")
    except OSError as error:
        if error.errno is not None:  # not a driver's
            raise
        problem = _problem(source, error)
    except Exception as error:  # noqa: BLE001 each driver fails in its own ways
        problem = _problem(source, error)
    raise problem from None


def _problem(source: Database, error: Exception) -> PrivpipeError:
    name, kind = source.called(), type(error).__name__
    original = getattr(error, "orig", None) or error
    state = str(getattr(original, "sqlstate", None) or getattr(original, "pgcode", None) or "")
    for prefix, (raised, said) in FAULTS.items():
        if state.startswith(prefix):
            return raised(source.located(f"{name} {said}"))
    if kind in ("NoSuchModuleError", "ArgumentError", "ModuleNotFoundError", "ImportError"):
        return UsageError(source.located(f"{name}: no driver of that name is installed for SQLAlchemy ({kind})"))
    if kind in ("InterfaceError",) or (kind == "OperationalError" and not state) or state.startswith(UNREACHED):
        return EngineError(
            source.located(
                f"{name} cannot be reached or refuses ({kind}); check that it runs and what the environment declares"
            )
        )
    return DataError(source.located(f"{name} cannot compute the rows ({kind}{', ' + state if state else ''})"))
