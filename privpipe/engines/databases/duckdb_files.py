"""Tables of a DuckDB file, read by DuckDB itself: read-only, and with nothing but that file in reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from privpipe.blocks.table_name import TableName
from privpipe.engines.databases.locations import Database
from privpipe.engines.databases.staged_rows import staged
from privpipe.errors import DataError, EngineError, UsageError, did_you_mean

__all__ = ["duckdb_rows", "duckdb_tables"]


ALONE = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
}
INEXACT = ("UHUGEINT", "BIT", "BIGNUM", "VARINT")
"""Types that Arrow would take for numbers or bytes that they are not."""
MOST_WHOLE = Decimal(10**38 - 1)
ROWS = 131_072
TABLES = (
    "SELECT table_schema, table_name, table_type FROM information_schema.tables "
    "WHERE table_catalog = current_database() ORDER BY 1, 2"
)


def duckdb_rows(source: Database, path: str, folder: Path) -> str:
    """The rows of a table or a query in a new file of a folder; see `staged`."""
    with _opened(source, path) as connection:
        if source.query is not None:
            statement = source.query
            _require_select(source, statement)
        else:
            assert source.table is not None
            statement = f"SELECT * FROM {_known(source, connection, source.table)}"
        with _guarded(source):
            relation = connection.sql(statement)
            strange = [
                name for name, kind in zip(relation.columns, relation.types, strict=True) if str(kind) in INEXACT
            ]
        huge = [at for at, kind in enumerate(relation.types) if str(kind) == "HUGEINT"]
        if strange:
            raise DataError(
                f"column {strange[0]!r} has a type that no release can carry; cast it to text or a number in a `query:`"
            )
        with _guarded(source):
            read = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
            reader: pa.RecordBatchReader = read(ROWS)
            return staged(_whole_numbers(reader, huge), reader.schema, folder)


def _whole_numbers(reader: pa.RecordBatchReader, huge: list[int]) -> Iterator[pa.RecordBatch]:
    """Batches whose numbers of 128 bits are decimals of 38 digits indeed."""
    for batch in reader:
        for at in huge:
            ends = pc.min_max(batch.column(at)).as_py()
            if ends["max"] is not None and max(ends["max"], -ends["min"]) > MOST_WHOLE:
                raise DataError(
                    f"column {batch.schema.names[at]!r} holds whole numbers of more than 38 digits; cast it to text in "
                    "a `query:`"
                )
        yield batch


def duckdb_tables(path: str, *, views: bool = True) -> list[str]:
    """The tables and views of a file, as a policy writes them.

    Parameters
    ----------
    views : bool
        False: tables alone.

    Raises
    ------
    DataError, EngineError
        As `duckdb_rows`.
    """
    source = Database(at=path, query="")
    with _opened(source, path) as connection, _guarded(source):
        found = connection.execute(TABLES).fetchall()
    return [str(TableName(tuple(row[:2]))) for row in found if views or row[2] != "VIEW"]


@contextmanager
def _opened(source: Database, path: str) -> Iterator[Any]:
    with _guarded(source, opening=True):
        connection = duckdb.connect(path, read_only=True, config=dict(ALONE))
    try:
        yield connection
    finally:
        connection.close()


def _require_select(source: Database, query: str) -> None:
    with _guarded(source):
        statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UsageError(source.located("`query:` must be one SELECT; a source is read and never written"))


def _known(source: Database, connection: Any, table: TableName) -> str:
    """The name of a table that is there, and that stands for one table alone."""
    with _guarded(source):
        found = [tuple(row[:2]) for row in connection.execute(TABLES).fetchall()]
        ((catalogue,),) = connection.execute("SELECT current_database()").fetchall()
    wanted = [part.casefold() for part in table.parts]
    if len(wanted) == 3 and wanted[0] == catalogue.casefold():
        wanted = wanted[1:]
    named = [row for row in found if [part.casefold() for part in row][-len(wanted) :] == wanted]
    if len(named) == 1:
        return TableName((catalogue, *named[0])).duckdb
    shown = [str(TableName(row)) for row in (named or found)]
    if named:
        raise DataError(
            source.located(f"{source.called()} has several tables of this name: {', '.join(shown)}; specify which")
        )
    near = did_you_mean(str(table), [*shown, *(row[-1] for row in found)])
    raise DataError(source.located(f"{source.called()} has no table {str(table)!r}{near}"))


@contextmanager
def _guarded(source: Database, *, opening: bool = False) -> Iterator[None]:
    """What DuckDB says, without its texts: they quote cells and paths."""
    try:
        yield
        return
    except (duckdb.Error, RuntimeError, pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # not DuckDB's, which Arrow passes on
            raise
        problem = _problem(source, error, opening)
    raise problem from None


def _problem(source: Database, error: Exception, opening: bool) -> Exception:
    text, name, kind = str(error), source.called(), type(error).__name__
    if "Could not set lock" in text or "different configuration" in text or "already attached" in text:
        return EngineError(
            source.located(f"{name} is open for writing elsewhere; close it there, or give a copy of the file")
        )
    if "version number" in text or "storage version" in text or "newer version" in text:
        return DataError(
            source.located(
                f"{name} was written by another version of DuckDB than {duckdb.__version__} can read; upgrade duckdb, "
                "or write the table to Parquet with the version that made it"
            )
        )
    if "encrypt" in text.casefold():
        return DataError(source.located(f"{name} is encrypted; write the table to Parquet where its key is known"))
    if opening or "Corrupt" in text or "ead enough bytes" in text or "checksum" in text:
        reached = "ermission" in text
        what = (
            "cannot be opened: permission denied" if reached else "is not a readable DuckDB file (truncated or damaged)"
        )
        return (EngineError if reached else DataError)(source.located(f"{name} {what}"))
    if isinstance(error, duckdb.ParserException | duckdb.BinderException | duckdb.CatalogException):
        return UsageError(
            source.located(
                f"DuckDB does not understand the query or view ({kind}): is it one SELECT of tables and columns there?"
            )
        )
    if isinstance(error, duckdb.PermissionException | duckdb.InvalidInputException):
        return UsageError(
            source.located(f"`query:` reaches beyond {name} or would change it ({kind}); it may read only that file")
        )
    return DataError(source.located(f"DuckDB cannot compute the rows ({kind})"))
