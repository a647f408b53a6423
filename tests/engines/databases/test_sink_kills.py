"""A run that is killed leaves a reader the old release or the new one, whole, and the next run cleans up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privpipe.errors import SinkError
from tests.engines.databases.sink_places import CANARY, Place, require_no_bytes, rows

KILLED = """
import os, signal, sys
import privpipe as pp
from privpipe.sinks.databases.duckdb_store import DuckdbStore
from privpipe.sinks.databases.postgresql_store import PostgresqlStore
from privpipe.sinks.databases.sqlite_store import SqliteStore

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def progress(step):
    if step == sys.argv[2]:
        kill()

def killing(store, name):
    before = getattr(store, name)
    def done(*arguments, **named):
        before(*arguments, **named)
        kill()
    setattr(store, name, done)

if sys.argv[2] == "within":
    killing(SqliteStore, "_fill")
    killing(DuckdbStore, "_fill")
    killing(PostgresqlStore, "_write_texts")
pp.release(sys.argv[1], progress=progress)
"""


@pytest.mark.deep
@pytest.mark.parametrize("step", ["within", "publish", "judge again"])
def test_a_reader_who_polls_sees_one_release(
    place: Place, release: Callable[..., Any], tmp_path: Path, step: str
) -> None:
    first = release()
    old = rows(place)
    document = first.manifest["policy"]
    changed = {**document, "source": {"path": str(tmp_path / "other.parquet")}, "seed": {"insecure": 7}}
    _write(tmp_path / "other.parquet")
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({**changed, "allow_insecure_seed": True}))
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(policy), step], stderr=subprocess.DEVNULL)
    try:
        while child.poll() is None:
            assert _seen(place) in ({"note"}, {CANARY}, set())
            time.sleep(0.05)
        assert child.returncode == -signal.SIGKILL
    finally:
        child.kill()
        child.wait(60)
    published = step == "judge again"
    assert _seen(place) == ({CANARY} if published else {"note"})
    assert published or rows(place) == old
    _once_the_server_noticed(release)
    assert place.tables() == ["visits_public", "visits_public__documents"]
    assert rows(place) == old
    if not published:
        require_no_bytes(place, CANARY, "other.parquet")


def _write(path: Path) -> None:
    numbers = range(300)
    columns = {
        "zip": [f"{n % 4}" for n in numbers],
        "age": [n % 5 for n in numbers],
        "note": [f"{CANARY} {n}" for n in numbers],
    }
    pq.write_table(pa.table(columns), path)


def _seen(place: Place) -> set[str]:
    """Whose rows a reader sees; nothing while a writer holds a DuckDB file."""
    try:
        return {row[2].partition(" ")[0] for row in rows(place)}
    except duckdb.IOException:
        return set()


def _once_the_server_noticed(release: Callable[..., Any]) -> None:
    """The next run; a server lets go of a lock once it sees that its client is gone."""
    for _ in range(50):
        try:
            release()
            return
        except SinkError as error:
            if "another run" not in str(error):
                raise
            time.sleep(0.1)
    raise AssertionError("the lock of a killed run stays")
