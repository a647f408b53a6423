"""A release published as a view of Spark's catalogue, over a table of its own."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines.spark import SparkEngine
from privpipe.errors import DataError, EngineError, Refused, SinkError
from privpipe.sinks.catalogue_table import TableTarget
from privpipe.testing import GAPS

pytestmark = pytest.mark.spark
SINK = "lake.visits_public"
SECRET = "Quokkaville"


@pytest.fixture
def session(spark_engine: Any, tmp_path: Path) -> Iterator[Any]:
    """The session with a database of its own in a temporary folder, and a source with comments."""
    found = spark_engine.session
    found.sql(f"CREATE DATABASE lake LOCATION '{tmp_path / 'lake'}'")
    found.sql(
        f"CREATE TABLE lake.visits (age bigint COMMENT '{SECRET}', town string, ill string, cost decimal(9,2), "
        f"day date) USING parquet COMMENT '{SECRET}' TBLPROPERTIES ('owner.note' = '{SECRET}')"
    )
    fill(found, 200)
    yield found
    found.sql("DROP DATABASE lake CASCADE")


def fill(session: Any, records: int) -> None:
    session.sql(
        "INSERT OVERWRITE lake.visits SELECT 20 + id % 10, concat('town ', id % 3), concat('ill ', id % 4), "
        f"id % 7 + 0.25, date_add(date'2026-01-01', CAST(id % 5 AS int)) FROM range({records})"
    )


@pytest.fixture
def release(session: Any, spark_engine: Any, tmp_path: Path) -> Callable[..., Any]:
    """Run a release of the source to the sink; `k` decides whether it passes."""

    def run(k: int = 5, engine: Any = spark_engine, **changes: Any) -> Any:
        document = {
            "source": {"table": "lake.visits"},
            "columns": {
                "age": {"role": "quasi_identifier"},
                "town": {"role": "quasi_identifier"},
                "ill": {"role": "insensitive"},
                "cost": {"role": "insensitive"},
                "day": {"role": "insensitive"},
            },
            "guarantees": [{"k_anonymity": {"k": k}}],
            "sink": {"table": SINK},
            "seed": "7d1c9a3e5b8f2046d1e7c3a95f80b264",
            **changes,
        }
        return pp.release(pp.Policy.from_dict(document, tmp_path), engine=engine)

    return run


def names(session: Any) -> list[str]:
    return sorted(
        row["tableName"] for row in session.sql("SHOW TABLES IN lake").collect() if row["namespace"] == "lake"
    )


def rows(session: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.table(name).collect())


def folder_of(session: Any, name: str) -> Path:
    described = session.sql(f"DESCRIBE EXTENDED {name}").collect()
    return Path(urlsplit(next(row["data_type"] for row in described if row["col_name"] == "Location")).path)


def version(run_id: str) -> str:
    return f"visits_public__{run_id.replace('-', '_').lower()}"


def test_two_releases_in_a_row(session: Any, release: Callable[..., Any], tmp_path: Path) -> None:
    first = release()
    assert first.path == "spark_catalog.lake.visits_public"
    own = version(first.run_id)
    assert names(session) == ["visits", "visits_public", own, f"{own}__documents"]
    assert rows(session, SINK) == rows(session, "lake.visits")
    types = dict(session.table("lake.visits").dtypes) | {"cost": "decimal(38,2)"}  # decimals have one precision here
    assert dict(session.table(SINK).dtypes) == types
    documents = {row["name"]: json.loads(row["document"]) for row in session.table(f"lake.{own}__documents").collect()}
    assert documents == first.public
    assert json.loads(Path(first.record, "verdict.json").read_text()) == first.verdict_document
    assert first.manifest["output"]["table"] == f"spark_catalog.lake.{own}"
    for table in (f"lake.{own}", f"lake.{own}__documents"):
        said = {row["key"]: row["value"] for row in session.sql(f"SHOW TBLPROPERTIES {table}").collect()}
        assert (said["privpipe.run_id"], said["privpipe.verdict"]) == (first.run_id, "passed")
        assert said["privpipe.policy_hash"] == first.public["verdict"]["policy_hash"]

    fill(session, 300)
    second = release()
    new = version(second.run_id)
    assert rows(session, SINK) == rows(session, "lake.visits")
    # The version before stays for those who still read it, until the next run.
    assert names(session) == sorted(["visits", "visits_public", own, f"{own}__documents", new, f"{new}__documents"])
    third = release()
    newest = version(third.run_id)
    assert names(session) == sorted(
        ["visits", "visits_public", new, f"{new}__documents", newest, f"{newest}__documents"]
    )
    assert len(list((tmp_path / ".spark_catalog.lake.visits_public.privpipe" / "records").iterdir())) == 3


def test_a_refused_release_leaves_the_old_one_and_nothing_staged(session: Any, release: Callable[..., Any]) -> None:
    release()
    before, standing = rows(session, SINK), names(session)
    fill(session, 60)
    with pytest.raises(Refused) as refused:
        release(k=50)
    assert refused.value.assessment.failed[0].name == "k_anonymity"
    assert rows(session, SINK) == before
    assert names(session) == standing
    assert not any(name.startswith("_privpipe") for name in os.listdir(folder_of(session, "lake.visits").parent))


def test_nothing_of_the_source_but_judged_cells_is_in_the_release(session: Any, release: Callable[..., Any]) -> None:
    result = release()
    own = f"lake.{version(result.run_id)}"
    for name in (SINK, own, f"{own}__documents"):
        for statement in ("DESCRIBE EXTENDED", "SHOW TBLPROPERTIES", "SHOW CREATE TABLE"):
            assert SECRET not in str(session.sql(f"{statement} {name}").collect())
    assert [field.metadata for field in session.table(SINK).schema.fields] == [{}] * 5
    folder = folder_of(session, own)
    for file in folder.rglob("*"):
        assert SECRET.encode() not in file.read_bytes()
    assert stat.S_IMODE(folder.stat().st_mode) & 0o077 == 0o777 & ~_umask() & 0o077
    [part] = folder.glob("part-*.parquet")
    written = pq.read_table(part).to_pylist()
    source = [row.asDict() for row in session.table("lake.visits").collect()]
    assert written != source
    assert sorted(map(str, written)) == sorted(map(str, source))
    again = release()
    [part] = folder_of(session, f"lake.{version(again.run_id)}").glob("part-*.parquet")
    assert pq.read_table(part).to_pylist() == written  # the order is that of the run key


def test_many_records_are_in_several_files_in_keyed_order(
    session: Any, spark_engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle: the files, each sorted by the keyed order of its records, hold every record once."""
    import numpy as np

    from privpipe.blocks.table_name import TableName
    from privpipe.draws import Seed, Stream
    from privpipe.engines import Source
    from privpipe.kernels.ids.record_ids import declared_id

    monkeypatch.setattr("privpipe.engines.base.part_files.ROWS_PER_FILE", 50)
    seed, stream = Seed.of("7d1c9a3e5b8f2046d1e7c3a95f80b264"), Stream(bytes(16))
    numbers = session.range(200).toDF("number")
    table = spark_engine.with_record_ids(spark_engine.scan(Source(data=numbers)), "number", seed)
    assert spark_engine.resources.catalogue.write(table, TableName(("lake", "ordered")), stream, {}) == 200
    parts = [pq.read_table(file)["number"] for file in sorted(folder_of(session, "lake.ordered").glob("part-*"))]
    assert 1 < len(parts) <= 4
    assert sorted(number for part in parts for number in part.to_pylist()) == list(range(200))
    for part in parts:
        order = stream.order(declared_id(part.combine_chunks(), seed))
        assert (np.diff(order) > 0).all()
        assert part.to_pylist() != sorted(part.to_pylist())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_staged_rows_are_their_owners_alone(
    session: Any, release: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import privpipe.running.run as run

    seen: dict[str, Any] = {}
    judge = run.judge_written

    def look(context: Any, staged: Any, place: Any, written: Any, **named: Any) -> Any:
        seen.setdefault(place.parts[-1], stat.S_IMODE(folder_of(session, place.sql).stat().st_mode) if not seen else 0)
        return judge(context, staged, place, written, **named)

    monkeypatch.setattr(run, "judge_written", look)
    release()
    staged, public = seen
    assert staged.startswith("_privpipe_")
    assert seen[staged] == 0o700
    assert public == "visits_public"


@pytest.mark.parametrize("step", ["write_texts", "publish", "make_view", "switch_view"])
def test_a_step_that_fails_leaves_the_old_release(
    step: str, session: Any, release: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privpipe.engines.spark.catalogue import SparkCatalogue

    if step == "switch_view":
        release()
    before = names(session)

    def fail(*given: Any) -> None:
        if step != "make_view" or given[1].parts[-1] == "visits_public":
            raise EngineError("the metastore is gone")
        kept(*given)

    kept = getattr(SparkCatalogue, step)
    with monkeypatch.context() as patched:
        patched.setattr(SparkCatalogue, step, fail)
        with pytest.raises(SinkError, match="the metastore is gone; nothing was published"):
            release()
    assert names(session) == before


def test_a_release_that_reads_back_differently_is_withdrawn(
    session: Any, release: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    release()
    before = rows(session, SINK)
    switch = TableTarget.publish

    def spoil(self: TableTarget, run_id: str) -> str:
        path = switch(self, run_id)
        session.sql(f"INSERT INTO {self.released(run_id).sql} SELECT 99, 'x', 'y', 1.25, date'2026-01-01'")
        return path

    monkeypatch.setattr(TableTarget, "publish", spoil)
    with pytest.raises(EngineError, match="records were written but|do not read back"):
        release()
    assert rows(session, SINK) == before
    assert len(names(session)) == 4


def test_a_name_that_is_not_ours_is_refused_with_the_remedy(session: Any, release: Callable[..., Any]) -> None:
    session.sql("CREATE TABLE lake.taken (a int) USING parquet")
    with pytest.raises(SinkError, match=r"'spark_catalog.lake.taken' is a table that privpipe did not publish.*rename"):
        release(sink={"table": "lake.taken"})
    session.sql("CREATE VIEW lake.view AS SELECT age FROM lake.visits")
    with pytest.raises(SinkError, match="is a view that privpipe did not make, or that was changed; drop it"):
        release(sink={"table": "lake.view"})
    with pytest.raises(DataError, match=r"sink.table: there is no database nowhere for the sink; CREATE DATABASE"):
        release(sink={"table": "nowhere.visits"})
    release()
    session.sql(f"ALTER VIEW {SINK} AS SELECT age FROM lake.visits")
    with pytest.raises(SinkError, match="was changed"):
        release()
    assert sorted(session.table(SINK).columns) == ["age"]


def test_another_run_at_work_and_what_a_killed_one_left(
    session: Any, release: Callable[..., Any], spark_engine: Any, tmp_path: Path
) -> None:
    from privpipe.blocks.table_name import TableName

    name = TableName(("lake", "visits_public"))
    with (
        TableTarget(spark_engine.resources.catalogue, name, tmp_path),
        pytest.raises(SinkError, match="another run is writing"),
    ):
        release()
    killed = TableTarget(spark_engine.resources.catalogue, name, tmp_path)
    killed.__enter__()
    spark_engine.resources.catalogue.write_texts({"a": "b"}, killed.rows("x"), killed.marks)
    os.close(killed._held or -1)  # as the end of its process does
    kept = "_privpipe_somebody"
    session.sql(f"CREATE TABLE lake.{kept} (a int) USING parquet")
    assert any(each.startswith("_privpipe") and each != kept for each in names(session))
    result = release()
    own = version(result.run_id)
    assert names(session) == sorted([kept, "visits", "visits_public", own, f"{own}__documents"])
    elsewhere = TableTarget(spark_engine.resources.catalogue, name, tmp_path / "another machine")
    (tmp_path / "another machine").mkdir()
    with elsewhere, pytest.raises(SinkError, match=r"DROP VIEW `spark_catalog`.`lake`.`visits_public__lock`"):
        release()
    assert release().path == "spark_catalog.lake.visits_public"


def test_columns_of_any_name_and_type(session: Any, release: Callable[..., Any]) -> None:
    session.sql(
        "CREATE TABLE lake.odd USING parquet AS SELECT 1 AS `a b`, 2.5D AS `c``d`, true AS `e,f`, "
        "timestamp'2026-01-01 00:00:00' AS `sel'ect`, timestamp_ntz'2026-01-01 00:00:00' AS `;--`, 1.5 AS `g.h`, "
        "CAST(NULL AS string) AS `größe` FROM range(6)"
    )
    columns = {name: {"role": "insensitive"} for name in session.table("lake.odd").columns}
    columns["a b"] = {"role": "quasi_identifier"}
    release(source={"table": "lake.odd"}, columns=columns)
    assert session.table(SINK).columns == list(columns)
    assert list(map(str, rows(session, SINK))) == list(map(str, rows(session, "lake.odd")))


@pytest.mark.parametrize("name", ["embedded", "dask"])
def test_an_engine_without_a_catalogue_is_refused_before_it_reads(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    engine = request.getfixturevalue({"dask": "dask_engine"}.get(name, name))
    document = {
        "source": {"path": "nowhere.csv"},
        "columns": {"age": {"role": "quasi_identifier"}},
        "guarantees": [{"k_anonymity": {"k": 2}}],
        "sink": {"table": SINK},
    }
    with pytest.raises(GAPS[name, "sink table"].raises, match="no catalogue to publish a table in.*`engine: spark`"):
        pp.release(document, engine=engine)
    for what, change in {
        "sink table of another catalogue": {"sink": {"table": "other.lake.visits"}},
        "ledger together with a sink table": {
            "guarantees": [{"complementary_release": {"ledger": str(tmp_path / "ledger"), "k": 2}}]
        },
    }.items():
        with pytest.raises(GAPS["*", what].raises):
            pp.Policy.from_dict({**document, **change})


def test_a_small_table_that_is_on_the_driver_is_published_as_well(release: Callable[..., Any], session: Any) -> None:
    release()
    wanted = rows(session, SINK)
    with SparkEngine(session) as near:
        result = release(engine=near)
    assert "duckdb" in result.manifest["versions"]  # where the work was done
    assert rows(session, SINK) == wanted
    assert len(wanted) == 200
