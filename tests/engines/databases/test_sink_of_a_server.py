"""What PostgreSQL alone has: grants, transactions that read for long, connections that are cut, rights that go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from privpipe.errors import EngineError, Refused, SinkError
from privpipe.running import run
from privpipe.sinks.databases.postgresql_store import PostgresqlStore
from tests.engines.databases.sink_places import CANARY, Place, rows
from tests.tiers import deep_beyond

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)
Release = Callable[..., Any]
STAGED = "SELECT relname::text FROM pg_class WHERE relname LIKE '\\_privpipe%'"


@contextmanager
def session(place: Place) -> Iterator[Any]:
    """A cursor of one transaction."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(place.at) as connection, connection.cursor() as cursor:
        yield cursor


@pytest.fixture
def reader(place: Place) -> Iterator[str]:
    """A role that may read every table that is made from now on."""
    place.ask('CREATE ROLE "re\'ad""er"')
    name = '"re\'ad""er"'
    place.ask(f"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO {name}")
    place.ask("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
    place.ask(f"GRANT USAGE ON SCHEMA public TO {name}")
    yield name
    place.ask("ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM PUBLIC")
    place.ask(f"DROP OWNED BY {name}")
    place.ask(f"DROP ROLE {name}")


def test_no_one_reads_what_is_staged_whatever_new_tables_are_granted(
    place: Place, release: Release, reader: str
) -> None:
    release()
    seen: list[str] = []

    def look(step: str) -> None:
        if step not in ("judge", "judge again"):
            return
        for (name,) in place.ask(STAGED):
            with session(place) as cursor, pytest.raises(Exception, match="permission denied"):
                cursor.execute(f"SET ROLE {reader}")
                cursor.execute(f'SELECT * FROM public."{name}"')
            seen.append(name)

    release(records=300, progress=look)
    assert len(seen) == 3
    assert place.ask(STAGED) == []
    with session(place) as cursor:
        cursor.execute(f"SET ROLE {reader}")
        cursor.execute("SELECT count(*) FROM public.visits_public")
        assert cursor.fetchone() == (300,)


@pytest.mark.deep
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("touched", [False, True])
def test_a_transaction_of_a_reader_sees_one_release(place: Place, release: Release, level: str, touched: bool) -> None:
    release()
    with session(place) as cursor:
        cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        cursor.execute("SELECT count(*) FROM visits_public" if touched else "SELECT 1")
        cursor.fetchall()
        release(records=300)
        cursor.execute("SELECT count(*) FROM visits_public")
        assert cursor.fetchone() == ((300,) if level == "READ COMMITTED" else (200,))


@pytest.mark.parametrize("step", deep_beyond(1, [step for step in run.STEPS if step != "done"]))
def test_a_connection_that_is_cut(place: Place, release: Release, step: str) -> None:
    first = release()
    before = rows(place)

    def cut(told: str) -> None:
        if told == step:
            place.ask(
                "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted"
            )

    if step == "judge again":  # it is published, and judged through another connection
        assert release(records=300, progress=cut).published
        assert len(rows(place)) == 300
    else:
        with pytest.raises(SinkError, match=r"(ended the connection|cannot be reached|refuses).*nothing was published"):
            release(note=CANARY, progress=cut)
        assert rows(place) == before
        assert place.documents() == first.public
    release()
    assert place.ask(STAGED) == []


def test_rights_that_are_lost_midway(place: Place, release: Release) -> None:
    release()
    before = rows(place)
    place.ask("CREATE ROLE publisher LOGIN PASSWORD 'canary password'")
    place.ask("GRANT ALL ON SCHEMA public TO publisher")
    for table in ("visits_public", "visits_public__documents"):
        place.ask(f"ALTER TABLE {table} OWNER TO publisher")

    def lose(step: str) -> None:
        if step == "publish":
            place.ask("REVOKE ALL ON SCHEMA public FROM publisher")

    try:
        with pytest.raises(SinkError, match=r"this user may not .*42501.*nothing was published"):
            release(database=place.at.replace("owner@", "publisher@"), note=CANARY, progress=lose)
        assert rows(place) == before
    finally:
        place.ask("DROP OWNED BY publisher CASCADE")
        place.ask("DROP ROLE publisher")


@pytest.mark.parametrize(
    "altered",
    [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; "
        "CREATE TRIGGER t BEFORE INSERT ON visits_public FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE visits_public ENABLE ROW LEVEL SECURITY",
        "CREATE RULE r AS ON INSERT TO visits_public DO ALSO NOTIFY x",
    ],
)
def test_what_would_act_on_a_release_is_refused(place: Place, release: Release, altered: str) -> None:
    release()
    for statement in altered.split("; C"):
        place.ask(statement if statement.startswith(("C", "A")) else f"C{statement}")
    with pytest.raises(SinkError, match="triggers, rules or row security"):
        release()


def test_other_columns_keep_the_grants_and_refuse_views(place: Place, release: Release, reader: str) -> None:
    release()
    place.ask(f"GRANT DELETE ON visits_public TO {reader} WITH GRANT OPTION")
    release(more=True)
    acl = "SELECT relacl::text FROM pg_class WHERE relname = 'visits_public'"
    assert "=rd*/owner" in place.ask(acl)[0][0]
    place.ask("CREATE VIEW adults AS SELECT age FROM visits_public")
    before = rows(place)
    with pytest.raises(SinkError, match="views of readers depend on it"):
        release(more=False)
    assert rows(place) == before
    assert place.ask(STAGED) == []
    release(more=True, records=400)
    assert len(rows(place, "adults")) == 400


def test_functions_of_others_are_not_called(place: Place, release: Release) -> None:
    place.ask("CREATE FUNCTION public.current_schema() RETURNS name LANGUAGE sql AS $$ SELECT 'nowhere'::name $$")
    place.ask("CREATE FUNCTION public.pg_try_advisory_lock(bigint) RETURNS bool LANGUAGE sql AS $$ SELECT false $$")
    assert release().published


def test_a_refused_release_was_never_readable(place: Place, release: Release) -> None:
    with pytest.raises(Refused):
        release(k=50, note=CANARY)
    assert place.ask(STAGED) == []
    assert place.tables() == []


def test_what_cannot_be_dropped_is_dropped_by_the_next_run(
    place: Place, release: Release, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(self: PostgresqlStore) -> None:
        raise SinkError("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresqlStore, "drop_loaded", failing)
        release()
    assert "the next run drops them" in caplog.text
    assert len(place.ask(STAGED)) == 1
    release()
    assert place.ask(STAGED) == []


def test_a_table_that_looks_like_a_staged_one_stays(place: Place, release: Release) -> None:
    release()
    place.ask("CREATE TABLE _privpipe_00000000 (a int)")
    with pytest.raises(EngineError):
        release(database="postgresql://127.0.0.1:1/none")
    release()
    assert place.ask(STAGED) == [("_privpipe_00000000",)]
