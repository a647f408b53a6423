"""The DuckDB database behind an embedded engine: memory, cursors, streams of batches, names as SQL, errors."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from privpipe.engines.readers.unpacking import changed_error, reading
from privpipe.errors import DataError, EngineError, PrivpipeError, UsageError, did_you_mean
from privpipe.private_files import new_folder, remove_folder

__all__ = [
    "BATCH_ROWS",
    "LEAST_ROOM",
    "HeldRows",
    "Kept",
    "OutOfMemory",
    "Session",
    "column_list",
    "database_share",
    "guarded",
    "offered_memory",
    "quoted",
]


OWN_BYTES = 384 << 20
"""What the process takes in addition to the database: the interpreter, its libraries, compiled code."""
LEAST_BYTES = 2 << 30
"""Limits from which on the process is reckoned in; below, they are the database's alone."""
UNLIMITED = 1 << 60
"""Version 1 of control groups writes a number near 2^63 for no limit."""


def offered_memory(root: Path = Path("/")) -> int:
    """Bytes that the container offers, or the machine where it sets no limit.

    Parameters
    ----------
    root : Path
        Where the file system is seen from.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(root)])


def _limits(root: Path) -> list[int]:
    """Limits of the control groups that this process is in, and of all above them."""
    groups = root / "sys/fs/cgroup"
    files = [groups / "memory.max", groups / "memory/memory.limit_in_bytes"]
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, kinds, path = line.split(":", 2)
        if number != "0" and "memory" not in kinds.split(","):
            continue
        home, name = (groups, "memory.max") if number == "0" else (groups / "memory", "memory.limit_in_bytes")
        own = Path(path.lstrip("/"))
        files += [home / each / name for each in (own, *own.parents)]
    found = [text.strip() for text in map(_text, files)]
    return [int(text) for text in found if text.isdecimal() and 0 < int(text) < UNLIMITED]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def database_share(limit: int, rows: int) -> int:
    """What the database may take of a limit for the whole process, in which so many bytes of rows are kept next to it.

    Examples
    --------
    >>> database_share(4 << 30, 512 << 20) >> 20, database_share(1 << 30, 128 << 20) >> 20
    (3200, 1024)
    """
    return limit if limit < LEAST_BYTES else limit - rows - OWN_BYTES


log = logging.getLogger("privpipe.engines.embedded")
R = TypeVar("R")
BATCH_ROWS = 131072
OPTIONS = ("memory_limit", "threads", "temp_directory")
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
DAMAGED = re.compile(
    "Failed to read file|in Parquet file|[Dd]ecompress|Out of buffer|TProtocol|[Cc]orrupted|what type: "
)
"""What DuckDB states about Parquet files; its texts quote values and are never passed on."""
FILE = re.compile(r"""(?:file|pattern) (["'])(/.+?)\1""")
OTHER_TYPES = re.compile("failed to cast column|schema mismatch")
UNPATTERNED = re.compile(r"\[([*?[])\]")
SMALL_ROWS = 1 << 15
"""Rows in memory that no query is asked about; at 50,000 rows with texts that hardly repeat the database is as fast."""
CODED_ROWS = 200_000
"""Rows from which on a table with record ids is stored by the database, with texts of few values as enumerations."""
LEAST_ROOM = 32 << 20
"""Bytes that what is worked off in parts may take, whatever room there is: parts would become too many."""
ONE_IN = 8
"""Rows kept in memory take up to one in so many bytes of DuckDB's memory limit, on top of DuckDB's own use."""


class OutOfMemory(EngineError):
    """The memory limit was reached and the query could not be spilled to disk."""


_LIMITS: dict[tuple[Any, ...], tuple[int, int]] = {}
"""Threads, and bytes of memory, of databases that were opened with given options; a second one opens when asked."""


class Session:
    """One in-memory database and one temporary folder; a cursor per query, so threads may share it.

    Opening a database, and making and removing a folder, cost more than all else that is done to a small table, whose
    rows need neither: both wait for who first needs them, unless the options are new.

    Parameters
    ----------
    options : mapping
        `memory_limit` ("4GB", of the whole process; default: three quarters of what container or machine offer),
        `threads` (int), `temp_directory` (an existing or new folder).

    Raises
    ------
    UsageError
        An unknown option, or a value DuckDB does not take.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        for name in options:
            if name not in OPTIONS:
                raise UsageError(f"embedded engine: unknown option {name!r}{did_you_mean(name, OPTIONS)}")
        threads = options.get("threads")
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise UsageError(f"embedded engine: threads must be an integer of at least 1, got {threads!r}")
        if not isinstance(options.get("memory_limit"), str | None):
            kind = type(options["memory_limit"]).__name__
            raise UsageError(f"embedded engine: memory_limit must be a text such as '4GB', got a value of type {kind}")
        if not isinstance(options.get("temp_directory"), str | os.PathLike | None):
            kind = type(options["temp_directory"]).__name__
            raise UsageError(f"embedded engine: temp_directory must be a folder's path, got a value of type {kind}")
        self.temporary = options.get("temp_directory")
        self._folder: Path | None = None
        self._remove: Callable[[], object] = lambda: None
        # Extensions are never fetched: a query must not reach for the network.
        config: dict[str, Any] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
        }
        config |= {name: options[name] for name in ("memory_limit", "threads") if options.get(name) is not None}
        config.setdefault("memory_limit", f"{offered_memory() * 3 // 4}B")
        self._config = config
        self._opened: Any = None
        self._closed = False
        self.small_rows = SMALL_ROWS
        self.coded_rows = CODED_ROWS
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        if self.temporary is not None:
            self._made_folder()  # one that cannot be used is refused at once
        # A table's finalizer may run wherever the collector strikes, in the middle of a query's start too: it must take
        # no lock, so it leaves the name here, and the next query drops what lies here.
        self.abandoned: deque[str] = deque()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="privpipe-duckdb")
        asked = (options.get("memory_limit"), threads)
        if asked not in _LIMITS:
            _LIMITS[asked] = self._limits(sorted(options))
        self.threads, self.memory = _LIMITS[asked]
        self._rows_limit = self.memory // ONE_IN
        self._give_database(database_share(self.memory, self._rows_limit))
        self._rows_held = 0
        self.released: deque[int] = deque()

    def _give_database(self, share: int) -> None:
        """Let the database take so many bytes, now or when it is opened."""
        self._config["memory_limit"] = f"{share}B"
        if self._opened is not None:
            self._opened.execute(f"SET memory_limit = '{share}B'").fetchall()

    def close(self) -> None:
        """Close the database and remove the temporary folder."""
        self._beside.shutdown()
        with self._lock:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
        self._remove()

    @property
    def folder(self) -> Path:
        """Private to this process; made when it is first asked for."""
        return self._made_folder()

    def _made_folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = new_folder("embedded", self.temporary)
                self._remove = weakref.finalize(self, remove_folder, self._folder)
            return self._folder

    @property
    def _root(self) -> Any:
        """The database, opened when it is first asked for."""
        with self._lock:
            if self._opened is None:
                if self._closed:
                    raise duckdb.ConnectionException("closed")
                spill = {"temp_directory": str(self.folder / "spill")}
                opened = duckdb.connect(":memory:", config=self._config | spill)
                opened.execute("SET TimeZone = 'UTC'").fetchall()
                self._opened = opened
            return self._opened

    def _limits(self, options: list[str]) -> tuple[int, int]:
        try:
            opened = self._root
        except duckdb.Error as error:
            raise UsageError(
                f"embedded engine: DuckDB does not take the options {options} ({type(error).__name__}); "
                "memory_limit is a text such as '4GB'"
            ) from None
        query = "SELECT current_setting('threads'), current_setting('memory_limit')"
        threads, memory = opened.execute(query).fetchall()[0]
        amount, unit = str(memory).split()
        return int(threads), int(float(amount) * UNITS[unit])

    def room(self) -> int:
        """Bytes of rows that may be kept in memory in addition to those that are."""
        with self._lock:
            while self.released:
                self._rows_held -= self.released.popleft()
            return self._rows_limit - self._rows_held

    def hold(self, size: int) -> HeldRows:
        """Count rows of so many bytes as kept, until what is returned is released."""
        with self._lock:
            self._rows_held += size
        return HeldRows(self, size)

    def name(self, purpose: str) -> str:
        """A fresh name for a view, table or file."""
        return f"{purpose}_{next(self._numbers)}"

    @contextlib.contextmanager
    def function(
        self, compute: Callable[..., Any], takes: tuple[str, ...] = ("BIGINT", "BIGINT"), gives: str = "BIGINT"
    ) -> Iterator[str]:
        """The name under which queries may call a function of Arrow arrays, for as long as the context lasts.

        It is handed missing values too.
        """
        name = self.name("function")
        with guarded("registration of a function"), self._lock:
            self._root.create_function(
                name, compute, list(takes), gives, type="arrow", null_handling="special", side_effects=False
            )
        try:
            yield name
        finally:
            # A session that was closed meanwhile has forgotten the function.
            with contextlib.suppress(duckdb.Error), self._lock:
                self._root.remove_function(name)

    def cursor(self, frames: Mapping[str, Any] | None = None) -> Any:
        """A cursor that sees these frames."""
        with guarded("open a cursor"), self._lock:
            root = self._root
            while self.abandoned:
                # A table that cannot be dropped costs memory, not the query that comes next.
                with contextlib.suppress(duckdb.Error):
                    root.execute(f"DROP TABLE IF EXISTS {self.abandoned.popleft()}").fetchall()
            cursor = root.cursor()
            for name, frame in (frames or {}).items():
                cursor.register(name, frame)
        return cursor

    def value(self, sql: str, frames: Mapping[str, Any] | None = None) -> Any:
        """The single value of a query."""
        return self.row(sql, frames)[0]

    def row(self, sql: str, frames: Mapping[str, Any] | None = None) -> tuple[Any, ...]:
        """The single row of a query."""
        cursor = self.cursor(frames)
        with guarded("query"), contextlib.closing(cursor):
            found: tuple[Any, ...] = self._patiently(cursor, lambda: cursor.execute(sql).fetchall())[0]
        return found

    def run(self, sql: str, frames: Mapping[str, Any] | None = None) -> None:
        """Run a statement for its effect."""
        cursor = self.cursor(frames)
        with guarded("statement"), contextlib.closing(cursor):
            self._patiently(cursor, lambda: cursor.execute(sql).fetchall())

    def table(self, sql: str, frames: Mapping[str, Any] | None = None) -> pa.Table:
        """The result of a query that is known to be small."""
        cursor = self.cursor(frames)
        with guarded("query"), contextlib.closing(cursor):
            return self._patiently(cursor, lambda: cursor.sql(sql).to_arrow_table())

    def stream(
        self, sql: str, frames: Mapping[str, Any] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Non-empty batches of a query, as they are made."""
        cursor = self.cursor(frames)
        with contextlib.closing(cursor):
            with guarded("query"):
                reader = self._patiently(cursor, lambda: cursor.sql(sql).to_arrow_reader(rows))
            while True:
                with guarded("query"):
                    batch = self._patiently(cursor, lambda: next(reader, None))
                if batch is None:
                    return
                if batch.num_rows:
                    yield batch

    def _patiently(self, cursor: Any, work: Callable[[], R]) -> R:
        """Run DuckDB outside the main thread, which it would otherwise make deaf to Ctrl-C until a query ends."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        future = self._beside.submit(work)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, or whatever else a signal raises: the query ends before its cursor is closed
            # Interrupted again and again: a query that has not begun yet forgets it.
            while not future.done():
                cursor.interrupt()
                wait([future], timeout=0.1)
            raise

    @contextlib.contextmanager
    def enumeration(self, values: pa.Array) -> Iterator[str]:
        """The name of a type whose values are these texts, in order; tables made of it outlive the name."""
        name, view = self.name("texts"), self.name("values")
        self.run(f"CREATE TYPE {name} AS ENUM (SELECT value FROM {view})", {view: pa.table({"value": values})})
        try:
            yield name
        finally:
            with contextlib.suppress(EngineError):
                self.run(f"DROP TYPE {name}")

    def keep(self, sql: str, frames: Mapping[str, Any] | None = None) -> Kept:
        """Store a query's result as a table of the session, dropped with its last owner."""
        name = self.name("kept")
        self.run(f"CREATE TABLE {name} AS {sql}", frames)
        return Kept(self, name)


class Kept:
    """A table of the session; dropped by the next query once it is no longer referenced."""

    def __init__(self, session: Session, name: str) -> None:
        self.name = name
        self._drop = weakref.finalize(self, _abandon, weakref.ref(session), name)
        self._drop.atexit = False  # the database ends with the process


class HeldRows:
    """What tables that keep their rows in memory own together; the rows no longer count once it is released."""

    def __init__(self, session: Session, size: int) -> None:
        self._release = weakref.finalize(self, _let_go, weakref.ref(session), size)
        self._release.atexit = False


def _let_go(session: weakref.ref[Session], size: int) -> None:
    alive = session()
    if alive is not None:
        alive.released.append(size)


def _abandon(session: weakref.ref[Session], name: str) -> None:
    alive = session()
    if alive is not None:
        alive.abandoned.append(name)


@contextlib.contextmanager
def guarded(step: str) -> Iterator[None]:
    """Turn what DuckDB raises into ours; its texts may quote cells, so only the class is reported.

    Raises
    ------
    DataError
        A file of the source is damaged.
    OutOfMemory
        The memory limit was reached.
    EngineError
        Anything else.
    """
    try:
        yield
    except PrivpipeError:
        raise
    except (duckdb.OutOfMemoryException, MemoryError):
        raise _out_of_memory(step) from None
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        kind = type(error).__name__
        if "Out of Memory" in str(error):  # Arrow readers hand DuckDB's errors on as their own
            raise _out_of_memory(step) from None
        fault = _fault_of_file(error)
        if fault is not None:
            raise fault from None
        log.debug("%s failed: %s", step, kind)
        raise EngineError(f"embedded engine: {step} failed ({kind})") from None


def _fault_of_file(error: Exception) -> PrivpipeError | None:
    """What is wrong with the file of the source that an error names; None where it speaks of none."""
    text = str(error)
    named = FILE.search(text)
    if named is None:
        damaged = not isinstance(error, duckdb.IOException) and DAMAGED.search(text)
        return DataError("a Parquet file of the source is not readable (truncated or damaged)") if damaged else None
    path = UNPATTERNED.sub(r"\1", named[2])
    try:
        with reading(path, "Parquet"):
            pq.read_metadata(path)
    except PrivpipeError as fault:
        return fault
    if OTHER_TYPES.search(text):
        return changed_error(path)
    return DataError(f"{Path(path).name}: not a readable Parquet file (truncated or damaged)")


def _out_of_memory(step: str) -> OutOfMemory:
    return OutOfMemory(
        f"embedded engine: a {step} needs more memory than the limit; raise `memory_limit` under `engines.embedded`, "
        "or give a `temp_directory` with room there"
    )


def quoted(name: str) -> str:
    """A name as an SQL identifier.

    Examples
    --------
    >>> len(quoted('odd "name"')) - len('odd "name"')
    4
    """
    return '"' + name.replace('"', '""') + '"'


def column_list(names: Iterable[str], alias: str = "") -> str:
    """Names as an SQL list, each behind a table's alias if there is one.

    Examples
    --------
    >>> column_list(["age", "zip"], "t")
    't."age", t."zip"'
    """
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(name) for name in names)
