"""Sessions: options checked, a running session used and left running."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from privpipe.engines import Source, open_engine
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark.session import LOOPBACK, Options, _settings
from privpipe.errors import UsageError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mastr": "local[1]"}, "unknown option 'mastr'; did you mean 'master'"),
        ({"master": 4}, "master must be text, got int"),
        ({"conf": "x"}, "conf must be a mapping"),
        ({"cache": "no"}, "cache must be true or false"),
        ({"shuffle_partitions": 0}, "at least 1"),
        ({"shuffle_partitions": True}, "an integer"),
        ({"master": "local", "remote": "sc://127.0.0.1"}, "not both"),
    ],
)
def test_wrong_options_are_refused_before_a_session_starts(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        open_engine("spark", options)


def test_configuration_is_text_and_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    options = Options.read({"master": "local[3]", "conf": {"spark.ui.enabled": True, "spark.driver.memory": "2g"}})
    found = _settings(options)
    assert found["spark.master"] == "local[3]"
    assert found["spark.ui.enabled"] == "true"
    assert found["spark.driver.memory"] == "2g"
    assert found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_spark_submit_has_its_own_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "12345")
    found = _settings(Options.read({}))
    assert set(found) == {"spark.sql.session.timeZone", "spark.sql.execution.arrow.maxRecordsPerBatch"}


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_a_loopback_master_is_reached_over_loopback(master: str) -> None:
    assert LOOPBACK.match(master)


@pytest.mark.parametrize("master", ["yarn", "spark://10.0.0.1:7077", "k8s://https://local[4]", "spark://local:7077"])
def test_another_master_is_not(master: str) -> None:
    assert not LOOPBACK.match(master)


def test_a_running_session_is_used_and_left_running(spark_engine: SparkEngine) -> None:
    with open_engine("spark", {"master": "local[1]"}) as other:
        assert isinstance(other, SparkEngine)
        assert other.session is spark_engine.session
        kept = other.with_record_ids(other.scan(Source(data=spark_engine.session.range(3))), None, _seed())
        assert other.count(kept) == 3
    assert spark_engine.session.range(5).count() == 5


def test_a_session_of_another_thread_is_left_running_too(spark_engine: SparkEngine) -> None:
    def elsewhere() -> bool:
        with open_engine("spark", {}) as other:
            assert isinstance(other, SparkEngine)
            return other.session.sparkContext is spark_engine.session.sparkContext

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere).result()
    assert spark_engine.session.range(5).count() == 5


def test_a_session_may_be_given(spark_engine: SparkEngine) -> None:
    engine = SparkEngine(spark_engine.session, cache=False)
    assert engine.count(engine.scan(Source(data=spark_engine.session.range(7)))) == 7
    engine.close()
    assert spark_engine.session.range(5).count() == 5


def plan_of(table: Any) -> str:
    """What Spark will run, with the kept tables that it reads."""
    return str(table.frame._jdf.queryExecution().withCachedData().toString())


def test_without_a_cache_nothing_is_persisted(spark_engine: SparkEngine) -> None:
    engine = SparkEngine(spark_engine.session, cache=False, driver_bytes=0)
    table = engine.with_record_ids(engine.scan(Source(data=spark_engine.session.range(4))), None, _seed())
    assert "InMemory" not in plan_of(table)
    kept = spark_engine.with_record_ids(spark_engine.scan(Source(data=spark_engine.session.range(6))), None, _seed())
    assert "InMemory" in plan_of(kept)


def test_workers_run_this_python(spark_engine: SparkEngine) -> None:
    def executable(batches: Any) -> Any:
        import pyarrow as pa

        list(batches)
        yield pa.record_batch({"program": [sys.executable]})

    found = spark_engine.session.range(0, 1, 1, 1).mapInArrow(executable, "program string").toArrow()
    assert {os.path.realpath(path) for path in found.column("program").to_pylist()} == {
        os.path.realpath(sys.executable)
    }
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_versions_are_reported(spark_engine: SparkEngine) -> None:
    assert set(spark_engine.resources.versions) == {"pyspark", "spark", "pyarrow"}


def _seed() -> Any:
    from privpipe.draws import Seed

    return Seed.insecure(1)


def test_workers_are_forked_from_a_process_that_has_loaded_what_they_need(spark_engine: SparkEngine) -> None:
    def loaded(batches: Any) -> Any:
        import pyarrow as pa

        list(batches)
        # A function that names nothing of ours brings nothing of ours.
        yield pa.record_batch(
            {"kernels": ["privpipe.kernels.ids.record_ids" in sys.modules and "numba" in sys.modules]}
        )

    loaded.__module__ = "__main__"  # sent by value
    found = spark_engine.session.range(0, 1, 1, 1).mapInArrow(loaded, "kernels boolean").toArrow()
    assert found.column("kernels").to_pylist() == [True]


def test_a_local_master_has_no_processes_next_to_this_one(spark_engine: SparkEngine) -> None:
    assert spark_engine.resources.processes == 0
