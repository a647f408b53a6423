"""A table of a PostgreSQL server as a sink.

Rows are replaced in one transaction of a session whose errors carry no values.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from privpipe.blocks.table_name import TableName
from privpipe.engines.databases import Database
from privpipe.errors import DataError, PrivpipeError, SinkError, UsageError
from privpipe.sinks.databases.store import (
    DOCUMENTS,
    NOTHING,
    Release,
    StagedRows,
    Store,
    checked_reader,
    column_types,
    quoted,
)

__all__ = ["DENIED", "DEPENDED_ON", "Found", "PostgresqlStore", "Session"]


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
    "23": "an index or a constraint on the table forbids the rows; drop it",
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
    """What the catalogue states about a table.

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
            self.do("SET search_path = pg_catalog, pg_temp")  # no functions and operators of other users
            self.do(f"SET lock_timeout = '{PATIENCE}'")
            self.commit()
        except BaseException:  # raised again; an open session would keep its locks
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
        """Close the connection, and release its lock."""
        with suppress(Exception):  # if it cannot be closed, it is closed already
            self._connection.close()

    def find(self, schema: str, name: str, outcome: str = NOTHING) -> Found | None:
        """What is under a name; None: nothing."""
        rows = self.ask(FIND, schema, name, outcome=outcome)
        return Found(*rows[0]) if rows else None

    def columns(self, number: int) -> list[tuple[str, str]]:
        """Names and types of a table's columns."""
        return self.ask(COLUMNS, number)

    def dependants(self, number: int) -> int:
        """How many views and foreign keys depend on a table."""
        return int(self.ask(DEPENDANTS, number)[0][0])

    def grants(self, number: int) -> list[tuple[str, str, bool]]:
        """Who else than its owner a table is granted to, quoted, with privilege and grant option."""
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
        except Exception as error:  # noqa: BLE001 a driver may raise anything
            state, kind = str(getattr(error, "sqlstate", None) or ""), type(error).__name__
        said = next((said for prefix, said in FAULTS.items() if state.startswith(prefix)), "the server refuses")
        raise self.failed(f"{said} ({', '.join(filter(None, (kind, state)))})", outcome)


log = logging.getLogger("privpipe.release")
T = TypeVar("T")
MOST_BYTES: Final = 63
MOST_COLUMNS: Final = 1600
OF_THE_SYSTEM: Final = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
BY_HAND: Final = "the release could not be withdrawn; drop the table by hand"


@dataclass(frozen=True)
class _Kept:
    """What was published before: its documents and comment, and of each table the one that holds its rows.

    Parameters
    ----------
    documents : mapping of text to text
    comment : str
    tables : mapping of text to (str, bool)
        By name; whether it is the published table itself, under another name.
    """

    documents: Mapping[str, str]
    comment: str
    tables: Mapping[str, tuple[str, bool]]


