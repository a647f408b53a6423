"""Small tables are on the driver: the same rows and figures without a job, and together with large ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.blocks import ClassQuery, FactsRequest
from privpipe.draws import Seed
from privpipe.engines import Engine, Source
from privpipe.engines.embedded.duckdb_table import EmbeddedTable
from privpipe.engines.embedded.session import offered_memory
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark.spark_table import SparkTable
from privpipe.errors import UsageError
from privpipe.testing import people, stage_problems
from privpipe.transforms import AddNoise, RankSwap

from .test_jobs import jobs_of

pytestmark = pytest.mark.spark
SEED = "7e680bd0703b052244008bac17dacba2457b75f36e829951356a47727bf31a6a"
NUMBERS = pa.table({"n": pa.array([3, 1, None, 2]), "t": ["a", "b", "a", None]})


@pytest.fixture
def near(spark_engine: SparkEngine) -> Iterator[SparkEngine]:
    """An engine of the same session that holds small tables here."""
    with SparkEngine(spark_engine.session) as engine:
        yield engine


def test_files_and_frames_of_this_process_start_no_job(near: SparkEngine, tmp_path: Path) -> None:
    pq.write_table(NUMBERS, tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("n,t\n3,a\n", encoding="utf-8")

    def read() -> None:
        for data in (NUMBERS, str(tmp_path / "rows.parquet"), str(tmp_path / "rows.csv")):
            table = near.scan(Source(data=data))
            assert isinstance(table, EmbeddedTable)
            assert near.facts(table, FactsRequest(histograms=("t",))).records == near.count(table)
            assert [block.sizes.sum() for block in near.classes(table, ClassQuery(keys=("t",)))]

    assert jobs_of(near, read) == 0


def test_a_small_frame_of_spark_is_drawn_here_when_its_rows_are_worked_on(near: SparkEngine) -> None:
    frame = near.session.createDataFrame(NUMBERS)
    found = near.scan(Source(data=frame))
    assert isinstance(found, SparkTable)  # nothing ran
    with_ids = near.with_record_ids(found, None, Seed.of(SEED))
    assert isinstance(with_ids, EmbeddedTable)
    wanted = near.with_record_ids(near.scan(Source(data=NUMBERS)), None, Seed.of(SEED))
    assert near.collect(with_ids).equals(near.collect(wanted))


@pytest.mark.parametrize("most", [0, 10])
def test_what_is_larger_stays_with_the_executors(spark_engine: SparkEngine, tmp_path: Path, most: int) -> None:
    pq.write_table(NUMBERS, tmp_path / "rows.parquet")
    with SparkEngine(spark_engine.session, driver_bytes=most) as engine:
        for data in (NUMBERS, str(tmp_path / "rows.parquet"), spark_engine.session.createDataFrame(NUMBERS)):
            table = engine.scan(Source(data=data))
            assert isinstance(table, SparkTable)
            assert isinstance(engine.with_record_ids(table, None, Seed.of(SEED)), SparkTable)


def test_a_frame_that_grows_beyond_what_spark_expects_stays(near: SparkEngine, monkeypatch: Any) -> None:
    monkeypatch.setattr("privpipe.engines.spark.driver_tables.MOST_COLLECTED", 50)
    frame = near.session.createDataFrame(NUMBERS).selectExpr("explode(sequence(1, 100)) n")
    found = near.with_record_ids(near.scan(Source(data=frame)), None, Seed.of(SEED))
    assert isinstance(found, SparkTable)
    assert near.count(found) == 400


def test_tables_of_both_places_meet(near: SparkEngine, spark_engine: SparkEngine) -> None:
    seed = Seed.of(SEED)
    here = near.with_record_ids(near.scan(Source(data=NUMBERS)), None, seed)
    there = spark_engine.with_record_ids(spark_engine.scan(Source(data=NUMBERS)), None, seed)
    assert near.count(near.append(here, there)) == near.count(near.append(there, here)) == 8
    assert near.count(near.stack(here, there, ["n"], "tag")) == 8
    for one, other in ((here, there), (there, here)):
        beside = near.collect(near.beside(one, other, {"n": "before"}))
        assert beside.column("n").equals(beside.column("before"))
        assert len(beside) == 4


def test_a_stage_on_a_small_frame(near: SparkEngine, spark_engine: SparkEngine) -> None:
    frame = near.session.createDataFrame(people().rows).repartition(3)
    for stage in (RankSwap(columns=["income"], p=0.2), AddNoise(columns=["income"], variance_ratio=0.2)):
        found = stage.apply(frame, seed=SEED, engine=near)
        wanted = stage.apply(frame, seed=SEED, engine=spark_engine)
        assert found.schema == wanted.schema
        assert sorted(map(repr, found.collect())) == sorted(map(repr, wanted.collect()))
        plan = found._jdf.queryExecution().toString()
        assert "person" not in plan
        assert "house 1" not in plan


def test_stages_conform_where_tables_are_small(near: SparkEngine, embedded: Engine, tmp_path: Path) -> None:
    assert stage_problems(RankSwap(columns=["income"], p=0.2), near, partitions=(3,), folder=tmp_path) == []


def test_a_release_of_adult_starts_no_job(near: SparkEngine, project: Path, tmp_path: Path) -> None:
    policy = pp.Policy.load(project / "pipelines/adult/release.yaml")
    made: list[Any] = []
    jobs = jobs_of(near, lambda: made.append(pp.release(policy, engine=near, target=str(tmp_path / "adult"))))
    assert jobs == 0
    assert made[0].assessment.passed
    assert {"spark", "duckdb"} <= set(made[0].manifest["versions"])


def test_the_driver_leaves_memory_to_the_virtual_machine(near: SparkEngine) -> None:
    assert near.near.engine.resources.memory is not None
    assert near.near.engine.resources.memory <= max(offered_memory() // 4, 1 << 30)


def test_files_of_more_rows_than_a_driver_takes_stay(near: SparkEngine, tmp_path: Path, monkeypatch: Any) -> None:
    pq.write_table(NUMBERS, tmp_path / "rows.parquet")
    for most, kind in ((4, EmbeddedTable), (3, SparkTable)):
        monkeypatch.setattr("privpipe.engines.readers.source_facts.MOST_ROWS", most)
        assert isinstance(near.scan(Source(data=str(tmp_path / "rows.parquet"))), kind)


def test_the_limit_is_an_option(spark_engine: SparkEngine) -> None:
    with pytest.raises(UsageError, match=r"engines\.spark\.driver_bytes must be at least 0"):
        SparkEngine.open({"driver_bytes": -1})
    with SparkEngine.open({"driver_bytes": 7}) as engine:
        assert engine.near.most == 7
