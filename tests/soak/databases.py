"""Releases into databases that are killed at a random instant, while a reader polls by the database's own driver.

At every look the table holds one release, whole, and the documents of that release; the next run cleans up.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from trials import Table, fresh_place

import privpipe.cli
import privpipe.running.verbs

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.engines.databases.conftest import PASSWORD, binaries, running_server

__all__ = ["soak_databases"]

KINDS = ("sqlite", "duckdb", "postgresql")
LONGEST = 60.0
PAUSE = 0.002
ROWS = "SELECT count(*), count(DISTINCT note), min(note) FROM visits_public"
DOCUMENTS = "SELECT document FROM visits_public__documents WHERE name = 'manifest'"
TABLES = {
    "sqlite": "SELECT name FROM sqlite_master",
    "duckdb": "SELECT table_name FROM information_schema.tables",
    "postgresql": "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'",
}


def soak_databases(project: Path, table: Table, trials: int, seed: int) -> None:
    """So many runs, of each kind in turn."""
    draw = random.Random(seed)
    programs = binaries()
    with fresh_place() as place, ExitStack() as stack:
        urls = {"sqlite": str(place / "public.sqlite"), "duckdb": str(place / "public.duckdb")}
        if programs is not None:
            urls["postgresql"] = stack.enter_context(running_server(programs)).url
            os.environ["PGPASSWORD"] = PASSWORD
        kinds = [kind for kind in os.environ.get("SOAK_KINDS", " ".join(KINDS)).split() if kind in urls]
        sinks = {kind: Sink(kind, urls[kind], place / kind) for kind in kinds}
        for trial in range(trials):
            sink = sinks[kinds[trial % len(kinds)]]
            found = sink.killed(draw.uniform(0, 1.1 * sink.length))
            if trial // len(kinds) % 10 == 9:
                found += sink.cleaned()
            table.add(f"SIGKILL during a release into {sink.kind}", found, f"{seed}/{trial}")
        for sink in sinks.values():
            seen = f"{sink.looks:,} looks, {sink.busy:,} while a writer held the file"
            print(f"{sink.kind}: {seen}; {sink.published} published")


@dataclass
class Sink:
    """A table that is released again and again, each time with rows that name their trial."""

    kind: str
    at: str
    home: Path
    length: float = 0.0
    trial: int = 0
    looks: int = 0
    busy: int = 0
    published: int = 0
    standing: str = ""
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home.mkdir()
        document = {
            "source": {"path": str(self.home / "visits.parquet")},
            "columns": {"zip": {"role": "quasi_identifier"}, "note": {"role": "insensitive"}},
            "guarantees": [{"k_anonymity": {"k": 3}}],
            "sink": {"database": self.at, "table": "visits_public"},
        }
        self.policy = self.home / "policy.json"
        self.policy.write_text(json.dumps(document), encoding="utf-8")
        for _ in range(2):
            started = time.monotonic()
            code = self.child(None)
            if code != 0:
                raise SystemExit(f"{self.kind}: a run that no one ended ended with {code}")
            self.length = time.monotonic() - started

    def killed(self, after: float) -> list[str]:
        """Kill a run and say what a reader saw meanwhile and after."""
        code = self.child(after)
        if code not in (0, -signal.SIGKILL):
            self.wrong.append(f"it ended with {code}")
        self.look(patient=True)
        found, self.wrong = self.wrong, []
        return found

    def cleaned(self) -> list[str]:
        """What is left over after a run that no one kills."""
        until = time.monotonic() + LONGEST
        while (code := self.child(None)) != 0 and time.monotonic() < until:
            time.sleep(0.1)  # a server lets go of the lock once it sees that its client is gone
        left = [f"the next run ended with {code}"] if code else []
        names = sorted(row[0] for row in self.asked(TABLES[self.kind])[0])
        if names != ["visits_public", "visits_public__documents"]:
            left.append(f"left over: {len(names) - 2} tables")
        for area in Path(self.at).parent.glob(f".public.{self.kind}*.privpipe"):
            left += [f"left over: {path.name}" for path in area.iterdir() if path.name not in ("lock", "records")]
        return left

    def child(self, after: float | None) -> int:
        """Run `privpipe release` in a child, killed after so many seconds, and look at the table meanwhile."""
        self.trial += 1
        number = 200 + self.trial % 7 * 50
        made = {"zip": [f"{n % 4}" for n in range(number)], "note": [f"trial {self.trial}"] * number}
        pq.write_table(pa.table(made), self.home / "visits.parquet")
        pid = os.fork()
        if pid == 0:
            _become(self.policy)
        started = time.monotonic()
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            passed = time.monotonic() - started
            if (after is not None and passed > after) or passed > LONGEST:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return -signal.SIGKILL if passed <= LONGEST else 1
            self.look()
            time.sleep(PAUSE)

    def look(self, *, patient: bool = False) -> None:
        """Read rows and documents in one transaction, as a reader does."""
        until = time.monotonic() + (LONGEST if patient else 0)
        while True:
            try:
                rows, documents = self.asked(ROWS, DOCUMENTS)
                break
            except duckdb.IOException as error:
                if "Could not set lock" not in str(error) or (patient and time.monotonic() > until):
                    raise
                self.busy += 1
                if not patient:
                    return
            except (duckdb.CatalogException, sqlite3.OperationalError, FileNotFoundError) as error:
                if self.standing:
                    self.wrong.append(f"nothing was there ({type(error).__name__})")
                return
            except Exception as error:
                if self.standing or "42P01" not in str(getattr(error, "sqlstate", "")):
                    raise
                return
            time.sleep(PAUSE)
        self.looks += 1
        ((count, markers, marker),) = rows
        said = json.loads(documents[0][0])["output"]["records"]
        if markers != 1 or count != said:
            self.wrong.append(f"{count} rows of {markers} releases, and documents of {said} rows")
        if marker not in (self.standing, f"trial {self.trial}") and self.standing:
            self.wrong.append("a release of neither this run nor the one before")
        self.published += marker != self.standing
        self.standing = marker

    def asked(self, *statements: str) -> list[list[Any]]:
        """Rows of statements that see one state."""
        if self.kind == "sqlite":
            with closing(
                sqlite3.connect(f"file:{self.at}?mode=rw", uri=True, timeout=30, isolation_level=None)
            ) as file:
                file.execute("BEGIN")
                return [file.execute(each).fetchall() for each in statements]
        if self.kind == "duckdb":
            if not Path(self.at).exists():
                raise FileNotFoundError
            with duckdb.connect(self.at, read_only=True) as duck:
                duck.execute("BEGIN")
                return [duck.execute(each).fetchall() for each in statements]
        return self._of_server(*statements)

    def _of_server(self, *statements: str) -> list[list[Any]]:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.at) as session, session.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            found = []
            for each in statements:
                cursor.execute(each)
                found.append(cursor.fetchall())
            return found


def _become(policy: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    sys.argv = ["privpipe", "release", str(policy)]
    try:
        privpipe.cli.main()
    except SystemExit as ending:
        os._exit(ending.code if isinstance(ending.code, int) else 1)
    os._exit(0)
