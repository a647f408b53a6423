"""Whatever goes wrong on the way into a database, readers see what they saw, and nothing unjudged stays behind."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from privpipe.errors import EngineError, PrivpipeError, SinkError
from privpipe.running import run
from tests.engines.databases.conftest import PASSWORD
from tests.engines.databases.sink_places import CANARY, Place, require_no_bytes, rows
from tests.tiers import deep_beyond

Release = Callable[..., Any]


@pytest.fixture
def unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Published rows that read back as others."""
    judge, calls = run.judge_written, []

    def twice(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        judged = judge(*arguments, **named)
        return judged if len(calls) % 2 else judged.within(altered=True)

    monkeypatch.setattr(run, "judge_written", twice)


def test_the_first_release_is_withdrawn_without_a_trace(place: Place, release: Release, unlike: None) -> None:
    with pytest.raises(EngineError, match="withdrawn"):
        release(note=CANARY)
    if place.kind == "postgresql":
        assert place.tables() == []
    else:
        assert not Path(place.at).exists()
        require_no_bytes(place, CANARY)


def test_a_first_release_is_withdrawn_from_a_database_of_others(place: Place, release: Release, unlike: None) -> None:
    place.ask("CREATE TABLE other (a INTEGER)")
    place.ask("INSERT INTO other VALUES (7)")
    with pytest.raises(EngineError, match="withdrawn"):
        release(note=CANARY, records=20_000)
    assert place.tables() == ["other"]
    assert rows(place, "other") == [(7,)]
    require_no_bytes(place, CANARY)


@pytest.mark.parametrize("wider", [False, True])
def test_a_release_is_withdrawn_and_the_old_one_stands(
    place: Place, release: Release, wider: bool, request: pytest.FixtureRequest
) -> None:
    first = release(more=not wider)
    before, comment = rows(place), place.comment()
    request.getfixturevalue("unlike")
    with pytest.raises(EngineError, match="withdrawn"):
        release(note=CANARY, records=400, more=True)
    assert rows(place) == before
    assert place.documents() == first.public
    assert place.comment() == comment
    assert place.tables() == ["visits_public", "visits_public__documents"]
    require_no_bytes(place, CANARY)


@pytest.mark.parametrize("step", deep_beyond(2, run.STEPS[::-1]))
def test_what_ends_a_run_at_a_step_leaves_the_old_release(place: Place, release: Release, step: str) -> None:
    first = release()
    before = rows(place)

    def tell(told: str) -> None:
        if told == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        release(note=CANARY, progress=tell)
    assert rows(place) == before
    assert place.documents() == first.public
    assert place.tables() == ["visits_public", "visits_public__documents"]
    require_no_bytes(place, CANARY)
    release()  # nothing holds the lock


def test_two_runs_at_once(place: Place, release: Release) -> None:
    met: list[str] = []

    def tell(step: str) -> None:
        if step == "judge":
            with pytest.raises(SinkError, match="another run is writing the sink"):
                release()
            met.append(step)

    release(progress=tell)
    assert met == ["judge"]
    assert len(rows(place)) == 200


def test_views_of_readers_survive(place: Place, release: Release) -> None:
    release()
    place.ask("CREATE VIEW adults AS SELECT age FROM visits_public WHERE age > 30")
    release(records=400)
    assert len(rows(place, "adults")) == 400 * 3 // 5


def test_an_own_table_is_the_source_of_the_next_run(place: Place, release: Release, tmp_path: Path) -> None:
    release()
    second = release(source={"database": place.at, "table": "visits_public"}, table="again")
    assert second.assessment.records == 200
    assert sorted(rows(place, "again")) == sorted(rows(place))
    assert rows(place, "again") != sorted(rows(place))


def test_no_one_reads_a_password(
    place: Place, release: Release, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if place.server is None:
        url, env = str(place.at), {"database": place.at}
    else:
        url = place.server.url.replace("owner@", "owner:canary%20password@")
        env = {"database": {"env": "SINK_OF_TESTS"}}
    monkeypatch.setenv("SINK_OF_TESTS", url)
    monkeypatch.delenv("PGPASSWORD", raising=False)
    with caplog.at_level(logging.DEBUG):
        result = release(**env)
        told = [repr(result), str(result.to_dict()), result.path, str(result.manifest), str(result.public)]
        monkeypatch.setenv("SINK_OF_TESTS", url.replace("canary", "wrong canary"))
        if place.server is not None:
            with pytest.raises(PrivpipeError) as refused:
                release(**env)
            told.append(str(refused.value))
    if place.server is not None:
        monkeypatch.setenv("PGPASSWORD", PASSWORD)
    told += [caplog.text, *(path.read_text() for path in Path(result.record).iterdir())]
    for text in told:
        assert "canary" not in text
        assert PASSWORD not in text


def test_a_file_without_room(tmp_path: Path, sqlite_place: Place, sqlite_release: Release) -> None:
    sqlite_release()
    before = rows(sqlite_place)
    with closing(sqlite3.connect(sqlite_place.at)) as file:
        pages = file.execute("PRAGMA page_count").fetchone()[0]
    from privpipe.sinks.databases.sqlite_store import SqliteStore

    connected = SqliteStore._connected

    def bounded(self: SqliteStore, mode: str) -> sqlite3.Connection:
        found = connected(self, mode)
        found.execute(f"PRAGMA max_page_count = {pages + 3}")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "_connected", bounded)
        with pytest.raises(SinkError, match=r"there is no room .*SQLITE_FULL.*nothing was published"):
            sqlite_release(records=50_000)
    assert rows(sqlite_place) == before
    sqlite_release()


def test_a_read_only_file(sqlite_place: Place, sqlite_release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite_release()
    may = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: mode != os.W_OK or (path != Path(sqlite_place.at) and may(path, mode))
    )
    with pytest.raises(SinkError, match="'public.sqlite' is read-only"):
        sqlite_release()


def test_a_reader_who_keeps_the_file_open(duckdb_place: Place, duckdb_release: Release) -> None:
    from privpipe.sinks.databases import duckdb_store

    duckdb_release()
    before = rows(duckdb_place)
    with duckdb.connect(duckdb_place.at, read_only=True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb_store, "PATIENCE", 0.1)
        with pytest.raises(SinkError, match="open elsewhere"):
            duckdb_release()
    assert rows(duckdb_place) == before
