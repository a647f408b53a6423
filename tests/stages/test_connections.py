"""The caller's own DuckDB connection, and frames that hold no data yet."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pytest

import privpipe as pp
from privpipe.errors import DataError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import TopCode

duckdb = pytest.importorskip("duckdb")
CUT = TopCode(columns=["age"], at=3)


@pytest.fixture
def connection() -> Any:
    found = duckdb.connect()
    found.execute("CREATE TABLE visits AS SELECT range AS id, range % 5 AS age FROM range(100)")
    return found


def _state(connection: Any) -> Any:
    settings = "SELECT name, value FROM duckdb_settings() ORDER BY name"
    catalogue = "SELECT view_name FROM duckdb_views() UNION ALL SELECT table_name FROM duckdb_tables() ORDER BY 1"
    return connection.execute(settings).fetchall(), connection.execute(catalogue).fetchall()


def test_a_relation_comes_back_on_its_own_connection(connection: Any) -> None:
    before = _state(connection)
    out = CUT.apply(connection.table("visits"))
    assert type(out) is duckdb.DuckDBPyRelation
    assert _state(connection) == before
    connection.register("cut", out)
    joined = connection.sql("SELECT max(cut.age), count(*) FROM cut JOIN visits USING (id)")
    assert joined.fetchall() == [(3, 100)]


def test_a_connection_represents_the_engine_under_its_limits(connection: Any) -> None:
    connection.execute("SET threads = 1; SET memory_limit = '500MB'")
    before = _state(connection)
    out = CUT.apply(connection.table("visits"), engine=connection)
    assert sorted(out.fetchall())[-1] == (99, 3)
    assert pp.k_anonymity(connection.table("visits"), ["age"], engine=connection) == 20
    policy = pp.Policy(roles=pp.Roles(quasi_identifiers=["age"], insensitive=["id"]), guarantees=[KAnonymity(k=5)])
    assert policy.apply(connection.table("visits"), engine=connection).count("id").fetchall() == [(100,)]
    assert _state(connection) == before


def test_an_open_transaction_of_the_caller_goes_on(connection: Any) -> None:
    connection.begin()
    connection.execute("DELETE FROM visits WHERE id >= 50")
    assert CUT.apply(connection.table("visits")).count("id").fetchall() == [(50,)]
    connection.rollback()
    assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(100,)]


def test_a_connection_that_looks_at_no_frames_is_told_of(connection: Any) -> None:
    connection.execute("SET python_enable_replacements = false")
    with pytest.raises(UsageError, match="python_enable_replacements"):
        CUT.apply(connection.table("visits"))


@pytest.mark.parametrize("at", [7, 300_000])
def test_a_relation_that_fails_shows_no_cell(connection: Any, at: int) -> None:
    rows = f"SELECT CASE WHEN range = {at} THEN 'Mrs Smith' ELSE '1' END AS age FROM range({at + 1})"
    relation = connection.sql(f"SELECT age::BIGINT AS age FROM ({rows})")
    with pytest.raises(DataError, match="DuckDB cannot compute the relation") as caught:
        CUT.apply(relation)
    assert "Smith" not in str(caught.value)


def test_no_other_thing_is_an_engine() -> None:
    with pytest.raises(UsageError, match="engine: give a name, an engine or a DuckDB connection, not int"):
        CUT.apply(pd.DataFrame({"age": [1]}), engine=5)


def test_a_lazy_frame_is_collected_with_a_word() -> None:
    lazy = pl.DataFrame({"age": [1, 5]}).lazy()
    with pytest.warns(UserWarning, match=r"TopCode\.apply: the polars LazyFrame is collected"):
        out = CUT.apply(lazy)
    assert out.get_column("age").to_list() == [1, 3]
    with pytest.warns(UserWarning, match="assess: the polars LazyFrame is collected"):
        assert pp.k_anonymity(lazy, ["age"]) == 1


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:.*pandas.*", "ignore:If `index_col`")
def test_a_pandas_frame_on_spark_comes_back_as_one(spark_engine: Any) -> None:
    pyspark_pandas = pytest.importorskip("pyspark.pandas")
    frame = spark_engine.session.createDataFrame(pd.DataFrame({"age": [1, 5, 9]})).pandas_api()
    out = CUT.apply(frame)
    assert isinstance(out, pyspark_pandas.DataFrame)
    assert sorted(row.age for row in out.to_spark().collect()) == [1, 3, 3]
