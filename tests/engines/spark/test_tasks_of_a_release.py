"""A release starts no more jobs and tasks than its table is worth, in a session that is left as it was."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privpipe as pp
from privpipe.engines import open_engine
from privpipe.engines.spark import SparkEngine
from privpipe.engines.spark.session_settings import tasks_for
from privpipe.running.run import release_with

pytestmark = pytest.mark.spark
PARTITIONS = "spark.sql.shuffle.partitions"
ADAPTIVE = "spark.sql.adaptive.enabled"
BATCH, UNLIMITED = "spark.sql.execution.arrow.maxBytesPerBatch", "2147483647"
PACKED = "spark.sql.inMemoryColumnarStorage.compressed"
RECORDS = 32_561
MOST_JOBS, MOST_TASKS = 24, 30
"""With 200 parts a shuffle, as a session comes, this release takes thousands of tasks."""


@pytest.fixture
def session(spark_engine: SparkEngine) -> Any:
    """A session of its own settings, as it comes."""
    made = spark_engine.session.newSession()
    made.conf.set(PARTITIONS, "200")
    return made


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> pp.Policy:
    """The release of a table like UCI Adult."""
    folder = tmp_path_factory.mktemp("adult")
    rng = np.random.default_rng(3)
    rows = {
        "age": pa.array(rng.integers(17, 91, RECORDS)),
        "sex": pa.array(rng.choice(["f", "m"], RECORDS)),
        "race": pa.array(rng.choice(list("abcde"), RECORDS, p=[0.85, 0.1, 0.03, 0.01, 0.01])),
        "occupation": pa.array(rng.choice([f"o{at}" for at in range(14)], RECORDS)),
        "weight": pa.array(rng.integers(0, 10**6, RECORDS)),
    }
    pq.write_table(pa.table(rows), folder / "adult.parquet", row_group_size=9_000)
    return pp.Policy.from_dict(
        {
            "version": 1,
            "name": "adult",
            "source": {"path": str(folder / "adult.parquet")},
            "columns": {
                "age": {"role": "quasi_identifier", "hierarchy": {"intervals": {"start": 17, "widths": [5, 20]}}},
                "sex": {"role": "quasi_identifier"},
                "race": {"role": "quasi_identifier", "hierarchy": {"redact": {}}},
                "occupation": {"role": "sensitive"},
                "weight": {"role": "identifier"},
            },
            "transform": [{"generalize": {"suppress_at_most": 0.05}}],
            "guarantees": [{"k_anonymity": {"k": 5}}, {"distinct_l_diversity": {"column": "occupation", "l": 3}}],
            "measures": [{"average_risk": {}}],
            "seed": {"insecure": 7},
            "allow_insecure_seed": True,
        }
    )


def counted(session: Any, action: Callable[[], Any]) -> tuple[int, int]:
    """Jobs and tasks that an action starts."""
    context = session.sparkContext
    group = f"counted {time.monotonic_ns()}"
    context.setJobGroup(group, "")
    try:
        action()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)  # the tracker learns of finished tasks a little later
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup(group)
    stages = {stage for job in jobs for stage in tracker.getJobInfo(job).stageIds}
    # A full store drops skipped stages first: they ran no task.
    known = [tracker.getStageInfo(stage) for stage in stages]
    return len(jobs), sum(stage.numCompletedTasks for stage in known if stage)


def rows_of(folder: Path) -> Counter[Any]:
    return Counter(tuple(row.items()) for row in pq.read_table(folder).to_pylist())


def test_a_release_of_thirty_thousand_records_starts_few_tasks(session: Any, policy: pp.Policy, tmp_path: Path) -> None:
    def release(engine: Any, name: str) -> dict[str, Any]:
        found = release_with(engine, policy, target=str(tmp_path / name)).assessment.to_dict()
        return {name: found[name] for name in ("records", "classes", "guarantees", "measures", "suppressed_records")}

    verdicts = []
    with SparkEngine(session, driver_bytes=0) as engine:
        jobs, tasks = counted(session, lambda: verdicts.append(release(engine, "spark")))
    assert 0 < jobs <= MOST_JOBS
    assert jobs <= tasks <= MOST_TASKS
    with open_engine("embedded") as embedded:
        verdicts.append(release(embedded, "embedded"))
    assert verdicts[0] == verdicts[1]
    assert rows_of(tmp_path / "spark") == rows_of(tmp_path / "embedded")


def test_a_session_gets_its_settings_back(session: Any) -> None:
    session.conf.set(ADAPTIVE, "false")
    first, second = SparkEngine(session), SparkEngine(session)
    first.loan.sized(32_561, 5)
    assert session.conf.get(PARTITIONS) == "2"
    second.loan.sized(100_000, 5)
    assert session.conf.get(PARTITIONS) == "4"
    first.close()
    assert session.conf.get(PARTITIONS) == "4", "another engine is at work"
    assert session.conf.get(ADAPTIVE) == "true"
    second.close()
    assert (session.conf.get(PARTITIONS), session.conf.get(ADAPTIVE)) == ("200", "false")


def test_what_no_one_had_set_is_unset_again(spark_engine: SparkEngine) -> None:
    session = spark_engine.session.newSession()
    before = dict(session.conf.getAll) if hasattr(session.conf, "getAll") else {}
    with SparkEngine(session) as engine:
        engine.loan.sized(10, 1)
    assert (dict(session.conf.getAll) if before else {}) == before


def test_what_the_user_sets_meanwhile_stays(session: Any) -> None:
    with SparkEngine(session) as engine:
        engine.loan.sized(10, 1)
        session.conf.set(PARTITIONS, "17")
    assert session.conf.get(PARTITIONS) == "17"


def test_a_session_of_someone_is_never_given_more_parts(session: Any) -> None:
    session.conf.set(PARTITIONS, "3")
    with SparkEngine(session) as engine:
        engine.loan.sized(10**9, 40)
        assert session.conf.get(PARTITIONS) == "3"


def test_parts_that_a_policy_asks_for_are_lent_as_they_are(session: Any) -> None:
    from privpipe.engines.spark.session_settings import Loan

    loan = Loan(session, parts=300)
    loan.sized(10, 1)
    assert session.conf.get(PARTITIONS) == "300"
    loan.close()
    assert session.conf.get(PARTITIONS) == "200"


def test_tables_are_kept_unpacked_while_there_is_room(session: Any) -> None:
    first, second = SparkEngine(session), SparkEngine(session)
    assert session.conf.get(PACKED) == "true"
    first.loan.keeps(1_000)
    assert session.conf.get(PACKED) == "false"
    second.loan.keeps(10**15)
    assert session.conf.get(PACKED) == "true", "one of both needs the room"
    second.close()
    assert session.conf.get(PACKED) == "false"
    first.loan.keeps(10**15)
    first.loan.keeps(1_000)
    assert session.conf.get(PACKED) == "true", "the largest table decides"
    first.close()
    assert session.conf.get(PACKED) == "true"


def test_packing_that_someone_has_set_is_left_alone(session: Any) -> None:
    session.conf.set(PACKED, "true")
    with SparkEngine(session) as engine:
        engine.loan.keeps(1_000)
        assert session.conf.get(PACKED) == "true"


def limit_of(session: Any) -> str | None:
    """Bytes of a batch for Python, in the words of the session; None for a Spark that has no such limit."""
    from pyspark.errors import PySparkException

    try:
        return str(session.conf.get(BATCH))
    except PySparkException:
        return None


def test_short_rows_are_sent_by_their_number_and_long_ones_by_their_bytes(session: Any) -> None:
    before = limit_of(session)
    first, second = SparkEngine(session), SparkEngine(session)
    first.loan.sends(100 * 256, 100)
    if before is None:  # a Spark that limits no bytes
        assert limit_of(session) is None
    else:
        assert session.conf.get(BATCH) == UNLIMITED
        second.loan.sends(100 * 256, 100)
        first.loan.sends(100 * 257, 100)
        assert session.conf.get(BATCH) == UNLIMITED, "the other engine still asks for it"
        second.loan.sends(float("inf"), 100)
        assert session.conf.get(BATCH) == before
        first.loan.sends(1, 100)
        assert session.conf.get(BATCH) == before, "one table of long rows decides"
    first.close()
    second.close()
    assert limit_of(session) == before


def test_a_limit_of_bytes_that_someone_has_set_is_left_alone(session: Any) -> None:
    session.conf.set(BATCH, "1048576")
    with SparkEngine(session) as engine:
        engine.loan.sends(1, 100)
        assert session.conf.get(BATCH) == "1048576"
    assert session.conf.get(BATCH) == "1048576"


@pytest.mark.parametrize("columns", [1, 10, 300])
def test_parts_grow_with_the_table_and_stay_small(columns: int) -> None:
    found = [tasks_for(records, columns, 2) for records in (0, 1, 10**4, 10**5, 10**6, 10**7, 10**9)]
    assert found == sorted(found)
    assert found[:2] == [1, 1]
    assert found[-1] >= 10**9 * columns * 16 / 2**25
