"""Ibis tables by what they are to their backend, with a stand-in for Ibis; the real one is in tests/stages."""

from __future__ import annotations

import gc
from typing import Any

import duckdb
import polars as pl
import pytest

import privpipe as pp
from privpipe.engines.base.frame_kinds import is_ibis_table
from privpipe.engines.base.frames import as_handed, at_hand
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import TopCode

CELL = "Mrs Smith"


class Operation:
    """What Ibis keeps of a table as long as anything is made of it."""


class Table:
    """A table of a backend: the query that gives it."""

    def __init__(self, backend: Any, query: str) -> None:
        self.backend, self.query, self.operation = backend, query, Operation()

    def get_backend(self) -> Any:
        if self.backend is None:
            raise ValueError("no backend found")
        return self.backend

    def limit(self, count: int) -> Any:
        return self

    def to_pyarrow(self) -> Any:
        self.backend.prepared.append(self.query)
        return None

    def op(self) -> Operation:
        return self.operation

    def to_polars(self) -> pl.DataFrame:
        found = self.backend.tables[self.query]
        if found is None:
            raise ValueError(f"no number: {CELL}")
        return found


Table.__module__ = "ibis.expr.types.relations"


class Backend:
    def __init__(self, name: str, con: Any = None) -> None:
        self.name, self.con = name, con
        self.prepared: list[str] = []
        self.tables: dict[str, Any] = {}

    def compile(self, table: Table) -> str:
        return table.query

    def table(self, name: str) -> Table:
        return Table(self, f'FROM "{name}"' if self.con is not None else name)

    def create_table(self, name: str, rows: Any) -> None:
        self.tables[name] = rows

    def drop_table(self, name: str) -> None:
        del self.tables[name]


@pytest.fixture
def backend() -> Backend:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE visits AS SELECT range AS id, range % 5 AS age FROM range(100)")
    connection.execute("SET python_enable_replacements = false")  # as Ibis does
    return Backend("duckdb", connection)


def views(backend: Backend) -> int:
    [(count,)] = backend.con.execute("SELECT count(*) FROM duckdb_views() WHERE view_name LIKE 'privpipe%'").fetchall()
    return int(count)


def test_only_tables_of_ibis_are_its_tables(backend: Backend) -> None:
    assert is_ibis_table(backend.table("visits"))
    assert not any(map(is_ibis_table, (backend, pl.DataFrame(), backend.con.table("visits"), "visits", None)))


def test_a_table_of_duckdb_is_a_relation_of_its_connection_and_comes_back(backend: Backend) -> None:
    given = backend.table("visits")
    relation = at_hand(given, "test")
    assert type(relation) is duckdb.DuckDBPyRelation
    assert backend.prepared == [given.query], "tables in memory are registered before the query is another library's"
    out = TopCode(columns=["age"], at=3).apply(given)
    assert type(out) is Table
    assert out.get_backend() is backend
    assert backend.con.sql(out.query).aggregate("max(age), count(*)").fetchall() == [(3, 100)]


def test_what_comes_back_lies_there_as_long_as_it_is_used(backend: Backend) -> None:
    out = TopCode(columns=["age"], at=3).apply(backend.table("visits"))
    kept = out.op()
    assert views(backend) == 1
    del out
    gc.collect()
    assert views(backend) == 1
    del kept
    gc.collect()
    assert views(backend) == 0


def test_a_connection_that_is_closed_first_is_no_matter(backend: Backend) -> None:
    out = TopCode(columns=["age"], at=3).apply(backend.table("visits"))
    backend.con.close()
    del out
    gc.collect()


def test_it_is_judged_released_and_given_back_by_policies(backend: Backend, tmp_path: Any) -> None:
    given, roles = backend.table("visits"), pp.Roles(quasi_identifiers=["age"], insensitive=["id"])
    assert pp.k_anonymity(given, ["age"]) == 20
    assert pp.check(given, [KAnonymity(k=20)], roles=roles).passed
    policy = pp.Policy(roles=roles, transform=[TopCode(columns=["age"], at=3)], guarantees=[KAnonymity(k=20)])
    assert pp.assess(given, policy, original=given).passed
    plan = pp.plan(given, policy)
    for out in (policy.apply(given), pp.transform(given, plan)):
        assert backend.con.sql(out.query).aggregate("max(age), count(*)").fetchall() == [(3, 100)]
    assert policy.release(given, str(tmp_path / "out")).assessment.records == 100


def test_a_table_of_polars_keeps_its_rows_in_place() -> None:
    backend = Backend("polars")
    backend.tables["visits"] = pl.DataFrame({"age": [9, 1, 5]})
    out = TopCode(columns=["age"], at=3).apply(backend.table("visits"))
    assert out.to_polars().get_column("age").to_list() == [3, 1, 3]
    del out
    gc.collect()
    assert list(backend.tables) == ["visits"]


def test_other_backends_are_refused_with_the_way_out() -> None:
    for ask in (
        lambda table: TopCode(columns=["age"], at=3).apply(table),
        lambda table: pp.k_anonymity(table, ["age"]),
    ):
        with pytest.raises(UnsupportedError, match=r"backend 'sqlite'.*duckdb, polars, pyspark.*table\.to_pyarrow\(\)"):
            ask(Table(Backend("sqlite"), "visits"))


def test_a_table_of_no_backend_is_told_of() -> None:
    with pytest.raises(UsageError, match=r"not of one backend \(ValueError: no backend found\)"):
        at_hand(Table(None, "visits"), "test")


def test_what_a_backend_cannot_compute_shows_no_cell() -> None:
    backend = Backend("polars")
    backend.tables["visits"] = None
    with pytest.raises(DataError, match=r"'polars' cannot compute the Ibis table \(ValueError\)") as caught:
        at_hand(backend.table("visits"), "test")
    assert CELL not in str(caught.value)


def test_other_frames_come_back_as_they_are() -> None:
    frame = pl.DataFrame({"age": [1]})
    assert as_handed(frame, frame) is frame
