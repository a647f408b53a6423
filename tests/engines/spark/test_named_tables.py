"""Tables and views of the session's catalogue as sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from privpipe.blocks.table_name import TableName
from privpipe.engines import Engine, Source
from privpipe.errors import DataError, UnsupportedError

pytestmark = pytest.mark.spark
ROWS = {"zip": ["081", "082", None], "age": [31, 44, 31]}


@pytest.fixture
def session(spark_engine: Any, tmp_path: Path) -> Iterator[Any]:
    """The session with a database of its own, whose tables are in a temporary folder."""
    found = spark_engine.session
    found.sql(f"CREATE DATABASE named LOCATION '{tmp_path / 'named'}'")
    frame = found.createDataFrame(pa.table(ROWS).to_pylist(), "zip string, age bigint")
    frame.write.saveAsTable("named.visits")
    frame.createOrReplaceTempView("visits_here")
    found.sql("CREATE VIEW named.only_zip AS SELECT zip FROM named.visits")
    frame.write.parquet(str(tmp_path / "file.parquet"))
    yield found
    found.sql("DROP DATABASE named CASCADE")
    found.catalog.dropTempView("visits_here")


def rows(engine: Engine, text: str, **types: str) -> list[dict[str, Any]]:
    table = engine.scan(Source(data=TableName.parse(text), types=types))
    found: list[dict[str, Any]] = engine.collect(table).to_pylist()
    return sorted(found, key=str)


EXPECTED = sorted(pa.table(ROWS).to_pylist(), key=str)


def test_every_form_of_a_name(spark_engine: Engine, session: Any) -> None:
    for text in (
        "named.visits",
        "spark_catalog.named.visits",
        "`named`.`visits`",
        "visits_here",
    ):
        assert rows(spark_engine, text) == EXPECTED
    assert rows(spark_engine, "named.only_zip") == [{"zip": "081"}, {"zip": "082"}, {"zip": None}]
    assert rows(spark_engine, "named.visits", age="text")[0]["age"] == "31"


def test_what_is_not_there_says_what_where_and_what_to_do(spark_engine: Engine, session: Any, tmp_path: Path) -> None:
    wrong = {
        "named.visit": r"no table or view named.visit; did you mean 'visits'\?; correct the name",
        "nowhere.visits": "no table or view nowhere.visits; correct the name",
        "named.`visits``; DROP TABLE named``.visits`": "no table or view named.`visits``; DROP TABLE named``.visits`",
        "not_here": "no table or view not_here in spark_catalog.default",
        "nowhere.named.visits": "no catalogue for nowhere.named.visits; a name of three parts begins with a catalogue",
        f"parquet.`{tmp_path}/file.parquet`": "no table or view parquet.",  # Spark alone would read the file
    }
    for text, message in wrong.items():
        with pytest.raises(DataError, match=message) as raised:
            spark_engine.scan(Source(data=TableName.parse(text, "release.yaml:3: source.table")))
        assert str(raised.value).startswith("release.yaml:3: source.table: the Spark session")
    assert session.catalog.tableExists("named.visits")


def test_rows_written_since_the_last_run_count(spark_engine: Engine, session: Any, tmp_path: Path) -> None:
    session.sql(f"CREATE TABLE named.outside (zip string, age bigint) USING parquet LOCATION '{tmp_path / 'outside'}'")
    session.sql("INSERT INTO named.outside VALUES ('081', 31)")
    held = spark_engine.scan(Source(data=TableName.parse("named.outside")))
    assert spark_engine.count(held) == 1
    import pyarrow.parquet as pq

    pq.write_table(pa.table(ROWS), tmp_path / "outside" / "more.parquet")
    assert len(rows(spark_engine, "named.outside")) == 4


@pytest.mark.parametrize("name", ["embedded", "dask_engine"])
def test_an_engine_without_a_catalogue_names_the_one_that_has_one(name: str, request: pytest.FixtureRequest) -> None:
    with pytest.raises(UnsupportedError, match="reads no table of a catalogue .named.visits.: run it with `engine: sp"):
        request.getfixturevalue(name).scan(Source(data=TableName.parse("named.visits")))
