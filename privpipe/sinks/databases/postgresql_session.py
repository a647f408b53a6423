"""A session of a PostgreSQL server: statements, what it says of a table, and errors without a driver's texts."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from privpipe.engines.base.databases import Database
from privpipe.errors import PrivpipeError, SinkError, UsageError
from privpipe.sinks.databases.loading import quoted
from privpipe.sinks.databases.store import NOTHING

__all__ = ["DENIED", "DEPENDED_ON", "Found", "Session"]

PATIENCE: Final = "30s"
DENIED: Final = "this user may not (it must own the table, and have CREATE on the schema)"
DEPENDED_ON: Final = "views of readers depend on it, and the columns are others now; drop these views"
FAULTS: Final = {
    "28": "the server refuses the credentials; the environment gives them",
    "3D": "the server has no database of that name",
    "3F": "there is no such schema; CREATE SCHEMA first",
    "42501": DENIED,
    "53100": "the server's disk is full",
    "53": "the server has no room",
    "55P03": "others hold a lock on it; try again",
    "40": "another transaction came between; try again",
    "57P": "the server ended the connection",
    "57": "the server broke it off",
    "08": "the server cannot be reached",
    "23": "an index or a constraint that somebody put on the table forbids the rows; drop it",
    "2BP01": DEPENDED_ON,
}
FIND: Final = """
    SELECT c.oid::bigint, c.relkind::text, pg_catalog.obj_description(c.oid, 'pg_class'),
        pg_catalog.pg_has_role(c.relowner, 'USAGE'),
        c.relhasrules OR c.relrowsecurity OR EXISTS (
            SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2
"""
COLUMNS: Final = """
    SELECT attname::text, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
    WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
DEPENDANTS: Final = """
    SELECT count(*) FROM (
        SELECT r.ev_class FROM pg_catalog.pg_depend d JOIN pg_catalog.pg_rewrite r ON r.oid = d.objid
        WHERE d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.refclassid = 'pg_catalog.pg_class'::regclass
            AND d.refobjid = $1
        UNION SELECT conrelid FROM pg_catalog.pg_constraint WHERE confrelid = $1
    ) found
"""
GRANTEES: Final = """
    SELECT a.grantee::bigint, pg_catalog.pg_get_userbyid(a.grantee)::text, a.privilege_type, a.is_grantable
    FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a WHERE c.oid = $1 AND a.grantee <> c.relowner
"""
NAMES: Final = """
    SELECT c.relname::text, pg_catalog.obj_description(c.oid, 'pg_class')
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND pg_catalog.starts_with(c.relname::text, $2) AND c.relkind = 'r'
"""


@dataclass(frozen=True)
class Found:
    """What the catalogue says of a table.

    Parameters
    ----------
    number : int
    kind : str
        PostgreSQL's letter.
    comment : str or None
    owned : bool
        Whether this user has the rights of its owner.
    altered : bool
        Whether it has triggers, rules or row security.
    """

    number: int
    kind: str
    comment: str | None
    owned: bool
    altered: bool


class Session:
    """A connection to a server, with one transaction at a time.

    Parameters
    ----------
    database : Database
    called : str
        What errors call the sink.

    Raises
    ------
    UsageError
        No driver, no URL.
    SinkError
        The server cannot be reached, or refuses.
    """

    def __init__(self, database: Database, called: str) -> None:
        self._database, self._called = database, called
        try:
            driver = importlib.import_module("adbc_driver_postgresql.dbapi")
        except ImportError:
            raise UsageError(
                database.located("a database server needs adbc_driver_postgresql: pip install 'privpipe[databases]'")
            ) from None
        url = database.url()
        with self.guarded():
            self._connection = driver.connect(url)
        try:
            self.schema = str(self.ask("SELECT pg_catalog.current_schema()::text")[0][0] or "")
            self.do("SET search_path = pg_catalog, pg_temp")  # nobody's functions and operators
            self.do(f"SET lock_timeout = '{PATIENCE}'")
            self.commit()
        except BaseException:  # raised again; an open session would hold what it locked
            self.close()
            raise

    def ask(self, statement: str, *values: Any, outcome: str = NOTHING) -> list[Any]:
        """The rows of a query."""
        with self.guarded(outcome), self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(map(tuple, cursor.fetchall()))

    def do(self, statement: str, *values: Any, outcome: str = NOTHING) -> None:
        """Run a statement."""
        with self.guarded(outcome), self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)

    def ingest(self, schema: str, name: str, reader: pa.RecordBatchReader) -> None:
        """Append rows to a table, in their order."""
        with self.guarded(), self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, reader, mode="append", db_schema_name=schema)

    def commit(self, outcome: str = NOTHING) -> None:
        """End the transaction."""
        with self.guarded(outcome):
            self._connection.commit()

    def undo(self) -> None:
        """Break the transaction off."""
        with self.guarded():
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection, and let go of its lock."""
        with suppress(Exception):  # what cannot be closed is closed already
            self._connection.close()

    def find(self, schema: str, name: str, outcome: str = NOTHING) -> Found | None:
        """What stands under a name; None: nothing."""
        rows = self.ask(FIND, schema, name, outcome=outcome)
        return Found(*rows[0]) if rows else None

    def columns(self, number: int) -> list[tuple[str, str]]:
        """Names and types of a table's columns."""
        return self.ask(COLUMNS, number)

    def dependants(self, number: int) -> int:
        """How many views and foreign keys depend on a table."""
        return int(self.ask(DEPENDANTS, number)[0][0])

    def grants(self, number: int) -> list[tuple[str, str, bool]]:
        """Whom others than its owner a table is for, quoted, with the privilege and whether it may be handed on."""
        return [
            (quoted(name) if grantee else "PUBLIC", privilege, further)
            for grantee, name, privilege, further in self.ask(GRANTEES, number)
        ]

    def names(self, schema: str, start: str) -> list[tuple[str, str | None]]:
        """Names of tables that begin so, with their comments."""
        return self.ask(NAMES, schema, start)

    def failed(self, said: str, outcome: str = NOTHING) -> SinkError:
        """An error of the sink."""
        return SinkError(self._database.located(f"the sink {self._called!r} cannot be written: {said}; {outcome}"))

    @contextmanager
    def guarded(self, outcome: str = NOTHING) -> Iterator[None]:
        """What the driver says, without its texts: they quote cells, URLs and passwords.

        Raises
        ------
        SinkError
        """
        try:
            yield
            return
        except PrivpipeError:
            raise
        except OSError as error:
            if error.errno is not None:  # not the driver's
                raise
            state, kind = "", type(error).__name__
        except Exception as error:  # noqa: BLE001 what a driver raises is its own affair
            state, kind = str(getattr(error, "sqlstate", None) or ""), type(error).__name__
        said = next((said for prefix, said in FAULTS.items() if state.startswith(prefix)), "the server refuses")
        raise self.failed(f"{said} ({', '.join(filter(None, (kind, state)))})", outcome)