class PostgresqlStore(Store):
    """A table of a server, or several.

    Parameters
    ----------
    database : Database
    members : tuple of str
        See `Store.members`.

    Raises
    ------
    UsageError
        A name of three parts or of more than 63 bytes; no URL.
    """

    def __init__(self, database: Database, members: tuple[str, ...]) -> None:
        self.database, self.members = database, members
        parts = self.table.parts
        if len(parts) > 2:
            raise UsageError(database.located("a table of PostgreSQL is written `schema.table` or `table`"))
        self._schema = parts[0] if len(parts) == 2 else ""
        self._name, self._texts = parts[-1], parts[-1] + DOCUMENTS
        for part in (*parts[:-1], *self.names, self._texts):
            if len(part.encode()) > MOST_BYTES:
                raise UsageError(
                    database.located(
                        f"PostgreSQL cuts names to {MOST_BYTES} bytes, and {part!r} has {len(part.encode())}; give the "
                        "sink a shorter name"
                    )
                )
        self._own: Session | None = None
        self._locked = False
        self._loaded: dict[str, str] = {}
        self._made: list[str] = []
        self._kept: _Kept | None = None

    @property
    def called(self) -> str:
        """The database, never by its URL, and the table."""
        return f"{self.database.called()}: {self.table}"

    @property
    def identity(self) -> str:
        """What two names of the same table share; the URL stays within a hash."""
        return "\0".join((self.database.at or self.database.env, str(self.table)))

    @property
    def folder(self) -> Path | None:
        """No separate folder."""
        return None

    def take(self, area: Path) -> None:
        self._connect()
        number = hashlib.sha256(f"privpipe sink {self._schema}.{self._name}".encode()).digest()[:8]
        key = int.from_bytes(number, "big", signed=True)
        if not self._session.ask("SELECT pg_catalog.pg_try_advisory_lock($1)", key)[0][0]:
            raise self.busy()
        self._locked = True
        self._require_ours()
        for name, comment in self._session.names(self._schema, self._private):
            if comment == self._private:
                self._session.do(f"DROP TABLE {self._quoted(name)}")
        self._session.commit()

    def require_free(self) -> None:
        self._connect()
        try:
            self._require_ours()
        finally:
            self._close()

    def leave(self) -> None:
        if self._own is None:
            return
        try:
            if self._locked:
                self.drop_loaded()
        except SinkError as problem:  # the run's own error is reported first; the next run tries again
            log.warning("staged tables could not be dropped (%s); the next run drops them", problem)
        finally:
            self._close()

    def load(self, rows: Mapping[str, StagedRows], folder: Path) -> Mapping[str, Database]:
        for member, own in rows.items():
            schema = own.schema
            _require_names(schema)
            loaded = self._loaded[self.name_of(member)] = f"{self._private}{secrets.token_hex(8)}"
            self._made.append(loaded)
            listed = ", ".join(f"{quoted(name)} {kind}" for name, kind in column_types(schema, "postgresql"))
            self._make_private(loaded, f"({listed})")
            self._session.commit()

            with checked_reader(own, "postgresql") as reader:
                self._session.ingest(self._schema, loaded, reader)
            self._session.commit()
        return {member: self._at(self._loaded[self.name_of(member)]) for member in self.members}

    def published(self) -> Mapping[str, Database]:
        return {member: self._at(self.name_of(member)) for member in self.members}

    def _at(self, name: str) -> Database:
        return replace(self.database, table=TableName((self._schema, name), self.database.place))

    def drop_loaded(self) -> None:
        self._session.undo()
        for name in self._made:
            self._session.do(f"DROP TABLE IF EXISTS {self._quoted(name)}")
        self._session.commit()
        self._made = []

    def publish(self, release: Release) -> None:
        old = self._require_ours()
        self._kept = self._set_aside(old) if old else None
        kept = {} if self._kept is None else self._kept.tables
        for name in self.names:
            if name not in kept or kept[name][1]:
                columns = self._session.columns(self._number(self._loaded[name]))
                listed = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns)
                self._session.do(f"CREATE TABLE {self._quoted(name)} ({listed})")
                for whom, privilege, further in self._session.grants(old[name]) if name in old else []:
                    handed_on = " WITH GRANT OPTION" if further else ""
                    self._session.do(f"GRANT {privilege} ON {self._quoted(name)} TO {whom}{handed_on}")
            self._copy(self._loaded[name], name)
        self._write_texts(release.documents, release.comment, self.names)
        self._session.commit()

    def withdraw(self, run_id: str) -> None:
        try:
            self._session.undo()
            self._session.ask("SELECT 1")
        except SinkError:  # the connection is gone, and the release may be there
            self._close()
            self._connect()
        if self._run() != run_id or not self._require_ours(BY_HAND):
            self._session.commit()
            return
        kept = {} if self._kept is None else self._kept.tables
        for name in self.names:
            if name not in kept or kept[name][1]:
                self._session.do(f"DROP TABLE {self._quoted(name)}", outcome=BY_HAND)
        for name, (table, renamed) in kept.items():
            if renamed:
                self._session.do(f"ALTER TABLE {self._quoted(table)} RENAME TO {quoted(name)}", outcome=BY_HAND)
            else:
                self._empty(name, BY_HAND)
                self._copy(table, name, BY_HAND)
        if self._kept is None:
            self._session.do(f"DROP TABLE {self._quoted(self._texts)}", outcome=BY_HAND)
        else:
            self._write_texts(self._kept.documents, self._kept.comment, tuple(kept))
        self._session.commit(BY_HAND)

    def current(self) -> str | None:
        return self._seen(self._run)

    def texts(self) -> Mapping[str, str]:
        return self._seen(lambda: {} if self._run() is None else self._documents())

    def _seen(self, look: Callable[[], T]) -> T:
        """What a look at the published tables finds, over the session that is open or a separate one."""
        if self._own is not None:
            found = look()
            self._own.commit()
            return found
        self._connect()
        try:
            return look()
        finally:
            self._close()

    def _documents(self) -> dict[str, str]:
        return dict(self._session.ask(f"SELECT name, document FROM {self._quoted(self._texts)}"))

    @property
    def _session(self) -> Session:
        if self._own is None:
            raise TypeError("the sink is not open")
        return self._own

    def _connect(self) -> None:
        self._own = Session(self.database, self.called)
        self._schema = self._schema or self._own.schema
        if not self._schema:
            problem = self._own.failed("the user has no schema to write to; set `schema.table`")
            self._close()
            raise problem
        self.database = self._at(self._name)

    def _close(self) -> None:
        own, self._own, self._locked = self._own, None, False
        if own is not None:
            own.close()

    def _run(self) -> str | None:
        found = self._session.find(self._schema, self._texts)
        return Release.run_of(found.comment) if found else None

    @property
    def _private(self) -> str:
        """Begins the names of tables that are staged for this sink, and marks them."""
        return f"_privpipe_{hashlib.sha256(f'{self._schema}.{self._name}'.encode()).hexdigest()[:8]}"

    def _quoted(self, name: str) -> str:
        return quoted(self._schema, name)

    def _require_ours(self, outcome: str = NOTHING) -> dict[str, int]:
        """The numbers of the published tables, by name; nothing: there are none.

        Raises
        ------
        SinkError
        """
        run = self._ours(self._texts, outcome)
        published = () if run is None else self.names_in(self._documents())
        numbers: dict[str, int] = {}
        for name in dict.fromkeys((*self.names, *published)):
            found = self._ours(name, outcome)
            if found is None and name not in published:
                continue
            if found is None or run is None or found[0] != run[0]:
                raise self.foreign(f", for {self._texts!r} is not of the same run")
            numbers[name] = found[1]
        return numbers

    def _ours(self, name: str, outcome: str) -> tuple[str, int] | None:
        """The run that published a table, and the table's number; None: there is no table."""
        found = self._session.find(self._schema, name, outcome)
        if found is None:
            return None
        run = Release.run_of(found.comment)
        if found.kind != "r" or run is None:
            raise self.foreign("" if name in self.names else f" (nor {name!r})")
        if not found.owned:
            raise self._session.failed(DENIED, outcome)
        if found.altered:
            said = f"{name!r} has triggers, rules or row security, which would act on each release; drop them"
            raise self._session.failed(said, outcome)
        return run, found.number

    def _set_aside(self, old: Mapping[str, int]) -> _Kept:
        """Keep the published rows in private tables, and leave each published table empty or its name free."""
        for name in old:
            self._session.do(f"LOCK TABLE {self._quoted(name)} IN SHARE ROW EXCLUSIVE MODE")
        texts = self._documents()
        found = self._session.find(self._schema, self._texts)
        tables = {name: self._set_one_aside(name, number) for name, number in old.items()}
        return _Kept(texts, str(found.comment) if found else "", tables)

    def _set_one_aside(self, name: str, old: int) -> tuple[str, bool]:
        before = f"{self._private}{secrets.token_hex(8)}_before"
        loaded = self._loaded.get(name)
        renamed = loaded is None or self._session.columns(old) != self._session.columns(self._number(loaded))
        if renamed:
            if self._session.dependants(old):
                raise self._session.failed(DEPENDED_ON)
            self._session.do(f"ALTER TABLE {self._quoted(name)} RENAME TO {quoted(before)}")
            self._session.do(f"COMMENT ON TABLE {self._quoted(before)} IS '{self._private}'")
        else:
            self._make_private(before, f"AS SELECT * FROM {self._quoted(name)}")
            self._empty(name)
        self._made.append(before)
        return before, renamed

    def _empty(self, name: str, outcome: str = NOTHING) -> None:
        table = self._quoted(name)
        self._session.do(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE", outcome=outcome)
        self._session.do(f"DELETE FROM {table}", outcome=outcome)

    def _copy(self, private: str, name: str, outcome: str = NOTHING) -> None:
        """The rows of a private table, in their order, into a published one."""
        # Scans that run at once share their reading, and may begin anywhere.
        rows = f"SELECT * FROM {self._quoted(private)} ORDER BY ctid"
        self._session.do(f"INSERT INTO {self._quoted(name)} {rows}", outcome=outcome)

    def _make_private(self, name: str, definition: str) -> None:
        """Make a table that no one is granted, whatever the privileges of new tables are."""
        table = self._quoted(name)
        self._session.do(f"CREATE TABLE {table} {definition}")
        for whom in {whom for whom, *_ in self._session.grants(self._number(name))}:
            self._session.do(f"REVOKE ALL ON {table} FROM {whom}")
        self._session.do(f"COMMENT ON TABLE {table} IS '{self._private}'")

    def _write_texts(self, documents: Mapping[str, str], comment: str, names: tuple[str, ...]) -> None:
        texts = self._quoted(self._texts)
        self._session.do(f"CREATE TABLE IF NOT EXISTS {texts} (name text, document text)")
        self._session.do(f"DELETE FROM {texts}")
        for name, document in sorted(documents.items()):
            self._session.do(f"INSERT INTO {texts} VALUES ($1, $2)", name, document)
        for each in (*map(self._quoted, names), texts):
            self._session.do(f"COMMENT ON TABLE {each} IS '{comment}'")

    def _number(self, name: str) -> int:
        found = self._session.find(self._schema, name)
        if found is None:
            raise self._session.failed("a staged table is gone")
        return found.number


def _require_names(schema: pa.Schema) -> None:
    if len(schema) > MOST_COLUMNS:
        raise DataError(f"the release has {len(schema):,} columns, a table of PostgreSQL at most {MOST_COLUMNS:,}")
    for name in schema.names:
        if len(name.encode()) > MOST_BYTES:
            raise DataError(
                f"column {name!r}: PostgreSQL cuts names to {MOST_BYTES} bytes, and this has {len(name.encode())}; "
                f"rename it ({NOTHING})"
            )
        if name in OF_THE_SYSTEM:
            raise DataError(f"column {name!r} is a column that PostgreSQL itself has; rename it ({NOTHING})")
