"""Tables of the real Ibis: each by the engine of its backend, and back to that backend."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pytest

import privpipe as pp
from privpipe.errors import DataError, UnsupportedError, UsageError
from privpipe.models import KAnonymity
from privpipe.transforms import Generalize, RankSwap, TopCode

ibis = pytest.importorskip("ibis", reason="ibis-framework is not installed")

pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis asks DuckDB for it
SEED = "6c1b0f7e0d5a4b3c9e8f7a6b5c4d3e2f"
ROWS = pd.DataFrame({"age": [20 + at % 40 for at in range(200)], "cost": [10.0 * at for at in range(200)]})
ROLES = pp.Roles(quasi_identifiers=["age"], insensitive=["cost"])
HIERARCHIES = {"age": {"intervals": {"start": 20, "widths": [10]}}}


@pytest.fixture(params=["duckdb", "polars", pytest.param("pyspark", marks=pytest.mark.spark)])
def backend(request: pytest.FixtureRequest) -> Any:
    """Each backend with the table `visits`."""
    if request.param == "duckdb":
        import duckdb

        connection = duckdb.connect()
        connection.register("raw", ROWS)
        connection.execute("CREATE TABLE visits AS FROM raw")
        return ibis.duckdb.from_connection(connection)
    if request.param == "polars":
        return ibis.polars.connect({"visits": pl.from_pandas(ROWS)})
    session = request.getfixturevalue("spark_engine").session
    session.createDataFrame(ROWS).createOrReplaceTempView("visits")
    return ibis.pyspark.connect(session)


def test_a_stage_gives_a_table_of_the_same_backend(backend: Any) -> None:
    visits = backend.table("visits").filter(ibis._.cost < 1000).mutate(cost=ibis._.cost + 1)
    out = RankSwap(columns=["cost"], p=0.1).apply(visits, seed=SEED)
    assert isinstance(out, ibis.Table)
    assert out.get_backend() is backend
    assert out.columns == visits.columns
    before, after = visits.to_pandas(), out.to_pandas()
    assert sorted(after["cost"]) == sorted(before["cost"])
    assert set(zip(after["age"], after["cost"], strict=True)) != set(zip(before["age"], before["cost"], strict=True))
    assert out.filter(ibis._.cost > 500).count().to_pyarrow().as_py() == 50, "more can be made of it"


def test_it_is_what_the_native_frame_gives(backend: Any) -> None:
    visits = backend.table("visits")
    swap = RankSwap(columns=["cost"], p=0.1)
    found, wanted = swap.apply(visits, seed=SEED).to_pandas(), swap.apply(visits.to_pyarrow(), seed=SEED).to_pandas()
    order = ["age", "cost"]
    pd.testing.assert_frame_equal(
        found.sort_values(order, ignore_index=True), wanted.sort_values(order, ignore_index=True)
    )


def test_it_is_judged_and_given_back_by_a_policy(backend: Any) -> None:
    visits = backend.table("visits")
    assert pp.k_anonymity(visits, ["age"]) == 5
    assert pp.check(visits, [KAnonymity(k=5)], roles=ROLES).records == 200
    policy = pp.Policy(
        roles=ROLES,
        hierarchies=HIERARCHIES,
        transform=[Generalize(search="optimal")],
        guarantees=[KAnonymity(k=50)],
        seed=SEED,
    )
    out = policy.apply(visits)
    assert out.get_backend() is backend
    counts = out.group_by("age").agg(records=ibis._.count()).to_pandas()
    assert sorted(counts["records"]) == [50, 50, 50, 50]


def test_what_is_made_in_memory_is_found(backend: Any) -> None:
    other = ibis.memtable({"age": [20, 21], "weight": [1, 90]})
    joined = backend.table("visits").join(other, "age")
    out = TopCode(columns=["weight"], at=50).apply(joined)
    assert sorted(set(out.to_pandas()["weight"])) == [1, 50]


def test_a_table_in_memory_alone_is_one_of_duckdb() -> None:
    out = TopCode(columns=["age"], at=80).apply(ibis.memtable({"age": [30, 95]}))
    assert sorted(out.to_pandas()["age"]) == [30, 80]


def test_what_no_engine_serves_is_refused() -> None:
    sqlite = ibis.sqlite.connect()
    sqlite.raw_sql("CREATE TABLE visits (age INTEGER)")
    with pytest.raises(UnsupportedError, match=r"'sqlite'.*to_pyarrow"):
        TopCode(columns=["age"], at=80).apply(sqlite.table("visits"))
    with pytest.raises((UsageError, DataError)):
        TopCode(columns=["age"], at=80).apply(ibis.table({"age": "int64"}, name="visits"))
